"""Roles and their verbs, the verbs that a user holds at an entry and until when, and authorisation of operations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core.errors import NotAllowed
from apps.policies.access.scope import (
    WRITE,
    ActiveGrant,
    Rights,
    Verb,
    active_grants_of,
    administers_within_bounds,
    locked_by,
    require_policy,
    require_scope,
    visible_entries,
)
from apps.policies.models import Entry, Grant, Policy
from apps.policies.operations.membership_reach import Author
from apps.policies.operations.tree_edits import AllowEverything
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.terms import WHOLE_POLICY
from apps.policies.tree.working_tree import WorkingTree

_SEES = (Grant.Verb.VIEW_AGGREGATE,)
_LEADS = (*_SEES, Grant.Verb.VIEW_MEMBERS, Grant.Verb.EDIT_SHARES, Grant.Verb.MAP_ACCOUNTS, Grant.Verb.PUBLISH)
_MANAGES = (*_LEADS, Grant.Verb.EDIT_STRUCTURE, Grant.Verb.APPROVE, Grant.Verb.DELEGATE, Grant.Verb.MANAGE_USAGE)

VERBS_OF_ROLE: Mapping[str, tuple[str, ...]] = {
    Grant.Role.VIEWER: _SEES,
    Grant.Role.LEAD: _LEADS,
    Grant.Role.MANAGER: _MANAGES,
    Grant.Role.ADMIN: tuple(Grant.Verb.values),
}


UNSET: Any = object()
_PROPOSE = "Propose the change instead."
# Verbs of operations that change targets; locks apply to them.
_OF_THE_TREE = (Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE)


@dataclass(frozen=True, kw_only=True)
class GrantTerms:
    """A new grant, for a user or for a sign-in group.

    verbs: None for those of the role. expires_at: UNSET for the suggested end, None for no end.
    """

    username: str = ""
    people: str = ""
    role: str
    verbs: Sequence[str] | None = None
    reason: str
    expires_at: datetime | None = UNSET


@dataclass(frozen=True, kw_only=True)
class GrantChange:
    """Fields of a grant to be changed; None, or UNSET of `expires_at`, leaves them."""

    role: str | None = None
    verbs: Sequence[str] | None = None
    reason: str | None = None
    expires_at: datetime | None = UNSET


FOREVER = datetime.max.replace(tzinfo=UTC)
_DEEPEST = 64


def until_of(grant: Grant | ActiveGrant) -> datetime:
    return grant.expires_at or FOREVER


class Lineages:
    """Ancestors of entries, with a cache. For archived entries, by their last parents."""

    def __init__(self, policy: Policy, tree: TreeColumns) -> None:
        self._policy, self.tree = policy, tree
        self._known: dict[UUID, tuple[UUID, ...]] = {}

    def is_archived(self, uid: UUID) -> bool:
        return self.tree.index_of_uid(uid) is None

    def of(self, uid: UUID) -> tuple[UUID, ...]:
        """Return the uids from the root down to the entry itself."""
        if uid not in self._known:
            self._known[uid] = self._walk(uid)
        return self._known[uid]

    def last_name(self, uid: UUID) -> str:
        """Return an archived entry's last name, or "" if it is unknown."""
        last = Entry.objects.filter(policy=self._policy, uid=uid).order_by("-since")
        return last.values_list("name", flat=True).first() or ""

    def _walk(self, uid: UUID) -> tuple[UUID, ...]:
        below: list[UUID] = []
        step: UUID | None = uid
        while step is not None and len(below) <= _DEEPEST:
            i = self.tree.index_of_uid(step)
            if i is not None:
                above = [self.tree.uuid(j) for j in (*self.tree.ancestors(i), i)]
                return (*above, *reversed(below))
            below.append(step)
            last = Entry.objects.filter(policy=self._policy, uid=step).order_by("-since")
            step = last.values_list("parent_uid", flat=True).first()
        return tuple(reversed(below))


