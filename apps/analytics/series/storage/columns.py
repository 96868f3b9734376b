"""The daily series of some entries as arrays: what is stored, read and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SeriesDays:
    """Columns with one number a day; arrays (days,). A day is one of FAIRSHARE_TIME_ZONE, cut to whole hours of UTC.

    By the hour `on` has the instant at which each hour begins, in that zone, and a day is an hour in all that follows.
    revision: current at the day's end; the first one where `is_before_first`, when nothing was published yet. ends_s:
    the day's end, epoch seconds. root_used: of the whole tree on the day, in the scope the root's children are compared
    by; root_decayed: counted at the day's end.
    """

    on: tuple[date, ...]
    ends_s: F8
    revision: I4
    is_before_first: Mask
    root_used: F8
    root_decayed: F8


@dataclass(frozen=True, eq=False)
class DailySeries:
    """Entries by days; arrays (entries, days), in the policy's metric of each day's revision, 0 where nothing was.

    used: on the day, by the entry and all below, in the scope the entry is compared by, without adjustments;
    peers_used: by all that compete with it, itself included. decayed, peers_decayed: as counted at the day's
    end by the window then current, adjustments included: what a recompute as of that instant divides. Hence
    actual = used / peers_used of any days summed, or decayed / peers_decayed at one; 0 where the peers have none.
    target, target_global: of the day's revision, 0 where `competes` is false (not in the tree then, the root, or shares
    that are *inherit*). exists: in the tree of that day. waited_core_s: requested by jobs that waited on that day;
    knows_waiting: the sources that count report submit times. n_active: members below that used anything on
    the day; largest: the most that one of them used.
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
    """How far a policy's series is built: `through_on` the last day that is there, None before the first build.

    stale_from_on: the first day whose inputs have changed since, None where all are as they were. run_id: the build
    that runs or waits; progress: 0..1 of it. local_since: since when the days of what is below an entry, by its uid,
    are built of this site's usage alone. hours_from_at, hours_through_at: which hours there are, None before the first
    build of them.
    """

    first_on: date | None = None
    through_on: date | None = None
    stale_from_on: date | None = None
    run_id: int | None = None
    progress: float | None = None
    missing: tuple[str, ...] = field(default_factory=tuple)
    local_since: Mapping[UUID, datetime] = field(default_factory=dict)
    hours_from_at: datetime | None = None
    hours_through_at: datetime | None = None
