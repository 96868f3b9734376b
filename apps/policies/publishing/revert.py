"""Create change sets that undo one revision, or restore the tree of an earlier one.

History is only ever appended to. Later changes by others become conflicts, as for any change set with an old base.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, Invalid, NotAllowed
from apps.policies.access.scope import visible_entries
from apps.policies.changesets.change_sets import clean_reason, settings_of
from apps.policies.changesets.conflicts import EditConflict, conflicts, shown_conflicts
from apps.policies.models import Adjustment, Allocation, ChangeSet, Policy, Revision
from apps.policies.operations.adjustment_edits import AddedAdjustment, RevokedAdjustment
from apps.policies.operations.allocation_edits import inverse_of
from apps.policies.operations.apply import MOST_APPLIED_OPERATIONS, Operation, apply_operations
from apps.policies.operations.tree_edits import Archived
from apps.policies.publishing.direct import propose_tree
from apps.policies.records import NewChangeSet, NewTree
from apps.policies.selectors import get_policy, get_revision, past_visibility_mask
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, Node, TreeColumns
from apps.policies.tree.difference import changed_entries, operations_between
from apps.policies.tree.stored import load_archived, load_tree

_WRITE = "policies:write"
_UNDO_OFFERED_FOR = timedelta(days=1)


@dataclass(frozen=True)
class _RevisionStep:
    """Operations that lead from the tree and settings of one revision to those of another."""

    policy: Policy
    start: int
    goal: int
    operations: list[Operation]
    tree: TreeColumns
    settings: PolicySettings


def revision_to_undo(policy: Policy, user_id: int | None, *, at: datetime) -> int | None:
    """Number of the current revision if this user published it within a day and it is not the first; else None."""
    head = Revision.objects.filter(policy=policy, number=policy.head_number, author_id=user_id)
    is_recent = user_id is not None and head.filter(number__gt=1, published_at__gt=at - _UNDO_OFFERED_FOR).exists()
    return policy.head_number if is_recent else None


def revert_revision(*, policy_slug: str, number: int, reason: str = "", at: datetime, actor: Actor) -> ChangeSet:
    """Create a draft that undoes one revision's changes of entries, settings and adjustments.

    Its base is that revision, so that fields changed since are conflicts when it is published.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=_WRITE)
    revision = get_revision(policy=policy, at=number)
    if number == 1:
        raise Invalid("Revision 1 is the first revision of the policy and can't be undone.", code="first_revision")
    before, after = load_tree(policy, number - 1), load_tree(policy, number)
    _require_all_visible(policy, before, after, number, actor, at)
    operations = operations_between(after, before, archived=_archived_between(before, after))
    # Add operations that first revoke the revision's adjustments, and last restore those that it revoked.
    made = Adjustment.objects.filter(policy=policy, since=number, until=None).order_by("pk")
    revoked = Adjustment.objects.filter(policy=policy, until=number).order_by("pk")
    first = [_adjusting(RevokedAdjustment(each.uid, each.entry_uid)) for each in made]
    last = [_adjusting(_restored_adjustment(each)) for each in revoked]
    operations = [*first, *operations, *last, *_restored_amounts(revision)]
    way = _with_settings(_RevisionStep(policy, number, number - 1, operations, before, settings_of(policy, number - 1)))
    reason = clean_reason(reason) or f"Reverts revision {number}: {revision.reason}"[:4_000]
    return _draft(way, reason, at, actor, reverts_number=number)


def undo_revisions(*, policy_slug: str, numbers: Sequence[int], at: datetime, actor: Actor) -> list[Revision]:
    """Undo several revisions, the newest first, each by a revision of its own: all of them, or none."""
    undone = []
    with transaction.atomic():
        for number in sorted(set(numbers), reverse=True):
            draft = revert_revision(policy_slug=policy_slug, number=number, at=at, actor=actor)
            undone.append(publish_change_set(id=draft.pk, version=draft.version, at=at, actor=actor))
    return undone


def current_number(change_set: ChangeSet) -> int:
    """Return the revision that a change set was published as; raise Conflict if it wasn't published."""
    number = Revision.objects.filter(change_set=change_set).values_list("number", flat=True).first()
    if number is None:
        raise Conflict(f"Change set {change_set.pk} was never published: withdraw it instead.", code="not_published")
    return number


