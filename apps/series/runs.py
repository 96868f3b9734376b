"""Background runs that build the daily series month by month, then the hourly series of the last seven days.

The hourly series shows curves within a day and serves an instance's first days. Hours are built by the same Builder as
days; each UTC day is a tile of 24 rows. There are few of them, so stale hours are rebuilt whenever an hour ends. Runs
yield to more urgent background work.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from django.db import transaction
from django.db.models import Max, Q
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.clock_watch import believed
from apps.accounts.models import Token
from apps.core.blobs import CorruptBlob
from apps.core.errors import NotAllowed
from apps.policies.access.scope import administers_within_bounds
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, work_other_runs
from apps.series.builder import Builder, BuiltDay
from apps.series.daily_series import DAY_TILES, HOUR_S, HOURS_A_DAY, KNOWS_WAITING
from apps.series.days import Day, day_at, days_of, last_complete_day, months_of, site_zone
from apps.series.inputs import built_from, first_at, invalidates_all, policy_changes, read_inputs, stale_from
from apps.series.models import Series, SeriesDay, SeriesHour, SeriesHourTile
from apps.series.revision_context import RevisionContext
from apps.series.tiles import Month, Slots, empty_month, put_day, read_month, widen, write_month
from apps.usage.changed_hours import earliest_change

logger = logging.getLogger(__name__)

MOST_REBUILT_HOURS = 7 * 24
MOST_HOURLY_ENTRIES = 200_000  # of a tree with an hourly series; larger trees have daily series only
KIND = "series"
# Late usage arrives all the time, so changed days are rebuilt at most this often.
REBUILD_INTERVAL = timedelta(hours=1)


def plan_hours(
    policy: Policy, series: Series | None, inputs: Mapping[str, Any], *, at: datetime, again: bool = False
) -> list[int] | None:
    """Return [from, to) of the hours to build, epoch seconds; None if there is nothing to build.

    Stored hours before the first usage hold usage that was removed since.
    """
    to_s, first_s = _hour_s(at), _hour_s(first_at(policy))
    if series is not None and series.hours_from_at is not None:
        first_s = min(first_s, _hour_s(series.hours_from_at))
    from_s = max(first_s, to_s - MOST_REBUILT_HOURS * HOUR_S)
    if len(load_tree(policy)) > MOST_HOURLY_ENTRIES:
        return None
    is_built = series is not None and series.hours_through_at is not None and not again
    if series is not None and is_built and not invalidates_all(policy, series.hours_inputs, inputs):
        from_s = max(from_s, min(_stale_s(policy, series, inputs), _hour_s(series.hours_through_at)))
    return [from_s, to_s] if from_s < to_s else None


def is_hour_missing(series: Series, policy: Policy, *, at: datetime) -> bool:
    """Whether an hour has ended since the last build."""
    if series.hours_through_at is not None:
        return _hour_s(series.hours_through_at) < _hour_s(at)
    return _hour_s(first_at(policy)) < _hour_s(at) and len(load_tree(policy)) <= MOST_HOURLY_ENTRIES


def _stale_s(policy: Policy, series: Series, inputs: Mapping[str, Any]) -> int:
    built = series.hours_inputs
    instants = [*policy_changes(policy, built, inputs), earliest_change(built["watermarks"])]
    return min((_hour_s(at) for at in instants if at is not None), default=_hour_s(series.hours_through_at))


def list_hours(from_s: int, to_s: int, zone: ZoneInfo) -> list[Day]:
    """List the hours from `from_s` to `to_s`, each with the site day that contains it."""
    starts = range(from_s, to_s, HOUR_S)
    return [Day(day_at(datetime.fromtimestamp(s, UTC), zone).on, s, s + HOUR_S) for s in starts]


@dataclass(eq=False)
class BuiltHours:
    """Consecutive built hours of one UTC day, in a tile that also has the stored hours before them."""

    policy: Policy
    day_on: date
    month: Month
    rows: list[SeriesHour]

    def store(self, slots: Slots) -> None:
        """Store the hours, inside the caller's transaction. Later hours of the day go, which the tile lacks."""
        first_at = self.rows[0].begins_at
        ends_at = first_at.replace(hour=0) + timedelta(days=1)
        SeriesHour.objects.filter(policy=self.policy, begins_at__gte=first_at, begins_at__lt=ends_at).delete()
        SeriesHour.objects.bulk_create(self.rows)
        slots.store_new()
        write_month(self.policy, self.day_on, self.month, tiles=DAY_TILES)


