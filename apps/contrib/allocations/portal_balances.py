"""What is left of allocations, for each user: the balances that a portal such as Open OnDemand shows.

A user's balance is that of the nearest allocation of today at or above their entry. Users without one have none: a
portal would take 0 for used up. So have those whose use is hidden from the reader.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np

from apps.accounts.actor import Actor
from apps.contrib.allocations.board import BoardRow, get_allocation_board
from apps.contrib.allocations.units import find_unit, policy_units
from apps.core import clock
from apps.mapping.permissions import own_keys
from apps.policies.access.scope import named_accounts
from apps.policies.selectors import list_policies
from apps.policies.units import CORE_HOUR
from apps.priorities.selectors.rows import PolicyView, open_view

READ, SELF_READ = "policies:read", "self:read"
_OVER = ("ended", "not_begun")


@dataclass(frozen=True, slots=True)
class Balance:
    """user: name of the account. project: entry that has the allocation; its path, where two of the policy have one
    name, and with the policy, where two policies have it. value: hours left, rounded down."""

    user: str
    project: str
    value: int


@dataclass(frozen=True, slots=True)
class Balances:
    """unit: name of one, such as GPU-hour. seen_at: when it was computed."""

    unit: str
    seen_at: datetime
    balances: tuple[Balance, ...]


def list_balances(*, zone: ZoneInfo, actor: Actor, policy_slug: str = "", unit: str = CORE_HOUR.symbol) -> Balances:
    """Balances of the users whose accounts the actor may read, by user and project; without a policy of all that have
    the unit and that the actor reaches.

    Empty if the actor sees nothing of the tree. Raises NotFound if the named policy doesn't exist or isn't within the
    bounds of the token; Invalid if none has the unit.
    """
    if policy_slug:
        return _of_policy(policy_slug=policy_slug, zone=zone, actor=actor, unit=unit)
    policies = list_policies(actor=actor)
    having = [policy for policy in policies if any(each.symbol == unit for each in policy_units(policy))]
    if policies and not having:
        find_unit(policy_units(policies[0]), unit)
    by_policy = {
        policy.slug: _of_policy(policy_slug=policy.slug, zone=zone, actor=actor, unit=unit) for policy in having
    }
    projects = Counter(project for part in by_policy.values() for project in {each.project for each in part.balances})
    balances = [
        each if projects[each.project] == 1 else replace(each, project=f"{slug}: {each.project}")
        for slug, part in by_policy.items()
        for each in part.balances
    ]
    name = next((part.unit for part in by_policy.values()), CORE_HOUR.name)
    seen_at = max((part.seen_at for part in by_policy.values()), default=clock.now())
    return Balances(name, seen_at, tuple(sorted(balances, key=lambda each: (each.user, each.project))))


def _of_policy(*, policy_slug: str, zone: ZoneInfo, actor: Actor, unit: str) -> Balances:
    scope = READ if actor.has_scope(READ) or actor.has_scope("policies:write") else SELF_READ
    view = open_view(policy_slug=policy_slug, actor=actor, scope=scope)
    top = actor.top_uid or view.tree.uuid(0)
    at_top = view.tree.index_of_uid(top)
    if at_top is None or not view.visibility.may_see(at_top):
        return Balances(CORE_HOUR.name, view.now, ())
    board = get_allocation_board(
        policy_slug=policy_slug, zone=zone, actor=actor, of=top, unit=unit, limit=None, scope=scope
    )
    rows = [*board.rows, *([board.own] if board.own is not None else [])]
    places = [(view.tree.index_of_uid(row.entry), row) for row in rows if row.state not in _OVER]
    allocated = {i: row for i, row in places if i is not None}
    names = Counter(row.name for row in allocated.values())
    named = named_accounts(policy=view.policy, tree=view.tree, actor=view.actor, at=view.now)
    balances = {
        Balance(user, row.name if names[row.name] == 1 else row.path, math.floor(row.remaining))
        for i, row in _nearest(view, allocated)
        if row.remaining is not None  # hidden: that of a group further above isn't this user's balance
        for user in _users(view, i, may_read_all=bool(named[i]))
    }
    ordered = sorted(balances, key=lambda each: (each.user, each.project))
    return Balances(unit=board.unit.name, seen_at=board.now, balances=tuple(ordered))


def _nearest(view: PolicyView, allocated: dict[int, BoardRow]) -> list[tuple[int, BoardRow]]:
    """Visible leaves with the allocation that is nearest to each: their own, else of the closest group above."""
    tree = view.tree
    nearest = np.full(len(tree), -1, np.int32)
    nearest[list(allocated)] = list(allocated)
    for lo, hi in pairwise(tree.level_starts[1:]):
        here = nearest[lo:hi]
        here[:] = np.where(here < 0, nearest[tree.parent[lo:hi]], here)
    leaves = np.flatnonzero(view.visibility.mask & (tree.n_children == 0) & (nearest >= 0))
    return [(i, allocated[at]) for i, at in zip(leaves.tolist(), nearest[leaves].tolist(), strict=True)]


def _users(view: PolicyView, i: int, *, may_read_all: bool) -> set[str]:
    """Names of the accounts of an entry, as far as the actor may read them; without a snapshot none is known."""
    if view.snapshot is None:
        return set()
    place = int(view.snapshot_index[i])
    if place < 0:
        return set()
    if may_read_all:
        return {key.user_name for key in view.snapshot.index.identities(place) if key.user_name}
    if i not in view.own_entries:
        return set()
    own = {key.user_name for key in own_keys(view.actor)}
    return {key.user_name for key in view.snapshot.index.identities(place) if key.user_name in own}
