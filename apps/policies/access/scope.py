"""Who sees and who divides what: the one place that decides it, for pages, API, exports and work alike.

What operations may do is asked of the same grants, one by one, in `authority`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection
from django.db.models import Q, QuerySet

from apps.accounts.actor import Actor
from apps.accounts.models import Token, User
from apps.accounts.request_cache import once_per_request
from apps.accounts.selectors import groups_of
from apps.core.errors import Archived, NotAllowed, NotFound
from apps.policies.models import Grant, Policy
from apps.policies.tree.columns import Mask, TreeColumns

_READS_TREES = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.POLICIES_WRITE)
WRITE = Token.Scope.POLICIES_WRITE
EVERYBODY = "*"  # stands in for a sign-in group: every signed-in person
Verb = Grant.Verb


def require_scope(actor: Actor, scope: str) -> None:
    """A token does at most what it was made for."""
    if not actor.has_scope(scope):
        raise NotAllowed(f"This token lacks the scope {scope}: make one that has it.", code="scope_missing")


def require_policy(actor: Actor, slug: str) -> None:
    """A token bound to one policy sees no other; anonymous visitors see none."""
    bound = actor.token is not None and actor.token.policy_slug not in ("", slug)
    if bound or (actor.user is not None and not actor.user.is_active):
        raise no_policy(slug)


def no_policy(slug: str) -> NotFound:
    return NotFound(f"There is no policy {slug[:80]!r}.", code="not_found")


def refuse_archived(policy: Policy) -> None:
    """
    Raises:
        Archived: it says since when, and where its history is.
    """
    if policy.archived_at is not None:
        raise archived_policy(policy.slug, policy.archived_at)


def archived_policy(slug: str, at: datetime) -> Archived:
    return Archived(
        f"The policy {slug} was archived on {at:%Y-%m-%d}. Its history can still be read; administrators restore it."
    )


def rules_all(actor: Actor, scope: str = WRITE) -> bool:
    """The system, or an administrator (through a token: within its scopes; bounds are checked apart)."""
    if actor.user is None:
        return True
    return bool(actor.user.is_active and actor.user.is_superuser and actor.has_scope(scope))


class Rights:
    """Where one actor, or a group of people the actor belongs to, may do what in one policy, at one instant.

    Grants are read when they are asked for first: administrators hold none.
    """

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self._of = (policy, actor, at)

    @cached_property
    def _at(self) -> dict[str, set[UUID]]:
        found: dict[str, set[UUID]] = {}
        for uid, verbs in _grants_of(*self._of):
            for verb in verbs:
                found.setdefault(verb, set()).add(uid)
        return found

    def at(self, *verbs: str) -> set[UUID]:
        """Entries at which one of these verbs is granted."""
        return set().union(*(self._at.get(verb, set()) for verb in verbs))

    @property
    def anywhere(self) -> set[UUID]:
        return self.at(*self._at)


def _grants_of(policy: Policy, actor: Actor, at: datetime) -> Iterable[tuple[UUID, list[str]]]:
    if actor.user is None:
        return []
    return [(held.entry_uid, held.verbs) for held in held_by(actor.user, at) if held.policy_id == policy.pk]


class Held(NamedTuple):
    """What one grant gives."""

    policy_id: int
    entry_uid: UUID
    verbs: list[str]
    people: str  # the group of sign-in it is for
    expires_at: datetime | None


def held_by(user: User, at: datetime) -> list[Held]:
    """What a person holds at an instant in all policies: one query, since a page needs most of them."""
    rows = once_per_request(("grants", user.pk), lambda: _read_held(user))
    return [held for held in rows if held.expires_at is None or held.expires_at > at]


def holds_a_role(*, at: datetime, actor: Actor) -> bool:
    """Whether this person administers, or a role was granted to them or a group of theirs: asked for on every page."""
    if rules_all(actor):
        return True
    return actor.user is not None and any(held.people != EVERYBODY for held in held_by(actor.user, at))


def _read_held(user: User) -> list[Held]:
    """Raw SQL: every request runs it, and Django takes longer to write the query than PostgreSQL to answer it."""
    with connection.cursor() as cursor:
        cursor.execute(_HELD, {"user": user.pk, "everybody": EVERYBODY})
        return [Held(*row) for row in cursor.fetchall()]


_HELD = """
SELECT policy_id, entry_uid, verbs, people, expires_at FROM policies_grant
WHERE user_id = %(user)s OR user_id IS NULL AND (people = %(everybody)s OR people IN (
    SELECT team.name FROM accounts_user_groups belongs JOIN auth_group team ON team.id = belongs.group_id
    WHERE belongs.user_id = %(user)s))
"""


def grants_of(policy: Policy, user: User, at: datetime) -> QuerySet[Grant]:
    """What a person holds at an instant: in person, through a sign-in group, or as any signed-in person."""
    people = [*groups_of(user), EVERYBODY]
    is_theirs = Q(user=user) | Q(people__in=people, user=None)
    return Grant.objects.filter(is_theirs, Q(expires_at=None) | Q(expires_at__gt=at), policy=policy)


@dataclass(frozen=True, eq=False)
class Visibility:
    """What one actor may see of one tree, and divide."""

    tree: TreeColumns
    mask: Mask
    divided: Mask = field(repr=False)  # entries whose children the actor may divide
    all_visible: bool
    unlocked: Mask = field(repr=False)  # entries that no other person's lock protects
    outright: Mask = field(repr=False)  # entries whose numbers are always shown: the own path, by name
    names_below: Mask = field(repr=False)  # entries below which the actor would see any entry, so also each name

    def may_see(self, i: int) -> bool:
        return bool(self.mask[i])

    def may_divide(self, parent_i: int) -> bool:
        return bool(self.divided[parent_i])

    def may_change(self, i: int) -> bool:
        """Its shares, name and parent: holders of the right at its parent, unless another person locked it."""
        parent = int(self.tree.parent[i])
        return parent >= 0 and self.may_divide(parent) and bool(self.unlocked[i])

    def may_name_below(self, i: int) -> bool:
        """Whether the actor may learn which names children of this entry have, by choosing one."""
        return bool(self.names_below[i])

    def require(self, i: int | None) -> int:
        """The index, or the answer of what doesn't exist."""
        if i is None or not self.may_see(i):
            raise NotFound("There is no such entry in this policy.")
        return i