def restore_revision(
    *, policy_slug: str, number: int, with_settings: bool = True, reason: str = "", at: datetime, actor: Actor
) -> ChangeSet:
    """Create a draft that restores the tree of a revision. Usage adjustments stay as they are."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=_WRITE)
    get_revision(policy=policy, at=number)
    head, goal = load_tree(policy), load_tree(policy, number)
    _require_all_visible(policy, goal, head, number, actor, at)
    settings = settings_of(policy, number if with_settings else policy.head_number)
    operations = operations_between(head, goal, archived=lambda uid: load_archived(policy, uid))
    way = _with_settings(_RevisionStep(policy, policy.head_number, number, operations, goal, settings))
    reason = clean_reason(reason) or f"Back to the tree of revision {number}."
    return _draft(way, reason, at, actor)


def _draft(
    way: _RevisionStep, reason: str, at: datetime, actor: Actor, *, reverts_number: int | None = None
) -> ChangeSet:
    if not way.operations:
        raise Invalid("Nothing would change: the trees and settings are the same.", code="nothing_to_change")
    slug, origin = way.policy.slug, ChangeSet.Origin.REVERT
    with transaction.atomic():
        if len(way.operations) <= MOST_APPLIED_OPERATIONS:
            change_set = make_change_set(
                policy_slug=slug,
                new=NewChangeSet(base_revision=way.start, operations=way.operations, reason=reason, origin=origin),
                at=at,
                actor=actor,
            )
        else:
            tree, settings = _on_head(way, actor, at)
            change_set = propose_tree(
                policy_slug=slug,
                new=NewTree(
                    tree=tree, settings=settings, base_revision=way.policy.head_number, reason=reason, origin=origin
                ),
                at=at,
                actor=actor,
            )
        change_set.reverts_number = reverts_number
        change_set.save(update_fields=["reverts_number"])
    return change_set


def _on_head(way: _RevisionStep, actor: Actor, at: datetime) -> tuple[TreeColumns, PolicySettings]:
    """Return the whole tree and settings on the head, because so many operations can't be resolved field by field."""
    policy = way.policy
    if any(operation["op"] in ("adjust_usage", "allocate") for operation in way.operations):
        raise Invalid(
            "It adjusted usage or allocations and changed more entries than a change set holds: revoke them first.",
            code="too_many_operations",
        )
    if way.start == policy.head_number:
        return way.tree, way.settings

    def archived(uid: UUID) -> Sequence[Node]:
        return load_archived(policy, uid)

    base, head = load_tree(policy, way.start), load_tree(policy)
    head_settings = settings_of(policy, policy.head_number)
    field_conflicts = conflicts(
        base,
        head,
        way.operations,
        base_settings=settings_of(policy, way.start),
        head_settings=head_settings,
        archived=archived,
        archived_at_base=_archived_between(way.tree, base),
        limited=False,
    )
    if field_conflicts:
        shown = shown_conflicts(field_conflicts, policy=policy, base=base, head=head, actor=actor, at=at)
        raise EditConflict(shown, base_number=way.start, head_number=policy.head_number)
    outcome = apply_operations(head, way.operations, settings=head_settings, archived=archived, limited=False)
    return outcome.tree, outcome.settings


def _with_settings(way: _RevisionStep) -> _RevisionStep:
    was, wanted = settings_of(way.policy, way.start).parts(), way.settings.parts()
    parts = {part: value for part, value in wanted.items() if value != was[part]}
    if parts:
        way.operations.append({"op": "set_policy", "settings": parts})
    return way


def _restored_amounts(revision: Revision) -> list[Operation]:
    """What undoes the allocations of a revision, the last first."""
    operations = [each for each in reversed(revision.change_set.operations) if each["op"] == "allocate"]
    withdrawn = [each["allocation"] for each in operations if each["amount"] is None]
    dated = {str(each.uid): each for each in Allocation.objects.filter(policy=revision.policy, uid__in=withdrawn)}
    return [inverse_of(operation, dated.get(operation["allocation"])) for operation in operations]


def _restored_adjustment(adjustment: Adjustment) -> AddedAdjustment:
    return AddedAdjustment(
        uid=UUID(int=0),
        entry_uid=adjustment.entry_uid,
        resource=adjustment.resource,
        amount_s=adjustment.amount_s,
        at=adjustment.at,
        note=adjustment.note,
    )


def _adjusting(each: AddedAdjustment | RevokedAdjustment) -> Operation:
    if isinstance(each, RevokedAdjustment):
        return {"op": "adjust_usage", "entry": str(each.entry_uid), "revokes": str(each.uid)}
    fields = {key: value for key, value in each.to_json().items() if key != "uid"}  # it gets a new uid
    return {"op": "adjust_usage", **fields}


def _archived_between(before: TreeColumns, after: TreeColumns) -> Archived:
    """Return a function that lists entries archived between two trees, each with the descendants archived with it."""
    _, gone = changed_entries(before, after)

    def archived(uid: UUID) -> Sequence[Node]:
        i = before.index_of_uid(uid)
        return [] if i is None or not gone[i] else list(_archived_subtree(before, gone, i))

    return archived


def _archived_subtree(tree: TreeColumns, gone: Mask, i: int) -> Iterator[Node]:
    level = [i]
    while level:
        yield from map(tree.node, level)
        level = [child for above in level for child in tree.children(above) if gone[child]]


def _require_all_visible(
    policy: Policy, before: TreeColumns, after: TreeColumns, number: int, actor: Actor, at: datetime
) -> None:
    """Raise NotAllowed unless the actor sees all differing entries: undoing them would reveal the hidden ones."""
    changed, gone = changed_entries(before, after)
    now = visible_entries(policy=policy, tree=load_tree(policy), actor=actor, at=at)
    for tree, mask in ((after, changed), (before, gone)):
        then = visible_entries(policy=policy, tree=tree, actor=actor, at=at)
        if (mask & ~past_visibility_mask(then, now)).any():
            raise NotAllowed(
                f"Revision {number} differs in entries outside your view; "
                "only a user who sees all of them can restore it.",
                code="partial_view",
            )


def revisions_reverted(policy: Policy, numbers: Sequence[int]) -> dict[int, int]:
    """Return, for these revisions, the number of the later revision that undid each, if any."""
    revisions = Revision.objects.filter(policy=policy, change_set__reverts_number__in=numbers).order_by("number")
    return {
        undone: number for undone, number in revisions.values_list("change_set__reverts_number", "number") if undone
    }
