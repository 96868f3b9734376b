"""Capacities and allocations of core-hours: who may, what is refused, and what is logged."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.contrib.allocations import capacities, services
from apps.contrib.allocations.capacities import CapacityChange, CapacityTerms
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.services import AllocationChange, AllocationTerms
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from apps.policies.models import Allocation, Capacity, Policy
from apps.policies.tree.columns import TreeColumns
from tests.grants import make_grant
from tests.instants import AT
from tests.policies import conftest as policies
from tests.policies.conftest import person

policy, tree, alice, bob, charlie = policies.policy, policies.tree, policies.alice, policies.bob, policies.charlie

YEAR = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 12, 31)}


def uid(tree: TreeColumns, path: str) -> UUID:
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


def give(actor: Actor, entry: UUID, amount: float = 1000.0, **more: Any) -> Allocation:
    given: dict[str, Any] = {**YEAR, "reason": "The committee said so.", **more}
    terms = AllocationTerms(amount=amount, **given)
    return services.create_allocation(policy_slug="grid", entry_uid=entry, terms=terms, at=AT, actor=actor)


def state(actor: Actor, per_hour: float = 100.0, **more: Any) -> Capacity:
    days: dict[str, Any] = {"starts_on": date(2026, 1, 1), "reason": "As delivered.", **more}
    terms = CapacityTerms(per_hour=per_hour, **days)
    return capacities.add_capacity(policy_slug="grid", terms=terms, at=AT, actor=actor)


def test_an_allocation_is_stored_with_author_and_reason(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    made = give(alice, uid(tree, "/physics"), 5000)
    assert (made.amount, made.author_name, made.reason) == (5000, "alice", "The committee said so.")
    event = AuditEvent.objects.latest("id")
    assert (event.verb, event.entry_uid, event.subject) == ("allocation.given", made.entry_uid, "/physics")
    assert event.details["amount"] == 5000
    listed = services.list_allocations(policy_slug="grid", at=AT, actor=alice)
    assert [(found.uid, path) for found, path in listed] == [(made.uid, "/physics")]


def test_core_hours_are_allocated_from_above_and_never_to_oneself(
    policy: Policy, tree: TreeColumns, bob: Actor, charlie: Actor
) -> None:
    give(bob, uid(tree, "/physics/alice"))
    with pytest.raises(NotAllowed, match="managers of /"):
        give(bob, uid(tree, "/physics"))
    with pytest.raises(NotFound):  # biology is none of bob's business
        give(bob, uid(tree, "/biology"))
    with pytest.raises(NotFound):
        give(charlie, uid(tree, "/physics/alice"))
    refused = AuditEvent.objects.filter(verb="allocation.given", outcome="refused")
    assert [event.actor_name for event in refused] == ["bob"]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"ends_on": date(2025, 1, 1)}, "ends_on"),
        ({"starts_on": date(1900, 1, 1)}, "starts_on"),
        ({"amount": -1}, "amount"),
        ({"amount": float("nan")}, "amount"),
        ({"amount": float("inf")}, "amount"),
        ({"amount": 2e15}, "amount"),
        ({"amount": True}, "amount"),
        ({"reason": "  "}, "reason"),
        ({"reason": "x" * 513}, "reason"),
    ],
)
def test_an_invalid_allocation_is_refused_by_field(
    policy: Policy, tree: TreeColumns, alice: Actor, more: dict[str, object], where: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        give(alice, uid(tree, "/physics"), **more)  # type: ignore[arg-type]
    assert [problem.where for problem in refusal.value.fields] == [where]
    assert not Allocation.objects.exists()


@pytest.mark.parametrize("path", ["/", "/reserve"])
def test_root_and_reserve_get_no_allocation(policy: Policy, tree: TreeColumns, alice: Actor, path: str) -> None:
    with pytest.raises(Invalid):
        give(alice, uid(tree, path))


def test_a_repeated_allocation_request_is_stored_once(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    give(alice, uid(tree, "/physics"))
    with pytest.raises(Conflict) as refusal:
        give(alice, uid(tree, "/physics"))
    assert refusal.value.code == "allocation_exists"
    give(alice, uid(tree, "/physics"), 500)  # a second grant for the same days adds up
    assert Allocation.objects.count() == 2


def test_an_allocation_is_changed_only_in_its_latest_version(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    made = give(alice, uid(tree, "/physics"))
    seen = services.tag_of(made)
    changed = services.change_allocation(
        policy_slug="grid",
        allocation_uid=made.uid,
        tag=seen,
        change=AllocationChange(amount=800, reason="Cut."),
        at=AT,
        actor=alice,
    )
    assert (changed.amount, changed.ends_on) == (800, YEAR["ends_on"])
    assert AuditEvent.objects.latest("id").details["before"]["amount"] == 1000
    with pytest.raises(Stale):
        services.change_allocation(
            policy_slug="grid",
            allocation_uid=made.uid,
            tag=seen,
            change=AllocationChange(amount=700, reason="More."),
            at=AT,
            actor=alice,
        )
    assert Allocation.objects.get().amount == 800


def test_a_withdrawn_allocation_is_unlisted_and_audited(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    made = give(alice, uid(tree, "/physics"))
    services.withdraw_allocation(
        policy_slug="grid", allocation_uid=made.uid, tag=services.tag_of(made), reason="A mistake.", at=AT, actor=alice
    )
    assert services.list_allocations(policy_slug="grid", at=AT, actor=alice) == []
    with pytest.raises(NotFound):
        services.get_allocation(policy_slug="grid", allocation_uid=made.uid, at=AT, actor=alice)
    event = AuditEvent.objects.latest("id")
    assert (event.verb, event.reason) == ("allocation.withdrawn", "A mistake.")


def test_lesser_rights_do_not_change_allocations_of_others(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor
) -> None:
    of_physics, of_biology = give(alice, uid(tree, "/physics")), give(alice, uid(tree, "/biology"))
    with pytest.raises(NotAllowed):
        services.withdraw_allocation(
            policy_slug="grid",
            allocation_uid=of_physics.uid,
            tag=services.tag_of(of_physics),
            reason="Mine.",
            at=AT,
            actor=bob,
        )
    with pytest.raises(NotFound):
        services.get_allocation(policy_slug="grid", allocation_uid=of_biology.uid, at=AT, actor=bob)
    seen = services.list_allocations(policy_slug="grid", at=AT, actor=bob)
    assert [path for _, path in seen] == ["/physics"]


def test_lists_are_filtered_by_entry_and_days(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    give(alice, uid(tree, "/physics"))
    give(alice, uid(tree, "/physics/bob"), starts_on=date(2027, 1, 1), ends_on=date(2027, 3, 31))
    whole = {"policy_slug": "grid", "at": AT, "actor": alice, "entry_uid": uid(tree, "/physics")}
    assert [path for _, path in services.list_allocations(**whole)] == ["/physics"]  # type: ignore[arg-type]
    below = services.list_allocations(**whole, below=True)  # type: ignore[arg-type]
    assert [path for _, path in below] == ["/physics", "/physics/bob"]
    march = Period(date(2027, 3, 1), date(2027, 3, 31))
    later = services.list_allocations(policy_slug="grid", period=march, at=AT, actor=alice)
    assert [path for _, path in later] == ["/physics/bob"]


def test_capacity_is_recorded_by_managers_of_the_whole_policy(
    policy: Policy, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    made = state(alice, 128, site="hpc2n", ends_on=date(2026, 12, 31))
    assert AuditEvent.objects.latest("id").verb == "capacity.stated"
    with pytest.raises(NotAllowed):
        state(bob)
    with pytest.raises(NotFound):
        state(charlie)
    seen = capacities.list_capacities(policy_slug="grid", at=AT, actor=bob)
    assert [row.pk for row in seen] == [made.pk]
    assert capacities.list_capacities(policy_slug="grid", at=AT, actor=charlie) == []


def test_capacities_are_changed_and_removed_in_their_latest_version(policy: Policy, alice: Actor) -> None:
    made = state(alice, 128)
    seen = capacities.tag_of(made)
    with pytest.raises(Conflict):
        state(alice, 128)
    whole: dict[str, Any] = {"policy_slug": "grid", "capacity_id": made.pk, "at": AT, "actor": alice}
    change = CapacityChange(ends_on=date(2026, 6, 30), reason="Off.")
    changed = capacities.change_capacity(**whole, tag=seen, change=change)
    assert (changed.per_hour, changed.ends_on) == (128, date(2026, 6, 30))
    with pytest.raises(Stale):
        capacities.remove_capacity(**whole, tag=seen, reason="Off.")
    capacities.remove_capacity(**whole, tag=capacities.tag_of(changed), reason="Never was.")
    assert not Capacity.objects.exists()
    with pytest.raises(NotFound):
        capacities.remove_capacity(**whole, tag=seen, reason="Again.")


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"per_hour": -5}, "per_hour"),
        ({"per_hour": 1e13}, "per_hour"),
        ({"ends_on": date(2025, 1, 1)}, "ends_on"),
        ({"site": "x" * 129}, "site"),
        ({"note": "a\0b"}, "note"),
    ],
)
def test_an_invalid_capacity_is_refused_by_field(
    policy: Policy, alice: Actor, more: dict[str, object], where: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        state(alice, **more)  # type: ignore[arg-type]
    assert [problem.where for problem in refusal.value.fields] == [where]


def test_allocating_core_hours_needs_the_right_to_edit_shares(policy: Policy, tree: TreeColumns, alice: Actor) -> None:

    viewer = person("vera")
    make_grant(viewer.user, tree.uuid(0), "viewer", policy=policy, verbs=["view_members"])
    with pytest.raises(NotAllowed):
        give(viewer, uid(tree, "/physics"))
    with pytest.raises(NotAllowed):
        state(viewer)
