"""The clock is set back by an hour: work, publishing, look-ups, tokens, notices and the audit log continue."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.accounts.audit_log import check_chain
from apps.core import clock
from apps.policies import services
from apps.policies.models import Policy, Revision
from apps.policies.recompute_runs import queue_recompute
from apps.policies.records import NewChangeSet
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.recompute.staleness import recompute_stale
from apps.runs.models import Run
from apps.runs.services import work_due_runs
from tests.instants import AT
from tests.small_site import Site, push, record

BEFORE = AT - timedelta(hours=1)
pytestmark = pytest.mark.django_db


def turn(monkeypatch: pytest.MonkeyPatch, at: datetime) -> None:
    monkeypatch.setenv(clock.VARIABLE, at.isoformat())


def work(at: datetime) -> int:
    return work_due_runs(clock=lambda: at)


def look_up(site: Site, token: str) -> dict[str, object]:
    answer = Client().get(
        "/api/v1/policies/grid/priorities?account=alice", headers={"authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200, answer.content
    found: dict[str, object] = answer.json()
    return found


@pytest.mark.fault("F10")
def test_all_work_continues_after_a_clock_reset(computed_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    turn(monkeypatch, AT)
    token = computed_site.token("priorities:read")
    first = look_up(computed_site, token)
    waiting = queue_recompute(computed_site.policy, at=AT)
    turn(monkeypatch, BEFORE)
    assert look_up(computed_site, token)["snapshot"] == first["snapshot"], "a token of an hour ahead still holds"
    assert work(BEFORE) >= 1, "what was due before is due now"
    waiting.refresh_from_db()
    assert waiting.state == Run.State.SUCCEEDED

    made = services.make_change_set(
        policy_slug="grid",
        new=NewChangeSet(operations=[{"op": "set_shares", "entry": "/physics", "shares": 10}], reason="x"),
        at=BEFORE,
        actor=COMMAND,
    )
    services.publish_change_set(id=made.pk, version=1, at=BEFORE, actor=COMMAND)
    policy = Policy.objects.get(slug="grid")
    assert policy.head_number == Revision.objects.filter(policy=policy).count()
    tree = load_tree(policy)
    assert float(tree.shares[tree.index_of_path("/physics") or 0]) == 10.0

    push(computed_site, [record("99", "carol", "biology", 5, at=BEFORE)])
    recompute_stale(at=BEFORE)
    assert work(BEFORE) >= 1
    newest = Snapshot.objects.filter(policy=policy, is_live=True).order_by("-pk")[0]
    found = look_up(computed_site, token)
    assert (found["snapshot"], found["revision"]) == (newest.pk, policy.head_number)
    assert float(str(found["age_s"])) >= 0
    assert check_chain(at=BEFORE).problem == ""
    turn(monkeypatch, AT)
    recompute_stale(at=AT)
    work(AT)
    assert int(str(look_up(computed_site, token)["snapshot"])) > newest.pk
    assert check_chain(at=AT).problem == ""
