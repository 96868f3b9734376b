"""Which share is meant: decayed, of a window of days, or of each day alone; of the parent's use or of all there is."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from apps.analytics.series.storage.columns import F8, DailySeries, Mask
from apps.core.errors import FieldProblem, Invalid
from apps.engine.convergence import actual_share as share_of
from apps.engine.convergence import trailing_sum

DAY_S = 86_400
DECAYED, WINDOWED, RAW = VIEWS = ("decayed", "windowed", "raw")
PARENT, TOTAL = OFS = ("parent", "total")
USUAL_WINDOW_DAYS = 7
MOST_WINDOW_DAYS = 3_660


@dataclass(frozen=True, slots=True)
class Counting:
    """decayed: as priorities count. windowed: all of the last `window_days` alike. raw: what was used that day."""

    view: str = DECAYED
    of: str = PARENT
    window_days: int = USUAL_WINDOW_DAYS

    @property
    def days_before(self) -> int:
        """Days that have to be known before the first one shown."""
        return self.window_days - 1 if self.view == WINDOWED else 0


def read_counting(view: str = "", of: str = "", window_s: float | None = None) -> Counting:
    """As an address says it; a window is counted in whole days, the last one begun counts."""
    view, of = view or DECAYED, of or PARENT
    if view not in VIEWS:
        raise _refused("view", f"“{view[:40]}” is no way to count; there are {', '.join(VIEWS)}.")
    if of not in OFS:
        raise _refused("of", f"“{of[:40]}” is nothing a share can be of; there are {', '.join(OFS)}.")
    if window_s is None:
        return Counting(view, of)
    if not 0 < window_s <= MOST_WINDOW_DAYS * DAY_S:
        raise _refused(
            "window_s", f"A window has between 1 second and {MOST_WINDOW_DAYS:,} days ({window_s:g} s given)."
        )
    return Counting(view, of, max(1, ceil(window_s / DAY_S)))


def target_share(series: DailySeries, of: str) -> F8:
    """(entries, days) 0..1; NaN where an entry has none."""
    stated = series.target_global if of == TOTAL else series.target
    return np.where(series.competes, stated, np.nan)


def actual_share(series: DailySeries, counting: Counting) -> F8:
    """(entries, days) 0..1; NaN where the entries it competes with have no usage, or it does not compete."""
    if counting.view == DECAYED:
        own, all_of, whole = series.decayed, series.peers_decayed, series.days.root_decayed
    else:
        own, all_of, whole = series.used, series.peers_used, series.days.root_used
    if counting.of == TOTAL:
        all_of = np.broadcast_to(whole[None, :], own.shape)
    if counting.view == WINDOWED and own.size:
        own, all_of = trailing_sum(own, counting.window_days), trailing_sum(all_of, counting.window_days)
    return np.where(series.competes & (all_of > 0), share_of(own, all_of), np.nan)


def visible_windows(told: Mask, n_days: int) -> Mask:
    """A window is visible where each of its days is: the difference of two windows would reveal the day that left."""
    if not told.size:
        return told
    whole: Mask = trailing_sum((~told).astype(np.float64), n_days) == 0
    return whole


def cut(series: DailySeries, keep: Mask) -> DailySeries:
    """All entries on some of the days."""
    if keep.all():
        return series
    days = series.days
    at = np.flatnonzero(keep)
    fewer = type(days)(
        tuple(days.on[i] for i in at),
        days.ends_s[at],
        days.revision[at],
        days.is_before_first[at],
        days.root_used[at],
        days.root_decayed[at],
    )
    return DailySeries(series.uids, fewer, *(getattr(series, name)[:, at] for name in COLUMNS))


def pick(series: DailySeries, rows: list[int]) -> DailySeries:
    """Some of the entries, in this order, on the same days."""
    if rows == list(range(len(series.uids))):
        return series
    uids = tuple(series.uids[i] for i in rows)
    return DailySeries(uids, series.days, *(getattr(series, name)[rows] for name in COLUMNS))


COLUMNS = (
    "used",
    "peers_used",
    "decayed",
    "peers_decayed",
    "target",
    "target_global",
    "exists",
    "competes",
    "waited_core_s",
    "knows_waiting",
    "n_active",
    "largest",
)


def _refused(where: str, message: str) -> Invalid:
    return Invalid(message, code="invalid", fields=[FieldProblem(where, message)])
