"""What the end of a build keeps of the past, so that a day more needn't read the whole window again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.analytics.series.calendar import Day
from apps.analytics.series.window_sums import DaySums
from apps.core import blobs
from apps.policies.models import Policy
from apps.usage import pgbinary

I8 = npt.NDArray[np.int64]

_MOST_BYTES = 256 * 1024 * 1024  # of sums; beyond that, reading buckets again is no slower
_WRITE = "UPDATE analytics_series SET carry = %b, carry_digest = %s WHERE policy_id = %s"
_READ = "SELECT carry, carry_digest FROM analytics_series WHERE policy_id = %s AND carry IS NOT NULL"


class Carry:
    """Sums of days by account and source, by one metric and window. Those before a change of usage still hold."""

    def __init__(self, policy: Policy) -> None:
        with pgbinary.cursor() as cursor:
            row = cursor.execute(_READ, [policy.pk], binary=True).fetchone()
        self._columns, self._meta = blobs.unpack(row[0], row[1]) if row is not None else ({}, {})

    def before(self, first: Day, terms: Mapping[str, Any], account_ids: I8, source_ids: I8) -> list[DaySums]:
        """Of days before this one, by the places of accounts and sources; none if they were counted otherwise."""
        if self._meta != dict(terms) or not len(source_ids):
            return []
        found, begin = [], 0
        columns = self._columns
        days = zip(*(columns[name].tolist() for name in ("on", "from_s", "to_s", "ends")), strict=True)
        for on, from_s, to_s, end in days:
            here = slice(begin, end)
            begin = end
            if to_s <= first.from_s:
                cell = np.searchsorted(account_ids, columns["account"][here]) * len(source_ids)
                cell += np.searchsorted(source_ids, columns["source"][here])
                day = Day(date.fromordinal(on), from_s, to_s)
                found.append(DaySums(day, cell.astype(np.int32), columns["amount"][here]))
        return found


def write_carry(
    policy: Policy, kept: Sequence[DaySums], terms: Mapping[str, Any], account_ids: I8, source_ids: I8
) -> None:
    """In the caller's transaction, in place of what is there; accounts and sources by their ids."""
    data, digest = None, ""
    if kept and len(source_ids) and sum(each.amount.nbytes for each in kept) <= _MOST_BYTES:
        cell = np.concatenate([each.cell for each in kept]).astype(np.int64)
        account, source = np.divmod(cell, len(source_ids))
        columns = {
            "on": np.array([each.day.on.toordinal() for each in kept], np.int64),
            "from_s": np.array([each.day.from_s for each in kept], np.int64),
            "to_s": np.array([each.day.to_s for each in kept], np.int64),
            "ends": np.cumsum([len(each.cell) for each in kept]).astype(np.int64),
            "account": account_ids[account], "source": source_ids[source],
            "amount": np.concatenate([each.amount for each in kept]),
        }  # fmt: skip
        data, digest = blobs.pack(columns, dict(terms))
    with pgbinary.cursor() as cursor:
        cursor.execute(_WRITE, [data, digest, policy.pk])
