"""Decide which entries an actor may see and whose children they may change; used by pages, API, exports and jobs.

`authority` checks single operations against the same grants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property, partial
from typing import NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection
from django.db.models import Q, QuerySet

from apps.accounts.actor import Actor
from apps.accounts.models import Token, User
from apps.accounts.request_cache import is_caching, once_per_request, store_for_request
from apps.accounts.selectors import groups_of
from apps.core.errors import Archived, NotAllowed, NotFound
from apps.policies.models import Grant, Policy
from apps.policies.tree.columns import Mask, TreeColumns

_READS_TREES = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.POLICIES_WRITE)
WRITE = Token.Scope.POLICIES_WRITE
# Used in place of a sign-in group: all signed-in users.
EVERYBODY = "*"
Verb = Grant.Verb

_IS_HELD = """
(held.user_id = %(user)s OR held.user_id IS NULL AND (held.people = %(everybody)s OR held.people IN (
    SELECT team.name FROM accounts_user_groups belongs JOIN auth_group team ON team.id = belongs.group_id
    WHERE belongs.user_id = %(user)s)))
"""

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


def require_scope(actor: Actor, scope: str) -> None:
    """Raise NotAllowed if the actor's token lacks the scope."""
    if not actor.has_scope(scope):
        raise NotAllowed(f"This token lacks the scope {scope}: make one that has it.", code="scope_missing")


def require_policy(actor: Actor, slug: str) -> None:
    """Raise NotFound if the policy is outside the bounds of the actor's token, or the actor's account is inactive."""
    if not actor.reaches_policy(slug) or (actor.user is not None and not actor.user.is_active):
        raise policy_not_found(slug)


def policy_not_found(slug: str) -> NotFound:
    return NotFound(f"There is no policy {slug[:80]!r}.", code="not_found")


def refuse_archived(policy: Policy) -> None:
    """Refuse archived policies.

    Raises:
        Archived: with the date of archiving, and a hint that the history stays readable.
    """
    if policy.archived_at is not None:
        raise archived_policy(policy.slug, policy.archived_at)


def archived_policy(slug: str, at: datetime) -> Archived:
    return Archived(
        f"The policy {slug} was archived on {at:%Y-%m-%d}. Its history can still be read; administrators restore it."
    )


def administers_policies(actor: Actor, scope: str = WRITE) -> bool:
    """Return whether the actor is the system or an administrator with the scope, of whole policies: through a token
    only if it isn't bound to a subtree. `require_policy` asks which policy."""
    return actor.top_uid is None and administers_within_bounds(actor, scope)


def administers_within_bounds(actor: Actor, scope: str = WRITE) -> bool:
    """Return whether the actor rules as an administrator what is within the bounds of the token.

    For callers that ask `reaches_entry` for each entry, or mask entries by the subtree.
    """
    return actor.administers and actor.has_scope(scope)


class Rights:
    """Verbs of one actor in one policy at one instant, by entry, from personal and group grants.

    Grants are loaded on first use, because administrators don't need them.
    """

    def __init__(self, policy: Policy, actor: Actor, at: datetime) -> None:
        self._of = (policy, actor, at)

    @cached_property
    def _at(self) -> dict[str, set[UUID]]:
        policy, actor, at = self._of
        uids_by_verb: dict[str, set[UUID]] = {}
        for grant in () if actor.user is None else active_grants_of(actor.user, at):
            if grant.policy_id == policy.pk:
                for verb in grant.verbs:
                    uids_by_verb.setdefault(verb, set()).add(grant.entry_uid)
        return uids_by_verb

    def at(self, *verbs: str) -> set[UUID]:
        """Return the entries at which one of these verbs is granted."""
        uids: set[UUID] = set()
        for verb in verbs:
            uids |= self._at.get(verb, set())
        return uids

    @property
    def anywhere(self) -> set[UUID]:
        return self.at(*self._at)


class ActiveGrant(NamedTuple):
    """One grant of a user."""

    policy_id: int
    entry_uid: UUID
    verbs: list[str]
    # The sign-in group that the grant is for; empty for a personal grant.
    people: str
    expires_at: datetime | None


def active_grants_of(user: User, at: datetime) -> list[ActiveGrant]:
    """Return a user's grants in all policies that are valid at an instant; loaded once per request."""
    rows = once_per_request(("grants", user.pk), partial(_read_active, user))
    return [grant for grant in rows if grant.expires_at is None or grant.expires_at > at]


