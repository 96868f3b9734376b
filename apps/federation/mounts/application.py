"""Apply a mounted document to the current tree, within what its authority owns.

The other authority owns everything below the mount, and nothing else. A document can't claim entries that are, or were,
outside the mount.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import numpy as np

from apps.core.errors import FieldProblem
from apps.core.invisible import shown
from apps.core.signing import BadDocument
from apps.federation.documents.wire import PolicyDocument
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.document_merge import differs, indexes_of, new_name_problems
from apps.policies.tree.names import MAX_DEPTH, MOST_POLICY_ENTRIES
from apps.policies.tree.revision_diff import TargetChanges, compare_targets
from apps.policies.tree.working_tree import breadth_first, without_unused_kinds

Value = TypeVar("Value")
OwnedElsewhere = Callable[[Collection[UUID]], Collection[UUID]]
_MOST_NAMED_FOREIGN = 50
_MOST_SAID = 5  # the number of items in the message itself


@dataclass(frozen=True, eq=False)
class AppliedDocument:
    """The policy after applying a document. n_added, n_gone, n_changed: entries below the mount.

    furthest_points: the largest move of a target, among its siblings or of the whole tree.
    """

    tree: TreeColumns
    n_added: int
    n_gone: int
    n_changed: int
    furthest_points: float

    @property
    def is_empty(self) -> bool:
        return not (self.n_added or self.n_gone or self.n_changed)


def apply_document(
    head: TreeColumns, mount_uid: UUID, document: PolicyDocument, *, owned_elsewhere: OwnedElsewhere
) -> AppliedDocument:
    """Replace everything below the mount by the document's content.

    The mount keeps its name, shares, locks and dates; the scope in which its children are compared is the document's,
    if that states one. owned_elsewhere: returns which of some uids, none of them in the tree, this policy had outside
    the mount.

    Raises:
        BadDocument: an entry of the document is a different one of this policy, or the tree would be too deep or large.
    """
    at = head.index_of_uid(mount_uid)
    if at is None:
        raise BadDocument("The entry that the document is mounted at is no longer in the policy.", code="mount_gone")
    below = head.subtree_mask(at)
    below[at] = False
    _refuse_foreign_uids(head, at, below, document, owned_elsewhere)
    _refuse_size(head, at, below, document)
    _refuse_new_names(head, document.tree)
    tree = _merged_columns(head, at, below, document.tree)
    return _compared(head, tree, at, below)


def _merged_columns(head: TreeColumns, at: int, below: Mask, mounted: TreeColumns) -> TreeColumns:
    """Columns of the merged tree, vectorised. Rows: local ones in their order, then those of the document but its root.

    The document's entries get no fields that a document can't have (see `wire`): locks, dates, members, mounts,
    sources.
    """
    kept, n_new = np.flatnonzero(~below), len(mounted) - 1
    row_of = np.full(len(head) + 1, -1, dtype=np.int64)  # the last element is the root's parent −1
    row_of[kept] = np.arange(len(kept))
    row = int(row_of[at])
    their_parents = np.where(mounted.parent[1:] == 0, row, mounted.parent[1:].astype(np.int64) + len(kept) - 1)
    parent_row = np.concatenate([row_of[head.parent[kept]], their_parents])
    names = [*(head.name[i] for i in kept.tolist()), *mounted.name[1:]]
    rank = np.empty(len(names), dtype=np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    order, parent = breadth_first(parent_row, rank)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))

    def joined(local_column: Any, mounted_column: Any) -> Any:
        return np.concatenate([local_column[kept], mounted_column[1:]])[order]

    def moved(values: Mapping[int, Value]) -> dict[int, Value]:
        return {int(place[row_of[i]]): value for i, value in values.items() if row_of[i] >= 0}

    both = (*head.kind_names, *(kind for kind in mounted.kind_names if kind not in head.kind_names))
    number = np.array([both.index(kind) for kind in mounted.kind_names], dtype=np.uint16)
    kind_names, kind_code = without_unused_kinds(both, joined(head.kind_code, number[mounted.kind_code]))
    is_group, scope_code = joined(head.is_group, mounted.is_group), joined(head.scope_code, mounted.scope_code)
    is_group[place[row]] = True
    if mounted.scope_code[0]:
        scope_code[place[row]] = mounted.scope_code[0]
    return TreeColumns(
        uid=joined(head.uid, mounted.uid),
        parent=parent,
        name=[names[each] for each in order.tolist()],
        kind_names=kind_names,
        kind_code=kind_code,
        shares=joined(head.shares, mounted.shares),
        inherit=joined(head.inherit, mounted.inherit),
        is_group=is_group,
        scope_code=scope_code,
        locked=np.concatenate([head.locked[kept], np.zeros(n_new, np.bool_)])[order],
        scope_sources=moved(head.scope_sources),
        dates=moved(head.dates),
        members=moved(head.members),
        mount=moved(head.mount),
        policy_slug=head.policy_slug,
        number=head.number,
    )


def _refuse_foreign_uids(
    head: TreeColumns, at: int, below: Mask, document: PolicyDocument, owned_elsewhere: OwnedElsewhere
) -> None:
    """Reject uids of entries outside the mount, so that a document can't take over entries that others decide about."""
    tree = document.tree
    here = indexes_of(tree.uid, head)
    here[0] = -1  # the root is represented by the mount
    foreign = np.flatnonzero((here >= 0) & ~below[here])
    problems = []
    for i in foreign[:_MOST_NAMED_FOREIGN].tolist():
        what = "the mount itself" if here[i] == at else head.path(int(here[i]))
        problems.append(FieldProblem(tree.path(i), f"has the uid of {what}, which isn't the mount's to describe"))
    fresh = {tree.uuid(i): i for i in (1 + np.flatnonzero(here[1:] < 0)).tolist()}
    known = set(owned_elsewhere(list(fresh))) if fresh else set()
    message = "has the uid of an entry that this site has or had outside of the mount"
    problems += [FieldProblem(tree.path(i), message) for uid, i in fresh.items() if uid in known]
    if problems:
        first = problems[0]
        raise BadDocument(f"{first.where} {first.message}.", code="foreign_uid", fields=problems[:_MOST_NAMED_FOREIGN])


