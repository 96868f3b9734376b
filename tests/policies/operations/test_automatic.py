"""Shares that begin and end by date, by change sets that all users can read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.policies import services
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.publishing import direct
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_tree
from tests.instants import AT

ZONE = ZoneInfo("Europe/Stockholm")


def give_dates(actor: Actor, path: str, **dates: Any) -> None:
    operations = [{"op": "set_dates", "entry": path, "dates": dates}]
    draft = services.make_change_set(policy_slug="grid", new=NewChangeSet(operations=operations), at=AT, actor=actor)
    services.publish_change_set(id=draft.pk, version=draft.version, reason="Until spring.", at=AT, actor=actor)


def node(policy: Policy, path: str) -> Node | None:
    policy.refresh_from_db()
    tree = load_tree(policy)
    at = tree.index_of_path(path)
    return None if at is None else tree.node(at)


def at_local(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=ZONE).astimezone(UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(("at_end", "shares"), [("zero", 0.0), (5, 5.0)])
def test_shares_end_with_the_last_day_in_the_zone_of_the_site(
    policy: Policy, alice: Actor, at_end: Any, shares: float
) -> None:
    give_dates(alice, "/physics", ends_on="2027-03-31", at_end=at_end)
    assert direct.apply_dates(at=at_local(2027, 3, 31, 23, 59), zone=ZONE) == []
    (revision,) = direct.apply_dates(at=at_local(2027, 4, 1, 0, 0), zone=ZONE)
    assert (revision.author_name, revision.change_set.origin) == ("system", ChangeSet.Origin.DATES)
    ended = node(policy, "/physics")
    assert ended is not None
    assert (ended.shares, ended.dates) == (shares, None)
    assert direct.apply_dates(at=at_local(2027, 4, 1, 0, 5), zone=ZONE) == []


@pytest.mark.parametrize("looks_before", [True, False])
@pytest.mark.fault("F10")
def test_a_clock_that_jumps_an_hour_back_applies_dates_once(policy: Policy, alice: Actor, looks_before: bool) -> None:
    """Midnight passes twice: with a look between the two (the share ends then, and stays so), or without."""
    give_dates(alice, "/physics", starts_on="2027-03-28", shares=9, ends_on="2027-03-31", at_end=5)
    jump = at_local(2027, 3, 28, 0, 30), at_local(2027, 3, 27, 23, 30), at_local(2027, 3, 28, 0, 1)
    begun = [len(direct.apply_dates(at=at, zone=ZONE)) for at in (jump if looks_before else jump[1:])]
    assert sum(begun) == 1
    now = node(policy, "/physics")
    assert now is not None
    assert now.shares == 9
    jump = at_local(2027, 4, 1, 0, 30), at_local(2027, 3, 31, 23, 30), at_local(2027, 4, 1, 0, 1)
    ended = [len(direct.apply_dates(at=at, zone=ZONE)) for at in (jump if looks_before else jump[1:])]
    assert sum(ended) == 1
    over = node(policy, "/physics")
    assert over is not None
    assert (over.shares, over.dates) == (5, None)
    times = Revision.objects.filter(policy=policy).order_by("number").values_list("published_at", flat=True)
    assert list(times) == sorted(times)


def test_an_entry_archived_at_its_end_is_removed(policy: Policy, alice: Actor) -> None:
    give_dates(alice, "/biology", ends_on="2027-03-31", at_end="archive")
    assert len(direct.apply_dates(at=at_local(2027, 5, 1), zone=ZONE)) == 1
    assert node(policy, "/biology") is None


def test_shares_kept_after_their_end_are_flagged_as_expired(policy: Policy, alice: Actor) -> None:
    give_dates(alice, "/biology", ends_on="2027-03-31")
    assert direct.apply_dates(at=at_local(2027, 5, 1), zone=ZONE) == []
    kept = node(policy, "/biology")
    assert kept is not None
    assert kept.dates is not None
    assert direct.has_ended(kept.dates, at_local(2027, 5, 1).date())
    assert not direct.has_ended(kept.dates, at_local(2027, 3, 31, 12).date())


def test_shares_begin_on_the_first_day_and_end_after_the_last(policy: Policy, alice: Actor) -> None:
    give_dates(alice, "/physics", starts_on="2027-01-01", ends_on="2027-03-31", shares=80, at_end=30)
    assert direct.apply_dates(at=at_local(2026, 12, 31, 12), zone=ZONE) == []
    assert len(direct.apply_dates(at=at_local(2027, 1, 1), zone=ZONE)) == 1
    begun = node(policy, "/physics")
    assert begun is not None
    assert begun.shares == 80
    assert direct.apply_dates(at=at_local(2027, 1, 2), zone=ZONE) == []
    assert len(direct.apply_dates(at=at_local(2027, 4, 1), zone=ZONE)) == 1
    ended = node(policy, "/physics")
    assert ended is not None
    assert (ended.shares, ended.dates) == (30, None)


def test_impossible_automatic_changes_are_skipped_and_logged(policy: Policy, tree: TreeColumns) -> None:
    physics = str(tree.uuid(tree.index_of_path("/physics") or 0))
    operations = [
        {"op": "add", "parent": physics, "name": "alice", "kind": "user"},
        {"op": "add", "parent": physics, "name": "dora", "kind": "user"},
    ]
    revision = direct.publish_automatic(
        policy_id=policy.pk, operations=operations, origin=ChangeSet.Origin.RULE, reason="First seen.", at=AT
    )
    assert revision is not None
    assert node(policy, "/physics/dora") is not None
    failed = AuditEvent.objects.get(verb="policy.automatic")
    assert (failed.outcome, "alice" in failed.reason) == ("failed", True)
    before = Revision.objects.count()
    again = direct.publish_automatic(
        policy_id=policy.pk, operations=operations, origin=ChangeSet.Origin.RULE, reason="First seen.", at=AT
    )
    assert (again, Revision.objects.count()) == (None, before)
