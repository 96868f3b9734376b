"""Change sets with the single operation `document`, which replaces the whole tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apps.core.errors import Conflict
from apps.policies.models import ChangeSet, Policy, ProposedTree, Revision
from apps.policies.operations.apply import Operation, Outcome
from apps.policies.publishing.revisions import NextRevision
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree
from apps.policies.tree.difference import changed_entries
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import load_tree
from apps.policies.tree.working_tree import Changes

DOCUMENT = "document"


@dataclass(frozen=True)
class WholeOutcome(Outcome):
    """The outcome of a document, whose tree is given instead of computed."""

    whole: TreeColumns | None = field(default=None, repr=False)

    @property
    def tree(self) -> TreeColumns:
        assert self.whole is not None, "made with its tree"  # noqa: S101 - an invariant, not input
        return self.whole


def is_document(change_set: ChangeSet) -> bool:
    return any(operation.get("op") == DOCUMENT for operation in change_set.operations)


def document_operation(following: NextRevision) -> list[Operation]:
    """Return the operation that a change set lists for a tree with too many changes to list."""
    n_closed = len(following.closed)
    return [{"op": DOCUMENT, "n_entries": len(following.tree), "n_opened": following.n_opened, "n_closed": n_closed}]


def store_proposed_tree(change_set: ChangeSet, tree: TreeColumns, settings: PolicySettings) -> None:
    blob, digest = pack_tree(tree)
    ProposedTree.objects.create(change_set=change_set, settings=settings.to_json(), tree=blob, tree_digest=digest)


def delete_proposed_tree(change_set: ChangeSet) -> None:
    """Delete the proposed tree after it was published as the tree of a revision."""
    ProposedTree.objects.filter(change_set=change_set).delete()


def document_outcome(change_set: ChangeSet, policy: Policy, head: TreeColumns, number: int) -> Outcome:
    """Return the outcome; Conflict unless the base is the current revision, because it would undo others' changes."""
    if change_set.state == ChangeSet.State.PUBLISHED:
        return _published(change_set, policy, head)
    proposed = ProposedTree.objects.filter(change_set=change_set).first()
    if proposed is None or change_set.base_number != number:
        raise Conflict(
            f"Change set {change_set.pk} replaces the tree of revision {change_set.base_number}, and "
            f"{policy.slug} is at revision {policy.head_number}: import the file again.",
            code="stale_document",
        )
    tree = unpack_tree(proposed.tree, proposed.tree_digest)
    settings = PolicySettings.from_stored(proposed.settings)
    return WholeOutcome(head, settings, change_set.operations, _changes(head, tree), (), whole=tree)


def _published(change_set: ChangeSet, policy: Policy, base: TreeColumns) -> Outcome:
    revision = Revision.objects.defer("tree").get(change_set=change_set)
    tree, settings = load_tree(policy, revision.number), PolicySettings.from_stored(revision.settings)
    return WholeOutcome(base, settings, change_set.operations, _changes(base, tree), (), whole=tree)


def _changes(before: TreeColumns, after: TreeColumns) -> Changes:
    changed, gone = changed_entries(before, after)
    in_before = indexes_of(after.uid, before)
    changes: dict[Any, Any] = {}
    for i in np.flatnonzero(gone).tolist():
        node = before.node(i)
        changes[node.uid] = (node, None)
    for i in np.flatnonzero(changed).tolist():
        node, j = after.node(i), int(in_before[i])
        changes[node.uid] = (before.node(j) if j >= 0 else None, node)
    return changes
