"""Shares until a day, drafts made of allocations, and what begins and ends: on the small policy."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.contrib.allocations.conversion import ConversionQuery, draft_shares, get_conversion
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.services import allocations_of, change_dates
from apps.contrib.allocations.summary import Event, ending_soon, events_in
from apps.core.errors import Conflict, Invalid, NotAllowed
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.services import publish_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.contrib.allocations.test_services import give, state, uid
from tests.instants import AT
from tests.policies import conftest as policies

policy, tree, alice, bob = policies.policy, policies.tree, policies.alice, policies.bob

ZONE = ZoneInfo("Europe/Stockholm")
YEAR = Period(date(2026, 1, 1), date(2026, 12, 31))
MARCH_31 = {"ends_on": "2027-03-31", "at_end": "zero"}


def head(policy: Policy) -> TreeColumns:
    policy.refresh_from_db()
    return load_tree(policy)


def test_shares_until_a_day_are_one_revision_with_its_reason(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    physics = uid(tree, "/physics")
    change_dates(policy_slug="grid", entry_uid=physics, dates=MARCH_31, reason="Until spring.", at=AT, actor=alice)
    now = head(policy)
    dates = now.dates[now.index_of_uid(physics) or 0]
    assert (dates.ends_on, dates.at_end) == (date(2027, 3, 31), "zero")
    assert Revision.objects.get(policy=policy, number=policy.head_number).reason == "Until spring."
    change_dates(policy_slug="grid", entry_uid=physics, dates=None, reason="For good.", at=AT, actor=alice)
    assert head(policy).dates == {}


def test_dates_based_on_an_older_revision_conflict_and_leave_no_draft(
    policy: Policy, tree: TreeColumns, alice: Actor
) -> None:
    physics, base = uid(tree, "/physics"), policy.head_number
    change_dates(policy_slug="grid", entry_uid=physics, dates=MARCH_31, reason="One.", at=AT, actor=alice)
    n_before = ChangeSet.objects.count()
    with pytest.raises(Conflict):
        change_dates(
            policy_slug="grid",
            entry_uid=physics,
            dates={"ends_on": "2027-06-30"},
            reason="Two.",
            base_revision=base,
            at=AT,
            actor=alice,
        )
    assert ChangeSet.objects.count() == n_before


def test_users_cannot_set_dates_of_their_own_shares(policy: Policy, tree: TreeColumns, bob: Actor) -> None:
    with pytest.raises(NotAllowed):
        change_dates(
            policy_slug="grid", entry_uid=uid(tree, "/physics"), dates=MARCH_31, reason="Me.", at=AT, actor=bob
        )
    refused = AuditEvent.objects.filter(outcome="refused")
    assert [(event.verb, event.actor_name) for event in refused] == [("policy.published", "bob")]
    assert not ChangeSet.objects.filter(author=bob.user).exists()


def test_allocations_become_a_draft_equal_to_the_preview(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    state(alice, 100)
    give(alice, uid(tree, "/physics"), 438_000)  # half of a year of 100 cores
    give(alice, uid(tree, "/biology"), 219_000)
    query = ConversionQuery(parent_uid=tree.uuid(0), period=YEAR, zone=ZONE, rest="reserve")
    shown = get_conversion(policy_slug="grid", query=query, at=AT, actor=alice)
    assert shown.available == 876_000
    assert {line.name: line.shares_after for line in shown.lines} == {"physics": 50, "biology": 25, "reserve": 25}
    reason = "The new round."
    draft = draft_shares(policy_slug="grid", query=query, at_end="zero", reason=reason, at=AT, actor=alice)
    assert (draft.state, draft.effective_at) == ("draft", None)
    publish_change_set(id=draft.pk, version=draft.version, at=AT, actor=alice)
    now = head(policy)
    assert {now.name[i]: now.shares[i] for i in now.children(0)} == {"physics": 50, "biology": 25, "reserve": 25}
    assert {now.name[i]: dates.ends_on for i, dates in now.dates.items()} == {
        "physics": YEAR.ends_on,
        "biology": YEAR.ends_on,
    }
    with pytest.raises(Invalid, match="nothing to draft"):
        draft_shares(policy_slug="grid", query=query, reason="Again.", at=AT, actor=alice)


def test_shares_of_a_future_period_take_effect_on_its_first_day(
    policy: Policy, tree: TreeColumns, alice: Actor
) -> None:
    next_year = {"starts_on": date(2027, 1, 1), "ends_on": date(2027, 12, 31)}
    give(alice, uid(tree, "/physics"), 3000, **next_year)
    give(alice, uid(tree, "/biology"), 1000, **next_year)
    draft = draft_shares(
        policy_slug="grid",
        query=ConversionQuery(parent_uid=tree.uuid(0), period=Period(**next_year), zone=ZONE),
        reason="2027.",
        at=AT,
        actor=alice,
    )
    assert draft.effective_at == datetime(2026, 12, 31, 23, tzinfo=UTC)


def test_converting_needs_visibility_of_the_whole_group(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor
) -> None:
    give(alice, uid(tree, "/physics"), 3000)
    with pytest.raises(NotAllowed, match="a part of this group"):
        get_conversion(
            policy_slug="grid", query=ConversionQuery(parent_uid=tree.uuid(0), period=YEAR, zone=ZONE), at=AT, actor=bob
        )


def kinds(events: list[Event]) -> list[tuple[str, str, date]]:
    return [(event.kind, event.path, event.on) for event in events]


def test_expiring_shares_are_listed_by_day_until_renewed(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    today = AT.date()  # 20 November 2026
    physics, biology = uid(tree, "/physics"), uid(tree, "/biology")
    soon = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 11, 25)}
    give(alice, physics, 1000, **soon)
    give(alice, physics, 500, starts_on=date(2026, 11, 26), ends_on=date(2027, 11, 25))
    give(alice, biology, 700, starts_on=date(2026, 1, 1), ends_on=date(2026, 11, 10))  # over for ten days
    give(alice, biology, 600, starts_on=date(2026, 1, 1), ends_on=date(2026, 6, 30))  # over for long
    dates = {"starts_on": "2026-11-01", "ends_on": "2026-12-10", "at_end": "zero"}
    change_dates(policy_slug="grid", entry_uid=physics, dates=dates, reason="A boost.", at=AT, actor=alice)
    now, mine = head(policy), allocations_of(policy)
    everybody = now.parent > -2
    within = {days: ending_soon(now, everybody, mine, today, days) for days in (7, 30)}
    assert kinds(within[7]) == [
        ("allocation_ends", "/biology", date(2026, 11, 10)),
        ("allocation_ends", "/physics", date(2026, 11, 25)),
    ]
    assert [event.is_covered for event in within[7]] == [False, True]
    assert kinds(within[30])[2:] == [("shares_end", "/physics", date(2026, 12, 10))]
    november = Period(date(2026, 11, 1), date(2026, 11, 30))
    assert kinds(events_in(now, everybody, mine, november)) == [
        ("shares_begin", "/physics", date(2026, 11, 1)),
        ("allocation_ends", "/biology", date(2026, 11, 10)),
        ("allocation_ends", "/physics", date(2026, 11, 25)),
        ("allocation_begins", "/physics", date(2026, 11, 26)),
    ]
    assert events_in(now, now.parent > 99, mine, november) == [], "what somebody may not see is no event"
