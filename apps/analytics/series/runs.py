"""When a series is built: by a run of its own, months and then hours, behind everything more urgent.

The series by the hour, of the last seven days: what there is on an instance's first days, and a curve within a day.
Hours are built as days are, by the same Builder; each day of UTC is a tile of 24 rows. They are few, so what is stale
is rebuilt with every hour that ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from apps.analytics.models import Series, SeriesDay, SeriesHour, SeriesHourTile
from apps.analytics.series.builder import Builder, BuiltDay
from apps.analytics.series.daily_series import (
    DAYS,
    HOUR_S,
    KNOWS_WAITING,
    Day,
    Month,
    Slots,
    day_at,
    days_of,
    empty_month,
    last_ended,
    months_of,
    put_day,
    read_month,
    site_zone,
    widened,
    write_month,
)
from apps.analytics.series.inputs import (
    Standing,
    built_from,
    changed_policy,
    first_at,
    is_all_other,
    read_inputs,
    stale_from,
)
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, let_others_go_first
from apps.usage.changed_hours import earliest_change

# --- Hours ------------------------------------------------------------------------------------------------------------
MOST_HOURS = 7 * 24
MOST_ENTRIES = 200_000  # of a tree: of larger ones days alone are built
_A_DAY = 24


def plan_hours(policy: Policy, series: Series | None, inputs: Mapping[str, Any], *, at: datetime) -> list[int] | None:
    """From when to when hours are to be made, epoch seconds; None where nothing is to be done."""
    to_s = _hour_s(at)
    from_s = max(_hour_s(first_at(policy)), to_s - MOST_HOURS * HOUR_S)
    if len(load_tree(policy)) > MOST_ENTRIES:
        return None
    is_built = series is not None and series.hours_through_at is not None
    if series is not None and is_built and not is_all_other(policy, series.hours_inputs, inputs):
        from_s = max(from_s, min(_stale_s(policy, series, inputs), _hour_s(series.hours_through_at)))
    return [from_s, to_s] if from_s < to_s else None


def is_hour_missing(series: Series, policy: Policy, *, at: datetime) -> bool:
    """Whether an hour has ended since the last build."""
    if series.hours_through_at is not None:
        return _hour_s(series.hours_through_at) < _hour_s(at)
    return _hour_s(first_at(policy)) < _hour_s(at) and len(load_tree(policy)) <= MOST_ENTRIES


def _stale_s(policy: Policy, series: Series, inputs: Mapping[str, Any]) -> int:
    then = series.hours_inputs
    found = [*changed_policy(policy, then, inputs), earliest_change(then["watermarks"])]
    return min((_hour_s(at) for at in found if at is not None), default=_hour_s(series.hours_through_at))


def hours_between(from_s: int, to_s: int, zone: ZoneInfo) -> list[Day]:
    """Each with the day of the site's zone to which it belongs."""
    starts = range(from_s, to_s, HOUR_S)
    return [Day(day_at(datetime.fromtimestamp(s, UTC), zone).on, s, s + HOUR_S) for s in starts]


@dataclass(eq=False)
class BuiltHours:
    """Consecutive hours of one day of UTC, with those before them as they are stored."""

    policy: Policy
    day_on: date
    month: Month
    rows: list[SeriesHour]

    def store(self, slots: Slots) -> None:
        """In the caller's transaction."""
        begins = [row.begins_at for row in self.rows]
        SeriesHour.objects.filter(policy=self.policy, begins_at__in=begins).delete()
        SeriesHour.objects.bulk_create(self.rows)
        slots.store_new()
        write_month(self.policy, self.day_on, self.month, tiles=DAYS)


