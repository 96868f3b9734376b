"""Set upon a newer head: what is dropped, what stays, and where comments go."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.core.errors import NotFound
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.changesets.change_sets import anchors
from apps.policies.changesets.conflicts import EditConflict, FieldConflict
from apps.policies.models import ChangeSet, Policy
from apps.policies.records import ChangeSetEdit
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.instants import AT
from tests.policies.changesets.test_review import drafted, shares


def publish(actor: Actor, *operations: dict[str, Any]) -> None:
    draft = drafted(actor, *operations)
    services.publish_change_set(id=draft.pk, version=draft.version, reason="Meanwhile.", at=AT, actor=actor)


def rebase(change_set: ChangeSet, actor: Actor, **choices: Any) -> ChangeSet:
    return lifecycle.rebase_change_set(id=change_set.pk, version=change_set.version, at=AT, actor=actor, **choices)


def publish_draft(draft: ChangeSet, actor: Actor) -> None:
    services.publish_change_set(id=draft.pk, version=draft.version, reason="Mine.", at=AT, actor=actor)


def conflict_of(change_set: ChangeSet, actor: Actor) -> FieldConflict:
    with pytest.raises(EditConflict) as refused:
        rebase(change_set, actor)
    (conflict,) = refused.value.conflicts
    assert lifecycle.open_conflicts(change_set, at=AT, actor=actor) == [conflict]
    return conflict


def test_operations_that_depend_on_a_dropped_one_are_dropped(policy: Policy, alice: Actor) -> None:
    mine = drafted(
        alice,
        {"op": "add", "parent": "/biology", "name": "new", "kind": "group"},
        {"op": "add", "parent": "/biology/new", "name": "eva", "kind": "user"},
        shares("/physics", 31),
    )
    publish(alice, {"op": "add", "parent": "/biology", "name": "new", "kind": "group"})
    conflict = conflict_of(mine, alice)
    assert (conflict.field, conflict.can_keep, conflict.operation) == ("name", False, 0)
    kept = rebase(mine, alice, choices={conflict.key: "theirs"})
    assert [operation["op"] for operation in kept.operations] == ["set_shares"]


def test_operations_on_entries_archived_meanwhile_are_dropped(policy: Policy, alice: Actor) -> None:
    mine = drafted(alice, shares("/physics/bob", 9), shares("/biology", 51))
    publish(alice, {"op": "archive", "entry": "/physics/bob"})
    conflict = conflict_of(mine, alice)
    assert (conflict.theirs, conflict.can_keep) == ("archived", False)
    kept = rebase(mine, alice, choices={conflict.key: "theirs"})
    assert [operation["shares"] for operation in kept.operations] == [51]


def test_one_setting_is_dropped_and_the_others_stay(policy: Policy, alice: Actor) -> None:
    wanted = {"fallback_factor": 0.1, "tolerance": {"relative": 0.2}}
    mine = drafted(alice, {"op": "set_policy", "settings": wanted})
    publish(alice, {"op": "set_policy", "settings": {"fallback_factor": 0.9}})
    conflict = conflict_of(mine, alice)
    assert (conflict.key, conflict.base, conflict.mine, conflict.theirs) == (
        "policy:settings.fallback_factor",
        0.5,
        0.1,
        0.9,
    )
    kept = rebase(mine, alice, choices={conflict.key: "theirs"})
    assert kept.operations == [{"op": "set_policy", "settings": {"tolerance": {"relative": 0.2}}}]


def test_conflicts_revealed_by_resolving_others_are_asked_for(policy: Policy, alice: Actor) -> None:
    mine = drafted(
        alice,
        shares("/physics", 40),
        {"op": "add", "parent": "/biology", "name": "new", "kind": "user"},
        shares("/physics/bob", 4),
    )
    publish(alice, shares("/physics", 35), {"op": "add", "parent": "/biology", "name": "new", "kind": "user"})
    first = conflict_of(mine, alice)
    with pytest.raises(EditConflict) as refused:
        rebase(mine, alice, choices={first.key: "mine"})
    (second,) = refused.value.conflicts
    assert second.operation == 1
    kept = rebase(mine, alice, choices={first.key: "mine", second.key: "theirs"})
    assert [operation["shares"] for operation in kept.operations] == [40, 4]


@pytest.mark.parametrize("meanwhile", [[], [shares("/physics/alice", 12345)]], ids=["unchanged", "changed"])
def test_an_entry_that_became_invisible_is_not_found(
    policy: Policy, tree: TreeColumns, bob: Actor, alice: Actor, meanwhile: list[dict[str, Any]]
) -> None:
    hidden = tree.uuid(tree.index_of_path("/physics/alice") or 0)
    mine = drafted(bob, shares("/physics/alice", 9))
    publish(alice, *meanwhile, {"op": "move", "entry": "/physics/alice", "parent": "/biology/lab"})
    for step in (rebase, publish_draft):
        with pytest.raises(NotFound) as refused:
            step(mine, bob)
        assert refused.value.message == f"operations[0].entry: there is no entry '{hidden}' in this policy."


def test_comments_stay_at_their_operation(policy: Policy, alice: Actor) -> None:
    mine = drafted(alice, shares("/physics", 40), shares("/biology", 60), shares("/physics/bob", 4))
    for operation in range(3):
        lifecycle.comment_on(id=mine.pk, text=f"about {operation}", operation=operation, at=AT, actor=alice)
    publish(alice, shares("/physics", 35))
    kept = rebase(mine, alice, choices={conflict_of(mine, alice).key: "theirs"})
    assert [(each.text, each.operation) for each in kept.comments.all()] == [
        ("about 0", None),
        ("about 1", 0),
        ("about 2", 1),
    ]
    edited = services.update_change_set(
        id=kept.pk,
        version=kept.version,
        edit=ChangeSetEdit(operations=[shares("/physics/bob", 7), *kept.operations[:1]]),
        at=AT,
        actor=alice,
    )
    assert [each.operation for each in edited.comments.all()] == [None, 1, 0]
    assert float(load_tree(policy).shares.max()) == 50


def test_an_identical_operation_is_matched_before_a_similar_one() -> None:
    one, other, new = ({"op": "set_shares", "entry": "a", "shares": n} for n in (1, 2, 3))
    assert anchors([one, other], [other, new]) == {0: 1, 1: 0}
    assert anchors([one, other], [new]) == {0: 0, 1: None}