def visible_entries(
    *,
    policy: Policy,
    tree: TreeColumns,
    actor: Actor,
    at: datetime,
    own_entries: Iterable[int] = (),
    rights: Rights | None = None,
) -> Visibility:
    """The own path always, what grants open, and everything where the policy is open to all who sign in.

    rights: the actor's, if they are known already.
    """
    require_policy(actor, policy.slug)
    none = np.zeros(len(tree), dtype=np.bool_)
    rules = rules_all(actor)
    reads = actor.token is None or any(actor.has_scope(scope) for scope in _READS_TREES)
    open_to = actor.user is None or actor.user.is_superuser or policy.visibility == Policy.Visibility.TREE
    everything = reads and open_to
    mask = np.ones(len(tree), dtype=np.bool_) if everything else none.copy()
    divided = np.ones(len(tree), dtype=np.bool_) if rules else none.copy()
    outright = mask.copy()
    names_below = mask.copy()
    if not everything:
        for own in own_entries:
            mask[[*tree.ancestors(own), own]] = True
            outright[[*tree.ancestors(own), own]] = True
    if not rules:
        rights = rights or Rights(policy, actor, at)
        seen = (mask, names_below) if reads else (none.copy(), none.copy())
        _open_by_grants(tree, rights, *seen, divided, may_write=actor.has_scope(WRITE))
        if reads:
            _reveal_by_grants(tree, rights, outright)
    if actor.token is not None and actor.token.subtree_uid is not None:
        i = tree.index_of_uid(actor.token.subtree_uid)
        below = none if i is None else tree.subtree_mask(i)
        for each in (mask, divided, outright, names_below):
            each &= below
    unlocked = _unlocked(policy, tree, actor, divided, rules=rules)
    return Visibility(tree, mask, divided, bool(mask.all()), unlocked, outright, names_below)


def _open_by_grants(
    tree: TreeColumns, rights: Rights, mask: Mask, names_below: Mask, divided: Mask, *, may_write: bool
) -> None:
    divides = rights.at(Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE)
    by_name = rights.at(*(verb for verb in Verb if verb != Verb.VIEW_AGGREGATE))
    for uid in rights.anywhere:
        i = tree.index_of_uid(uid)
        if i is None:
            continue
        below = tree.subtree_mask(i)
        mask[tree.ancestors(i)] = True
        mask |= below if uid in by_name else below & ~_members(tree)
        if uid in by_name:
            names_below |= below
        if uid in divides and may_write:
            divided |= _divided_from(tree, i, below)


def _reveal_by_grants(tree: TreeColumns, rights: Rights, outright: Mask) -> None:
    """A viewer of names at an entry sees everything there, and the path up to the root that it is measured against."""
    for uid in rights.at(Verb.VIEW_MEMBERS):
        i = tree.index_of_uid(uid)
        if i is not None:
            outright[tree.ancestors(i)] = True
            outright |= tree.subtree_mask(i)


def _members(tree: TreeColumns) -> Mask:
    """Entries that represent a person: they take no children, and are no reserve."""
    members: Mask = ~tree.is_group & ~tree.is_reserve
    return members


def _divided_from(tree: TreeColumns, i: int, below: Mask) -> Mask:
    """Without what inherits its shares at the top: its children compete one level up, which is not theirs to decide."""
    divided, waiting = below.copy(), [i]
    while waiting:
        j = waiting.pop()
        if j > 0 and tree.inherit[j]:
            divided[j] = False
            waiting += tree.children(j)
    return divided


def _unlocked(policy: Policy, tree: TreeColumns, actor: Actor, divided: Mask, *, rules: bool) -> Mask:
    if rules or not divided.any() or not tree.locked.any():
        return np.ones(len(tree), dtype=np.bool_) if rules else ~tree.locked
    unlocked = ~tree.locked
    mine = locked_by(policy, actor)
    for i in np.flatnonzero(tree.locked & divided).tolist():
        unlocked[i] = tree.uuid(i) in mine
    return unlocked


def locked_by(policy: Policy, actor: Actor) -> set[UUID]:
    """Entries that this person locked: the author of the revision with which the present lock began."""
    if actor.user is None:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_LOCKED_BY, {"policy": policy.pk, "user": actor.user.pk})
        return {uid for (uid,) in cursor.fetchall()}


_LOCKED_BY = """
SELECT now.uid FROM policies_entry now
JOIN policies_revision began ON began.policy_id = now.policy_id AND began.author_id = %(user)s
    AND began.number = COALESCE(
        (SELECT max(before.until) FROM policies_entry before
         WHERE before.policy_id = now.policy_id AND before.uid = now.uid AND NOT before.locked),
        (SELECT min(first.since) FROM policies_entry first
         WHERE first.policy_id = now.policy_id AND first.uid = now.uid))
WHERE now.policy_id = %(policy)s AND now.until IS NULL AND now.locked
"""
