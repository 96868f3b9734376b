"""Shared parts of the change set services: access, locking, comments, and the merge with the current head.

The mapping room registers a function that reports which accounts a change of the tree moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from apps.accounts.actor import Actor
from apps.accounts.request_cache import store_for_request
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed, NotFound, Stale
from apps.policies.access.authority import ActorGuard, AuthorGuard, Lineages
from apps.policies.access.scope import (
    Rights,
    Verb,
    Visibility,
    administers_policies,
    administers_within_bounds,
    refuse_archived,
    require_policy,
    require_scope,
    visible_entries,
)
from apps.policies.changesets.conflicts import (
    HIDDEN,
    EditConflict,
    FieldConflict,
    conflicts,
    refuse_hidden,
    shown_conflicts,
)
from apps.policies.models import ChangeSet, Policy, Revision
from apps.policies.operations.apply import Outcome, added_uids, apply_operations
from apps.policies.operations.dated_shares import future_trees
from apps.policies.operations.whole_trees import document_outcome, is_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import clean_text
from apps.policies.tree.stored import archived_lookup, load_tree, tree_with_digest
from apps.policies.tree.working_tree import WorkingTree

Operations = Sequence[Mapping[str, Any]]
LONGEST_DECISION_REASON = 4_000
_DECIDE = (Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE, Verb.APPROVE)


class AccountMoves(NamedTuple):
    """Effects of a change on accounts. refusal: why this actor may not publish it, "" if they may.

    is_limited: new membership rules don't take accounts from entries outside their authors' rights. n_stay: number of
    matching accounts that stay at those entries; None if the rule of five hides it.
    """

    n: int = 0
    refusal: str = ""
    is_limited: bool = False
    n_stay: int | None = 0


MovesOf = Callable[[Policy, TreeColumns, TreeColumns, Actor, datetime], AccountMoves]
_known: list[MovesOf] = []
# Fields that decide to which entry accounts are mapped.
_PLACES = ("parent_uid", "name", "kind", "members")


def register_account_moves(moves: MovesOf) -> None:
    """Register the function of the room above, which knows accounts; replaces an earlier one."""
    _known[:] = [moves]


def account_moves(outcome: Outcome, *, policy: Policy, actor: Actor, at: datetime) -> AccountMoves:
    """Return the effects of a change now, with the refusal of a later step if only its dates cause one."""
    effects = AccountMoves()
    for moves in _known:
        for after in [outcome.tree, *future_trees(outcome.tree, outcome.changes)]:
            if after is not outcome.tree or any(_places(*each) for each in outcome.changes.values()):
                planned = moves(policy, outcome.base, after, actor, at)
                effects = (
                    planned if after is outcome.tree else effects._replace(refusal=effects.refusal or planned.refusal)
                )
    return effects


def refuse_account_moves(outcome: Outcome, *, policy: Policy, actor: Actor, at: datetime) -> None:
    """Raise NotAllowed (`moves_accounts`) for a change that moves accounts from or to entries outside the actor's
    rights.

    Administrators may move all accounts, unless their token is bound to a subtree.
    """
    if administers_policies(actor):
        return
    refusal = account_moves(outcome, policy=policy, actor=actor, at=at).refusal
    if refusal:
        raise NotAllowed(f"{refusal} Propose the change instead.", code="moves_accounts")


def _places(before: Node | None, after: Node | None) -> bool:
    if before is None or after is None:
        return True
    return any(getattr(before, name) != getattr(after, name) for name in _PLACES)


def anchors(before: Operations, after: Operations) -> dict[int, int | None]:
    """Map each old index to a new one: the same operation, or the first one of the same kind on the same entry."""
    new_by_old: dict[int, int | None] = {}
    taken: set[int] = set()
    for is_same in (_is_equal, _is_about_the_same):
        for old, operation in enumerate(before):
            if new_by_old.get(old) is not None:
                continue
            new = next((i for i, each in enumerate(after) if i not in taken and is_same(operation, each)), None)
            new_by_old[old] = new
            if new is not None:
                taken.add(new)
    return new_by_old


def reanchor(change_set: ChangeSet, after: Operations) -> None:
    """Move comments to the new indexes of their operations; call it before the operations are replaced."""
    if change_set.operations != after:
        move_anchors(change_set, anchors(change_set.operations, after))


def replace_operations(change_set: ChangeSet, operations: list[dict[str, Any]], base_number: int) -> None:
    """Replace the operations and their base. Undone ones are dropped: they fit the operations and base before.

    Redone here they would overwrite what others published since, without a conflict.
    """
    change_set.operations, change_set.base_number, change_set.undone = operations, base_number, []


def move_anchors(change_set: ChangeSet, places: Mapping[int, int | None]) -> None:
    """Move comments to new indexes; comments on removed operations become comments on the change set."""
    for comment in change_set.comments.exclude(operation=None):
        place = places.get(comment.operation) if comment.operation is not None else None
        if place != comment.operation:
            comment.operation = place
            comment.save(update_fields=["operation"])


def _is_equal(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left == right


def _is_about_the_same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left.get("op") == right.get("op") and _subject(left) == _subject(right)


def _subject(operation: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the entry that the operation is about; for an added one, its uid, parent and name."""
    if operation.get("entry"):
        return (operation["entry"],)
    return operation.get("uid"), operation.get("parent"), operation.get("name")


