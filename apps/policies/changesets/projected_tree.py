"""What a change set leads to, with its author's reach and no rights asked: to show it, foresee it and count it."""

from __future__ import annotations

from apps.policies.access.authority import AuthorGuard
from apps.policies.changesets.change_sets import conflicts_with_head, settings_of
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.models import ChangeSet, Policy
from apps.policies.operations.apply import Outcome, work_out
from apps.policies.operations.whole_trees import document_outcome, is_document
from apps.policies.tree.stored import load_archived, load_tree


def outcome_on_head(change_set: ChangeSet, policy: Policy) -> Outcome:
    """The result on the current revision; Conflict and its subclasses where it doesn't fit."""
    head = load_tree(policy)
    if is_document(change_set):
        return document_outcome(change_set, policy, head, policy.head_number)
    if change_set.base_number != policy.head_number:
        found = conflicts_with_head(change_set, policy)
        if found:
            raise EditConflict(found, base_number=change_set.base_number, head_number=policy.head_number)
    guard = AuthorGuard(policy=policy, tree=head, user=change_set.author, at=change_set.updated_at)
    return work_out(
        head,
        change_set.operations,
        settings=settings_of(policy, policy.head_number),
        guard=guard,
        archived=lambda uid: load_archived(policy, uid),
    )