def build_hours(policy: Policy, hours: Sequence[Day], slots: Slots) -> Iterator[BuiltHours]:
    """Day of UTC by day, in the hours' order."""
    builder = Builder(policy, hours)
    for day_on, group in groupby(hours, key=lambda hour: hour.from_at.date()):
        of_day = list(group)
        first = _row_of(of_day[0])
        month = empty_month(_A_DAY, len(slots))
        if first:
            for name, values in read_month(policy, day_on, n_days=_A_DAY, n_slots=len(slots), tiles=DAYS).items():
                month[name][:first] = values[:first]
        made = BuiltHours(policy, day_on, month, [])
        for built in builder.build(of_day):
            places = slots.of(built.standing.tree)
            made.month = widened(made.month, len(slots))
            put_day(made.month, _row_of(built.day), places, built.values)
            made.rows.append(
                SeriesHour(
                    policy=policy,
                    begins_at=built.day.from_at,
                    revision_number=built.standing.number,
                    is_before_first=built.is_before_first,
                    root_used=built.values.root_used,
                    root_decayed=built.values.root_decayed,
                )
            )
        yield made


def note_hours(policy: Policy, inputs: Mapping[str, Any], *, from_s: int, through_s: int) -> None:
    """How far the hours are built, from the hour `from_s` on; those that are too old go."""
    series = Series.objects.defer("carry").get_or_create(policy=policy)[0]
    oldest = datetime.fromtimestamp(through_s - MOST_HOURS * HOUR_S, UTC)
    SeriesHour.objects.filter(policy=policy, begins_at__lt=oldest).delete()
    SeriesHourTile.objects.filter(policy=policy, day_on__lt=oldest.date()).delete()
    begun = datetime.fromtimestamp(from_s, UTC)
    series.hours_from_at = max(oldest, begun if series.hours_from_at is None else min(series.hours_from_at, begun))
    series.hours_through_at = datetime.fromtimestamp(through_s, UTC)
    series.hours_inputs = dict(inputs)
    series.save(update_fields=["hours_from_at", "hours_through_at", "hours_inputs"])


def _row_of(hour: Day) -> int:
    return hour.from_at.hour


def _hour_s(at: datetime | None) -> int:
    return 0 if at is None else int(at.timestamp()) // HOUR_S * HOUR_S


# --- Runs -------------------------------------------------------------------------------------------------------------
class BuiltMonth:
    """The days of a month from some day on, with those before as they are stored."""

    def __init__(self, policy: Policy, month_on: date, days: Sequence[Day], slots: Slots) -> None:
        self.policy = policy
        self.month_on = month_on
        self._slots = slots
        self._first = (days[0].on - month_on).days
        self._n_days = (days[-1].on - month_on).days + 1
        self._month = empty_month(self._n_days, len(slots))
        self._stored: Month | None = None  # as it was; read when something of it is to stay
        self._rows: list[SeriesDay] = []
        self._placed: tuple[Standing, np.ndarray[tuple[int], np.dtype[np.int64]]] | None = None
        if self._first:
            for name, values in self._before().items():
                self._month[name][: self._first] = values[: self._first]

    def _before(self) -> Month:
        if self._stored is None:
            self._stored = read_month(self.policy, self.month_on, n_days=self._n_days, n_slots=len(self._slots))
        return self._stored

    def add_all(self, builder: Builder, days: Sequence[Day]) -> None:
        for built in builder.build(days):
            self._add(built)

    def _add(self, built: BuiltDay) -> None:
        if self._placed is None or self._placed[0] is not built.standing:
            self._placed = (built.standing, self._slots.of(built.standing.tree))
            self._month = widened(self._month, len(self._slots))
            self._stored = None if self._stored is None else widened(self._stored, len(self._slots))
        at, slots = (built.day.on - self.month_on).days, self._placed[1]
        put_day(self._month, at, slots, built.values)
        if built.keeps_waiting:
            self._keep_waiting(at)
        self._rows.append(
            SeriesDay(
                policy=self.policy,
                on=built.day.on,
                ends_at=built.day.to_at,
                revision_number=built.standing.number,
                is_before_first=built.is_before_first,
                root_used=built.values.root_used,
                root_decayed=built.values.root_decayed,
            )
        )

    def _keep_waiting(self, at: int) -> None:
        """Records of then are gone: what was known of them stays known."""
        month, before = self._month, self._before()
        kept, flags = before["waited_core_s"][at], before["flags"][at]
        month["waited_core_s"][at] = np.where(month["flags"][at] > 0, np.maximum(month["waited_core_s"][at], kept), 0.0)
        month["flags"][at] |= np.where(month["flags"][at] > 0, flags & KNOWS_WAITING, 0).astype(np.uint8)

    def store(self) -> None:
        """In the caller's transaction. Days of the month behind the last built one are gone: they follow on it."""
        SeriesDay.objects.filter(policy=self.policy, on__in=[row.on for row in self._rows]).delete()
        SeriesDay.objects.bulk_create(self._rows)
        self._slots.store_new()
        write_month(self.policy, self.month_on, self._month)