def named_uids(operations: Operations) -> set[UUID] | None:
    """Return the uids of the entries that operations are about, with parents and givers of shares; None if one of them
    is about the whole policy."""
    named: set[UUID] = set()
    for operation in operations:
        keys = ("entry",) if operation.get("op") == "adjust_usage" else ("entry", "parent", "uid")
        uids = [operation.get(key) for key in keys] + _givers(operation)
        if operation.get("op") in ("set_policy", "document") or not any(uids):
            return None
        try:
            named |= {UUID(str(uid)) for uid in uids if uid}
        except ValueError:
            return None
    return named


def _givers(operation: Mapping[str, Any]) -> list[Any]:
    """Return the siblings that gave up shares in an operation."""
    shares = operation.get("shares")
    source = shares.get("from") if isinstance(shares, dict) else None
    return source if isinstance(source, list) else []


class ChangeSetAccess:
    """Which change sets of one policy an actor may see; the tree and grants are loaded once for all of them."""

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self._policy, self._actor, self._at = policy, actor, at

    def is_of(self, change_set: ChangeSet) -> bool:
        """Return whether the actor is its author or an administrator, and all that it names is within the bounds."""
        is_author = self._actor.user is not None and change_set.author_id == self._actor.user.pk
        return (is_author or self._rules) and self._is_within_bounds(change_set)

    def may_see(self, change_set: ChangeSet) -> bool:
        """Return whether the actor may see it: also managers, unless it is a draft, if they see all entries that it
        names."""
        if self.is_of(change_set):
            return True
        return change_set.state != ChangeSet.State.DRAFT and self._has_authority and self._sees_all(change_set)

    @cached_property
    def _rules(self) -> bool:
        return administers_within_bounds(self._actor, "policies:read") or administers_within_bounds(self._actor)

    @cached_property
    def _has_authority(self) -> bool:
        return administers_within_bounds(self._actor) or bool(Rights(self._policy, self._actor, self._at).at(*_DECIDE))

    @cached_property
    def _shapes_all(self) -> bool:
        """Whether the actor may edit or approve at the root, which includes settings."""
        root = load_tree(self._policy).uuid(0)
        if not self._actor.reaches_entry([root]):
            return False
        rights = Rights(self._policy, self._actor, self._at)
        return administers_within_bounds(self._actor) or root in rights.at(Verb.EDIT_STRUCTURE, Verb.APPROVE)

    @cached_property
    def _visible(self) -> Visibility:
        tree = load_tree(self._policy)
        return visible_entries(policy=self._policy, tree=tree, actor=self._actor, at=self._at)

    def _is_within_bounds(self, change_set: ChangeSet) -> bool:
        """Whether the token, if it is bound to a subtree, includes every entry that the change set names."""
        if self._actor.top_uid is None:
            return True
        named = named_uids(change_set.operations)
        if named is None:
            return self._actor.reaches_entry([self._lineages.tree.uuid(0)])
        added = {str(operation["uid"]) for operation in change_set.operations if operation.get("uid")}
        return all(str(uid) in added or self._actor.reaches_entry(self._lineages.of(uid)) for uid in named)

    @cached_property
    def _lineages(self) -> Lineages:
        return Lineages(self._policy, load_tree(self._policy))

    def _sees_all(self, change_set: ChangeSet) -> bool:
        for operation in change_set.operations:
            for key in ("entry", "parent"):
                if key in operation and not self._sees(operation[key]):
                    return False
        if change_set.origin == ChangeSet.Origin.MOUNT and (uid := change_set.operations[0].get("mount")):
            return self._sees(uid)
        about_all = any(operation["op"] in ("set_policy", "document") for operation in change_set.operations)
        return not about_all or self._shapes_all

    def _sees(self, uid: str) -> bool:
        i = self._visible.tree.index_of_uid(UUID(uid))
        return i is not None and self._visible.may_see(i)


