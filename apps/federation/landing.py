"""A mounted document laid over the tree in force: all below the mount is the other authority's, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np

from apps.errors import FieldProblem
from apps.federation.wire import PolicyDocument
from apps.policies.columns import Node, TreeColumns
from apps.policies.names import MAX_DEPTH, MOST_ENTRIES
from apps.policies.reshape import columns_of
from apps.policies.target_moves import target_moves
from apps.signing import BadDocument

LivedElsewhere = Callable[[Collection[UUID]], Collection[UUID]]
_MOST_NAMED = 50


@dataclass(frozen=True, eq=False)
class Landing:
    """What the policy would be. n_added, n_gone, n_changed: entries below the mount.

    furthest_points: by how much a target moves most, among its siblings or of the whole.
    """

    tree: TreeColumns
    n_added: int
    n_gone: int
    n_changed: int
    furthest_points: float

    @property
    def is_empty(self) -> bool:
        return not (self.n_added or self.n_gone or self.n_changed)


def lay_over(
    head: TreeColumns, mount_uid: UUID, document: PolicyDocument, *, lived_elsewhere: LivedElsewhere
) -> Landing:
    """Everything below the mount becomes what the document says. The mount keeps its name, shares, locks and dates;
    the scope that its children are compared by is the document's, where that states one.

    lived_elsewhere: which of some uids, none of which is in the tree, this policy had outside of the mount.

    Raises:
        BadDocument: an entry of the document is another one of this policy, or the tree would be too deep or large.
    """
    at = head.index_of_uid(mount_uid)
    if at is None:
        raise BadDocument("The entry that the document is mounted at is no longer in the policy.", code="mount_gone")
    below = head.subtree_mask(at)
    below[at] = False
    _refuse_strangers(head, at, below, document, lived_elsewhere)
    _refuse_size(head, at, below, document)
    mount, root = head.node(at), document.tree.node(0)
    nodes = [node for node, is_theirs in zip(head.nodes(), below.tolist(), strict=True) if not is_theirs]
    there = next(place for place, node in enumerate(nodes) if node.uid == mount_uid)
    nodes[there] = replace(mount, is_group=True, scope=root.scope or mount.scope)
    theirs = [_moved(node, document.tree.uuid(0), mount_uid) for node in document.tree.nodes()][1:]
    tree = columns_of([*nodes, *theirs], policy_slug=head.policy_slug, number=head.number)
    return _compared(head, tree, below, nodes[there] != mount)


def _moved(node: Node, root_uid: UUID, mount_uid: UUID) -> Node:
    return replace(node, parent_uid=mount_uid) if node.parent_uid == root_uid else node


def _refuse_strangers(
    head: TreeColumns, at: int, below: np.ndarray, document: PolicyDocument, lived_elsewhere: LivedElsewhere
) -> None:  # fmt: skip
    """Uids of entries that aren't the mount's: a document can't take over what others decide."""
    theirs, fresh, problems = document.tree, [], []
    for i in range(1, len(theirs)):
        uid = theirs.uuid(i)
        here = head.index_of_uid(uid)
        if here is None:
            fresh.append((i, uid))
        elif not below[here]:
            what = "the mount itself" if here == at else head.path(here)
            problems.append(FieldProblem(theirs.path(i), f"has the uid of {what}, which isn't the mount's to describe"))
    known = set(lived_elsewhere([uid for _, uid in fresh])) if fresh else set()
    message = "has the uid of an entry that this policy had outside of the mount"
    problems += [FieldProblem(theirs.path(i), message) for i, uid in fresh if uid in known]
    if problems:
        first = problems[0]
        raise BadDocument(f"{first.where} {first.message}.", code="foreign_uid", fields=problems[:_MOST_NAMED])


def _refuse_size(head: TreeColumns, at: int, below: np.ndarray, document: PolicyDocument) -> None:
    n_levels = len(head.ancestors(at)) + len(document.tree.level_starts) - 2
    if n_levels > MAX_DEPTH:
        raise BadDocument(f"At this place the tree would have {n_levels} levels; {MAX_DEPTH} are allowed.")
    n_entries = len(head) - int(below.sum()) + len(document.tree) - 1
    if n_entries > MOST_ENTRIES:
        raise BadDocument(f"The policy would have {n_entries:,} entries; {MOST_ENTRIES:,} are allowed.")


def _compared(head: TreeColumns, tree: TreeColumns, below: np.ndarray, mount_changed: bool) -> Landing:
    moves = target_moves(head, tree)
    before = {node.uid: node for node, is_theirs in zip(head.nodes(), below.tolist(), strict=True) if is_theirs}
    after = {node.uid: node for node in tree.nodes()}
    n_kept = sum(uid in after for uid in before)
    n_changed = sum(uid in after and after[uid] != node for uid, node in before.items()) + int(mount_changed)
    n_added = len(tree) - (len(head) - len(before)) - n_kept
    return Landing(tree, n_added, len(before) - n_kept, n_changed, moves.furthest)
