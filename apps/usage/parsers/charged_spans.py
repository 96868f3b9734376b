"""The span in which a run counts, where its sender gives a start, an end and the duration that it charges.

Grid sites sum durations (SGAS, APEL and Gratia add up WallDuration), and not all starts are starts: ARC writes the
submission there, HTCondor and BOINC the last of several.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.usage.parsers.base import MOST_JOB_S
from apps.usage.parsers.field_values import BadRecord
from apps.usage.parsers.lines import Notes

DIFFERS = "wall_duration_differs"
LESS_CPU_S, MORE_CPU_S = "wall_duration_less_cpu_s", "wall_duration_more_cpu_s"
_SAME_S = 2.0  # senders round start, end and duration each by itself


def charged_span(
    start_at: datetime | None, end_at: datetime | None, wall_s: float | None, *, cpus: float, notes: Notes
) -> tuple[datetime | None, datetime | None]:
    """Start and end; a missing one follows from the other and the duration (s).

    Where all three are given and disagree, the run ends at its end, and the duration counts:
        start = end − wall_s                                    (OGF GFD.98, WallDuration)
    The notes count such runs, and the CPU-seconds by which the duration is less or more than from start to end.

    A start behind the end, or ten years before it, is left as it is, to be refused.

    Raises:
        BadRecord: the duration is longer than any job, or the other time is outside of the calendar.
    """
    if wall_s is None or (start_at is None and end_at is None):
        return start_at, end_at
    if wall_s > MOST_JOB_S:
        raise BadRecord("absurd_run_time", f"WallDuration is {wall_s:g} s, longer than any job.")
    try:
        if end_at is None and start_at is not None:
            return start_at, start_at + timedelta(seconds=wall_s)
        if end_at is None:
            return start_at, end_at
        begin_at = end_at - timedelta(seconds=wall_s)
    except OverflowError as error:
        raise BadRecord("absurd_time", "StartTime or EndTime is not between 1970 and 2200.") from error
    if start_at is None:
        return begin_at, end_at
    off_s = (end_at - start_at).total_seconds() - wall_s
    if abs(off_s) <= _SAME_S or not -wall_s <= off_s <= MOST_JOB_S - wall_s:
        return start_at, end_at
    notes[DIFFERS] += 1
    notes[LESS_CPU_S if off_s > 0 else MORE_CPU_S] += round(abs(off_s) * cpus)
    return begin_at, end_at