def get_change_set_for_write(
    id: int, actor: Actor, at: datetime, *, version: int, to_publish: bool = False
) -> ChangeSet:
    """Lock and return a change set that the actor owns, or with `to_publish` may see; Stale unless `version` is
    current."""
    require_scope(actor, "policies:write")
    change_set = (
        ChangeSet.objects.select_for_update(of=("self",), no_key=True).select_related("policy").filter(pk=id).first()
    )
    if change_set is None:
        raise missing_change_set(id)
    require_visible(change_set, actor, at)
    refuse_archived(change_set.policy)
    if not to_publish and not ChangeSetAccess(change_set.policy, actor, at).is_of(change_set):
        raise NotAllowed(f"Change set {id} belongs to another person: publish it, or create your own.")
    if change_set.state == ChangeSet.State.PUBLISHED:
        number = Revision.objects.filter(change_set=change_set).values_list("number", flat=True).first()
        raise Conflict(f"Change set {id} is published already, as revision {number}.", code="already_published")
    if change_set.state == ChangeSet.State.WITHDRAWN:
        raise Conflict(f"Change set {id} was withdrawn: make another one.", code="withdrawn")
    if change_set.version != version:
        raise Stale(f"Change set {id} is at version {change_set.version}, you saw {version}: load it again.")
    return change_set


def require_visible(change_set: ChangeSet, actor: Actor, at: datetime) -> None:
    """Raise NotFound for a change set that the actor may not see, as if it didn't exist."""
    try:
        require_policy(actor, change_set.policy.slug)
    except NotFound:
        raise missing_change_set(change_set.pk) from None
    if not ChangeSetAccess(change_set.policy, actor, at).may_see(change_set):
        raise missing_change_set(change_set.pk)


def missing_change_set(id: int) -> NotFound:
    return NotFound(f"There is no change set {id}.")


def settings_of(policy: Policy, number: int) -> PolicySettings:
    stored = Revision.objects.filter(policy=policy, number=number).values_list("settings", flat=True).get()
    return PolicySettings.from_stored(stored)


def load_revision(policy: Policy, number: int) -> tuple[TreeColumns, PolicySettings]:
    """Tree and settings of a revision, in one query; raise NotFound if it doesn't exist."""
    rows = Revision.objects.filter(policy=policy, number=number).values_list("tree_digest", "settings")
    row = rows.first()
    if row is None:
        raise NotFound(f"Policy {policy.slug} has no revision {number}.")
    store_for_request(("tree", policy.pk, number), row[0])  # for load_tree
    return tree_with_digest(policy, number, row[0]), PolicySettings.from_stored(row[1])


def require_reason(reason: str, missing: str = "Enter a reason.") -> str:
    """Return a non-empty reason; raise Invalid with the message `missing` otherwise."""
    text = clean_reason(reason)
    if not text:
        problem = FieldProblem("reason", f"must say why, in 1 to {LONGEST_DECISION_REASON} characters")
        raise Invalid(missing, code="reason_missing", fields=[problem])
    return text


def require_reason_to_publish(reason: str) -> str:
    """Return the reason that a publication requires; raise Invalid without one."""
    return require_reason(reason, "Enter a reason to publish.")


def clean_reason(reason: str) -> str:
    """Return a valid reason, which may be empty."""
    try:
        return clean_text(reason, LONGEST_DECISION_REASON).strip()
    except ValueError as error:
        raise Invalid(f"reason {error}.", fields=[FieldProblem("reason", str(error))]) from None


def require_future(effective_at: datetime | None, at: datetime) -> datetime | None:
    """Return effective_at, a future instant or None for an immediate effect; raise Invalid for a past one."""
    if effective_at is not None and effective_at <= at:
        problem = FieldProblem("effective_at", "must be in the future; leave it out for an immediate effect")
        raise Invalid(f"effective_at {problem.message}.", fields=[problem])
    return effective_at