KIND = "series"
SETTLES = timedelta(hours=1)  # late usage comes all the time: days that changed are made again once in a while


def build_series_stale(*, at: datetime) -> list[int]:
    """Ask for a run for each policy whose series lacks a day or an hour that is over, or isn't what it would be now."""
    return [
        ask_for_series(policy, at=at).pk
        for policy in Policy.objects.filter(head_number__gte=1).order_by("id")
        if is_wanted(policy, at=at)
    ]


def ask_for_series(policy: Policy, *, at: datetime) -> Run:
    """A run that brings the series up to date; joins one that waits already."""
    return enqueue_run(kind=KIND, subject=subject_of(policy), at=at)


def subject_of(policy: Policy) -> str:
    return f"policy:{policy.slug}"


def is_wanted(policy: Policy, *, at: datetime) -> bool:
    """Whether a day is missing, or some changed since and were left alone for a while."""
    zone = site_zone()
    series = Series.objects.filter(policy=policy).defer("carry").first()
    now = read_inputs(policy, zone)
    if series is None or series.redo_from_on is not None:
        return plan(policy, at=at) is not None
    if series.through_on is None:  # its first day
        is_other = bool(series.hours_inputs) and is_all_other(policy, series.hours_inputs, now)
        is_due = is_other or is_hour_missing(series, policy, at=at)
        return is_due or _days_to_make(policy, series, now, at=at) is not None
    if series.through_on < last_ended(at, zone) or is_hour_missing(series, policy, at=at):
        return True
    if series.built_at is not None and at - series.built_at < SETTLES and _same_rules(series, now):
        return False
    return stale_from(policy, series, now, zone) is not None


def plan(policy: Policy, *, at: datetime) -> dict[str, Any] | None:
    """Which days and hours are to be made, and from what, as JSON; None where nothing is to be done."""
    zone = site_zone()
    series = Series.objects.filter(policy=policy).defer("carry").first()
    inputs = read_inputs(policy, zone)
    days = _days_to_make(policy, series, inputs, at=at)
    hours = plan_hours(policy, series, inputs, at=at)
    if days is None and hours is None:
        return None
    todo: dict[str, Any] = {"inputs": built_from(policy, zone)}
    if days is not None:
        todo |= {"from": days[0].isoformat(), "next": days[0].isoformat(), "through": days[1].isoformat()}
    if hours is not None:
        todo |= {"hours_from": hours[0], "hours_next": hours[0], "hours_to": hours[1]}
    return todo


def _days_to_make(
    policy: Policy, series: Series | None, inputs: dict[str, Any], *, at: datetime
) -> tuple[date, date] | None:
    """The first and the last one."""
    zone = site_zone()
    from_on, through_on = stale_from(policy, series, inputs, zone), last_ended(at, zone)
    if from_on is None and series is not None and series.through_on is not None:
        from_on = series.through_on + timedelta(days=1)
    return None if from_on is None or from_on > through_on else (from_on, through_on)


