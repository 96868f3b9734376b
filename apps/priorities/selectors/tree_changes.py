"""The table of priorities, and the entries that changed since a snapshot that a client has."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from apps.core.tables import Column, Row
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import blocks_of_leaves
from apps.priorities.serving.lookup import Readable
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshot_values import Values

PRIORITY_COLUMNS = (
    Column("account"),
    Column("group"),
    Column("namespace"),
    Column("entry"),
    Column("factor", "number"),
    Column("rank", "whole"),
    Column("of", "whole"),
    Column("key"),
    Column("identities"),
)
_NUMBERS = ("usage", "target", "actual", "target_global", "priority", "rank", "factor", "has_demand")
_MASKS = ("has_rank", "has_factor", "competes", "is_ranked")


def priority_rows(snapshot: ServedSnapshot, readable: Readable | None) -> Iterator[Row]:
    """Every leaf as schedulers get it; identities as JSON text."""
    return (row for lines in blocks_of_leaves(snapshot, readable) for row in lines.rows())


def view_at(view: PolicyView, snapshot_id: int) -> PolicyView:
    """The policy in the state of a stored snapshot, as the same reader may see it by current rights.

    Raises:
        NotFound: the snapshot is no longer stored, or belongs to another policy.
    """
    older = store.load_stored(view.policy.slug, snapshot_id)
    return PolicyView(
        policy=view.policy,
        revision=older.revision,
        settings=older.settings,
        tree=older.tree,
        snapshot=older,
        actor=view.actor,
        now=view.now,
        asked=older.as_of,
    )


def changed(
    view: PolicyView, then: PolicyView, top: int, json_of: Callable[[PolicyView, int], Any]
) -> tuple[list[int], list[int]]:
    """Entries from `top` down whose JSON differs, and entries (indices of the older tree) that are gone."""
    before = {then.tree.uuid(int(i)): int(i) for i in np.flatnonzero(_below(then, _same(view, then, top)))}
    candidates = _differing(view, then)
    entries = []
    for i in np.flatnonzero(_below(view, top)):
        j = before.pop(view.tree.uuid(int(i)), None)
        if candidates is not None and j is not None and not candidates[i]:
            continue
        if j is None or json_of(view, int(i)) != json_of(then, j):
            entries.append(int(i))
    return entries, list(before.values())


def tag_of_view(view: PolicyView, *query: object) -> str:
    """Entity tag of a response: of tree, numbers, visibility and query.

    Readers who see different entries get different tags.
    """
    content = hashlib.sha256(view.visibility.mask.tobytes() + view.shows_numbers.tobytes())
    snapshot = (view.snapshot.snapshot_id, view.snapshot.as_of) if view.snapshot else None
    content.update(repr((view.policy.pk, view.revision, snapshot, view.tree.digest, query)).encode())
    return f'"{content.hexdigest()[:32]}"'


def _below(view: PolicyView, top: int | None) -> Mask:
    mask: Mask = view.visibility.mask
    if top is None:
        return np.zeros_like(mask)
    return mask if top == 0 else mask & view.tree.subtree_mask(top)


def _same(view: PolicyView, then: PolicyView, top: int) -> int | None:
    return 0 if top == 0 else then.tree.index_of_uid(view.tree.uuid(top))


def _differing(view: PolicyView, then: PolicyView) -> Mask | None:
    """Mask of entries that may differ, computed fast for an unchanged tree; None if all entries must be compared."""
    if view.snapshot is None or then.snapshot is None or view.tree.digest == "":
        return None
    if not view.tree.digest == then.tree.digest == view.snapshot.tree.digest or view.settings != then.settings:
        return None
    differs: Mask = (view.shows_numbers != then.shows_numbers) | (view.visibility.mask != then.visibility.mask)
    now, before = view.snapshot.values, then.snapshot.values
    for name in (*_NUMBERS, *_MASKS):
        differs |= ~_equal(getattr(now, name), getattr(before, name))
    if now.columns.keys() != before.columns.keys():
        return None
    return differs | _own_columns_differ(now, before) | _parents_of_changed_visibility(view, then)


def _own_columns_differ(now: Values, before: Values) -> Mask:
    differs = np.zeros(len(now.usage), dtype=np.bool_)
    for name, column in now.columns.items():
        old = before.columns[name]
        differs |= ~_equal(column.values, old.values)
        if column.exists is not None and old.exists is not None:
            differs |= column.exists != old.exists
        elif (column.exists is None) != (old.exists is None):
            differs[:] = True
    return differs


def _parents_of_changed_visibility(view: PolicyView, then: PolicyView) -> Mask:
    """Parents of entries whose visibility changed: their number of children changes."""
    parents = np.zeros(len(view.tree), dtype=np.bool_)
    other = np.flatnonzero(view.visibility.mask != then.visibility.mask)
    parents[np.maximum(view.tree.parent[other], 0)] = True
    return parents


def _equal(a: Any, b: Any) -> Mask:
    same: Mask = a == b
    return same | ((a != a) & (b != b)) if a.dtype.kind == "f" else same