class GrantedRights:
    """Verbs that a user holds in one policy at one instant, by entry, with their expiry."""

    def __init__(
        self, grants: Iterable[Grant | ActiveGrant], *, rules: bool = False, bound: UUID | None = None
    ) -> None:
        self._rules, self._bound = rules, bound
        self._until: dict[tuple[str, UUID], datetime] = {}
        for grant in grants:
            for verb in grant.verbs:
                key = (verb, grant.entry_uid)
                self._until[key] = max(self._until.get(key, until_of(grant)), until_of(grant))

    @classmethod
    def of_actor(cls, policy: Policy, actor: Actor, at: datetime) -> GrantedRights:
        """Load the actor's grants; a token restricts them to the subtree that it is bound to."""
        held = () if actor.user is None else active_grants_of(actor.user, at)
        grants = [grant for grant in held if grant.policy_id == policy.pk]
        return cls(grants, rules=administers_within_bounds(actor), bound=actor.top_uid)

    def until(self, verb: str, lineage: Sequence[UUID]) -> datetime | None:
        """Return until when the verb is held at the last entry of the lineage; None if it isn't held."""
        if self._bound is not None and self._bound not in lineage:
            return None
        if self._rules:
            return FOREVER
        ends = [self._until[verb, uid] for uid in lineage if (verb, uid) in self._until]
        return max(ends, default=None)

    def limit(self, verbs: Iterable[str], lineage: Sequence[UUID]) -> tuple[datetime, list[str]]:
        """Return until when all these verbs can be delegated there, and the verbs that can't be, DELEGATE included."""
        ends = {verb: self.until(verb, lineage) for verb in (*verbs, Verb.DELEGATE)}
        missing = sorted(verb for verb, end in ends.items() if end is None)
        return min((end for end in ends.values() if end is not None), default=FOREVER), missing


class GrantDependencies:
    """Dependencies between grants: the giver must hold all verbs of a grant, for at least as long, by other grants."""

    def __init__(self, grants: Collection[Grant], lineages: Lineages) -> None:
        self._all, self._lineages = list(grants), lineages

    def depending_on(self, gone: Grant, replacement: Grant | None = None) -> list[Grant]:
        """Return the grants that would lose their basis if `gone` were removed or replaced by `replacement`."""
        adrift = {grant.pk for grant in self._all if not self._is_held(grant, self._all)}
        rest = [grant for grant in self._all if grant.pk != gone.pk]
        if replacement is not None:
            rest.append(replacement)
        firm = [grant for grant in rest if grant.pk in adrift or self._is_root(grant)]
        waiting = [grant for grant in rest if grant not in firm]
        while held := [grant for grant in waiting if self._is_held(grant, firm)]:
            firm += held
            waiting = [grant for grant in waiting if grant not in held]
        return [grant for grant in waiting if grant.pk != gone.pk]

    def _is_root(self, grant: Grant) -> bool:
        giver = grant.granted_by
        return giver is None or (giver.is_active and giver.is_superuser)

    def _is_held(self, grant: Grant, among: Iterable[Grant]) -> bool:
        """Return whether the giver holds all verbs of the grant by the other given grants, for as long."""
        giver = grant.granted_by
        if giver is None:
            return True
        own = [each for each in among if each.pk != grant.pk and self._is_for(each, giver)]
        end, missing = GrantedRights(own).limit(grant.verbs, self._lineages.of(grant.entry_uid))
        return not missing and end >= until_of(grant)

    def _is_for(self, grant: Grant, person: User) -> bool:
        if grant.user_id is not None:
            return bool(grant.user_id == person.pk)
        return grant.people in self._groups.get(person.pk, frozenset())

    @cached_property
    def _groups(self) -> Mapping[int, frozenset[str]]:
        givers = {grant.granted_by_id for grant in self._all if grant.granted_by_id}
        names_by_person: dict[int, set[str]] = {}
        rows = Group.objects.filter(user__in=givers).values_list("user", "name")
        for person, name in rows:
            names_by_person.setdefault(person, set()).add(name)
        return {person: frozenset(names) for person, names in names_by_person.items()}


class AuthorGuard(AllowEverything):
    """Allows every operation, but limits new membership rules to the reach of their author's rights."""

    def __init__(self, *, policy: Policy, tree: TreeColumns, user: User | None, at: datetime) -> None:
        actor = Actor(user=user, via="worker")
        is_here = user is None or user.is_active
        self._rights = ActorGuard(policy=policy, tree=tree, actor=actor, at=at, only_see=True) if is_here else None

    def author(self, tree: WorkingTree, node: Node) -> Author | None:
        return None if self._rights is None else self._rights.author(tree, node)


