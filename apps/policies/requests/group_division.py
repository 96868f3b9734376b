"""Divide a group by its lead: shares of several members, boosts, joins and leaves, in one change set.

All operations concern children of the group, so that nothing outside it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, problem_sentence
from apps.policies.access.scope import EVERYBODY, WRITE, Rights, Verb, active_grants_of, require_scope, visible_entries
from apps.policies.changesets.change_sets import require_reason_to_publish
from apps.policies.models import ChangeSet, Entry, Policy, Revision
from apps.policies.operations.apply import Operation
from apps.policies.operations.dated_shares import former_shares, is_boost, shares_operations
from apps.policies.publishing.revert import revert_revision
from apps.policies.publishing.revisions import lock_policy
from apps.policies.records import NewChangeSet
from apps.policies.selectors import get_policy, list_policies
from apps.policies.services import make_change_set, merge_and_publish, propose_change_set, publish_change_set
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import MOST_ENTRY_SHARES, RESERVE
from apps.policies.tree.stored import load_tree

_DIVIDES = ("set_shares", "set_dates", "archive", "add")
_MOST_LATEST = 3


@dataclass(frozen=True, slots=True)
class MemberTerms:
    """New shares of one member. shares: None is *inherit*. until: their last day; None for no end."""

    shares: float | None
    until: date | None = None


@dataclass(frozen=True, slots=True)
class NewMember:
    name: str
    shares: float = 1.0
    kind: str = "user"


@dataclass(frozen=True, slots=True)
class Division:
    """All changes of one group."""

    terms: Mapping[UUID, MemberTerms]
    joins: Sequence[NewMember] = ()
    leaves: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True)
class Divided:
    """Result of a division. revision None: it was proposed instead of published, for the reason in `why`."""

    change_set: ChangeSet
    revision: Revision | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class ManagedGroup:
    """An entry that a user leads by a grant."""

    policy_slug: str
    policy_name: str
    uid: UUID
    name: str
    path: str


def list_managed_groups(*, at: datetime, actor: Actor) -> list[ManagedGroup]:
    """List entries where the actor has a grant to change shares, by policy and path; administrators' rights don't
    count."""
    groups = []
    for policy in list_policies(actor=actor):
        led = Rights(policy, actor, at).at(Verb.EDIT_SHARES)
        tree = load_tree(policy) if led else None
        for uid in led:
            i = tree.index_of_uid(uid) if tree is not None else None
            if tree is None or i is None:
                continue  # archived
            if actor.reaches_entry({tree.uuid(j) for j in (*tree.ancestors(i), i)}):
                groups.append(ManagedGroup(policy.slug, policy.name, uid, tree.name[i], tree.path(i)))
    return sorted(groups, key=lambda group: (group.policy_name, group.path))


def manages_any_group(*, at: datetime, actor: Actor) -> bool:
    """Return whether the user, or a group of theirs, has a grant to change shares; needed on every page."""
    if actor.user is None or not actor.user.is_active:
        return False
    return any(Verb.EDIT_SHARES in held.verbs and held.people != EVERYBODY for held in active_grants_of(actor.user, at))


def equal_terms(members: Sequence[Node]) -> dict[UUID, MemberTerms]:
    """Return equal shares for all members, without boosts: the value that most of them have.

    Reserves, members that inherit, and members with other dates don't change.
    """
    equal = [node for node in members if node.kind != RESERVE and node.shares is not None]
    equal = [node for node in equal if node.dates is None or is_boost(node.dates)]
    counts = Counter(former_shares(node) for node in equal)
    common = max(counts, key=lambda each: (counts[each], each or 0.0), default=None) or 1.0
    return {node.uid: MemberTerms(common) for node in equal}


class Members(Mapping[UUID, Node]):
    """Children of one entry by uid, read from the columns on demand. indexes: the visible ones; None for all."""

    def __init__(self, tree: TreeColumns, i: int, indexes: Sequence[int] | None = None) -> None:
        self._tree, self._indexes = tree, tree.children(i) if indexes is None else indexes
        self._known = frozenset(self._indexes) if isinstance(self._indexes, list) else self._indexes

    def __getitem__(self, uid: UUID) -> Node:
        j = self._tree.index_of_uid(uid)
        if j is None or j not in self._known:
            raise KeyError(uid)
        return self._tree.node(j)

    def __iter__(self) -> Iterator[UUID]:
        return map(self._tree.uuid, self._indexes)

    def __len__(self) -> int:
        return len(self._indexes)


def operations_of(group: TreeColumns, i: int, division: Division, today: date) -> list[Operation]:
    """Return the operations of a division, after checking that all concern children of the entry."""
    members = Members(group, i)
    operations: list[Operation] = []
    for uid, terms in division.terms.items():
        node = _member(members, uid)
        if uid in division.leaves:
            continue
        _check(node, terms, today)
        operations += shares_operations(node, terms.shares, terms.until, where=f"until-{uid}")
    operations += ({"op": "archive", "entry": str(_member(members, uid).uid)} for uid in division.leaves)
    operations += _joins(group.uuid(i), division.joins)
    return operations


def plan_division(
    *, policy_slug: str, entry_uid: UUID, division: Division, at: datetime, actor: Actor
) -> list[Operation]:
    """Return a division's operations on the head without saving; raises the same errors as dividing."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    i = visible_entries(policy=policy, tree=tree, actor=actor, at=at).require(tree.index_of_uid(entry_uid))
    return operations_of(tree, i, division, timezone.localdate(at))


