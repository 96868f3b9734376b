"""A month of a policy's series, made of buckets, records, revisions and today's mapping rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.accounts.account_ids import Roll, load_roll
from apps.analytics.series.daily_series import HOUR_S, Day, DayValues, day_at, days_of, site_zone
from apps.analytics.series.inputs import LaterTree, Standing, later_tree, stand
from apps.analytics.series.usage_and_demand import (
    DayRows,
    DaySums,
    Reach,
    SubmitTimeSources,
    Waiting,
    begins_s,
    reach_of,
)
from apps.core import blobs
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules
from apps.policies.models import Policy, Revision
from apps.policies.settings import PolicySettings
from apps.priorities.local_only import LocalOnlyEntry, list_local_only_entries
from apps.priorities.metering import JobClassRow, SourceRow, amounts, site_names, weighed
from apps.priorities.recompute.pipeline import one_view
from apps.usage import pgbinary
from apps.usage.arrays import UsageArrays, load_usage
from apps.usage.models import JobClass, Source

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
            "account": account_ids[account],
            "source": source_ids[source],
            "amount": np.concatenate([each.amount for each in kept]),
        }
        data, digest = blobs.pack(columns, dict(terms))
    with pgbinary.cursor() as cursor:
        cursor.execute(_WRITE, [data, digest, policy.pk])


F8 = npt.NDArray[np.float64]
_AT_A_TIME_S = 7 * 24 * HOUR_S  # of buckets read with one query: bounds memory


@dataclass(frozen=True, eq=False, slots=True)
class BuiltDay:
    """One day with what is kept of it. keeps_waiting: records of then may be gone, what is stored of them stays."""

    day: Day
    standing: Standing
    is_before_first: bool
    values: DayValues
    keeps_waiting: bool


@dataclass(frozen=True, slots=True)
class _RevisionRow:
    number: int
    published_at: datetime
    settings: dict[str, Any]
    n_entries: int

    @property
    def metric(self) -> dict[str, Any]:
        return PolicySettings.from_stored(self.settings).metric


_OF_REVISION = ("number", "published_at", "settings", "n_entries")


def _with_shares(revisions: Sequence[_RevisionRow]) -> Sequence[_RevisionRow]:
    """From the first one on that has anything below its root: a policy is made empty."""
    first = next((at for at, row in enumerate(revisions) if row.n_entries > 1), 0)
    return revisions[first:]


@dataclass(frozen=True, eq=False)
class _Material:
    """What the database says besides usage."""

    sources: Sequence[SourceRow]
    classes: Mapping[int, JobClassRow]
    roll: Roll
    rules: tuple[Rule, ...]
    revisions: Sequence[_RevisionRow]
    waiting: Waiting
    later: LaterTree
    fallen: tuple[LocalOnlyEntry, ...] = ()

    @property
    def source_ids(self) -> npt.NDArray[np.int64]:
        return np.array([source.id for source in self.sources], np.int64)

    @property
    def n_cells(self) -> int:
        return len(self.roll.ids) * len(self.sources)


class Builder:
    """Makes one month after the other, and keeps in memory what the next one goes on with. A day may be an hour."""

    def __init__(self, policy: Policy, days: Sequence[Day], *, revision: int | None = None) -> None:
        """revision: measure all days against this one, and not each against that of its end."""
        self._policy = policy
        self._revision = revision
        self._days = days
        self._zone = site_zone()
        self._material: _Material | None = None
        self._standing: Standing | None = None
        self._is_standing = False  # by what the database says now
        self._carry = Carry(policy)
        self._reach: Reach | None = None
        self._reach_of: tuple[Any, ...] = ()

    def build(self, days: Sequence[Day]) -> Iterator[BuiltDay]:
        """Consecutive days, which follow on those that were asked for before; in one view of the database."""
        with one_view() as is_settled:
            material = self._read(is_settled)
            tellers = SubmitTimeSources(material.sources)
            standings = [self._stand(material, day) for day in days]
            for here in _pieces(days):
                piece, there = days[here], standings[here]
                usage = self._load(material, piece[0].from_s, piece[-1].to_s, [row for row, _is_first in there])
                for day, (row, is_before_first) in zip(piece, there, strict=True):
                    standing = self._standing_of(material, row, day)
                    values = self._values(material, standing, day, usage, tellers)
                    yield BuiltDay(day, standing, is_before_first, values, tellers.is_sealed(day))

    def _values(
        self, material: _Material, standing: Standing, day: Day, usage: UsageArrays, tellers: SubmitTimeSources
    ) -> DayValues:
        reach = self._reached(material, standing, day)
        rows = _rows_of(material, standing, day, usage)
        reach.add(rows)
        shape = (len(material.roll.ids), len(material.sources))
        return standing.values(
            rows.summed(material.n_cells).reshape(shape),
            reach.at_end_of(day).reshape(shape),
            end_s=day.to_s,
            waited=material.waiting.on(day),
            reports=tellers.on(day),
        )

    # --- What the database says ---------------------------------------------------------------------------------------
    def _read(self, is_settled: bool) -> _Material:
        rows = Source.objects.order_by("id").values_list("id", "slug", "origin")
        revisions = Revision.objects.filter(policy=self._policy).order_by("number")
        sources, roll, before = [SourceRow(*row) for row in rows], load_roll(remembers=is_settled), self._material
        same = before is not None and before.sources == sources and np.array_equal(before.roll.ids, roll.ids)
        self._material = _Material(
            sources=sources,
            classes={
                row[0]: JobClassRow(*row) for row in JobClass.objects.values_list("id", "queue", "partition", "qos")
            },
            roll=roll,
            rules=load_rules(self._policy),
            revisions=_with_shares([_RevisionRow(*row) for row in revisions.values_list(*_OF_REVISION)]),
            fallen=list_local_only_entries(self._policy),
            later=before.later if before is not None and same else later_tree(self._policy, roll.keys),
            waiting=before.waiting if before is not None and same else Waiting(self._days, roll.ids),
        )
        self._is_standing = False
        if not same:
            self._reach = self._standing = None
        return self._material

    def _stand(self, material: _Material, day: Day) -> tuple[_RevisionRow, bool]:
        """The revision current at the end of the day; the first one before that."""
        if self._revision is not None:
            return next(row for row in material.revisions if row.number == self._revision), False
        in_force = [row for row in material.revisions if row.published_at < day.to_at]
        return (in_force[-1], False) if in_force else (material.revisions[0], True)

    def _standing_of(self, material: _Material, row: _RevisionRow, day: Day) -> Standing:
        local_only = tuple(one.uid for one in material.fallen if one.since < day.to_at)
        known = self._standing if self._is_standing else None
        if known is None or (known.number, known.local_only) != (row.number, local_only):
            known = stand(
                self._policy,
                row.number,
                row.settings,
                rules=material.rules,
                keys=material.roll.keys,
                sources=material.sources,
                before=self._standing,
                local_only=local_only,
                later=material.later,
            )
            self._standing, self._is_standing = known, True
        return known

    def _load(self, material: _Material, from_s: int, to_s: int, rows: Sequence[_RevisionRow]) -> UsageArrays:
        """Buckets of these hours by hour, with all that the metrics of these revisions ask for."""
        metrics = [row.metric for row in {row.number: row for row in rows}.values()]
        found = load_usage(
            sources=[source.id for source in material.sources],
            from_at=datetime.fromtimestamp(from_s, UTC),
            to_at=datetime.fromtimestamp(to_s, UTC),
            sites=sorted({name for metric in metrics for name in site_names(metric)}),
            resources={name for metric in metrics for name in weighed(metric)},
            classes=any(metric["class_factors"] for metric in metrics),
        )
        return found.selected(np.argsort(found.hour_epoch, kind="stable"))

    # --- What reaches back --------------------------------------------------------------------------------------------
    def _reached(self, material: _Material, standing: Standing, day: Day) -> Reach:
        """With all usage before the day, in the metric and window current on it."""
        wanted = (standing.terms, day.from_s)
        if self._reach is None or self._reach_of != wanted:
            self._reach = reach_of(standing.window, material.n_cells, lambda days: self._rows(standing, days))
            kept = self._carry.before(day, standing.terms, material.roll.ids, material.source_ids)
            self._reach.begin(self._earlier(standing, day), kept)
        self._reach_of = (standing.terms, day.to_s)
        return self._reach

    def _earlier(self, standing: Standing, day: Day) -> list[Day]:
        """The days before this one of which anything may count at its end."""
        begin_s, first_s = begins_s(standing.window, day.to_s), _first_hour_s()
        if first_s is None or first_s >= day.from_s:
            return []
        since_s = first_s if begin_s is None else max(begin_s, first_s)
        first = day_at(datetime.fromtimestamp(since_s, UTC), self._zone)
        found = [each for each in days_of(first.on, day.on, self._zone) if each.from_s < day.from_s]
        if found and found[-1].to_s > day.from_s:  # of the day of an hour what comes before the hour
            found[-1] = Day(found[-1].on, found[-1].from_s, day.from_s)
        return found

    def _rows(self, standing: Standing, days: Sequence[Day]) -> Iterator[DayRows]:
        """Of consecutive days."""
        material = self._material
        if material is None:
            return
        row = next(each for each in material.revisions if each.number == standing.number)
        for here in _pieces(days):
            piece = days[here]
            usage = self._load(material, piece[0].from_s, piece[-1].to_s, [row])
            for each in piece:
                yield _rows_of(material, standing, each, usage)

    def keep(self) -> None:
        """Write down what the next build can go on from; in the caller's transaction."""
        if self._reach is not None and self._material is not None:
            material = self._material
            write_carry(
                self._policy, list(self._reach.kept()), self._reach_of[0], material.roll.ids, material.source_ids
            )


def _pieces(days: Sequence[Day]) -> Iterator[slice]:
    """Of days, or hours, as many as one query reads."""
    most = max(1, _AT_A_TIME_S // (days[0].to_s - days[0].from_s)) if days else 1
    return (slice(begin, begin + most) for begin in range(0, len(days), most))


def _rows_of(material: _Material, standing: Standing, day: Day, usage: UsageArrays) -> DayRows:
    """Of usage by hour what belongs to the day, in the metric; what comes to nothing is left out."""
    begin, end = np.searchsorted(usage.hour_epoch, [day.from_s, day.to_s])
    found = usage.selected(np.arange(begin, end))
    amount = amounts(found, metric=standing.metric, classes=material.classes)
    cell = np.searchsorted(material.roll.ids, found.account_id) * max(len(material.sources), 1)
    cell += np.searchsorted(material.source_ids, found.source_id)
    counts = amount != 0
    hour = (found.hour_epoch // HOUR_S).astype(np.int32)
    return DayRows(day, cell[counts].astype(np.int32), hour[counts], amount[counts])


def _first_hour_s() -> int | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(hour_at) FROM usage_bucket")
        hour_at = cursor.fetchone()[0]
    return None if hour_at is None else int(hour_at.timestamp())