def holds_a_role(*, at: datetime, actor: Actor) -> bool:
    """Return whether the user is an administrator or has a grant, personal or by group; needed on every page."""
    if administers_policies(actor):
        return True
    return actor.user is not None and any(grant.people != EVERYBODY for grant in active_grants_of(actor.user, at))


def list_own_levels(*, policy: Policy, tree: TreeColumns, actor: Actor, at: datetime) -> list[int]:
    """Return the indices of entries by path: those whose children the actor divides, else those of other roles.

    The top for administrators; empty for users without a role, and without the roles of all signed-in users.
    """
    if administers_within_bounds(actor):
        top = 0 if actor.top_uid is None else tree.index_of_uid(actor.top_uid)
        return [] if top is None else [top]
    if actor.user is None:
        return []
    grants = [
        grant
        for grant in active_grants_of(actor.user, at)
        if grant.policy_id == policy.pk and grant.people != EVERYBODY
    ]
    divided = {grant.entry_uid for grant in grants if Verb.EDIT_SHARES in grant.verbs}
    indices = (tree.index_of_uid(uid) for uid in divided or {grant.entry_uid for grant in grants})
    levels = [
        i for i in indices if i is not None and actor.reaches_entry({tree.uuid(j) for j in (*tree.ancestors(i), i)})
    ]
    return sorted(levels, key=tree.path)


def rights_digest(actor: Actor, at: datetime) -> str:
    """A digest of all grants of the actor, personal and by sign-in group, and of whether they administer the site."""
    grants = [] if actor.user is None else active_grants_of(actor.user, at)
    rows = sorted((grant.policy_id, str(grant.entry_uid), grant.people, sorted(grant.verbs)) for grant in grants)
    return hashlib.sha256(repr((actor.administers, rows)).encode()).hexdigest()[:32]


def load_policies(user: User | None) -> list[Policy]:
    """Load the policies that aren't archived, by name; once per request, with the grants for `active_grants_of`."""
    return once_per_request(("policies",), partial(_read_policies, user))


def _read_policies(user: User | None) -> list[Policy]:
    if user is None or not is_caching():
        return list(Policy.objects.order_by("name", "pk"))
    policies, held = _read_policies_and_grants(user)
    store_for_request(("grants", user.pk), held)
    return policies


def _read_active(user: User) -> list[ActiveGrant]:
    """Load a user's grants, with the policies for `load_policies` where they are kept: every page needs both."""
    if is_caching():
        policies, held = _read_policies_and_grants(user)
        store_for_request(("policies",), policies)
        return held
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_HELD} FROM policies_grant AS held WHERE {_IS_HELD}", _holder(user))  # noqa: S608
        return list(map(ActiveGrant._make, cursor.fetchall()))


def _read_policies_and_grants(user: User) -> tuple[list[Policy], list[ActiveGrant]]:
    """Raw SQL, because every page needs it, and the ORM takes longer than the query."""
    columns, query = _policies_and_grants()
    with connection.cursor() as cursor:
        cursor.execute(query, _holder(user))
        rows = cursor.fetchall()
    n = len(columns)
    policies = {row[0]: Policy.from_db(connection.alias, columns, row[:n]) for row in rows}
    held = [ActiveGrant._make(row[n:]) for row in rows if row[n] is not None]
    return [policy for policy in policies.values() if policy.archived_at is None], held


def _holder(user: User) -> dict[str, int | str]:
    return {"user": user.pk, "everybody": EVERYBODY}


_HELD = ", ".join(f"held.{name}" for name in ActiveGrant._fields)


@cache
def _policies_and_grants() -> tuple[list[str], str]:
    """The columns of a policy, and the query of all policies, each with every grant that the user has in it."""
    columns = [field.column for field in Policy._meta.concrete_fields]
    query = f"""
SELECT {", ".join([f"policy.{column}" for column in columns])}, {_HELD} FROM policies_policy AS policy
LEFT JOIN policies_grant AS held ON held.policy_id = policy.id AND {_IS_HELD}
ORDER BY policy.name, policy.id
"""  # noqa: S608 - constants only
    return columns, query


def grants_of(policy: Policy, user: User, at: datetime) -> QuerySet[Grant]:
    """Query a user's grants that are valid at an instant: personal, by sign-in group, and for all signed-in users."""
    people = [*groups_of(user), EVERYBODY]
    is_theirs = Q(user=user) | Q(people__in=people, user=None)
    return Grant.objects.filter(is_theirs, Q(expires_at=None) | Q(expires_at__gt=at), policy=policy)


