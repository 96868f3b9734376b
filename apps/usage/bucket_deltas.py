"""What records change in hourly usage: core-seconds and others by hour, account and class. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from apps.core.resource_kinds import NO_KINDS, Kinds, distinct_kinds, kinds_from_json, rates_of
from apps.engine.arrays import FEWEST_FOR_MACHINE_CODE, read_only
from apps.usage.distinct import number_distinct
from apps.usage.parsers.base import F8, I8, Bytes

HOUR_US = 3_600_000_000
QUANTA = 1024  # per second
RESOURCES = ("cpu_s", "gpu_s", "mem_gb_s", "node_s", "billing")
AMOUNTS = (*RESOURCES, "jobs")
_MOST_PIECES = 1_000_000  # job hours processed at a time: bounds memory, not the size of the input


@dataclass(frozen=True, eq=False, slots=True)
class KindRates:
    """What records hold of kinds of resources. row: of the record; rate: per second, of energy its mean."""

    row: I8
    kind: Bytes
    rate: F8

    def concatenated(self, other: KindRates, n_rows: int) -> KindRates:
        """n_rows: the number of records before the other ones."""
        return KindRates(
            np.concatenate([self.row, other.row + n_rows]),
            np.concatenate([self.kind, other.kind]),
            np.concatenate([self.rate, other.rate]),
        )


NO_RATES = KindRates(np.zeros(0, np.int64), np.zeros(0, "S1"), np.zeros(0))


def kind_rates(kind: I8, kinds: Sequence[Kinds], run_us: I8) -> KindRates:
    """Rates of records. kind: index into `kinds` of each record, of which 0 is none. run_us: how long each ran."""
    rows = np.flatnonzero(kind)
    if not len(rows):
        return NO_RATES
    pairs = zip(rows.tolist(), kind[rows].tolist(), (run_us[rows] / 1e6).tolist(), strict=True)
    parts = [(row, name, rate) for row, code, run_s in pairs for name, rate in rates_of(kinds[code], run_s)]
    if not parts:
        return NO_RATES
    row, name, rate = zip(*parts, strict=True)
    return KindRates(np.array(row, np.int64), np.array([each.encode() for each in name]), np.array(rate, np.float64))


def stored_kinds(texts: Sequence[str]) -> tuple[I8, list[Kinds]]:
    """Kinds of stored records, of which "" is none: the index of each into the distinct ones."""
    if not any(texts):
        return np.zeros(len(texts), np.int64), [NO_KINDS]
    of_text = {text: kinds_from_json(text) for text in set(texts)}
    kinds, index = distinct_kinds([of_text[text] for text in texts])
    return np.array(index, np.int64), kinds


@dataclass(slots=True)
class FinishedRecords:
    """Finished records as columns. sign: +1 for records to add, −1 for records to subtract."""

    sign: I8
    is_job: I8  # 1 for a job, 0 for a charge without a job
    account_id: I8
    job_class_id: I8
    site: Bytes
    start_us: I8
    end_us: I8
    cpus: F8
    gpus: F8
    mem_mb: F8
    nodes: F8
    billing: F8
    kinds: KindRates = NO_RATES

    def __len__(self) -> int:
        return len(self.sign)

    def concatenated(self, other: FinishedRecords) -> FinishedRecords:
        names = [each.name for each in fields(self) if each.name != "kinds"]
        columns = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        return FinishedRecords(**columns, kinds=self.kinds.concatenated(other.kinds, len(self)))


@dataclass(frozen=True, eq=False, slots=True)
class KindDelta:
    """Changes of sums by kind. at: index of the bucket in its delta; each bucket and kind once. amount: in quanta."""

    at: I8
    kind: Bytes
    amount: I8


NO_CHANGES = KindDelta(np.zeros(0, np.int64), np.zeros(0, "S1"), np.zeros(0, np.int64))


@dataclass(slots=True)
class Delta:
    """Changes of buckets: each key once, amounts in quanta (jobs as a number of jobs)."""

    account_id: I8
    site: Bytes
    job_class_id: I8
    hour: I8  # number of hours since 1970
    amounts: I8  # (n, 6), in the order of AMOUNTS
    site_index: I8  # index of `site` in `sites`
    sites: Bytes
    kinds: KindDelta = NO_CHANGES


def count_job_hours(start_us: I8, end_us: I8) -> int:
    """Total number of clock hours in which these records ran, summed over records."""
    return int((end_us // HOUR_US - start_us // HOUR_US + 1).sum()) if len(start_us) else 0


def compute_delta(records: FinishedRecords) -> Delta:
    """Spread each record over the hours in which it ran, and sum by bucket.

    At a constant rate r, an hour gets C(its end) − C(its start) with C(t) = round(r · (t − start) · 1024): the pieces
    add up to C(end) exactly. The job itself is counted in the hour of its end. A bucket whose kinds change is in the
    delta, even if nothing else of it changes.
    """
    combination, first_of, sites, site_index = _combinations(records)
    span_from = int((records.start_us // HOUR_US).min())
    span = int((records.end_us // HOUR_US).max()) - span_from + 1
    keys, sums = [], []
    for chosen in _batches(records.start_us, records.end_us):
        key, total = _add_up(records, chosen, combination * span - span_from)
        keys.append(key)
        sums.append(total)
    key, amounts = (keys[0], sums[0]) if len(keys) == 1 else _summed(np.concatenate(keys), np.concatenate(sums))
    changed = amounts.any(axis=1)
    kind_key, kind, kind_amount = _kind_sums(records, combination, span, span_from)
    if len(kind_key):
        changed |= np.isin(key, kind_key)
    key, amounts = key[changed], amounts[changed]
    example = first_of[key // span]
    return Delta(
        account_id=records.account_id[example],
        site=records.site[example],
        job_class_id=records.job_class_id[example],
        hour=key % span + span_from,
        amounts=amounts,
        site_index=site_index[example],
        sites=sites,
        kinds=KindDelta(np.searchsorted(key, kind_key), kind, kind_amount) if len(kind_key) else NO_CHANGES,
    )


def _kind_sums(records: FinishedRecords, combination: I8, span: int, span_from: int) -> tuple[I8, Bytes, I8]:
    """Changed sums by kind: key of the bucket as in `compute_delta`, kind, and quanta that aren't 0."""
    rates = records.kinds
    if not len(rates.row):
        return NO_CHANGES.at, NO_CHANGES.kind, NO_CHANGES.amount
    names, code = np.unique(rates.kind, return_inverse=True)
    start_us, end_us, sign = records.start_us[rates.row], records.end_us[rates.row], records.sign[rates.row]
    keys, sums = [], []
    for chosen in _batches(start_us, end_us):
        row, hour, from_us, to_us = _hours(start_us, end_us, chosen)
        rate = rates.rate[row]
        quanta = sign[row] * (_quanta(rate, to_us) - _quanta(rate, from_us)).astype(np.int64)
        key = (combination[rates.row[row]] * span + (hour - span_from)) * len(names) + code[row]
        each, total = _summed(key, quanta[:, None])
        keys.append(each)
        sums.append(total)
    key, total = (keys[0], sums[0]) if len(keys) == 1 else _summed(np.concatenate(keys), np.concatenate(sums))
    is_changed = total[:, 0] != 0
    key, amount = key[is_changed], total[is_changed, 0]
    return key // len(names), names[key % len(names)], amount