def build_hours(policy: Policy, hours: Sequence[Day], slots: Slots) -> Iterator[BuiltHours]:
    """Yield the built hours, grouped by UTC day, in order."""
    builder = Builder(policy, hours)
    for day_on, group in groupby(hours, key=lambda hour: hour.from_at.date()):
        of_day = list(group)
        first, begins_at = _row_of(of_day[0]), of_day[0].from_at
        month = empty_month(HOURS_A_DAY, len(slots))
        earlier = SeriesHour.objects.filter(policy=policy, begins_at__gte=begins_at.replace(hour=0))
        if first and earlier.filter(begins_at__lt=begins_at).exists():
            for name, values in read_month(
                policy, day_on, n_days=HOURS_A_DAY, n_slots=len(slots), least=HOURS_A_DAY, tiles=DAY_TILES
            ).items():
                month[name][:first] = values[:first]
        made = BuiltHours(policy, day_on, month, [])
        for built in builder.build(of_day):
            slots_of_tree = slots.of(built.context.tree)
            made.month = widen(made.month, len(slots))
            put_day(made.month, _row_of(built.day), slots_of_tree, built.values)
            made.rows.append(
                SeriesHour(
                    policy=policy,
                    begins_at=built.day.from_at,
                    revision_number=built.context.number,
                    is_before_first=built.is_before_first,
                    root_used=built.values.root_used,
                    root_decayed=built.values.root_decayed,
                )
            )
        yield made


def record_hours(policy: Policy, inputs: Mapping[str, Any], *, from_s: int, through_s: int) -> None:
    """Record the range of built hours, starting at `from_s`, and delete hours that are too old."""
    series = Series.objects.defer("carry").get_or_create(policy=policy)[0]
    oldest = datetime.fromtimestamp(through_s - MOST_REBUILT_HOURS * HOUR_S, UTC)
    SeriesHour.objects.filter(policy=policy, begins_at__lt=oldest).delete()
    SeriesHourTile.objects.filter(policy=policy, day_on__lt=oldest.date()).delete()
    from_at = datetime.fromtimestamp(from_s, UTC)
    series.hours_from_at = max(oldest, from_at if series.hours_from_at is None else min(series.hours_from_at, from_at))
    series.hours_through_at = datetime.fromtimestamp(through_s, UTC)
    series.hours_inputs = dict(inputs)
    series.save(update_fields=["hours_from_at", "hours_through_at", "hours_inputs"])


def _row_of(hour: Day) -> int:
    return hour.from_at.hour


def _hour_s(at: datetime | None) -> int:
    return 0 if at is None else int(at.timestamp()) // HOUR_S * HOUR_S


