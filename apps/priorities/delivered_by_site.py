"""What each site delivered to the entries of a policy: core-seconds as recorded, by where the records come from.

As `delivered` counts them: no aging, no metric, no scope; hours that are held don't count. A site is an origin of
sources: "" is this one, all its sources together; any other is a peer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.accounts.intern import AccountKey
from apps.accounts.models import Account
from apps.engine import sweep
from apps.policies.models import Policy
from apps.policies.trees import TreeColumns
from apps.priorities.mapping import UNMAPPED
from apps.priorities.rulebook import load_rulebook
from apps.usage.held_hours import NOT_HELD
from apps.usage.models import Source

F8 = npt.NDArray[np.float64]

_USED = f"""
SELECT account_id, source_id, width_bucket(hour_at, %(edges)s::timestamptz[]) AS stretch, sum(cpu_s), min(hour_at)
FROM usage_bucket WHERE (%(from_at)s::timestamptz IS NULL OR hour_at >= %(from_at)s) AND hour_at < %(to_at)s{NOT_HELD}
GROUP BY account_id, source_id, stretch
"""  # noqa: S608 - constants only


@dataclass(frozen=True, eq=False)
class BySite:
    """Core-seconds. origins: "" first, then by name. own: (stretches, origins, entries), of the entry itself.

    first_at: the first hour in which a site delivered anything at all, mapped or not.
    """

    origins: tuple[str, ...]
    own: F8
    first_at: Mapping[str, datetime]

    def below(self, tree: TreeColumns) -> F8:
        """(origins, entries), of each entry and all below it, over the whole time."""
        own = self.own.sum(axis=0)
        return np.stack([sweep.sum_up(tree.engine_tree(), row)[0] for row in own])


def load_by_site(
    *, policy: Policy, tree: TreeColumns, from_at: datetime | None, to_at: datetime, cuts: Sequence[datetime] = ()
) -> BySite:
    """Hours that begin at `from_at` or later (None: ever) and before `to_at`, in stretches between the cuts.

    The caller has checked what of the tree may be told.
    """
    inner = sorted({cut for cut in cuts if cut < to_at and (from_at is None or cut > from_at)})
    with connection.cursor() as cursor:
        # one edge at the end, so that there is one; no hour begins there or later
        cursor.execute(_USED, {"edges": [*inner, to_at], "from_at": from_at, "to_at": to_at})
        rows = cursor.fetchall()
    origin_of = dict(Source.objects.values_list("pk", "origin"))
    origins = ("", *sorted({origin for origin in origin_of.values() if origin}))
    entry_of = _places(policy, tree, {row[0] for row in rows})
    own = np.zeros((len(inner) + 1, len(origins), len(tree)))
    first_at: dict[str, datetime] = {}
    for account_id, source_id, stretch, cpu_s, hour_at in rows:  # sums of whole 2⁻¹⁰ s are exact in any order
        origin = origin_of.get(source_id, "")
        first_at[origin] = min(hour_at, first_at.get(origin, hour_at))
        if entry_of[account_id] != UNMAPPED:
            own[stretch, origins.index(origin), entry_of[account_id]] += cpu_s
    return BySite(origins, own, first_at)


def _places(policy: Policy, tree: TreeColumns, account_ids: set[int]) -> dict[int, int]:
    """The entry of each of these accounts by the rules of now."""
    accounts = list(Account.objects.filter(pk__in=account_ids).values_list("id", *AccountKey._fields))
    entries = load_rulebook(policy, tree).on(tree).resolve_many([AccountKey(*row[1:]) for row in accounts])
    return dict(zip((row[0] for row in accounts), entries.tolist(), strict=True))
