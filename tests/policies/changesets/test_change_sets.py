"""Change sets: who sees and decides, and what they say they do."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.policies import selectors, services
from apps.policies.models import ChangeSet, Policy
from apps.policies.records import NewChangeSet
from tests.instants import AT
from tests.policies.conftest import person

pytestmark = pytest.mark.django_db


def draft(actor: Actor, *operations: dict[str, Any], reason: str = "Because.") -> ChangeSet:
    return services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason=reason), at=AT, actor=actor
    )


def test_a_draft_is_private_until_it_is_proposed(policy: Policy, alice: Actor, bob: Actor) -> None:
    change_set = draft(alice, {"op": "set_shares", "entry": "/physics/bob", "shares": 9})
    assert selectors.list_change_sets(policy=policy, actor=bob, at=AT) == []
    with pytest.raises(NotFound):
        services.publish_change_set(id=change_set.pk, version=1, at=AT, actor=bob)
    proposed = services.propose_change_set(id=change_set.pk, version=1, at=AT, actor=alice)
    assert selectors.list_change_sets(policy=policy, actor=bob, at=AT) == [proposed]
    with pytest.raises(NotAllowed, match="another person"):
        services.withdraw_change_set(id=change_set.pk, version=2, at=AT, actor=bob)
    assert services.publish_change_set(id=change_set.pk, version=2, at=AT, actor=bob).number == 3


def test_a_manager_does_not_see_proposals_with_invisible_entries(policy: Policy, alice: Actor, bob: Actor) -> None:
    for operation in (
        {"op": "set_shares", "entry": "/biology", "shares": 9},
        {"op": "add", "parent": "/biology", "name": "x"},
        {"op": "set_policy", "settings": {"fallback_factor": 0.1}},
    ):
        change_set = draft(alice, operation)
        services.propose_change_set(id=change_set.pk, version=1, at=AT, actor=alice)
        with pytest.raises(NotFound):
            selectors.get_change_set(id=change_set.pk, actor=bob, at=AT)
    assert selectors.list_change_sets(policy=policy, actor=bob, at=AT) == []
    assert len(selectors.list_change_sets(policy=policy, actor=alice, at=AT, states=["proposed"])) == 3


def test_a_change_set_needs_a_reason_to_be_proposed(policy: Policy, alice: Actor) -> None:
    change_set = draft(alice, {"op": "lock", "entry": "/physics"}, reason="")
    with pytest.raises(Invalid) as refusal:
        services.propose_change_set(id=change_set.pk, version=1, at=AT, actor=alice)
    assert refusal.value.code == "reason_missing"
    services.propose_change_set(id=change_set.pk, version=1, reason="Now.", at=AT, actor=alice)


@pytest.mark.parametrize("reason", ["a\0b", "a\ud800", "x" * 4_001])
def test_a_reason_must_be_storable_text(policy: Policy, alice: Actor, reason: str) -> None:
    with pytest.raises(Invalid) as refusal:
        draft(alice, {"op": "lock", "entry": "/physics"}, reason=reason)
    assert refusal.value.fields[0].where == "reason"


@pytest.mark.parametrize("number", [0, -1, 3, 2**40])
def test_an_unknown_base_revision_is_refused(policy: Policy, alice: Actor, number: int) -> None:
    with pytest.raises(Invalid, match="from 1 to the head, 2"):
        services.make_change_set(
            policy_slug="grid",
            new=NewChangeSet(base_revision=number, operations=[{"op": "lock", "entry": "/physics"}]),
            at=AT,
            actor=alice,
        )


def test_the_effect_lists_diluted_siblings(policy: Policy, alice: Actor) -> None:
    change_set = draft(alice, {"op": "set_shares", "entry": "/physics", "shares": 130})
    effect = services.effect_of(change_set, actor=alice, at=AT)
    assert [(step["path"], step["fields"]) for step in effect["stated"]] == [
        ("/physics", [{"field": "shares", "before": 30.0, "after": 130.0}])
    ]
    assert {step["path"]: (step["target_before"], step["target_after"]) for step in effect["effective"]} == {
        "/biology": (0.5, 0.25),
        "/physics": (0.3, 0.65),
        "/reserve": (0.2, 0.1),
    }


def test_the_effect_lists_added_and_archived_entries(policy: Policy, alice: Actor) -> None:
    change_set = draft(
        alice,
        {"op": "add", "parent": "/physics", "name": "carl", "shares": 4},
        {"op": "archive", "entry": "/biology"},
    )
    effect = services.effect_of(change_set, actor=alice, at=AT)
    assert {(step["path"], step["change"]) for step in effect["stated"]} == {
        ("/physics/carl", "added"),
        ("/biology", "archived"),
        ("/biology/lab", "archived"),
    }
    carl = next(step for step in effect["effective"] if step["path"] == "/physics/carl")
    assert (carl["target_before"], carl["target_after"]) == (None, 0.5)


def test_entries_outside_the_view_are_counted_and_not_shown(policy: Policy, alice: Actor, bob: Actor) -> None:
    change_set = draft(
        alice,
        {"op": "set_shares", "entry": "/physics/bob", "shares": 9},
        {"op": "set_shares", "entry": "/biology", "shares": 9},
    )
    effect = services.effect_of(change_set, actor=bob, at=AT)
    assert [step["path"] for step in effect["stated"]] == ["/physics/bob"]
    assert {step["path"] for step in effect["effective"]} == {"/physics", "/physics/bob", "/physics/alice"}
    assert effect["n_outside_view"] == 1


def test_any_user_of_an_open_policy_can_propose_but_not_publish(policy: Policy, alice: Actor) -> None:
    Policy.objects.update(visibility=Policy.Visibility.TREE)
    dora = person("dora")
    change_set = draft(dora, {"op": "set_shares", "entry": "/physics/bob", "shares": 9})
    services.propose_change_set(id=change_set.pk, version=1, at=AT, actor=dora)
    with pytest.raises(NotAllowed):
        services.publish_change_set(id=change_set.pk, version=2, at=AT, actor=dora)
    assert services.publish_change_set(id=change_set.pk, version=2, at=AT, actor=alice).number == 3
