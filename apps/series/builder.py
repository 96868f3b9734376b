"""Builds the values of consecutive days of a policy's series from usage buckets, job records, revisions and the current
mapping rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps import engine
from apps.accounts.account_index import AccountIndex, load_account_index
from apps.core import blobs
from apps.core.postgresql import consistent_read
from apps.engine.algorithms import PriorityResult
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import load_rules
from apps.policies.models import Policy, Revision
from apps.policies.settings import PolicySettings
from apps.priorities.local_only import LocalOnlyEntry, list_local_only_entries
from apps.priorities.metering import SourceRow
from apps.priorities.usage_factors import JobClassRow, site_names, weighted_amounts, weighted_resources
from apps.series.daily_series import HOUR_S
from apps.series.days import Day, day_at, days_of, site_zone
from apps.series.head_mapping import HeadMapping, head_mapping
from apps.series.inputs import LAYOUT
from apps.series.revision_context import PolicyState, RevisionContext, SharedInputs, build_context
from apps.series.tiles import DayValues
from apps.series.usage_and_demand import DayRows, DaySums, WindowSums, window_start_s, window_sums_of
from apps.series.waiting_jobs import SubmitTimeSources, Waiting
from apps.usage import pgbinary
from apps.usage.arrays import UsageArrays, load_usage
from apps.usage.changed_hours import earliest_change
from apps.usage.models import JobClass, Source

I8 = npt.NDArray[np.int64]

_MOST_STORED_SUM_BYTES = 256 * 1024 * 1024  # of stored sums: reading larger ones is no faster than reading buckets
_UPDATE = "UPDATE analytics_series SET carry = %b, carry_digest = %s WHERE policy_id = %s"
_SELECT = "SELECT carry, carry_digest FROM analytics_series WHERE policy_id = %s AND carry IS NOT NULL"
_QUERY_SPAN_S = 7 * 24 * HOUR_S  # span of buckets read by one query, to bound memory
_REVISION_FIELDS = ("number", "published_at", "settings", "n_entries")


class CarriedSums:
    """Usage sums stored at the end of the last complete build, by day, account and source.

    Stored with what they are of: metric and window (`terms`), layout, engine, and the watermarks at which their usage
    was read. Another metric, window, layout or engine ends all of them; a change of usage since those watermarks ends
    the sums of its day and of all later days.
    """

    def __init__(self, policy: Policy) -> None:
        with pgbinary.cursor() as cursor:
            row = cursor.execute(_SELECT, [policy.pk], binary=True).fetchone()
        self._columns: dict[str, Any] = {}
        self._meta: dict[str, Any] = {}
        if row is not None:
            with suppress(blobs.CorruptBlob):  # the usage is in the buckets, too
                self._columns, self._meta = blobs.unpack(row[0], row[1])

    def sums_before(self, first: Day, terms: Mapping[str, Any], account_ids: I8, source_ids: I8) -> list[DaySums]:
        """Return the stored sums of days that end at or before `first` starts, as far as they are valid, with cells by
        index into the given ids.

        Call it in the transaction that reads the usage of the other days.
        """
        watermarks: Mapping[str, int] = self._meta.get("watermarks", {})
        if not len(source_ids) or self._meta != {**_carried_with(terms), "watermarks": watermarks}:
            return []
        changed_at = earliest_change(watermarks)
        valid_to_s = first.from_s if changed_at is None else min(first.from_s, int(changed_at.timestamp()))
        sums, begin = [], 0
        columns = self._columns
        days = zip(*(columns[name].tolist() for name in ("on", "from_s", "to_s", "ends")), strict=True)
        for on, from_s, to_s, end in days:
            here = slice(begin, end)
            begin = end
            if to_s <= valid_to_s:
                cell = np.searchsorted(account_ids, columns["account"][here]) * len(source_ids)
                cell += np.searchsorted(source_ids, columns["source"][here])
                day = Day(date.fromordinal(on), from_s, to_s)
                sums.append(DaySums(day, cell.astype(np.int32), columns["amount"][here]))
        return sums


def _carried_with(terms: Mapping[str, Any]) -> dict[str, Any]:
    """What stored sums are of, besides usage."""
    return {"terms": dict(terms), "layout": LAYOUT, "engine": engine.VERSION}


def write_carry(
    policy: Policy,
    sums: Sequence[DaySums],
    terms: Mapping[str, Any],
    account_ids: I8,
    source_ids: I8,
    *,
    watermarks: Mapping[str, int],
) -> None:
    """Replace the stored sums, inside the caller's transaction. Accounts and sources are stored by id.

    watermarks: of the sources, by slug, when the oldest of the sums was read.
    """
    data, digest = None, ""
    if sums and len(source_ids) and sum(each.amount.nbytes for each in sums) <= _MOST_STORED_SUM_BYTES:
        cell = np.concatenate([each.cell for each in sums]).astype(np.int64)
        account, source = np.divmod(cell, len(source_ids))
        columns = {
            "on": np.array([each.day.on.toordinal() for each in sums], np.int64),
            "from_s": np.array([each.day.from_s for each in sums], np.int64),
            "to_s": np.array([each.day.to_s for each in sums], np.int64),
            "ends": np.cumsum([len(each.cell) for each in sums]).astype(np.int64),
            "account": account_ids[account],
            "source": source_ids[source],
            "amount": np.concatenate([each.amount for each in sums]),
        }
        data, digest = blobs.pack(columns, {**_carried_with(terms), "watermarks": dict(watermarks)})
    with pgbinary.cursor() as cursor:
        cursor.execute(_UPDATE, [data, digest, policy.pk])


@dataclass(frozen=True, eq=False, slots=True)
class BuiltDay:
    """One day of the series with the values of every entry.

    records_deleted: records of jobs that waited on the day may have been deleted, so stored demand must be preserved.
    priorities: at the day's end, of a Builder that computes them.
    """

    day: Day
    context: RevisionContext
    is_before_first: bool
    values: DayValues
    records_deleted: bool
    priorities: PriorityResult | None = None


@dataclass(frozen=True, slots=True)
class _RevisionRow:
    number: int
    published_at: datetime
    stored_settings: dict[str, Any]
    n_entries: int

    @property
    def settings(self) -> PolicySettings:
        return PolicySettings.from_stored(self.stored_settings)


def _from_first_shares(revisions: Sequence[_RevisionRow]) -> Sequence[_RevisionRow]:
    """Drop the leading revisions without entries below the root: a policy is created empty."""
    first = next((at for at, row in enumerate(revisions) if row.n_entries > 1), 0)
    return revisions[first:]


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Inputs of a build other than usage, as read from the database."""

    sources: Sequence[SourceRow]
    classes: Mapping[int, JobClassRow]
    roll: AccountIndex
    rules: tuple[Rule, ...]
    revisions: Sequence[_RevisionRow]
    waiting: Waiting
    head: HeadMapping
    local_only: tuple[LocalOnlyEntry, ...] = ()
    watermarks: Mapping[str, int] = field(default_factory=dict)

    @property
    def source_ids(self) -> npt.NDArray[np.int64]:
        return np.array([source.id for source in self.sources], np.int64)

    @property
    def n_cells(self) -> int:
        return len(self.roll.ids) * len(self.sources)


