"""A revert is a change set like any other: it restores everything, and stops where something changed since."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import DomainError, Invalid, NotAllowed, NotFound
from apps.policies import services
from apps.policies.changesets.change_sets import settings_of
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.changesets.lifecycle import open_conflicts, rebase_change_set
from apps.policies.models import Adjustment, ChangeSet, Policy, Revision
from apps.policies.operations import apply as operations
from apps.policies.publishing import revert as reverting
from apps.policies.publishing.revert import restore_revision, revert_revision, revisions_reverted
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_archived, load_tree, load_tree_from_rows
from tests.examples import examples
from tests.instants import AT
from tests.policies.operations.test_random_edits import edits, number, operation

Operations = Sequence[dict[str, Any]]


def publish(policy: Policy, *given: dict[str, Any], actor: Actor = COMMAND, reason: str = "Because.") -> Revision:
    draft = services.make_change_set(
        policy_slug=policy.slug, new=NewChangeSet(operations=given, reason=reason), at=AT, actor=actor
    )
    return publish_draft(draft, actor)


def publish_draft(draft: ChangeSet, actor: Actor = COMMAND) -> Revision:
    return services.publish_change_set(id=draft.pk, version=draft.version, at=AT, actor=actor)


def revert(policy: Policy, number: int, actor: Actor = COMMAND) -> Revision:
    return publish_draft(revert_revision(policy_slug=policy.slug, number=number, at=AT, actor=actor), actor)


def uid_of(policy: Policy, path: str) -> str:
    tree = load_tree(Policy.objects.get(pk=policy.pk))
    i = tree.index_of_path(path)
    assert i is not None
    return str(tree.uuid(i))


def active(policy: Policy) -> list[tuple[UUID, str, float]]:
    rows = Adjustment.objects.filter(policy=policy, until=None).order_by("entry_uid", "amount_s")
    return [(row.entry_uid, row.resource, row.amount_s) for row in rows]


@pytest.mark.django_db
@examples(40, suppress=HealthCheck)
@given(st.lists(edits, min_size=1, max_size=4), st.data())
def test_every_change_of_a_revision_is_undone(rounds: list[Any], data: st.DataObject) -> None:
    slug = f"p{uuid4().hex[:12]}"
    policy = services.make_policy(slug=slug, name="P", at=AT, actor=COMMAND)
    for each in rounds:
        before, head, corrections = load_tree(policy), policy.head_number, active(policy)
        try:
            with transaction.atomic():
                publish(policy, *more(before, each, data))
        except DomainError:
            continue
        policy.refresh_from_db()
        corrected = active(policy)
        revert(policy, policy.head_number)
        policy.refresh_from_db()
        assert load_tree(policy).same_as(before)
        assert load_tree_from_rows(policy).same_as(before)
        assert settings_of(policy, policy.head_number) == settings_of(policy, head)
        assert active(policy) == corrections
        revert(policy, policy.head_number)  # and to undo the undoing is to do it again
        policy.refresh_from_db()
        assert load_tree(policy).same_as(load_tree(policy, head + 1))
        assert settings_of(policy, policy.head_number) == settings_of(policy, head + 1)
        assert active(policy) == corrected


def more(tree: TreeColumns, given: list[Any], data: st.DataObject) -> list[dict[str, Any]]:
    found = [operation(tree, *each) for each in given]
    some = str(tree.uuid(data.draw(number) % len(tree)))
    if data.draw(st.booleans()):
        found.append({"op": "set_policy", "settings": {"fallback_factor": data.draw(st.sampled_from([0.1, 0.2, 0.5]))}})
    if data.draw(st.booleans()):
        found.append({"op": "set_members", "entry": some, "members": [{"source": "c1", "group": "g*"}]})
    if data.draw(st.booleans()):
        found.append({"op": "set_dates", "entry": some, "dates": {"ends_on": "2027-03-31", "at_end": "zero"}})
    if data.draw(st.booleans()):
        amount = data.draw(st.sampled_from([3600.0, -7200.0]))
        found.append({"op": "adjust_usage", "entry": some, "amount_s": amount, "at": AT.isoformat()})
    return found


def test_archived_entries_are_restored_with_their_uid(policy: Policy, tree: TreeColumns) -> None:
    archived = publish(policy, {"op": "archive", "entry": "/physics"})
    draft = revert_revision(policy_slug="grid", number=archived.number, at=AT, actor=COMMAND)
    assert [each["op"] for each in draft.operations] == ["restore"]
    publish_draft(draft)
    assert load_tree(Policy.objects.get()).same_as(tree)


def test_the_change_set_names_the_undone_revision(policy: Policy, alice: Actor) -> None:
    revision = publish(policy, {"op": "lock", "entry": "/physics", "locked": True}, reason="Frozen for the audit.")
    draft = revert_revision(policy_slug="grid", number=revision.number, at=AT, actor=alice)
    assert (draft.origin, draft.reverts_number, draft.base_number) == ("revert", revision.number, revision.number)
    assert draft.state == ChangeSet.State.DRAFT
    assert draft.reason == f"Reverts revision {revision.number}: Frozen for the audit."
    undone = publish_draft(draft, alice)
    assert revisions_reverted(policy, [1, revision.number, undone.number]) == {revision.number: undone.number}


def test_only_settings_changed_by_the_revision_are_reverted(policy: Policy) -> None:
    revision = publish(policy, {"op": "set_policy", "settings": {"fallback_factor": 0.25}})
    publish(policy, {"op": "set_policy", "settings": {"tolerance": {"relative": 0.2, "points": 1.0}}})
    draft = revert_revision(policy_slug="grid", number=revision.number, at=AT, actor=COMMAND)
    assert draft.operations == [{"op": "set_policy", "settings": {"fallback_factor": 0.5}}]
    publish_draft(draft)
    policy.refresh_from_db()
    after = settings_of(policy, policy.head_number)
    assert (after.fallback_factor, after.tolerance["relative"]) == (0.5, 0.2)


def test_adjustments_are_revoked_and_revoked_ones_restored(policy: Policy) -> None:
    correction = {"op": "adjust_usage", "entry": "/physics", "amount_s": 3600, "at": (AT - timedelta(3)).isoformat()}
    made = publish(policy, correction)
    first = Adjustment.objects.get()
    revert(policy, made.number)
    assert active(policy) == []
    again = revert(policy, made.number + 1)
    second = Adjustment.objects.get(until=None)
    assert (second.entry_uid, second.amount_s, second.at) == (first.entry_uid, 3600.0, first.at)
    assert second.since == again.number


def test_an_adjustment_is_revoked_before_its_entry_is_archived(policy: Policy) -> None:
    made = publish(
        policy,
        {"op": "add", "parent": "/physics", "name": "eve", "kind": "user"},
        {"op": "adjust_usage", "entry": "/physics/eve", "amount_s": 60, "at": AT.isoformat()},
    )
    draft = revert_revision(policy_slug="grid", number=made.number, at=AT, actor=COMMAND)
    assert [each["op"] for each in draft.operations] == ["adjust_usage", "archive"]
    publish_draft(draft)
    assert active(policy) == []


def test_an_adjustment_revoked_meanwhile_stays_revoked(policy: Policy) -> None:
    correction = {"op": "adjust_usage", "entry": "/physics", "amount_s": 3600, "at": AT.isoformat()}
    made = publish(policy, correction, {"op": "lock", "entry": "/physics"})
    publish(policy, {"op": "adjust_usage", "entry": "/physics", "revokes": str(Adjustment.objects.get().uid)})
    draft = revert_revision(policy_slug="grid", number=made.number, at=AT, actor=COMMAND)
    assert [each["op"] for each in draft.operations] == ["lock"]


def test_other_fields_that_changed_since_stay(policy: Policy) -> None:
    revision = publish(policy, {"op": "set_shares", "entry": "/physics", "shares": 40})
    publish(policy, {"op": "rename", "entry": "/physics", "name": "astro"})
    revert(policy, revision.number)
    tree = load_tree(Policy.objects.get())
    i = tree.index_of_path("/astro")
    assert i is not None
    assert tree.node(i).shares == 30


@pytest.mark.fault("F20")
def test_the_same_field_changed_since_is_a_conflict_with_base_mine_and_theirs(policy: Policy) -> None:
    revision = publish(policy, {"op": "set_shares", "entry": "/physics", "shares": 40})
    publish(policy, {"op": "set_shares", "entry": "/physics", "shares": 45})
    draft = revert_revision(policy_slug="grid", number=revision.number, at=AT, actor=COMMAND)
    with pytest.raises(EditConflict) as refused:
        publish_draft(draft)
    (found,) = refused.value.conflicts
    assert (found.field, found.base, found.mine, found.theirs) == ("shares", 40.0, 30.0, 45.0)
    rebased = rebase_change_set(id=draft.pk, version=1, choices={found.key: "mine"}, at=AT, actor=COMMAND)
    publish_draft(rebased)
    tree = load_tree(Policy.objects.get())
    i = tree.index_of_path("/physics")
    assert i is not None
    assert tree.node(i).shares == 30


def test_an_entry_restored_meanwhile_is_a_conflict_that_can_be_dropped(policy: Policy) -> None:
    physics = uid_of(policy, "/physics")
    revision = publish(
        policy, {"op": "archive", "entry": "/physics"}, {"op": "set_shares", "entry": "/biology", "shares": 70}
    )
    publish(policy, {"op": "restore", "entry": physics})
    draft = revert_revision(policy_slug="grid", number=revision.number, at=AT, actor=COMMAND)
    policy.refresh_from_db()
    (found,) = open_conflicts(draft, at=AT, actor=COMMAND)
    assert (str(found.entry), found.path, found.theirs, found.can_keep) == (physics, "/physics", "restored", False)
    with pytest.raises(EditConflict, match="it is restored now"):
        publish_draft(draft)
    rebased = rebase_change_set(id=draft.pk, version=1, choices={found.key: "theirs"}, at=AT, actor=COMMAND)
    assert [each["op"] for each in rebased.operations] == ["set_shares"]
    publish_draft(rebased)


def test_an_archive_whose_name_is_taken_says_so(policy: Policy) -> None:
    archived = publish(policy, {"op": "archive", "entry": "/physics"})
    publish(policy, {"op": "add", "parent": "/", "name": "physics", "kind": "group", "shares": 3})
    with pytest.raises(EditConflict) as refusal:
        revert(policy, archived.number)
    head = Policy.objects.get().head_number
    assert str(refusal.value) == (
        f"The change set doesn't fit revision {head}: / has a child 'physics' already; siblings need different names."
        f" Change it, or make it anew on revision {head}."
    )
    (problem,) = refusal.value.fields
    assert problem.where == "/physics: name"
    assert problem.message == "/ has a child 'physics' already; siblings need different names"
    (conflict,) = refusal.value.conflicts
    assert (conflict.path, conflict.field, conflict.mine) == ("/physics", "name", "physics")


def test_a_restored_parent_that_is_archived_meanwhile_says_so(policy: Policy) -> None:
    archived = publish(policy, {"op": "archive", "entry": "/physics/alice"})
    publish(policy, {"op": "archive", "entry": "/physics"})
    with pytest.raises(EditConflict) as refusal:
        revert(policy, archived.number)
    assert "operations[" not in str(refusal.value)
    assert "of the policy" not in str(refusal.value)


def test_an_entry_with_new_children_is_not_archived_without_confirmation(policy: Policy) -> None:
    revision = publish(policy, {"op": "add", "parent": "/physics", "name": "group", "is_group": True})
    publish(policy, {"op": "add", "parent": "/physics/group", "name": "eve", "kind": "user"})
    with pytest.raises(EditConflict, match="children"):
        revert(policy, revision.number)


def test_an_undone_revision_is_not_undone_twice(policy: Policy) -> None:
    revision = publish(policy, {"op": "set_shares", "entry": "/physics", "shares": 40})
    revert(policy, revision.number)
    with pytest.raises(Invalid) as refused:
        revert(policy, revision.number)
    assert refused.value.code == "nothing_to_change"


def test_a_restored_subtree_omits_entries_that_moved_away(policy: Policy) -> None:
    bob = uid_of(policy, "/physics/bob")
    physics = UUID(uid_of(policy, "/physics"))
    publish(
        policy, {"op": "move", "entry": "/physics/bob", "parent": "/biology"}, {"op": "archive", "entry": "/physics"}
    )
    publish(policy, {"op": "archive", "entry": bob})
    policy.refresh_from_db()
    assert [node.name for node in load_archived(policy, physics)] == ["physics", "alice"]


def test_the_tree_of_an_earlier_revision_is_restored_over_everything_since(policy: Policy, tree: TreeColumns) -> None:
    then = policy.head_number
    publish(policy, {"op": "archive", "entry": "/physics/bob"}, {"op": "rename", "entry": "/biology", "name": "bio"})
    publish(policy, {"op": "set_policy", "settings": {"fallback_factor": 0.25}})
    publish(policy, {"op": "move", "entry": "/physics", "parent": "/bio"})
    draft = restore_revision(policy_slug="grid", number=then, at=AT, actor=COMMAND)
    publish_draft(draft)
    policy.refresh_from_db()
    assert load_tree(policy).same_as(tree)
    assert settings_of(policy, policy.head_number) == settings_of(policy, then)


def test_settings_can_stay_when_the_tree_is_restored(policy: Policy, tree: TreeColumns) -> None:
    then = policy.head_number
    publish(
        policy, {"op": "set_policy", "settings": {"fallback_factor": 0.25}}, {"op": "archive", "entry": "/physics/bob"}
    )
    publish_draft(restore_revision(policy_slug="grid", number=then, with_settings=False, at=AT, actor=COMMAND))
    policy.refresh_from_db()
    assert load_tree(policy).same_as(tree)
    assert settings_of(policy, policy.head_number).fallback_factor == 0.25


def test_adjustments_survive_a_restored_tree(policy: Policy) -> None:
    then = policy.head_number
    publish(policy, {"op": "adjust_usage", "entry": "/physics", "amount_s": 60, "at": AT.isoformat()})
    publish(policy, {"op": "lock", "entry": "/physics"})
    publish_draft(restore_revision(policy_slug="grid", number=then, at=AT, actor=COMMAND))
    assert [amount for _, _, amount in active(policy)] == [60.0]


@pytest.fixture
def few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MOST_APPLIED_OPERATIONS", 3)
    monkeypatch.setattr(reverting, "MOST_APPLIED_OPERATIONS", 3)


def widen(policy: Policy) -> int:
    """More changes than a change set may hold to undo."""
    root = {"name": "grid", "children": [{"name": f"vo{i}", "shares": i + 1} for i in range(6)]}
    revision = services.publish_document(
        policy_slug="grid", document={"root": root}, reason="Anew.", at=AT, actor=COMMAND
    )
    policy.refresh_from_db()
    return revision.number


@pytest.mark.usefixtures("few_operations")
def test_a_large_revision_is_undone_by_a_whole_tree(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    draft = revert_revision(policy_slug="grid", number=widen(policy), at=AT, actor=alice)
    assert [each["op"] for each in draft.operations] == ["document"]
    assert (draft.origin, draft.reverts_number) == ("revert", policy.head_number)
    publish_draft(draft, alice)
    assert load_tree(Policy.objects.get()).same_as(tree)


@pytest.mark.usefixtures("few_operations")
def test_undoing_a_large_revision_keeps_later_changes(policy: Policy, tree: TreeColumns) -> None:
    large = widen(policy)
    publish(policy, {"op": "set_policy", "settings": {"fallback_factor": 0.25}})
    publish(policy, {"op": "add", "parent": "/", "name": "late"})
    revert(policy, large)
    policy.refresh_from_db()
    after = load_tree(policy)
    late = after.index_of_path("/late")
    assert late is not None
    assert len(after) == len(tree) + 1
    assert settings_of(policy, policy.head_number).fallback_factor == 0.25


@pytest.mark.usefixtures("few_operations")
@pytest.mark.fault("F20")
def test_undoing_a_large_revision_conflicts_with_later_changes(policy: Policy) -> None:
    large = widen(policy)
    publish(policy, {"op": "set_shares", "entry": "/vo3", "shares": 9})
    with pytest.raises(EditConflict, match="shares of /vo3"):
        revert_revision(policy_slug="grid", number=large, at=AT, actor=COMMAND)
    assert not ChangeSet.objects.filter(origin="revert").exists()


def test_a_manager_undoes_changes_below_the_own_entry(policy: Policy, bob: Actor) -> None:
    revision = publish(policy, {"op": "set_shares", "entry": "/physics/alice", "shares": 5})
    assert revert(policy, revision.number, bob).author_name == "bob"


def test_a_revision_partly_outside_the_view_is_not_undone_partially(policy: Policy, bob: Actor) -> None:
    revision = publish(
        policy,
        {"op": "set_shares", "entry": "/physics/alice", "shares": 5},
        {"op": "rename", "entry": "/biology/lab", "name": "secret"},
    )
    with pytest.raises(NotAllowed) as refused:
        revert_revision(policy_slug="grid", number=revision.number, at=AT, actor=bob)
    assert refused.value.code == "partial_view"
    assert "secret" not in refused.value.message
    with pytest.raises(NotAllowed):
        restore_revision(policy_slug="grid", number=revision.number - 1, at=AT, actor=bob)


def test_without_the_right_to_publish_an_undo_is_only_a_draft(policy: Policy, bob: Actor) -> None:
    revision = publish(policy, {"op": "set_shares", "entry": "/physics", "shares": 5})
    draft = revert_revision(policy_slug="grid", number=revision.number, at=AT, actor=bob)
    with pytest.raises(NotAllowed):
        publish_draft(draft, bob)


def test_unknown_revisions_and_the_first_one_cannot_be_undone(policy: Policy, charlie: Actor) -> None:
    for missing in (0, 99, 2**40):
        with pytest.raises(NotFound):
            revert_revision(policy_slug="grid", number=missing, at=AT, actor=COMMAND)
    with pytest.raises(Invalid) as refused:
        revert_revision(policy_slug="grid", number=1, at=AT, actor=COMMAND)
    assert refused.value.code == "first_revision"
    with pytest.raises(NotAllowed):
        revert_revision(policy_slug="grid", number=2, at=AT, actor=charlie)


def test_restoring_the_current_revision_changes_nothing(policy: Policy) -> None:
    with pytest.raises(Invalid) as refused:
        restore_revision(policy_slug="grid", number=policy.head_number, at=AT, actor=COMMAND)
    assert refused.value.code == "nothing_to_change"
