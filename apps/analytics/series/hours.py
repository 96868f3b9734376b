"""The series by the hour, of the last seven days: what there is on an instance's first days, and a curve within a day.

Hours are built as days are, by the same Builder; each day of UTC is a tile of 24 rows. They are few, so what is stale
is rebuilt with every hour that ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from apps.analytics.models import Series, SeriesHour, SeriesHourTile
from apps.analytics.series.builder import Builder
from apps.analytics.series.calendar import HOUR_S, Day, day_at
from apps.analytics.series.inputs import changed_policy, first_at, is_all_other
from apps.analytics.series.storage.tiles import (
    DAYS,
    Month,
    Slots,
    empty_month,
    put_day,
    read_month,
    widened,
    write_month,
)
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.usage.buckets.changed_hours import earliest_change

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