def work_series(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `series`: each month, and each day of hours, in one fenced transaction.

    Goes on behind the last one that was committed. Days come first: hours begin with what they carry.
    """
    policy = Policy.all_objects.get(slug=run.subject.removeprefix("policy:"))
    todo = dict(run.cursor) or plan(policy, at=lease.clock())
    if todo is None:
        return {"days": 0}
    days = _days_left(todo)
    hours = hours_between(todo["hours_next"], todo["hours_to"], site_zone()) if "hours_to" in todo else []
    work = _Work(policy, todo, Slots(policy), lease, done=_n_days(todo) - len(days))
    lease.report(done=work.done, total=_n_days(todo) + len({hour.from_at.date() for hour in hours}))
    if days:
        work.make_days(days, is_end=not hours)
    if hours:
        work.make_hours(hours)
    return _result(todo)


def _days_left(todo: dict[str, Any]) -> list[Day]:
    if "next" not in todo:
        return []
    return days_of(date.fromisoformat(todo["next"]), date.fromisoformat(todo["through"]), site_zone())


def _n_days(todo: dict[str, Any]) -> int:
    if "from" not in todo:
        return 0
    return (date.fromisoformat(todo["through"]) - date.fromisoformat(todo["from"])).days + 1


def _result(todo: dict[str, Any]) -> dict[str, Any]:
    days = {name: todo[name] for name in ("from", "through") if name in todo}
    hours = (todo["hours_to"] - todo["hours_from"]) // HOUR_S if "hours_to" in todo else 0
    return {"days": _n_days(todo), **days, "hours": hours}


@dataclass(eq=False)
class _Work:
    """One run at work. done: days and groups of hours that are stored."""

    policy: Policy
    todo: dict[str, Any]
    slots: Slots
    lease: Lease
    done: int

    def make_days(self, days: Sequence[Day], *, is_end: bool) -> None:
        builder = Builder(self.policy, days)
        for month_on, of_month in months_of(days):
            month = BuiltMonth(self.policy, month_on, of_month, self.slots)
            month.add_all(builder, of_month)
            is_last = of_month[-1].on == days[-1].on
            with self._step(len(of_month), is_end=is_end and is_last):
                month.store()
                self.todo["next"] = (of_month[-1].on + timedelta(days=1)).isoformat()
                _note(self.policy, self.todo, self.slots, is_last=is_last, at=self.lease.clock())
                if is_last:
                    builder.keep()

    def make_hours(self, hours: Sequence[Day]) -> None:
        for built in build_hours(self.policy, hours, self.slots):
            through_s = int(built.rows[-1].begins_at.timestamp()) + HOUR_S
            with self._step(1, is_end=through_s == hours[-1].to_s):
                built.store(self.slots)
                self.todo["hours_next"] = through_s
                note_hours(self.policy, self.todo["inputs"], from_s=self.todo["hours_from"], through_s=through_s)

    @contextmanager
    def _step(self, n: int, *, is_end: bool) -> Iterator[None]:
        """What is stored, how far the run is and, at the end, that it is over: committed together."""
        with self.lease.fenced() as held:
            yield
            self.done += n
            held.cursor, held.progress_done = self.todo, self.done
            held.save(update_fields=["cursor", "progress_done"])
            fault_point("series.before_commit")
            if is_end:
                self.lease.finish(_result(self.todo), self.lease.clock())
        fault_point("series.after_commit")
        if not self.lease.finished:
            let_others_go_first(self.lease)


def _note(policy: Policy, todo: dict[str, Any], slots: Slots, *, is_last: bool, at: datetime) -> None:
    """How far the series is: days before `redo_from_on` are made of these inputs."""
    Series.objects.get_or_create(policy=policy)
    series = Series.objects.defer("carry").get(policy=policy)
    from_on, next_on = (date.fromisoformat(todo[name]) for name in ("from", "next"))
    last_on = next_on - timedelta(days=1)
    series.first_on = from_on if series.first_on is None else min(series.first_on, from_on)
    series.through_on = last_on if series.through_on is None else max(series.through_on, last_on)
    series.redo_from_on = None if is_last else next_on
    series.inputs, series.n_slots, series.built_at = todo["inputs"], len(slots), at
    series.save()


def _same_rules(series: Series, now: dict[str, Any]) -> bool:
    """Nothing but usage changed."""
    return all(series.inputs.get(name) == value for name, value in now.items() if name != "watermarks")
