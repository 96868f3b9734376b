"""A publish that is killed anywhere leaves the revision before it or the one after it, whole, with the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.accounts.audit_log import check_chain
from apps.accounts.models import AuditEvent
from apps.policies import services
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.records import NewChangeSet
from apps.policies.tree.stored import load_tree, load_tree_from_rows
from apps.priorities.recompute.staleness import recompute_stale
from tests.instants import AT
from tests.killed_process import work_until_killed
from tests.small_site import Site

BEFORE = ("after_close", "after_open", "after_head", "before_commit")
pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]


def publish_and_die(change_set: ChangeSet, place: str) -> None:
    """In a process of its own, with SIGKILL at the place."""

    def publish() -> None:
        services.publish_change_set(id=change_set.pk, version=1, at=AT, actor=COMMAND)

    work_until_killed(publish, fault=f"policies.publish.{place}:kill")


def draft() -> ChangeSet:
    """One of each: an entry changed, one new, one archived."""
    operations: list[dict[str, Any]] = [
        {"op": "set_shares", "entry": "/physics", "shares": 61},
        {"op": "add", "parent": "/biology", "name": "dora", "kind": "user", "shares": 1},
        {"op": "archive", "entry": "/physics/bob"},
    ]
    return services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="x"), at=AT, actor=COMMAND
    )


def assert_whole(policy: Policy, head: int) -> None:
    """Rows, blob, head and audit log say the same."""
    policy.refresh_from_db()
    assert policy.head_number == head
    assert Revision.objects.filter(policy=policy).count() == head
    assert load_tree(policy).same_as(load_tree_from_rows(policy))
    published = AuditEvent.objects.filter(verb="policy.published", policy_slug=policy.slug)
    assert sorted(event.details["revision"] for event in published) == list(range(1, head + 1))
    assert check_chain(at=AT).problem == ""


@pytest.mark.parametrize("place", [*(pytest.param(place, marks=pytest.mark.deep) for place in BEFORE[:-1]), BEFORE[-1]])
@pytest.mark.fault("F2")
def test_a_publish_killed_before_commit_keeps_the_previous_revision(small_site: Site, place: str) -> None:
    policy, made = small_site.policy, draft()
    policy.refresh_from_db()
    head = policy.head_number
    publish_and_die(made, place)
    assert_whole(policy, head)
    made.refresh_from_db()
    assert made.state != ChangeSet.State.PUBLISHED
    services.publish_change_set(id=made.pk, version=made.version, at=AT, actor=COMMAND)
    assert_whole(policy, head + 1)
    assert load_tree(policy).index_of_path("/biology/dora") is not None


@pytest.mark.fault("F2")
def test_a_publish_killed_after_commit_is_computed_at_the_next_tick(small_site: Site) -> None:
    policy, made = small_site.policy, draft()
    policy.refresh_from_db()
    head = policy.head_number
    small_site.recompute()
    publish_and_die(made, "after_commit")
    assert_whole(policy, head + 1)
    made.refresh_from_db()
    assert made.state == ChangeSet.State.PUBLISHED
    assert recompute_stale(at=AT) != [], "no message came of the revision, and none is needed"
