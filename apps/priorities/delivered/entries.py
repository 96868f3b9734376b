"""What was delivered to entries between two instants: all their usage, as it was recorded.

Raw core-seconds of every source, but for hours that are held: no aging, no metric, no scope, no adjustments. Accounts
belong to entries by the policy's mapping, as in the recompute. A bucket counts in the stretch of time in which its hour
begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.accounts.models import Account
from apps.accounts.names.account_ids import AccountKey
from apps.engine import sweep
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rulebook
from apps.policies.models import Policy
from apps.policies.tree.stored import TreeColumns
from apps.usage.buckets.held_hours import NOT_HELD
from apps.usage.models import Source

F8 = npt.NDArray[np.float64]

_USED = f"""
SELECT account_id, width_bucket(hour_at, %(edges)s::timestamptz[]) AS stretch, sum(cpu_s)
FROM usage_bucket WHERE hour_at >= %(from_at)s AND hour_at < %(to_at)s{NOT_HELD} GROUP BY account_id, stretch
"""  # noqa: S608 - constants only

_USED_BY_SOURCE = f"""
SELECT account_id, source_id, width_bucket(hour_at, %(edges)s::timestamptz[]) AS stretch, sum(cpu_s)
FROM usage_bucket WHERE hour_at >= %(from_at)s AND hour_at < %(to_at)s{NOT_HELD} GROUP BY account_id, source_id, stretch
"""  # noqa: S608 - constants only


@dataclass(frozen=True, eq=False)
class Delivered:
    """Core-seconds. edges: ascending instants, n + 1 of them. below: (n, entries asked for), at or below each.

    unmapped: (n,), of accounts that no rule has a place for. has_any: some usage is known at all, whenever it was.
    """

    edges: Sequence[datetime]
    place: Mapping[int, int]  # which column of `below` an entry has
    below: F8
    unmapped: F8
    has_any: bool

    def between(self, i: int, from_at: datetime, to_at: datetime) -> float:
        """Of one entry, between two of the edges (or instants beyond the outer ones)."""
        first, last = bisect_left(self.edges, from_at), bisect_left(self.edges, to_at)
        return float(self.below[first:last, self.place[i]].sum())


def load_delivered(
    *, policy: Policy, tree: TreeColumns, entries: Sequence[int], edges: Sequence[datetime]
) -> Delivered:
    """For the stretches between consecutive edges; the caller has checked what of the tree may be seen."""
    cut, wanted = sorted(set(edges)), sorted(set(entries))
    n = max(len(cut) - 1, 0)
    rows, has_any = _used(cut)
    entry_of = _places(policy, tree, {account_id for account_id, _, _ in rows})
    below, unmapped = np.zeros((n, len(wanted))), np.zeros(n)
    for at, used in groupby(rows, key=itemgetter(1)):
        own = np.zeros(len(tree))
        for account_id, _, cpu_s in used:
            if entry_of[account_id] == UNMAPPED:
                unmapped[at - 1] += cpu_s
            else:
                own[entry_of[account_id]] += cpu_s
        below[at - 1] = sweep.sum_up(tree.engine_tree(), own)[0][wanted]
    return Delivered(cut, {i: at for at, i in enumerate(wanted)}, below, unmapped, has_any)


@dataclass(frozen=True, eq=False)
class DeliveredBySite(Delivered):
    """origins: "" is this site, then peers by name. by_site: (n, origins), of the entries in `whole` together."""

    origins: Sequence[str]
    by_site: F8


def load_delivered_by_site(
    *, policy: Policy, tree: TreeColumns, entries: Sequence[int], whole: Sequence[int], edges: Sequence[datetime]
) -> DeliveredBySite:
    """As `load_delivered`, and what each site delivered to `whole`, entries none of which is below another."""
    cut, wanted = sorted(set(edges)), sorted(set(entries))
    n = max(len(cut) - 1, 0)
    origin_of = dict(Source.objects.values_list("pk", "origin"))
    origins = ("", *sorted({origin for origin in origin_of.values() if origin}))
    rows, has_any = _used_by_origin(cut, {pk: origins.index(origin) for pk, origin in origin_of.items()})
    entry_of = _places(policy, tree, {account_id for account_id, *_ in rows})
    below, unmapped, by_site = np.zeros((n, len(wanted))), np.zeros(n), np.zeros((n, len(origins)))
    for (at, origin), used in groupby(rows, key=itemgetter(1, 2)):
        own = np.zeros(len(tree))
        for account_id, _stretch, _origin, cpu_s in used:
            if entry_of[account_id] == UNMAPPED:
                unmapped[at - 1] += cpu_s
            else:
                own[entry_of[account_id]] += cpu_s
        total = sweep.sum_up(tree.engine_tree(), own)[0]
        below[at - 1] += total[wanted]
        by_site[at - 1, origin] = total[list(whole)].sum()
    return DeliveredBySite(cut, {i: at for at, i in enumerate(wanted)}, below, unmapped, has_any, origins, by_site)


def _used_by_origin(
    cut: Sequence[datetime], origin_of: Mapping[int, int]
) -> tuple[list[tuple[int, int, int, float]], bool]:
    """(account, stretch counted from 1, place of the origin, core-seconds) by stretch, origin and account."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM usage_bucket)")
        has_any = bool(cursor.fetchone()[0])
        if len(cut) < 2 or not has_any:
            return [], has_any
        cursor.execute(_USED_BY_SOURCE, {"edges": list(cut), "from_at": cut[0], "to_at": cut[-1]})
        found = [(account, at, origin_of.get(source, 0), cpu_s) for account, source, at, cpu_s in cursor.fetchall()]
    return sorted(found, key=itemgetter(1, 2, 0)), has_any


def _used(cut: Sequence[datetime]) -> tuple[list[tuple[int, int, float]], bool]:
    """(account, stretch counted from 1, core-seconds) by stretch and account: sums of doubles depend on their order."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM usage_bucket)")
        has_any = bool(cursor.fetchone()[0])
        if len(cut) < 2 or not has_any:
            return [], has_any
        cursor.execute(_USED, {"edges": list(cut), "from_at": cut[0], "to_at": cut[-1]})
        return sorted(cursor.fetchall(), key=itemgetter(1, 0)), has_any


def _places(policy: Policy, tree: TreeColumns, account_ids: set[int]) -> dict[int, int]:
    """The entry of each of these accounts by the rules of now."""
    accounts = list(Account.objects.filter(pk__in=account_ids).values_list("id", *AccountKey._fields))
    resolver = load_rulebook(policy, tree).on(tree)
    entries = resolver.resolve_many([AccountKey(*row[1:]) for row in accounts])
    return dict(zip((row[0] for row in accounts), entries.tolist(), strict=True))