def divide_group(
    *,
    policy_slug: str,
    entry_uid: UUID,
    division: Division,
    reason: str,
    base_revision: int | None = None,
    at: datetime,
    actor: Actor,
) -> Divided:
    """Publish a division as one change set, or propose it if the actor may not publish all of it."""
    reason = require_reason_to_publish(reason)
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    with transaction.atomic():
        policy = lock_policy(policy.pk)
        tree = load_tree(policy, _base(policy, base_revision))
        i = visible_entries(policy=policy, tree=tree, actor=actor, at=at).require(tree.index_of_uid(entry_uid))
        operations = operations_of(tree, i, division, timezone.localdate(at))
        if not operations:
            raise Invalid("Nothing would change: these are the current shares.", code="nothing_to_change")
        change_set = make_change_set(
            policy_slug=policy_slug,
            new=NewChangeSet(base_revision=base_revision, operations=operations, reason=reason),
            at=at,
            actor=actor,
        )
        try:
            with transaction.atomic():
                return Divided(change_set, merge_and_publish(change_set, actor, at))
        except NotAllowed as error:
            why = error.message
        except Conflict as error:
            if error.code != "needs_approval":
                raise
            why = error.message
        sent = propose_change_set(id=change_set.pk, version=change_set.version, at=at, actor=actor)
        return Divided(sent, None, why)


def undo_division(*, policy_slug: str, entry_uid: UUID, number: int, at: datetime, actor: Actor) -> Revision:
    """Undo a revision that changed only members of this group, and publish that."""
    require_scope(actor, WRITE)
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    if not is_division(policy, entry_uid, number):
        raise NotFound("There is no such change of this group.")
    with transaction.atomic():
        lock_policy(policy.pk)
        draft = revert_revision(policy_slug=policy_slug, number=number, at=at, actor=actor)
        return publish_change_set(id=draft.pk, version=draft.version, at=at, actor=actor)


def is_division(policy: Policy, entry_uid: UUID, number: int) -> bool:
    """Return whether a revision changed only members of this group."""
    revision = Revision.objects.filter(policy=policy, number=number).select_related("change_set").defer("tree").first()
    return revision is not None and number > 1 and _is_about(policy, entry_uid, revision.change_set.operations)


def latest_divisions(policy: Policy, entry_uid: UUID, actor: Actor) -> Iterator[Revision]:
    """Yield the newest revisions in which the actor divided this group, without those that were undone."""
    if actor.user is None:
        return
    own = Revision.objects.filter(policy=policy, author=actor.user).select_related("change_set").defer("tree")
    undone = set(
        Revision.objects.filter(policy=policy, change_set__reverts_number__isnull=False).values_list(
            "change_set__reverts_number", flat=True
        )
    )
    left = _MOST_LATEST
    for revision in own.order_by("-number")[:20]:
        undoes = revision.change_set.reverts_number is not None
        if undoes or not left or revision.number < 2 or revision.number in undone:
            continue
        if _is_about(policy, entry_uid, revision.change_set.operations):
            left -= 1
            yield revision


def _is_about(policy: Policy, group: UUID, operations: Sequence[Operation]) -> bool:
    """Return whether all operations concern children of the group, by entry rows, without loading a tree."""
    if any(each["op"] not in _DIVIDES for each in operations):
        return False
    if any(each["op"] == "add" and each["parent"] != str(group) for each in operations):
        return False
    named = {UUID(each["entry"]) for each in operations if each["op"] != "add"}
    members = Entry.objects.filter(policy=policy, uid__in=named, parent_uid=group).values_list("uid", flat=True)
    return named == set(members)


def _member(members: Mapping[UUID, Node], uid: UUID) -> Node:
    node = members.get(uid)
    if node is None:
        raise NotFound("There is no such entry in this group: it may have been removed. Load the page again.")
    return node


def _check(node: Node, terms: MemberTerms, today: date) -> None:
    if terms.shares is not None and not 0 <= terms.shares <= MOST_ENTRY_SHARES:
        raise _invalid(f"shares-{node.uid}", "must be a number from 0 on")
    ends_on = node.dates.ends_on if node.dates is not None else None
    if terms.until is not None and terms.until < today and terms.until != ends_on:
        raise _invalid(f"until-{node.uid}", "is in the past")


def _joins(parent: UUID, joins: Sequence[NewMember]) -> Iterator[Operation]:
    for member in joins:
        yield {"op": "add", "parent": str(parent), "name": member.name, "kind": member.kind, "shares": member.shares}


def _base(policy: Policy, number: int | None) -> int:
    if number is None or not 1 <= number <= policy.head_number:
        return policy.head_number
    return number


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(problem_sentence(message), fields=[FieldProblem(where, message)])