def delta_amounts(delta: Delta) -> F8:
    """Amounts of a delta in the units of buckets, shape (n, 6)."""
    scale = np.array([*[QUANTA] * len(RESOURCES), 1], np.float64)
    return delta.amounts / scale


def _combinations(records: FinishedRecords) -> tuple[I8, I8, Bytes, I8]:
    """Number the distinct (account, site, class) of records.

    Returns that number for each record, a record of each number, the distinct sites, and each record's index into them.
    There is at least one record.
    """
    account, _ = number_distinct(records.account_id)
    job_class, a_class = number_distinct(records.job_class_id)
    # As a number, a short name is compared at once.
    is_short = records.site.dtype.itemsize <= 8
    if is_short:
        site, of_site = number_distinct(records.site.astype("S8").view(np.int64))
    else:
        _, of_site, site = np.unique(records.site, return_index=True, return_inverse=True)
    combination, example = number_distinct((account * len(of_site) + site) * len(a_class) + job_class)
    return combination, example, records.site[of_site], site


def _batches(start_us: I8, end_us: I8) -> Iterator[I8]:
    n_hours = end_us // HOUR_US - start_us // HOUR_US + 1
    portion = (np.cumsum(n_hours) - n_hours) // _MOST_PIECES
    for number in np.unique(portion):
        yield np.flatnonzero(portion == number)


