"""Roles, and what a person holds where, and until when: the basis of giving, changing and explaining rights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from uuid import UUID

from django.contrib.auth.models import Group

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.policies.access.scope import Verb, grants_of, rules_all
from apps.policies.models import Entry, Grant, Policy
from apps.policies.tree.columns import TreeColumns

# --- Roles ------------------------------------------------------------------------------------------------------------
_SEES = (Grant.Verb.VIEW_AGGREGATE,)
_LEADS = (*_SEES, Grant.Verb.VIEW_MEMBERS, Grant.Verb.EDIT_SHARES, Grant.Verb.MAP_ACCOUNTS, Grant.Verb.PUBLISH)
_MANAGES = (*_LEADS, Grant.Verb.EDIT_STRUCTURE, Grant.Verb.APPROVE, Grant.Verb.DELEGATE, Grant.Verb.MANAGE_USAGE)

VERBS_OF_ROLE: Mapping[str, tuple[str, ...]] = {
    Grant.Role.VIEWER: _SEES,
    Grant.Role.LEAD: _LEADS,
    Grant.Role.MANAGER: _MANAGES,
    Grant.Role.ADMIN: tuple(Grant.Verb.values),
}


# --- Rights held ------------------------------------------------------------------------------------------------------
FOREVER = datetime.max.replace(tzinfo=UTC)
_DEEPEST = 64


def until_of(grant: Grant) -> datetime:
    return grant.expires_at or FOREVER


class Lineages:
    """The way from the root down to an entry; of an archived one, as it last was."""

    def __init__(self, policy: Policy, tree: TreeColumns) -> None:
        self._policy, self.tree = policy, tree
        self._known: dict[UUID, tuple[UUID, ...]] = {}

    def is_archived(self, uid: UUID) -> bool:
        return self.tree.index_of_uid(uid) is None

    def of(self, uid: UUID) -> tuple[UUID, ...]:
        """Root first, the entry itself last."""
        if uid not in self._known:
            self._known[uid] = self._walk(uid)
        return self._known[uid]

    def last_name(self, uid: UUID) -> str:
        """What an archived entry was called; "" when nothing is known of it."""
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


class Holding:
    """Verbs that a person holds in one policy at one instant."""

    def __init__(self, grants: Iterable[Grant], *, rules: bool = False, bound: UUID | None = None) -> None:
        self._rules, self._bound = rules, bound
        self._until: dict[tuple[str, UUID], datetime] = {}
        for grant in grants:
            for verb in grant.verbs:
                key = (verb, grant.entry_uid)
                self._until[key] = max(self._until.get(key, until_of(grant)), until_of(grant))

    @classmethod
    def of_actor(cls, policy: Policy, actor: Actor, at: datetime) -> Holding:
        """Of the current actor; a token holds at most what lies below its entry."""
        grants = () if actor.user is None else grants_of(policy, actor.user, at)
        bound = actor.token.subtree_uid if actor.token else None
        return cls(grants, rules=rules_all(actor), bound=bound)

    def until(self, verb: str, lineage: Sequence[UUID]) -> datetime | None:
        """The last instant up to which the verb is held at the end of this lineage; None: it isn't."""
        if self._bound is not None and self._bound not in lineage:
            return None
        if self._rules:
            return FOREVER
        found = [self._until[verb, uid] for uid in lineage if (verb, uid) in self._until]
        return max(found, default=None)

    def limit(self, verbs: Iterable[str], lineage: Sequence[UUID]) -> tuple[datetime, list[str]]:
        """Up to when all of these verbs may be handed on there, and those that may not at all."""
        ends = {verb: self.until(verb, lineage) for verb in (*verbs, Verb.DELEGATE)}
        missing = sorted(verb for verb, end in ends.items() if end is None)
        return min((end for end in ends.values() if end is not None), default=FOREVER), missing


class GrantDependencies:
    """Which grants depend on which: a giver must hold all of a grant, and for as long, through other grants."""

    def __init__(self, grants: Collection[Grant], lineages: Lineages) -> None:
        self._all, self._lineages = list(grants), lineages

    def resting_on(self, gone: Grant, instead: Grant | None = None) -> list[Grant]:
        """Grants that would rest on nothing any more if this one went, or became what `instead` says."""
        adrift = {grant.pk for grant in self._all if not self._is_held(grant, self._all)}
        rest = [grant for grant in self._all if grant.pk != gone.pk]
        if instead is not None:
            rest.append(instead)
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
        """Whether its giver holds all of it through these, other than by the grant itself."""
        if self._is_root(grant) or grant.granted_by is None:
            return True
        own = [each for each in among if each.pk != grant.pk and self._is_for(each, grant.granted_by)]
        end, missing = Holding(own).limit(grant.verbs, self._lineages.of(grant.entry_uid))
        return not missing and end >= until_of(grant)

    def _is_for(self, grant: Grant, person: User) -> bool:
        if grant.user_id is not None:
            return bool(grant.user_id == person.pk)
        return grant.people in self._groups.get(person.pk, frozenset())

    @cached_property
    def _groups(self) -> Mapping[int, frozenset[str]]:
        givers = {grant.granted_by_id for grant in self._all if grant.granted_by_id}
        found: dict[int, set[str]] = {}
        rows = Group.objects.filter(user__in=givers).values_list("user", "name")
        for person, name in rows:
            found.setdefault(person, set()).add(name)
        return {person: frozenset(names) for person, names in found.items()}