class ActorGuard:
    """Checks each operation against the actor's rights when it is applied.

    only_see: check visibility alone, for drafts, which may contain changes that the author may only request.
    extra_verbs: required in addition to the operation's own. override_verb: required in place of the operation's own.
    visibility: what the actor's grants show of the tree.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        tree: TreeColumns,
        actor: Actor,
        at: datetime,
        only_see: bool = False,
        extra_verbs: tuple[str, ...] = (),
        override_verb: str | None = None,
    ) -> None:
        self._policy, self._actor, self._only_see = policy, actor, only_see
        self._extra_verbs, self._override_verb, self._at = extra_verbs, override_verb, at
        require_policy(actor, policy.slug)
        require_scope(actor, WRITE)
        self._rules = administers_within_bounds(actor)
        self._rights = Rights(policy, actor, at)
        self.visibility = visible_entries(policy=policy, tree=tree, actor=actor, at=at, rights=self._rights)
        self._root = tree.uuid(0)
        self._own_locks: set[UUID] | None = None

    def may_see(self, tree: WorkingTree, node: Node, index: int) -> None:
        """Refuse entries that the actor can't see; an entry added by this change set is as visible as its nearest old
        ancestor."""
        step: Node | None = node
        while step is not None:
            i = tree.base.index_of_uid(step.uid)
            if i is not None:
                self.visibility.require(i)
                return
            step = tree.get(step.parent_uid) if step.parent_uid else None

    def may_divide(self, tree: WorkingTree, parent: Node, index: int, verb: str) -> None:
        """Require the verb at the entry or above it, to change its children."""
        place = _competing_at(tree, parent) if verb in _OF_THE_TREE else parent
        self._demand(verb, [step.uid for step in tree.lineage(place)], tree, parent, index)

    def may_name_below(self, tree: WorkingTree, parent: Node) -> bool:
        """Return whether the actor may learn the names of all children, by rights; new entries follow their old
        ancestor."""
        nearest = (tree.base.index_of_uid(step.uid) for step in reversed(tree.lineage(parent)))
        return self.visibility.may_name_below(next(i for i in nearest if i is not None))

    def may_change(self, tree: WorkingTree, node: Node, index: int, verb: str) -> None:
        """Require the verb above the entry, to change its own shares, name or parent; a grant at the entry isn't
        enough."""
        above = tree.lineage(node)[:-1]
        if above and verb in _OF_THE_TREE:
            above = tree.lineage(_competing_at(tree, above[-1]))
        self._demand(verb, [step.uid for step in above], tree, node, index)
        if node.locked and verb in _OF_THE_TREE and not self._rules and not self._only_see:
            if self._own_locks is None:
                self._own_locks = locked_by(self._policy, self._actor)
            if node.uid not in self._own_locks:
                locked = f"operations[{index}]: {tree.path(node)} is locked"
                raise NotAllowed(f"{locked}; ask the person who locked it, or an administrator.", code="locked")

    def may_set_policy(self, index: int) -> None:
        """Require rights at the root, because settings affect every entry."""
        missing = [] if self._only_see else self._missing(Verb.EDIT_STRUCTURE, [self._root])
        if missing and Verb.EDIT_STRUCTURE not in missing:
            raise NotAllowed(f"operations[{index}]: {_missing_rights(missing)} for the policy's settings. {_PROPOSE}")
        if missing:
            raise NotAllowed(f"operations[{index}]: only an administrator changes a policy's settings.")

    def author(self, tree: WorkingTree, node: Node) -> Author:
        """Return the author with the highest entry of the lineage where they may map accounts, or else the entry
        itself."""
        lineage, at = [step.uid for step in tree.lineage(node)], self._at.astimezone(UTC).isoformat()
        for depth, uid in enumerate(lineage):
            if self._reaches(Verb.MAP_ACCOUNTS, lineage[: depth + 1]):
                return Author(str(uid) if depth else WHOLE_POLICY, at)
        return Author(str(node.uid), at)

    def _verbs(self, verb: str) -> tuple[str, ...]:
        return (self._override_verb,) if self._override_verb else (verb, *self._extra_verbs)

    def _reaches(self, verb: str, lineage: list[UUID]) -> bool:
        """Return whether the verb is granted at one of these entries."""
        if not self._actor.reaches_entry(lineage):
            return False
        return self._rules or not self._rights.at(verb).isdisjoint(lineage)

    def _demand(self, verb: str, lineage: list[UUID], tree: WorkingTree, node: Node, index: int) -> None:
        missing = [] if self._only_see else self._missing(verb, lineage)
        if missing and verb not in missing:
            raise NotAllowed(f"operations[{index}]: {_missing_rights(missing)} for {tree.path(node)}. {_PROPOSE}")
        if missing:
            raise NotAllowed(
                f"operations[{index}]: you may not change {tree.path(node)}; only users with rights above it "
                f"can. {_PROPOSE}"
            )

    def _missing(self, verb: str, lineage: list[UUID]) -> list[str]:
        return [each for each in self._verbs(verb) if not self._reaches(each, lineage)]


def _missing_rights(verbs: list[str]) -> str:
    """Name the missing rights, for users who may change an entry but may not publish."""
    return f"you lack the right {' and '.join(verbs)}"


def _competing_at(tree: WorkingTree, parent: Node) -> Node:
    """Return the entry whose children compete with the children of `parent`: the next ancestor that doesn't inherit."""
    while parent.shares is None and parent.parent_uid is not None:
        above = tree.get(parent.parent_uid)
        assert above is not None, "every entry but the root has a parent"  # noqa: S101 - an invariant, not input
        parent = above
    return parent