@dataclass(frozen=True, eq=False)
class Visibility:
    """What one actor may see and change in one tree, as masks over its entries."""

    tree: TreeColumns
    mask: Mask
    # Entries whose children the actor may change.
    divided: Mask = field(repr=False)
    all_visible: bool
    # Entries that aren't locked by another user.
    unlocked: Mask = field(repr=False)
    # Entries whose numbers are always shown: the actor's own path, and entries seen by name.
    outright: Mask = field(repr=False)
    # Entries below which the actor may see every entry, and therefore each name.
    names_below: Mask = field(repr=False)

    @property
    def shows_all_numbers(self) -> bool:
        """Whether the actor sees the numbers of every entry of the policy."""
        return bool((self.outright | ~self.mask).all()) and self.all_visible

    def may_see(self, i: int) -> bool:
        return bool(self.mask[i])

    def may_divide(self, parent_i: int) -> bool:
        return bool(self.divided[parent_i])

    def may_change(self, i: int) -> bool:
        """Return whether the actor may change its shares, name and parent: rights at the parent, no lock by another
        user."""
        parent = int(self.tree.parent[i])
        return parent >= 0 and self.may_divide(parent) and bool(self.unlocked[i])

    def may_name_below(self, i: int) -> bool:
        """Return whether the actor may learn the names of all children, for example by trying a name."""
        return bool(self.names_below[i])

    def require(self, i: int | None) -> int:
        """Return the index of a visible entry; raise NotFound if it is hidden, as if it didn't exist."""
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
    """Compute the actor's visibility: their own path, what grants open, and the whole tree if the policy is open.

    own_entries: indices of the actor's own entries. rights: the actor's rights, if already loaded.
    """
    require_policy(actor, policy.slug)
    none = np.zeros(len(tree), dtype=np.bool_)
    rules = administers_within_bounds(actor)
    reads = actor.token is None or any(actor.has_scope(scope) for scope in _READS_TREES)
    open_to = actor.administers or policy.visibility == Policy.Visibility.TREE
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
    if actor.top_uid is not None:
        i = tree.index_of_uid(actor.top_uid)
        below = none if i is None else tree.subtree_mask(i)
        for each in (mask, divided, outright, names_below):
            each &= below
    unlocked = _unlocked(policy, tree, actor, divided, rules=rules)
    return Visibility(tree, mask, divided, bool(mask.all()), unlocked, outright, names_below)


def named_accounts(*, policy: Policy, tree: TreeColumns, actor: Actor, at: datetime) -> Mask:
    """Mask of entries at which the actor may read the names of all accounts; elsewhere only those of their own.

    An own account doesn't open the names of others that count at the same entry, as those of a project do.
    """
    reads = actor.token is None or any(actor.has_scope(scope) for scope in _READS_TREES)
    is_open = actor.administers or policy.visibility == Policy.Visibility.TREE
    named = np.full(len(tree), reads and is_open, dtype=np.bool_)
    for uid in Rights(policy, actor, at).at(Verb.MAP_ACCOUNTS, Verb.VIEW_MEMBERS) if reads and not is_open else ():
        i = tree.index_of_uid(uid)
        if i is not None:
            named |= tree.subtree_mask(i)
    if actor.top_uid is not None:
        i = tree.index_of_uid(actor.top_uid)
        named &= np.zeros(len(tree), dtype=np.bool_) if i is None else tree.subtree_mask(i)
    return named


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
    """Reveal subtrees where the actor may see names, with the path to the root."""
    for uid in rights.at(Verb.VIEW_MEMBERS):
        i = tree.index_of_uid(uid)
        if i is not None:
            outright[tree.ancestors(i)] = True
            outright |= tree.subtree_mask(i)


def _members(tree: TreeColumns) -> Mask:
    """Mask of leaves, which may be one person whatever their kind says: neither groups nor reserves."""
    members: Mask = ~tree.is_group & ~tree.is_reserve
    return members


def _divided_from(tree: TreeColumns, i: int, below: Mask) -> Mask:
    """Return `below` without inheriting entries at its top, whose children compete above the grant's entry."""
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
    own_locks = locked_by(policy, actor)
    for i in np.flatnonzero(tree.locked & divided).tolist():
        unlocked[i] = tree.uuid(i) in own_locks
    return unlocked


def locked_by(policy: Policy, actor: Actor) -> set[UUID]:
    """Return entries locked by this actor: the author of the revision in which the current lock began."""
    if actor.user is None:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_LOCKED_BY, {"policy": policy.pk, "user": actor.user.pk})
        return {uid for (uid,) in cursor.fetchall()}