def merged_outcome(change_set: ChangeSet, policy: Policy, actor: Actor, at: datetime) -> Outcome:
    """Merge the change set with the head, checking all rights; raise EditConflict if both changed the same fields."""
    archived = archived_lookup(policy, new_uids=added_uids(change_set.operations))
    head = load_tree(policy)
    guard = ActorGuard(policy=policy, tree=head, actor=actor, at=at, extra_verbs=(Verb.PUBLISH,))
    if is_document(change_set):
        _require_document(guard, change_set, head)
        outcome = document_outcome(change_set, policy, head, policy.head_number)
        refuse_account_moves(outcome, policy=policy, actor=actor, at=at)
        return outcome
    head_settings = settings_of(policy, policy.head_number)

    def work() -> Outcome:
        return apply_operations(head, change_set.operations, settings=head_settings, guard=guard, archived=archived)

    if change_set.base_number != policy.head_number:
        field_conflicts = conflicts_with_head(change_set, policy)
        if field_conflicts:
            base = load_tree(policy, change_set.base_number)
            shown = shown_conflicts(field_conflicts, policy=policy, base=base, head=head, actor=actor, at=at)
            refuse_hidden(shown, work)
            raise EditConflict(shown, base_number=change_set.base_number, head_number=policy.head_number)
    outcome = work()
    refuse_account_moves(outcome, policy=policy, actor=actor, at=at)
    return outcome


def _require_document(guard: ActorGuard, change_set: ChangeSet, head: TreeColumns) -> None:
    """Require rights over the whole tree, or the right to mount if a mounted document proposed the change set."""
    uid = change_set.operations[0].get("mount") if change_set.origin == ChangeSet.Origin.MOUNT else None
    if uid is None:
        guard.may_set_policy(0)
        return
    tree = WorkingTree(head)
    mount = tree.get(UUID(uid))
    if mount is None or mount.mount is None:
        raise Conflict("What is mounted there has been unmounted since.", code="mount_gone")
    guard.may_change(tree, mount, 0, Verb.MOUNT)


def conflicts_with_head(change_set: ChangeSet, policy: Policy) -> list[FieldConflict]:
    """Return fields that both the change set and the head changed since the base, not filtered by rights."""
    uids = frozenset(added_uids(change_set.operations))
    return conflicts(
        load_tree(policy, change_set.base_number),
        load_tree(policy),
        change_set.operations,
        base_settings=settings_of(policy, change_set.base_number),
        head_settings=settings_of(policy, policy.head_number),
        archived=archived_lookup(policy, new_uids=uids),
        archived_at_base=archived_lookup(policy, change_set.base_number, new_uids=uids),
    )


def conflicts_to_show(change_set: ChangeSet, *, actor: Actor, at: datetime) -> list[FieldConflict]:
    """Return the conflicts that prevent publishing an open change set, as far as the actor may read them.

    Conflicts about hidden entries alone are reported as none.
    """
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    is_open = change_set.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    if not is_open or change_set.base_number == policy.head_number or is_document(change_set):
        return []
    try:
        field_conflicts = conflicts_with_head(change_set, policy)
    except DomainError:  # invalid on its own base, which publishing reports
        return []
    if not field_conflicts:
        return []
    base, head = load_tree(policy, change_set.base_number), load_tree(policy)
    shown = shown_conflicts(field_conflicts, policy=policy, base=base, head=head, actor=actor, at=at)
    return [conflict for conflict in shown if conflict is not HIDDEN]


def outcome_on_head(change_set: ChangeSet, policy: Policy) -> Outcome:
    """Compute the outcome on the head; raise Conflict or a subclass if it can't be merged."""
    head = load_tree(policy)
    if is_document(change_set):
        return document_outcome(change_set, policy, head, policy.head_number)
    if change_set.base_number != policy.head_number:
        field_conflicts = conflicts_with_head(change_set, policy)
        if field_conflicts:
            raise EditConflict(field_conflicts, base_number=change_set.base_number, head_number=policy.head_number)
    guard = AuthorGuard(policy=policy, tree=head, user=change_set.author, at=change_set.updated_at)
    return apply_operations(
        head,
        change_set.operations,
        settings=settings_of(policy, policy.head_number),
        guard=guard,
        archived=archived_lookup(policy, new_uids=added_uids(change_set.operations)),
    )