def _refuse_new_names(head: TreeColumns, tree: TreeColumns) -> None:
    """Apply the rules for names of this site to new entries; existing ones keep their names.

    A single entry can't be left out or renamed: its siblings' targets, or its name in usage feeds, would differ from
    the document's.
    """
    problems = [
        FieldProblem(tree.path(i), f"has a name that {problem}")
        for i, problem in new_name_problems(tree, head).items()
        if i
    ]
    if problems:
        listed = "; ".join(f"{shown(each.where)} {each.message}" for each in problems[:_MOST_SAID])
        more = f"; and {len(problems) - _MOST_SAID:,} more" if len(problems) > _MOST_SAID else ""
        remedy = "Ask the authority to rename and publish again; what is mounted here stays as it is until then."
        raise BadDocument(f"{listed}{more}. {remedy}", code="bad_name", fields=problems[:_MOST_NAMED_FOREIGN])


def _refuse_size(head: TreeColumns, at: int, below: Mask, document: PolicyDocument) -> None:
    n_levels = len(head.ancestors(at)) + len(document.tree.level_starts) - 2
    if n_levels > MAX_DEPTH:
        raise BadDocument(f"At this place the tree would have {n_levels} levels; {MAX_DEPTH} are allowed.")
    n_entries = len(head) - int(below.sum()) + len(document.tree) - 1
    if n_entries > MOST_POLICY_ENTRIES:
        raise BadDocument(f"The policy would have {n_entries:,} entries; {MOST_POLICY_ENTRIES:,} are allowed.")


def _compared(head: TreeColumns, tree: TreeColumns, at: int, below: Mask) -> AppliedDocument:
    moves = compare_targets(head, tree)
    was_theirs = (moves.place >= 0) & below[moves.place]
    says_else = differs(tree, head, moves.place)
    n_kept = int(was_theirs.sum())
    n_changed = int((says_else & (was_theirs | (moves.place == at))).sum())
    n_added = int((moves.place < 0).sum())
    return AppliedDocument(
        tree,
        n_added,
        int(below.sum()) - n_kept,
        n_changed,
        max(moves.furthest, _largest_target_removed(moves, tree, at)),
    )


def _largest_target_removed(moves: TargetChanges, tree: TreeColumns, at: int) -> float:
    """The largest global target, in points, of an entry that is removed; 100 if the mount becomes empty."""
    mount = int(np.flatnonzero(moves.place == at)[0])
    if len(moves.gone) and not tree.n_children[mount]:
        return 100.0
    return 100.0 * float(np.nan_to_num(moves.gone_old_global).max(initial=0.0))
