"""How often promises of each day held, summed from their rows each hour; the sums stay when the rows go."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from django.db import connection, transaction
from django.db.models import Sum

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.answers import DAYS_OF_RECORD
from apps.contrib.starts.models import Outcome, StartDay, StartState
from apps.contrib.starts.prediction.promises import FLOOR_S, Kind

_COLUMNS = (
    "kept, broken, unknown, apart_kept, apart_broken, bursts, bursts_kept, above, above_kept, above_bursts,"
    " above_bursts_kept, planned, planned_kept, ours_beside_kept"
)
_KEPT, _BROKEN, _LEFT, _KEPT_APART, _BROKEN_APART = (
    int(each) for each in (Outcome.KEPT, Outcome.BROKEN, Outcome.LEFT, Outcome.KEPT_APART, Outcome.BROKEN_APART)
)
_IS_SETTLED = f"outcome IN ({_KEPT}, {_BROKEN})"
_IS_ABOVE = f"{_IS_SETTLED} AND bound > {FLOOR_S}"
_IS_BESIDE = f"level = 80 AND {_IS_SETTLED} AND planned_outcome IN ({_KEPT}, {_BROKEN})"
# Each promise of one of n in its burst counts 1/n, so that sums over groups count each burst once.
_SUMS = f"""
INSERT INTO starts_startday (scheduler_id, day, kind, level, size, length, partition, {_COLUMNS})
WITH promised AS (
    SELECT CASE WHEN age_s > 0 THEN '{Kind.WAITING}' ELSE '{Kind.SUBMIT}' END AS kind, size, length, partition, "user",
        date_bin('1 hour', made_at, '2000-01-01 00:00:00+00') AS hour, planned_outcome, each.*
    FROM starts_startpromise, unnest(ARRAY[50, 80, 95], outcomes, bounds_s) AS each (level, outcome, bound)
    WHERE scheduler_id = %(scheduler)s AND made_at >= %(from_at)s AND made_at < %(to_at)s
), weighed AS (
    SELECT *, count(*) FILTER (WHERE {_IS_SETTLED}) OVER burst AS n_of_burst,
        count(*) FILTER (WHERE {_IS_ABOVE}) OVER burst AS n_above
    FROM promised WINDOW burst AS (PARTITION BY level, kind, "user", hour)
)
SELECT %(scheduler)s, %(day)s, kind, level, size, length, partition,
    count(*) FILTER (WHERE outcome = {_KEPT}),
    count(*) FILTER (WHERE outcome = {_BROKEN}),
    count(*) FILTER (WHERE outcome = {_LEFT}),
    count(*) FILTER (WHERE outcome = {_KEPT_APART}),
    count(*) FILTER (WHERE outcome = {_BROKEN_APART}),
    coalesce(sum(1.0 / n_of_burst) FILTER (WHERE {_IS_SETTLED}), 0),
    coalesce(sum(1.0 / n_of_burst) FILTER (WHERE outcome = {_KEPT}), 0),
    count(*) FILTER (WHERE {_IS_ABOVE}),
    count(*) FILTER (WHERE {_IS_ABOVE} AND outcome = {_KEPT}),
    coalesce(sum(1.0 / n_above) FILTER (WHERE {_IS_ABOVE}), 0),
    coalesce(sum(1.0 / n_above) FILTER (WHERE {_IS_ABOVE} AND outcome = {_KEPT}), 0),
    count(*) FILTER (WHERE {_IS_BESIDE}),
    count(*) FILTER (WHERE {_IS_BESIDE} AND planned_outcome = {_KEPT}),
    count(*) FILTER (WHERE {_IS_BESIDE} AND outcome = {_KEPT})
FROM weighed GROUP BY kind, level, size, length, partition
"""  # noqa: S608 - numbers of this module
_CHANGED_DAYS = """
SELECT DISTINCT (made_at AT TIME ZONE 'UTC')::date FROM starts_startpromise
WHERE scheduler_id = %s AND (settled_in[1] > %s OR settled_in[2] > %s OR settled_in[3] > %s OR planned_in > %s)
"""


def sum_days(scheduler: Scheduler, *, at: datetime) -> int:
    """Sum the days of which a promise or a planned start was settled since; returns their number."""
    with transaction.atomic():
        Scheduler.objects.select_for_update(no_key=True).get(pk=scheduler.pk)
        state = StartState.objects.filter(scheduler=scheduler).defer("data", "opening").first()
        if state is None:
            return 0
        with connection.cursor() as cursor:
            cursor.execute(_CHANGED_DAYS, [scheduler.pk, *[state.summed_seq] * 4])
            days: list[date] = [day for (day,) in cursor.fetchall()]
            StartDay.objects.filter(scheduler=scheduler, day__in=days).delete()
            for day in days:
                from_at = datetime.combine(day, time.min, UTC)
                bounds = {"from_at": from_at, "to_at": from_at + timedelta(days=1)}
                cursor.execute(_SUMS, {"scheduler": scheduler.pk, "day": day, **bounds})
        state.summed_seq, state.held = state.seq, _held(scheduler, at)
        state.save(update_fields=["summed_seq", "held"])
    return len(days)


def _held(scheduler: Scheduler, at: datetime) -> dict[str, list[int]]:
    """Kept and number of settled promises of 80 %, by kind."""
    days = StartDay.objects.filter(scheduler=scheduler, level=80, day__gt=(at - timedelta(days=DAYS_OF_RECORD)).date())
    sums = days.values_list("kind").annotate(n_kept=Sum("kept"), n_broken=Sum("broken"))
    return {kind: [kept, kept + broken] for kind, kept, broken in sums}