class BuiltMonth:
    """Built days of one month, in a tile that also has the stored days before them."""

    def __init__(self, policy: Policy, month_on: date, days: Sequence[Day], slots: Slots) -> None:
        self.policy = policy
        self.month_on = month_on
        self._slots = slots
        self._first = (days[0].on - month_on).days
        self._last_on = days[-1].on
        self._n_days = (days[-1].on - month_on).days + 1
        self._month = empty_month(self._n_days, len(slots))
        self._stored: Month | None = None  # the month before this build; read when parts of it are preserved
        self._rows: list[SeriesDay] = []
        self._slots_of_tree: tuple[RevisionContext, np.ndarray[tuple[int], np.dtype[np.int64]]] | None = None
        if SeriesDay.objects.filter(policy=policy, on__gte=month_on, on__lt=days[0].on).exists():
            for name, values in self._before().items():
                self._month[name][: self._first] = values[: self._first]

    def _before(self) -> Month:
        """Raises CorruptBlob."""
        if self._stored is None:
            on = SeriesDay.objects.filter(policy=self.policy, on__gte=self.month_on, on__lte=self._last_on)
            last_on = on.aggregate(last=Max("on"))["last"]
            least = 0 if last_on is None else last_on.day
            self._stored = read_month(
                self.policy, self.month_on, n_days=self._n_days, n_slots=len(self._slots), least=least
            )
        return self._stored

    def add_all(self, builder: Builder, days: Sequence[Day]) -> None:
        for built in builder.build(days):
            self._add(built)

    def _add(self, built: BuiltDay) -> None:
        if self._slots_of_tree is None or self._slots_of_tree[0] is not built.context:
            self._slots_of_tree = (built.context, self._slots.of(built.context.tree))
            self._month = widen(self._month, len(self._slots))
            self._stored = None if self._stored is None else widen(self._stored, len(self._slots))
        at, slots = (built.day.on - self.month_on).days, self._slots_of_tree[1]
        put_day(self._month, at, slots, built.values)
        if built.records_deleted:
            self._preserve_waiting(at)
        self._rows.append(
            SeriesDay(
                policy=self.policy,
                on=built.day.on,
                ends_at=built.day.to_at,
                revision_number=built.context.number,
                is_before_first=built.is_before_first,
                root_used=built.values.root_used,
                root_decayed=built.values.root_decayed,
            )
        )

    def _preserve_waiting(self, at: int) -> None:
        """Keep the stored demand of a day whose job records may have been deleted."""
        try:
            before = self._before()
        except CorruptBlob:
            logger.exception("The stored demand of %s in %s is lost.", self.policy, self.month_on)
            self._stored = before = empty_month(self._n_days, len(self._slots))
        month = self._month
        stored, flags = before["waited_core_s"][at], before["flags"][at]
        month["waited_core_s"][at] = np.where(
            month["flags"][at] > 0, np.maximum(month["waited_core_s"][at], stored), 0.0
        )
        month["flags"][at] |= np.where(month["flags"][at] > 0, flags & KNOWS_WAITING, 0).astype(np.uint8)

    def store(self) -> None:
        """Replace the rows of the built days and the month's tiles, inside the caller's transaction. Later days of the
        month are dropped; the build continues with them.
        """
        SeriesDay.objects.filter(policy=self.policy, on__in=[row.on for row in self._rows]).delete()
        SeriesDay.objects.bulk_create(self._rows)
        self._slots.store_new()
        write_month(self.policy, self.month_on, self._month)


def build_series_stale(*, at: datetime) -> list[int]:
    """Enqueue a run for each policy whose series lacks a finished day or hour, or is out of date."""
    is_ahead = Q(through_on__gt=last_complete_day(at, site_zone())) | Q(hours_through_at__gt=_this_hour(at))
    for series in Series.objects.filter(is_ahead).defer("carry"):
        drop_days_ahead(series, at=at)
    return [
        enqueue_series_build(policy, at=at).pk
        for policy in Policy.objects.filter(head_number__gte=1).order_by("id")
        if is_build_due(policy, at=at)
    ]


@transaction.atomic
def drop_days_ahead(series: Series, *, at: datetime) -> None:
    """Delete days and hours that have not ended yet, built while the clock was ahead; they are built again in time.

    Of the hours, all are built again: those before the range that was ahead are missing.
    """
    last_on = last_complete_day(at, site_zone())
    SeriesDay.objects.filter(policy_id=series.policy_id, on__gt=last_on).delete()
    if series.hours_through_at is not None and series.hours_through_at > _this_hour(at):
        for table in (SeriesHour, SeriesHourTile):
            table._default_manager.filter(policy_id=series.policy_id).delete()
        series.hours_from_at, series.hours_through_at, series.hours_inputs = None, None, {}
    changed = ["hours_from_at", "hours_through_at", "hours_inputs"]
    if series.through_on is None or series.through_on <= last_on:
        series.save(update_fields=changed)
        return
    has_days = series.first_on is not None and series.first_on <= last_on
    series.through_on = last_on if has_days else None
    series.first_on = series.first_on if has_days else None
    series.carry, series.carry_digest = None, ""  # it is of the day that was the last
    series.save(update_fields=[*changed, "first_on", "through_on", "carry", "carry_digest"])


