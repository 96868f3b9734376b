"""Which jobs count by their own times in a window that charges by period, as Slurm does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from apps.engine import decay
from apps.priorities.metering import own_times_reach_s
from apps.usage.own_times import EndedRecords, load_ended_records, own_times_since


def since_by_source(window: decay.Window, *, sources: Sequence[int], to_at: datetime) -> dict[int, float]:
    """The hour by source, in seconds since 1970, from which its finished jobs count by their own times.

    Empty if all usage counts by the hour.
    """
    reach_s = own_times_reach_s(window)
    return {} if reach_s is None else own_times_since(sources=sources, reach_s=reach_s, to_at=to_at)


def load_ended(
    window: decay.Window, *, sources: Sequence[int], to_at: datetime, sites: Sequence[str] = ()
) -> EndedRecords | None:
    """Finished jobs by their own times; None if all usage counts by the hour."""
    since = since_by_source(window, sources=sources, to_at=to_at)
    return load_ended_records(since=since, to_at=to_at, sites=sites) if since else None
