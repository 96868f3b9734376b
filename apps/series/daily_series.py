"""Arrays of daily and hourly series, their storage as blobs, and days of the site's time zone in whole UTC hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.runs.waiting import RunWaiting
from apps.series.tiles import I8, Tiles

HOUR_S = 3600
F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
EXISTS, COMPETES, KNOWS_WAITING = 1, 2, 4  # bits of `flags`


@dataclass(frozen=True, eq=False)
class SeriesDays:
    """Columns with one number a day; arrays (days,). A day is a calendar day in FAIRSHARE_TIME_ZONE, cut to whole UTC
    hours.

    In an hourly series each row is an hour, and `on` holds the instant at which it starts, in that zone.

    revision: number of the revision current at the day's end; of the first revision where `is_before_first`, i.e.
    nothing was published yet. ends_s: the day's end, epoch seconds. root_used: usage of the whole tree on the day, in
    the scope by which the root's children are compared. root_decayed: decayed usage at the day's end.
    """

    on: tuple[date, ...]
    ends_s: F8
    revision: I4
    is_before_first: Mask
    root_used: F8
    root_decayed: F8

    def select(self, at: I8) -> SeriesDays:
        """Return the days with these indices."""
        return SeriesDays(
            tuple(self.on[i] for i in at),
            self.ends_s[at],
            self.revision[at],
            self.is_before_first[at],
            self.root_used[at],
            self.root_decayed[at],
        )


@dataclass(frozen=True, eq=False)
class DailySeries:
    """Entries by days: arrays (entries, days), in the metric of each day's revision, 0 where there is no data.

    used: usage on the day by the entry's subtree, in the scope by which the entry is compared, without adjustments.
    peers_used: the same summed over all entries that compete with it, itself included. decayed, peers_decayed: decayed
    usage at the day's end in the window current then, adjustments included; a recompute at that instant divides these
    two. Hence actual = used / peers_used summed over any days, or decayed / peers_decayed at one day's end; 0 where the
    peers have none.

    target, target_global: of the day's revision; 0 where `competes` is false (not in that tree, the root, or shares
    that are *inherit*). exists: in the tree of that day. waited_core_s: core-seconds requested by jobs that waited on
    that day. knows_waiting: all sources in scope report submit times. n_active: members below that used anything on the
    day. largest: the largest usage of one of them.
    """

    uids: tuple[UUID, ...]
    days: SeriesDays
    used: F8
    peers_used: F8
    decayed: F8
    peers_decayed: F8
    target: F8
    target_global: F8
    exists: Mask
    competes: Mask
    waited_core_s: F8
    knows_waiting: Mask
    n_active: I4
    largest: F8


@dataclass(frozen=True)
class SeriesState:
    """How far a policy's series is built. `through_on`: the last built day, None before the first build.

    stale_from_on: the first day whose inputs have changed since it was built, None if there is none. run: the running
    or waiting build; progress: its progress, 0..1; waiting: behind what it waits. local_since: by entry uid, the
    instant since when days below that entry are built from local usage only. hours_from_at, hours_through_at: the
    range of built hours, None before the first build of hours.
    """

    first_on: date | None = None
    through_on: date | None = None
    stale_from_on: date | None = None
    run: int | None = None
    progress: float | None = None
    waiting: RunWaiting | None = None
    missing: tuple[str, ...] = field(default_factory=tuple)
    local_since: Mapping[UUID, datetime] = field(default_factory=dict)
    hours_from_at: datetime | None = None
    hours_through_at: datetime | None = None


DAY_TILES = Tiles("analytics_serieshourtile", "day_on")  # one row for each hour of a UTC day
HOURS_A_DAY = 24