def _this_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def enqueue_series_build(policy: Policy, *, at: datetime) -> Run:
    """Enqueue a run that updates the series; returns the waiting run if there is one."""
    return enqueue_run(kind=KIND, subject=subject_of(policy), at=at)


@transaction.atomic
def request_rebuild(*, policy_slug: str, at: datetime, actor: Actor) -> Run:
    """Enqueue a run that builds all days and hours again from the buckets, whatever is stored. Raises NotAllowed for
    all but administrators.
    """
    policy = get_policy(slug=policy_slug, actor=actor)
    if not administers_within_bounds(actor, Token.Scope.ADMIN):
        raise NotAllowed(_("Only administrators have a series built again."))
    run = enqueue_run(
        kind=KIND,
        subject=subject_of(policy),
        arguments={"again": True},
        owner=actor.user,
        idempotency_key=f"{policy.slug}@{uuid.uuid4().hex}",  # never joined with a run that goes on with what is stored
        at=at,
    )
    audit.record(actor=actor, verb="series.rebuild_requested", at=at, policy_slug=policy.slug, subject=f"run {run.pk}")
    return run


def subject_of(policy: Policy) -> str:
    return f"policy:{policy.slug}"


def is_build_due(policy: Policy, *, at: datetime) -> bool:
    """Whether a day or hour is missing, or days changed and REBUILD_INTERVAL has passed."""
    zone = site_zone()
    series = Series.objects.filter(policy=policy).defer("carry").first()
    current = read_inputs(policy, zone)
    if series is None or series.redo_from_on is not None:
        return plan_build(policy, at=at) is not None
    if series.through_on is None:  # its first day
        is_other = bool(series.hours_inputs) and invalidates_all(policy, series.hours_inputs, current)
        is_due = is_other or is_hour_missing(series, policy, at=at)
        return is_due or _days_to_build(policy, series, current, at=at) is not None
    if series.through_on < last_complete_day(at, zone) or is_hour_missing(series, policy, at=at):
        return True
    if series.built_at is not None and at - series.built_at < REBUILD_INTERVAL and _only_usage_changed(series, current):
        return False
    return stale_from(policy, series, current, zone) is not None


def plan_build(policy: Policy, *, at: datetime, again: bool = False) -> dict[str, Any] | None:
    """Return the days and hours to build and their inputs, as JSON; None if there is nothing to build.

    again: all of them, as if none was stored.
    """
    zone = site_zone()
    series = Series.objects.filter(policy=policy).defer("carry").first()
    inputs = read_inputs(policy, zone)
    days = _days_to_build(policy, series, inputs, at=at, again=again)
    hours = plan_hours(policy, series, inputs, at=at, again=again)
    if days is None and hours is None:
        return None
    todo: dict[str, Any] = {"inputs": built_from(policy, zone)}
    if days is not None:
        todo |= {"from": days[0].isoformat(), "next": days[0].isoformat(), "through": days[1].isoformat()}
    if hours is not None:
        todo |= {"hours_from": hours[0], "hours_next": hours[0], "hours_to": hours[1]}
    return todo


def _days_to_build(
    policy: Policy, series: Series | None, inputs: dict[str, Any], *, at: datetime, again: bool = False
) -> tuple[date, date] | None:
    """Return the first and the last day to build; None if there are none."""
    zone = site_zone()
    from_on, through_on = stale_from(policy, None if again else series, inputs, zone), last_complete_day(at, zone)
    if again and from_on is not None and series is not None and series.first_on is not None:
        from_on = min(from_on, series.first_on)
    if from_on is None and series is not None and series.through_on is not None:
        from_on = series.through_on + timedelta(days=1)
    return None if from_on is None or from_on > through_on else (from_on, through_on)