class Builder:
    """Builds consecutive months and keeps running sums in memory between them. A `Day` may also be one hour."""

    def __init__(
        self,
        policy: Policy,
        days: Sequence[Day],
        *,
        state: PolicyState | None = None,
        with_priorities: bool = False,
        reads_carry: bool = True,
    ) -> None:
        """Prepare a build of these days.

        state: compare all days with it instead of the revision current at each day's end. reads_carry: start from
        stored sums where they are valid, else from the buckets alone.
        """
        self._policy = policy
        self._state = state
        self._with_priorities = with_priorities
        self._days = days
        self._zone = site_zone()
        self._inputs: _Inputs | None = None
        self._context: RevisionContext | None = None
        self._is_context_current = False  # whether `_context` was made from the inputs read last
        self._carry = CarriedSums(policy) if reads_carry else None
        self._window_sums: WindowSums | None = None
        self._reach_key: tuple[Any, ...] = ()
        self._read_at: Mapping[str, int] = {}  # the watermarks at which the first of `_window_sums` were read

    def build(self, days: Sequence[Day]) -> Iterator[BuiltDay]:
        """Yield the values of consecutive days, read in one database snapshot. They must follow the days of the
        previous call.
        """
        with consistent_read() as is_settled:
            inputs = self._read(is_settled)
            submit_sources = SubmitTimeSources(inputs.sources)
            revisions = [None if self._state is not None else _revision_on(inputs, day) for day in days]
            for here in _chunks(days):
                piece, there = days[here], revisions[here]
                usage = self._load_usage(inputs, piece[0].from_s, piece[-1].to_s, self._metrics_of(there))
                for day, row in zip(piece, there, strict=True):
                    context = self._context_of(inputs, row, day)
                    yield self._build_day(inputs, context, day, usage, submit_sources)

    def _build_day(
        self,
        inputs: _Inputs,
        context: RevisionContext,
        day: Day,
        usage: UsageArrays,
        submit_sources: SubmitTimeSources,
    ) -> BuiltDay:
        window_sums = self._past_usage(inputs, context, day)
        rows = _day_rows(inputs, context, day, usage)
        window_sums.add(rows)
        shape = (len(inputs.roll.ids), len(inputs.sources))
        decayed = window_sums.total_at_end(day).reshape(shape)
        values = context.values(
            rows.totals(inputs.n_cells).reshape(shape),
            decayed,
            end_s=day.to_s,
            waited=inputs.waiting.on(day),
            reports=submit_sources.on(day),
        )
        return BuiltDay(
            day,
            context,
            is_before_first=self._state is None and not _published_by(inputs, day),
            values=values,
            records_deleted=submit_sources.is_sealed(day),
            priorities=context.priorities(decayed, end_s=day.to_s) if self._with_priorities else None,
        )

    def _read(self, is_settled: bool) -> _Inputs:
        rows = list(Source.objects.order_by("id").values_list("id", "slug", "origin", "watermark"))
        revisions = Revision.objects.filter(policy=self._policy).order_by("number")
        sources, roll, last = (
            [SourceRow(*row[:3]) for row in rows],
            load_account_index(use_cache=is_settled),
            self._inputs,
        )
        same = last is not None and last.sources == sources and np.array_equal(last.roll.ids, roll.ids)
        self._inputs = _Inputs(
            sources=sources,
            classes={
                row[0]: JobClassRow(*row) for row in JobClass.objects.values_list("id", "queue", "partition", "qos")
            },
            roll=roll,
            rules=load_rules(self._policy),
            revisions=_from_first_shares([_RevisionRow(*row) for row in revisions.values_list(*_REVISION_FIELDS)]),
            local_only=list_local_only_entries(self._policy),
            head=last.head if last is not None and same else head_mapping(self._policy, roll.keys),
            waiting=last.waiting if last is not None and same else Waiting(self._days, roll.ids),
            watermarks={slug: watermark for _id, slug, _origin, watermark in rows},
        )
        self._is_context_current = False
        if not same:
            self._window_sums = self._context = None
        return self._inputs

    def _context_of(self, inputs: _Inputs, row: _RevisionRow | None, day: Day) -> RevisionContext:
        """The context of a day's revision; of the state that all days are compared with if there is one."""
        local_only = tuple(entry.uid for entry in inputs.local_only if entry.since < day.to_at)
        known = self._context if self._is_context_current else None
        number = row.number if row is not None else 0 if self._state is None else self._state.number
        if known is None or (known.number, known.local_only) != (number, local_only):
            shared = SharedInputs(inputs.rules, inputs.roll.keys, inputs.sources, inputs.head)
            state = self._state
            if row is not None:
                state = PolicyState.of_revision(self._policy, row.number, row.settings)
            if state is None:
                raise RuntimeError("A day has neither a revision nor a state.")
            known = build_context(self._policy, state, shared, previous=self._context, local_only=local_only)
            self._context, self._is_context_current = known, True
        return known

    def _metrics_of(self, rows: Sequence[_RevisionRow | None]) -> list[dict[str, Any]]:
        """The metrics of these revisions, or of the state that all days are compared with."""
        if self._state is not None:
            return [self._state.settings.metric]
        return [row.settings.metric for row in {row.number: row for row in rows if row is not None}.values()]

    def _load_usage(self, inputs: _Inputs, from_s: int, to_s: int, metrics: Sequence[Mapping[str, Any]]) -> UsageArrays:
        """Load the buckets of these hours, ordered by hour, with all columns that the metrics need."""
        usage = load_usage(
            sources=[source.id for source in inputs.sources],
            from_at=datetime.fromtimestamp(from_s, UTC),
            to_at=datetime.fromtimestamp(to_s, UTC),
            sites=sorted({name for metric in metrics for name in site_names(metric)}),
            resources={name for metric in metrics for name in weighted_resources(metric)},
            classes=any(metric["class_factors"] for metric in metrics),
        )
        return usage.selected(np.argsort(usage.hour_epoch, kind="stable"))

    def _past_usage(self, inputs: _Inputs, context: RevisionContext, day: Day) -> WindowSums:
        """Return the sums of all usage before the day, in the metric and window current on it."""
        wanted = (context.terms, day.from_s)
        if self._window_sums is None or self._reach_key != wanted:
            self._window_sums = window_sums_of(context.window, inputs.n_cells, lambda days: self._rows(context, days))
            ids = (inputs.roll.ids, inputs.source_ids)
            carried = [] if self._carry is None else self._carry.sums_before(day, context.terms, *ids)
            self._window_sums.load_past(self._earlier(context, day), carried)
            self._read_at = inputs.watermarks
        self._reach_key = (context.terms, day.to_s)
        return self._window_sums

    def _earlier(self, context: RevisionContext, day: Day) -> list[Day]:
        """List the days before this one whose usage may still have weight at its end."""
        begin_s, first_s = window_start_s(context.window, day.to_s), _first_hour_s()
        if first_s is None or first_s >= day.from_s:
            return []
        since_s = first_s if begin_s is None else max(begin_s, first_s)
        first = day_at(datetime.fromtimestamp(since_s, UTC), self._zone)
        days = [each for each in days_of(first.on, day.on, self._zone) if each.from_s < day.from_s]
        if days and days[-1].to_s > day.from_s:  # `day` is an hour: keep the earlier hours of its day
            days[-1] = Day(days[-1].on, days[-1].from_s, day.from_s)
        return days

    def _rows(self, context: RevisionContext, days: Sequence[Day]) -> Iterator[DayRows]:
        """Yield the usage rows of consecutive earlier days."""
        inputs = self._inputs
        if inputs is None:
            return
        for here in _chunks(days):
            piece = days[here]
            usage = self._load_usage(inputs, piece[0].from_s, piece[-1].to_s, [context.metric])
            for each in piece:
                yield _day_rows(inputs, context, each, usage)

    def save_carry(self) -> None:
        """Store the sums from which the next build can continue, inside the caller's transaction."""
        if self._window_sums is not None and self._inputs is not None:
            inputs = self._inputs
            write_carry(
                self._policy,
                list(self._window_sums.carried()),
                self._reach_key[0],
                inputs.roll.ids,
                inputs.source_ids,
                watermarks=self._read_at,
            )


