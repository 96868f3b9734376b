"""How agents are monitored: notices for managers, metrics, and what is kept for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Notice
from apps.contrib.notices.selectors import list_notices
from apps.contrib.schedulers.gauges import scheduler_families
from apps.contrib.schedulers.models import AgentPass
from apps.contrib.schedulers.passes import prune_passes
from tests.contrib.schedulers.reports import instant, report
from tests.instants import AT
from tests.rest_site import Caller
from tests.small_site import Site

pytestmark = pytest.mark.django_db


def opened() -> list[tuple[str, str]]:
    found = Notice.objects.filter(kind="agent_silent", closed_at=None)
    return sorted(found.values_list("kind", "key"))


def test_a_silent_agent_opens_a_notice_for_managers_that_its_next_pass_closes(
    connected: Site, agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.post("schedulers/c1/passes", report())
    evaluate(at=AT + timedelta(seconds=90))
    assert opened() == []
    evaluate(at=AT + timedelta(seconds=91))
    assert opened() == [("agent_silent", "c1")]
    for user, n in ((connected.admin, 1), (connected.pia, 0), (connected.alice, 0)):
        actor = Actor(user=user, via="page")
        lines = list_notices(at=AT + timedelta(seconds=91), actor=actor)
        assert sum(line.notice.kind == "agent_silent" for line in lines) == n
    later = AT + timedelta(seconds=120)
    monkeypatch.setenv("FAIRSHARE_CLOCK", later.isoformat())
    agent.post("schedulers/c1/passes", report(started_at=instant(later), ended_at=instant(later)))
    evaluate(at=later)
    assert opened() == []


def test_a_frozen_agent_opens_a_notice_and_shows_in_the_metrics(agent: Caller) -> None:
    def metrics() -> dict[str, float]:
        return {
            f"{sample.name} {sample.labels.get('outcome', '')}".strip(): sample.value
            for family in scheduler_families()
            for sample in family.samples
        }

    agent.post("schedulers/c1/passes", report())
    assert metrics() == {
        "fairshare_agent_last_pass_seconds": 0.0, "fairshare_agent_jobs pending": 6, "fairshare_agent_jobs unmapped": 1,
        "fairshare_agent_jobs sent": 4, "fairshare_agent_jobs failed": 0, "fairshare_agent_frozen": 0,
        "fairshare_agent_silent": 0,
    }  # fmt: skip
    late: dict[str, Any] = {"started_at": instant(AT), "ended_at": instant(AT)}
    agent.post("schedulers/c1/passes", report(frozen={"code": "too_many_changes", "detail": "60 %"}, **late))
    evaluate(at=AT)
    assert opened() == [("agent_silent", "c1")]
    assert Notice.objects.get(kind="agent_silent").level == "warn"
    assert metrics()["fairshare_agent_frozen"] == 1


def test_passes_are_retained_for_their_days_and_the_last_one_forever(agent: Caller) -> None:
    for _each in range(3):
        agent.post("schedulers/c1/passes", report())
    assert prune_passes(at=AT + timedelta(days=14, hours=-1)) == 0
    assert prune_passes(at=AT + timedelta(days=14, hours=1)) == 2
    assert AgentPass.objects.count() == 1