def _add_up(records: FinishedRecords, chosen: I8, bucket: I8) -> tuple[I8, I8]:
    """Keys of buckets, ascending, and sums of the chosen records by bucket.

    bucket: for each record what, added to an hour, is the key of its bucket.
    """
    n_pieces = count_job_hours(records.start_us[chosen], records.end_us[chosen])
    if n_pieces >= FEWEST_FOR_MACHINE_CODE:
        # Imported here, because few records shouldn't wait for numba to be loaded.
        from apps.engine import fast
        from apps.usage import bucket_kernels

        if fast.is_on():
            runs = bucket_kernels.Runs(
                sign=read_only(records.sign),
                is_job=read_only(records.is_job),
                start_us=read_only(records.start_us),
                end_us=read_only(records.end_us),
                bucket=read_only(bucket + records.start_us // HOUR_US),
                rates=read_only(np.stack(_rates(records))),
            )
            sums = bucket_kernels.Sums.of(n_pieces, len(AMOUNTS))
            n = fast.attempt(bucket_kernels.add_up, runs, chosen, HOUR_US, QUANTA / 1e6, sums)
            if n:
                ascending = np.argsort(sums.key[:n])
                return sums.key[ascending], sums.amounts[ascending]
    row, hour, amounts = _pieces(records, chosen)
    return _summed(bucket[row] + hour, amounts)


def _rates(records: FinishedRecords) -> tuple[F8, ...]:
    """By the names of `RESOURCES`, per second."""
    return records.cpus, records.gpus, records.mem_mb / 1024.0, records.nodes, records.billing


def _pieces(records: FinishedRecords, chosen: I8) -> tuple[I8, I8, I8]:
    """Split the chosen records by hour: record index, hour and amounts of each piece."""
    row, hour, from_us, to_us = _hours(records.start_us, records.end_us, chosen)
    sign = records.sign[row]
    amounts = np.zeros((len(row), len(AMOUNTS)), np.int64)
    for index, rate in enumerate(_rates(records)):
        if rate.any():
            # Whole numbers, also above 2⁵³, where they are multiples of a power of two: their difference is exact.
            amounts[:, index] = sign * (_quanta(rate[row], to_us) - _quanta(rate[row], from_us)).astype(np.int64)
    amounts[:, -1] = sign * records.is_job[row] * (hour == records.end_us[row] // HOUR_US)
    return row, hour, amounts


def _hours(start_us: I8, end_us: I8, chosen: I8) -> tuple[I8, I8, I8, I8]:
    """Each hour of the chosen runs: index, hour, and from when to when since the start."""
    first = start_us[chosen] // HOUR_US
    n_hours = end_us[chosen] // HOUR_US - first + 1
    row = np.repeat(chosen, n_hours)
    ordinal = np.arange(len(row)) - np.repeat(np.cumsum(n_hours) - n_hours, n_hours)
    hour = np.repeat(first, n_hours) + ordinal
    begin_us = start_us[row]
    from_us = np.maximum(hour * HOUR_US, begin_us) - begin_us
    to_us = np.minimum((hour + 1) * HOUR_US, end_us[row]) - begin_us
    return row, hour, from_us, to_us


def _quanta(rate: F8, us: I8) -> F8:
    return np.rint(rate * (us * (QUANTA / 1e6)))


def _summed(key: I8, amounts: I8) -> tuple[I8, I8]:
    order = np.argsort(key)  # sums of whole numbers are exact in any order
    ordered = key[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.add.reduceat(amounts[order], starts, axis=0)
