"""What a change set does: its outcome on the head, and the change of each target."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.policies.access.scope import Visibility, visible_entries
from apps.policies.changesets.change_sets import (
    settings_of,
)
from apps.policies.models import ChangeSet
from apps.policies.operations.apply import Outcome, added_uids, apply_operations
from apps.policies.operations.whole_trees import document_outcome, is_document
from apps.policies.tree.columns import FIELDS, TreeColumns
from apps.policies.tree.stored import archived_lookup, load_tree

_MOST_STATED = 200
_SAME = 1e-12


def effect_of(change_set: ChangeSet, *, actor: Actor, at: datetime) -> dict[str, Any]:
    """Return the change set's effect on its base as JSON. Hidden entries are counted, not shown."""
    policy = change_set.policy
    base = load_tree(policy, change_set.base_number)
    outcome = outcome_of(change_set, base)
    sees = visible_entries(policy=policy, tree=base, actor=actor, at=at)
    stated = [_stated(outcome, uid) for uid in outcome.changes if _may_see(sees, outcome, uid)]
    effective = [step for step in _effective(outcome) if _may_see(sees, outcome, UUID(step["entry"]))]
    return {
        "base_revision": change_set.base_number,
        "stated": stated[:_MOST_STATED],
        "n_stated": len(stated),
        "effective": effective[:_MOST_STATED],
        "n_effective": len(effective),
        "n_outside_view": len(outcome.changes) - len(stated),
    }


def outcome_of(change_set: ChangeSet, base: TreeColumns) -> Outcome:
    """Compute the change set's outcome on its base, not filtered by rights."""
    policy = change_set.policy
    if is_document(change_set):
        return document_outcome(change_set, policy, base, change_set.base_number)
    if not change_set.operations:  # a draft without an edit yet
        return Outcome(base, settings_of(policy, change_set.base_number), [], {}, ())
    return apply_operations(
        base,
        change_set.operations,
        settings=settings_of(policy, change_set.base_number),
        archived=archived_lookup(policy, change_set.base_number, new_uids=added_uids(change_set.operations)),
        is_stored=True,
    )


def _may_see(sees: Visibility, outcome: Outcome, uid: UUID) -> bool:
    """Return whether the entry is visible; one that the change set adds is as visible as its parent."""
    i = outcome.base.index_of_uid(uid)
    after = outcome.changes.get(uid, (None, None))[1]
    while i is None and after is not None and after.parent_uid is not None:
        i = outcome.base.index_of_uid(after.parent_uid)
        after = outcome.changes.get(after.parent_uid, (None, None))[1]
    return i is not None and sees.may_see(i)


def _stated(outcome: Outcome, uid: UUID) -> dict[str, Any]:
    before, after = outcome.changes[uid]
    j = outcome.tree.index_of_uid(uid)
    i = outcome.base.index_of_uid(uid)
    path = outcome.tree.path(j) if j is not None else outcome.base.path(i) if i is not None else ""
    change = "added" if before is None else "archived" if after is None else "changed"
    fields = [
        {"field": field, "before": before.field_json(field), "after": after.field_json(field)}
        for field in FIELDS
        if before is not None and after is not None and before.field_json(field) != after.field_json(field)
    ]
    return {"entry": str(uid), "path": path, "change": change, "fields": fields}


def _effective(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Yield changed targets among siblings, for every group that a changed entry was or is in."""
    groups: dict[UUID, None] = {}
    for before, after in outcome.changes.values():
        for node in (before, after):
            if node is not None and node.parent_uid is not None:
                groups[node.parent_uid] = None
    for parent in groups:
        was, is_now = _targets(outcome.base, parent), _targets(outcome.tree, parent)
        for uid in {**was, **is_now}:
            old, new = was.get(uid), is_now.get(uid)
            same = old == new if old is None or new is None else abs(old - new) <= _SAME
            if not same:
                i = outcome.tree.index_of_uid(uid)
                path = outcome.tree.path(i) if i is not None else ""
                yield {"entry": str(uid), "path": path, "target_before": old, "target_after": new}


def _targets(tree: TreeColumns, parent: UUID) -> dict[UUID, float | None]:
    """Return the children's targets; None if a child inherits, because its own children then compete in this group."""
    i = tree.index_of_uid(parent)
    if i is None:
        return {}
    children = tree.children(i)
    here = slice(children.start, children.stop)
    total = float(tree.shares[here].sum())
    if tree.inherit[here].any():
        return {tree.uuid(j): None for j in children}
    return {tree.uuid(j): (float(tree.shares[j]) / total if total else 0.0) for j in children}
