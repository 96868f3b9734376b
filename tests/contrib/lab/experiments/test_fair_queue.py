"""The queue of long runs is shared: real runs of advice and of experiments, on one worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.lab.advisor.runs import KIND as ADVICE
from apps.contrib.lab.advisor.runs import request_advice
from apps.contrib.lab.comparison import replayed_settings
from apps.contrib.lab.experiments.runs import PREPARE, VARIANT
from apps.contrib.lab.experiments.services import create_experiment
from apps.core import clock
from apps.runs import services
from apps.runs.models import Run
from tests.contrib.lab.advisor.site import site_with_history
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
SPEC: dict[str, Any] = {
    "workload": {
        "kind": "synthetic",
        "hours": 24,
        "sites": [{"name": "s", "cpus": 10}],
        "all_users": {"load": 1.1},
    },
    "variants": [{"settings": {"window": {"half_life_s": 3600}}}],
}


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """What the broker has: first in, first out."""
    sent: list[tuple[int, str]] = []
    monkeypatch.setattr(services, "send_runs", lambda runs, **_: sent.extend(runs))
    monkeypatch.setattr(services, "_turns", {})
    return sent


@pytest.fixture
def policies(make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch) -> list[Site]:
    """Two, with the jobs of the first one's source. Each setting is replayed once, which is one step of advice."""
    monkeypatch.setattr(replayed_settings, "N_REPLAYS", 1)
    other = make_site("other", at=AS_OF - timedelta(days=18))
    other.publish(PROJECTS, at=AS_OF - timedelta(days=17))
    other.map(at=AS_OF - timedelta(days=17))
    return [site_with_history(make_site, n_days=9), other]


def work(messages: list[tuple[int, str]]) -> list[tuple[str, str]]:
    """(kind, subject) of runs in the order in which they ended; each instant is later than the one before."""
    ticks = count()

    def later() -> Any:
        return clock.now() + timedelta(milliseconds=next(ticks))

    while messages:
        services.work_run(*messages.pop(0), clock=later)
    kinds = (ADVICE, PREPARE, VARIANT)
    ended = Run.objects.filter(kind__in=kinds, state=Run.State.SUCCEEDED).order_by("finished_at")
    return list(ended.values_list("kind", "subject"))


@pytest.mark.deep
def test_an_experiment_ends_before_the_second_advice_that_was_asked_before_it(
    policies: list[Site], messages: list[tuple[int, str]]
) -> None:
    for site in policies:
        request_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND)
    create_experiment(policy_slug=policies[0].slug, name="2 s", spec=SPEC, at=AS_OF, actor=COMMAND)
    ended = [kind for kind, _subject in work(messages)]
    assert sorted(ended) == sorted([ADVICE] * 2 + [PREPARE] + [VARIANT] * 2)
    of_advice = [at for at, kind in enumerate(ended) if kind == ADVICE]
    assert max(at for at, kind in enumerate(ended) if kind == VARIANT) < of_advice[1]


@pytest.mark.deep
def test_many_experiments_don_t_keep_advice_waiting(policies: list[Site], messages: list[tuple[int, str]]) -> None:
    """They came first; kinds take turns."""
    for number in range(3):
        create_experiment(policy_slug=policies[0].slug, name=str(number), spec=SPEC, at=AS_OF, actor=COMMAND)
    request_advice(policy_slug=policies[0].slug, at=AS_OF, actor=COMMAND)
    ended = [kind for kind, _subject in work(messages)]
    assert sorted(set(ended)) == sorted([ADVICE, PREPARE, VARIANT])
    last = max(at for at, kind in enumerate(ended) if kind == VARIANT)
    assert ended.index(ADVICE) < last