def run_series_build(run: Run, lease: Lease) -> dict[str, Any]:
    """Run handler of `series`: stores each month, and each day of hours, in one fenced transaction.

    A resumed run continues behind the last committed month. Days are built first, because hours start from the sums
    that days store.
    """
    policy = Policy.all_objects.get(slug=run.subject.removeprefix("policy:"))
    at = believed(lease.clock())
    todo = dict(run.cursor) or plan_build(policy, at=at, again=bool(run.arguments.get("again")))
    try:
        return _build(policy, todo, lease)
    except CorruptBlob:
        # Else each later build would fail as this one: days of a month are kept in the tile of the days before them.
        logger.exception("Stored days or hours of %s can't be read: all are built again.", policy)
        return _build(policy, plan_build(policy, at=at, again=True), lease)


def _build(policy: Policy, todo: dict[str, Any] | None, lease: Lease) -> dict[str, Any]:
    if todo is None:
        return {"days": 0}
    days = _days_left(todo)
    hours = list_hours(todo["hours_next"], todo["hours_to"], site_zone()) if "hours_to" in todo else []
    work = _Work(policy, todo, Slots(policy), lease, done=_n_days(todo) - len(days))
    lease.report(done=work.done, total=_n_days(todo) + len({hour.from_at.date() for hour in hours}))
    if days:
        work.build_days(days, is_end=not hours)
    if hours:
        work.build_hours_of(hours)
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
    """The work of one run. done: number of stored days and of stored groups of hours."""

    policy: Policy
    todo: dict[str, Any]
    slots: Slots
    lease: Lease
    done: int

    def build_days(self, days: Sequence[Day], *, is_end: bool) -> None:
        builder = Builder(self.policy, days)
        for month_on, of_month in months_of(days):
            month = BuiltMonth(self.policy, month_on, of_month, self.slots)
            month.add_all(builder, of_month)
            is_last = of_month[-1].on == days[-1].on
            with self._commit_step(len(of_month), is_end=is_end and is_last):
                month.store()
                self.todo["next"] = (of_month[-1].on + timedelta(days=1)).isoformat()
                _record_days(self.policy, self.todo, self.slots, is_last=is_last, at=self.lease.clock())
                if is_last:
                    builder.save_carry()

    def build_hours_of(self, hours: Sequence[Day]) -> None:
        for built in build_hours(self.policy, hours, self.slots):
            through_s = int(built.rows[-1].begins_at.timestamp()) + HOUR_S
            with self._commit_step(1, is_end=through_s == hours[-1].to_s):
                built.store(self.slots)
                self.todo["hours_next"] = through_s
                record_hours(self.policy, self.todo["inputs"], from_s=self.todo["hours_from"], through_s=through_s)

    @contextmanager
    def _commit_step(self, n: int, *, is_end: bool) -> Iterator[None]:
        """Commit the stored data together with the run's cursor and, at the end, its completion."""
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
            work_other_runs(self.lease)


def _record_days(policy: Policy, todo: dict[str, Any], slots: Slots, *, is_last: bool, at: datetime) -> None:
    """Record how far the series is built. Days before `redo_from_on` were built from the recorded inputs.

    Days behind the last one go: the clock was ahead, or a later build ended first. The month's tiles lack them.
    """
    Series.objects.get_or_create(policy=policy)
    series = Series.objects.defer("carry").get(policy=policy)
    from_on, next_on = (date.fromisoformat(todo[name]) for name in ("from", "next"))
    last_on = next_on - timedelta(days=1)
    series.first_on = from_on if series.first_on is None else min(series.first_on, from_on)
    if is_last:
        SeriesDay.objects.filter(policy=policy, on__gt=last_on).delete()
    if is_last or series.through_on is None or series.through_on < last_on:
        series.through_on = last_on
    series.redo_from_on = None if is_last else next_on
    series.inputs, series.n_slots, series.built_at = todo["inputs"], len(slots), at
    series.save()


def _only_usage_changed(series: Series, current: dict[str, Any]) -> bool:
    """Whether usage is the only input that may have changed since the build."""
    of_usage = ("watermarks", "submit_times")
    return all(series.inputs.get(name) == value for name, value in current.items() if name not in of_usage)
