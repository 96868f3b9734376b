"""Drafts: edits one by one, undone and brought again, never without saying which version they were thought out on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.conf import LazySettings
from django.utils.module_loading import import_string
from hypothesis import HealthCheck, given

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from apps.engine.algorithms.inputs import prepare
from apps.policies import services
from apps.policies.changesets import drafts, lifecycle
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.changesets.draft_tree import DraftTree
from apps.policies.changesets.outcomes import effect_of
from apps.policies.files.import_export import plan_paste
from apps.policies.models import ChangeSet, Grant, Policy
from apps.policies.operations.apply import apply_operations
from apps.policies.records import ChangeSetEdit
from apps.policies.tree.columns import TreeColumns
from tests.examples import examples
from tests.instants import AT
from tests.policies.operations.test_random_edits import edits, operation
from tests.policies.share_trees import trees


def shares(path: str, value: Any) -> dict[str, Any]:
    return {"op": "set_shares", "entry": path, "shares": value}


@pytest.fixture
def draft(policy: Policy, alice: Actor) -> ChangeSet:
    return drafts.open_draft(policy_slug="grid", reason="Autumn", at=AT, actor=alice)


def add(draft: ChangeSet, actor: Actor, *operations: dict[str, Any], version: int | None = None) -> ChangeSet:
    found = ChangeSet.objects.get(pk=draft.pk).version if version is None else version
    return drafts.add_operations(id=draft.pk, version=found, operations=operations, at=AT, actor=actor)


def test_a_draft_is_created_empty_and_continued(draft: ChangeSet, policy: Policy, alice: Actor) -> None:
    assert (draft.state, draft.base_number, draft.operations, draft.version) == ("draft", 2, [], 1)
    assert drafts.find_draft(policy=policy, at=AT, actor=alice) == draft
    assert effect_of(draft, actor=alice, at=AT)["n_stated"] == 0
    assert AuditEvent.objects.filter(verb="changeset.drafted", subject=f"change set {draft.pk}").exists()


def test_a_draft_that_nobody_touches_stays_as_it_is(
    draft: ChangeSet, alice: Actor, monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> None:
    """Nothing that runs by itself ends it, two years on."""
    add(draft, alice, shares("/physics", 40))
    before = ChangeSet.objects.values().get(pk=draft.pk)
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(days=800)).isoformat())
    for each in settings.CELERY_BEAT_SCHEDULE.values():
        import_string(str(each["task"]))()
    assert ChangeSet.objects.values().get(pk=draft.pk) == before


def test_edits_are_appended_in_order(draft: ChangeSet, alice: Actor, tree: TreeColumns) -> None:
    add(draft, alice, shares("/physics", 40))
    after = add(draft, alice, {"op": "add", "parent": "/physics", "name": "carol", "kind": "user"})
    assert [each["op"] for each in after.operations] == ["set_shares", "add"]
    assert after.version == 3
    assert str(UUID(after.operations[1]["uid"])) == after.operations[1]["uid"]
    after = add(draft, alice, shares("/physics/carol", 7))
    assert after.operations[2]["entry"] == after.operations[1]["uid"], "an entry of the draft is found by its path"


def test_an_edit_of_a_stale_version_is_refused_and_changes_nothing(draft: ChangeSet, alice: Actor) -> None:
    add(draft, alice, shares("/physics", 40))
    with pytest.raises(Stale):
        add(draft, alice, shares("/physics", 50), version=1)
    draft.refresh_from_db()
    assert [each["shares"] for each in draft.operations] == [40.0]


def test_undo_and_redo_go_step_by_step_until_the_next_edit(draft: ChangeSet, alice: Actor) -> None:
    for value in (40, 41, 42):
        draft = add(draft, alice, shares("/physics", value))
    common: dict[str, Any] = {"id": draft.pk, "at": AT, "actor": alice}
    draft = drafts.undo(**common, version=draft.version, n=2)
    assert [each["shares"] for each in draft.operations] == [40.0]
    draft = drafts.redo(**common, version=draft.version)
    assert [each["shares"] for each in draft.operations] == [40.0, 41.0]
    draft = add(draft, alice, shares("/biology", 1))
    assert draft.undone == []
    with pytest.raises(Invalid, match="nothing to redo"):
        drafts.redo(**common, version=draft.version)
    draft = drafts.undo(**common, version=draft.version, n=3)
    assert draft.operations == []
    with pytest.raises(Invalid, match="nothing left to undo"):
        drafts.undo(**common, version=draft.version)
    draft = drafts.redo(**common, version=draft.version, n=3)
    assert [each["shares"] for each in draft.operations] == [40.0, 41.0, 1.0]


def test_an_edit_is_removed_unless_another_depends_on_it(draft: ChangeSet, alice: Actor) -> None:
    draft = add(draft, alice, {"op": "add", "parent": "/", "name": "new"}, shares("/physics", 5), shares("/new", 3))
    common: dict[str, Any] = {"id": draft.pk, "at": AT, "actor": alice}
    with pytest.raises(Conflict, match="depends on"):
        drafts.drop_operation(**common, version=draft.version, index=0)
    draft = drafts.drop_operation(**common, version=draft.version, index=1)
    assert [each["op"] for each in draft.operations] == ["add", "set_shares"]
    draft = drafts.redo(**common, version=draft.version)
    assert draft.operations[-1]["shares"] == 5.0
    with pytest.raises(Invalid, match="no such edit"):
        drafts.drop_operation(**common, version=draft.version, index=9)


def test_a_refusal_counts_the_edits_that_were_sent(draft: ChangeSet, alice: Actor) -> None:
    draft = add(draft, alice, shares("/physics", 40))
    with pytest.raises(Invalid) as refused:
        add(draft, alice, shares("/biology", 1), shares("/biology", -1))
    assert refused.value.fields[0].where == "operations[1].shares"
    with pytest.raises(NotFound, match=r"operations\[1\]"):
        add(draft, alice, shares("/physics", 41), shares("/nowhere", 1))
    assert ChangeSet.objects.get(pk=draft.pk).operations == draft.operations


def test_only_its_author_and_administrators_edit_a_draft(
    draft: ChangeSet, bob: Actor, alice: Actor, charlie: Actor
) -> None:
    for stranger in (bob, charlie):
        with pytest.raises(NotFound):
            add(draft, stranger, shares("/physics/bob", 1))
    mine = drafts.open_draft(policy_slug="grid", at=AT, actor=bob)
    assert add(mine, alice, shares("/physics/bob", 9)).operations
    with pytest.raises(NotAllowed, match="change any entry here"):
        drafts.open_draft(policy_slug="grid", at=AT, actor=charlie)


def test_an_edit_without_the_right_can_be_drafted_but_not_published(policy: Policy, bob: Actor) -> None:
    draft = drafts.open_draft(policy_slug="grid", at=AT, actor=bob)
    draft = add(draft, bob, shares("/physics/bob", 9))
    assert drafts.may_publish(draft, bob, AT)
    draft = add(draft, bob, shares("/physics", 90))
    assert not drafts.may_publish(draft, bob, AT)
    Grant.objects.all().delete()
    assert not drafts.may_publish(draft, bob, AT)


def test_editing_a_submitted_change_set_withdraws_it(draft: ChangeSet, alice: Actor) -> None:
    draft = add(draft, alice, shares("/physics", 40))
    draft = services.propose_change_set(id=draft.pk, version=draft.version, at=AT, actor=alice)
    draft = add(draft, alice, shares("/physics", 41))
    assert draft.state == ChangeSet.State.DRAFT


def test_a_draft_is_rebased_and_asks_about_conflicts(draft: ChangeSet, alice: Actor) -> None:
    draft = add(draft, alice, shares("/physics", 40), shares("/biology", 60))
    uid = draft.operations[0]["entry"]
    services.change_shares(policy_slug="grid", entry_uid=UUID(uid), shares=33, reason="Meanwhile.", at=AT, actor=alice)
    common: dict[str, Any] = {"id": draft.pk, "version": draft.version, "at": AT, "actor": alice}
    with pytest.raises(EditConflict) as conflict:
        drafts.update_draft(**common)
    assert [(each.base, each.mine, each.theirs) for each in conflict.value.conflicts] == [(30.0, 40.0, 33.0)]
    draft = drafts.update_draft(**common, choices={f"{uid}:shares": "theirs"})
    assert (draft.base_number, [each["shares"] for each in draft.operations]) == (3, [60.0])


def test_an_empty_draft_is_rebased(draft: ChangeSet, tree: TreeColumns, alice: Actor) -> None:
    uid = tree.uuid(tree.index_of_path("/physics") or 0)
    services.change_shares(policy_slug="grid", entry_uid=uid, shares=33, reason="x", at=AT, actor=alice)
    assert drafts.update_draft(id=draft.pk, version=draft.version, at=AT, actor=alice).base_number == 3


def _rebase(draft: ChangeSet, actor: Actor) -> ChangeSet:
    return lifecycle.rebase_change_set(id=draft.pk, version=draft.version, at=AT, actor=actor)


def _update(draft: ChangeSet, actor: Actor) -> ChangeSet:
    return drafts.update_draft(id=draft.pk, version=draft.version, at=AT, actor=actor)


def _edit(edit: ChangeSetEdit, draft: ChangeSet, actor: Actor) -> ChangeSet:
    return services.update_change_set(id=draft.pk, version=draft.version, edit=edit, at=AT, actor=actor)


@pytest.mark.parametrize(
    ("n_undone", "move"),
    [
        pytest.param(2, _update, id="empty-updated"),
        pytest.param(1, _update, id="updated"),
        pytest.param(1, _rebase, id="rebased"),
        pytest.param(1, partial(_edit, ChangeSetEdit(base_revision=3)), id="new-base"),
        pytest.param(1, partial(_edit, ChangeSetEdit(operations=[shares("/biology", 61)])), id="replaced"),
    ],
)
def test_an_edit_undone_on_another_base_or_other_edits_is_not_redone(
    draft: ChangeSet, alice: Actor, n_undone: int, move: Callable[[ChangeSet, Actor], ChangeSet]
) -> None:
    """Redone it would overwrite the 33 shares that another editor published meanwhile, without a conflict."""
    draft = add(draft, alice, shares("/biology", 60), shares("/physics", 40))
    uid = UUID(draft.operations[1]["entry"])
    draft = drafts.undo(id=draft.pk, version=draft.version, n=n_undone, at=AT, actor=alice)
    services.change_shares(policy_slug="grid", entry_uid=uid, shares=33, reason="Meanwhile.", at=AT, actor=alice)
    draft = move(draft, alice)
    with pytest.raises(Invalid, match="nothing to redo"):
        drafts.redo(id=draft.pk, version=draft.version, at=AT, actor=alice)


def test_concurrent_editors_of_the_same_entries_are_listed(
    policy: Policy, draft: ChangeSet, alice: Actor, bob: Actor
) -> None:
    draft = add(draft, alice, shares("/physics/bob", 4))
    other = drafts.open_draft(policy_slug="grid", reason="Mine", at=AT, actor=bob)
    assert drafts.list_neighbours(draft, since=AT) == []
    add(other, bob, shares("/physics/bob", 8))
    assert drafts.list_neighbours(draft, since=AT) == [other]


PASTED = "path\tshares\tkind\n/physics/alice\t2,5\tuser\n/physics/dora\t3\tuser\n/biology\tinherit\tvo\n"


def test_a_pasted_table_becomes_edits_of_its_entries_only(draft: ChangeSet, alice: Actor) -> None:
    plan = plan_paste(draft, PASTED, at=AT, actor=alice)
    assert sorted(each["op"] for each in plan.operations) == ["add", "set_shares", "set_shares"]
    draft = add(draft, alice, *plan.operations)
    assert plan_paste(draft, PASTED, at=AT, actor=alice).operations == [], "the second time there is nothing left to do"
    outcome = drafts.check(draft, draft.operations, alice, AT)
    assert outcome.tree.index_of_path("/reserve") is not None


def test_a_table_without_a_header_is_read_by_its_paths(draft: ChangeSet, alice: Actor) -> None:
    plan = plan_paste(draft, "/physics;31\n/biology;49,5\n", at=AT, actor=alice)
    assert [each["shares"] for each in plan.operations] == [49.5, 31.0]


def test_all_invalid_lines_of_a_table_are_reported_together(draft: ChangeSet, alice: Actor) -> None:
    with pytest.raises(Invalid) as refused:
        plan_paste(draft, "/physics\t-3\n/biology\t1\n/physics/bob\t=1+1\n", at=AT, actor=alice)
    lines = [each.where for each in refused.value.fields]
    assert len(lines) == 2
    assert "line 1" in lines[0]
    assert "line 3" in lines[1]


@examples(60, suppress=HealthCheck)
@given(tree=trees(), changes=edits)
def test_the_tree_of_a_draft_is_the_tree_that_would_be_published(tree: TreeColumns, changes: Any) -> None:
    """Targets, children and paths worked out group by group, beside those of the whole tree."""
    try:
        outcome = apply_operations(tree, [operation(tree, *edit) for edit in changes])
    except (Invalid, NotFound, Conflict):
        return
    after, seen = outcome.tree, DraftTree(tree, outcome.changes)
    prepared = prepare(after.engine_tree())
    target = prepared.spread(prepared.target)
    for i in range(len(after)):
        node = seen.get(after.uuid(i))
        assert node == after.node(i)
        assert node is not None
        assert seen.path(node) == after.path(i)
        assert [seen.node_at(place).uid for place in seen.places(node.uid)] == [
            after.uuid(j) for j in after.children(i)
        ]
        assert seen.n_children(node.uid) == len(after.children(i))
        shown = seen.target(node)
        if i == 0 or after.inherit[i]:
            assert shown is None
        else:
            assert shown is not None
            assert np.isclose(shown, target[i], rtol=1e-9, atol=1e-12)
            assert node.parent_uid is not None
            assert np.isclose(seen.pool_of(node.parent_uid) * shown, node.shares or 0.0, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("number", ["²", "", "x", "9" * 30])
def test_a_name_that_looks_like_an_operation_stays_as_it_is_in_an_error(number: str) -> None:
    error = Invalid(f"operations[{number}] is the name of another entry.")
    drafts._number_as_asked(error, 2)
    assert str(error) == f"operations[{number}] is the name of another entry."
