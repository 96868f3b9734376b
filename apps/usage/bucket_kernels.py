"""Usage of records added up by bucket, job hour by job hour, as machine code; same numbers as `bucket_deltas`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from apps.engine.fast import compiled_borrowing
from apps.usage.parsers.base import F8, I8

I4 = np.ndarray[tuple[int], np.dtype[np.int32]]


class Runs(NamedTuple):
    """Records as columns: bucket, of its first hour; rates, (5, n) per second; the others as in `FinishedRecords`."""

    sign: I8
    is_job: I8
    start_us: I8
    end_us: I8
    bucket: I8
    rates: F8


class Sums(NamedTuple):
    """Room for sums, empty at first. place: the row of a bucket at the first free place from its hash on, −1 for none.

    key, amounts: of each row, in order of appearance.
    """

    place: I4
    key: I8
    amounts: np.ndarray[tuple[Any, ...], np.dtype[np.int64]]

    @classmethod
    def of(cls, most: int, n_amounts: int) -> Sums:
        """most: buckets that may come. What isn't needed takes no memory."""
        n_places = 1 << (2 * most).bit_length()
        return cls(np.full(n_places, -1, np.int32), np.empty(most, np.int64), np.empty((most, n_amounts), np.int64))


@compiled_borrowing
def add_up(runs: Runs, chosen: I8, hour_us: int, quanta_a_us: float, sums: Sums) -> int:
    """Add the chosen runs to their buckets, one for each hour; return the number of buckets."""
    n_rates, n, mask = len(runs.rates), 0, len(sums.place) - 1
    for row in chosen:
        start_us, end_us, sign = runs.start_us[row], runs.end_us[row], runs.sign[row]
        first, last = start_us // hour_us, end_us // hour_us
        from_us = 0
        for hour in range(first, last + 1):
            to_us = min((hour + 1) * hour_us, end_us) - start_us
            key = runs.bucket[row] + (hour - first)
            at = (key ^ (key >> 15)) * 0x9E3779B1 & mask
            while sums.place[at] >= 0 and sums.key[sums.place[at]] != key:
                at = (at + 1) & mask
            bucket = sums.place[at]
            if bucket < 0:
                sums.place[at] = bucket = n
                sums.key[n] = key
                sums.amounts[n] = 0
                n += 1
            for index in range(n_rates):
                rate = runs.rates[index, row]
                if rate:
                    quanta = np.rint(rate * (to_us * quanta_a_us)) - np.rint(rate * (from_us * quanta_a_us))
                    sums.amounts[bucket, index] += sign * int(quanta)
            if hour == last:
                sums.amounts[bucket, n_rates] += sign * runs.is_job[row]
            from_us = to_us
    return n