def _revision_on(inputs: _Inputs, day: Day) -> _RevisionRow:
    """The revision current at the end of the day; the first one for a day before it."""
    published = _published_by(inputs, day)
    return published[-1] if published else inputs.revisions[0]


def _published_by(inputs: _Inputs, day: Day) -> list[_RevisionRow]:
    return [row for row in inputs.revisions if row.published_at < day.to_at]


def _chunks(days: Sequence[Day]) -> Iterator[slice]:
    """Slice days (or hours) into chunks that one query each can read."""
    most = max(1, _QUERY_SPAN_S // (days[0].to_s - days[0].from_s)) if days else 1
    return (slice(begin, begin + most) for begin in range(0, len(days), most))


def _day_rows(inputs: _Inputs, context: RevisionContext, day: Day, usage: UsageArrays) -> DayRows:
    """Return the usage of one day in the metric, without rows whose amount is zero."""
    begin, end = np.searchsorted(usage.hour_epoch, [day.from_s, day.to_s])
    day_usage = usage.selected(np.arange(begin, end))
    amount = weighted_amounts(day_usage, metric=context.metric, classes=inputs.classes)
    cell = np.searchsorted(inputs.roll.ids, day_usage.account_id) * max(len(inputs.sources), 1)
    cell += np.searchsorted(inputs.source_ids, day_usage.source_id)
    nonzero = amount != 0
    hour = (day_usage.hour_epoch // HOUR_S).astype(np.int32)
    return DayRows(day, cell[nonzero].astype(np.int32), hour[nonzero], amount[nonzero])


def _first_hour_s() -> int | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(hour_at) FROM usage_bucket")
        hour_at = cursor.fetchone()[0]
    return None if hour_at is None else int(hour_at.timestamp())
