"""Which share is meant: decayed, of a window of days, or of each day alone; of the parent's use or of all there is."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from apps.errors import FieldProblem, Invalid
from apps.priorities.series.columns import F8, DailySeries, Mask

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
    """(entries, days) 0..1; NaN where nobody that shares with it has used anything, or it does not compete."""
    if counting.view == DECAYED:
        own, all_of = series.decayed, series.peers_decayed
        whole = series.days.root_decayed
    elif counting.view == RAW:
        own, all_of, whole = series.used, series.peers_used, series.days.root_used
    else:
        starts = _window_starts(series, counting.window_days)
        own, all_of = _summed(series.used, starts), _summed(series.peers_used, starts)
        whole = _summed(series.days.root_used[None, :], starts)[0]
    if counting.of == TOTAL:
        all_of = np.broadcast_to(whole[None, :], own.shape)
    known = series.competes & (all_of > 0)
    found: F8 = np.divide(own, all_of, out=np.full(own.shape, np.nan), where=known)
    return found


def cut(series: DailySeries, keep: Mask) -> DailySeries:
    """The same entries on some of the days."""
    days = series.days
    at = np.flatnonzero(keep)
    fewer = type(days)(
        tuple(days.on[i] for i in at), days.ends_s[at], days.revision[at], days.is_before_first[at],
        days.root_used[at], days.root_decayed[at],
    )  # fmt: skip
    return DailySeries(series.uids, fewer, *(getattr(series, name)[:, at] for name in COLUMNS))


def pick(series: DailySeries, rows: list[int]) -> DailySeries:
    """Some of the entries, in this order, on the same days."""
    uids = tuple(series.uids[i] for i in rows)
    return DailySeries(uids, series.days, *(getattr(series, name)[rows] for name in COLUMNS))


COLUMNS = (
    "used", "peers_used", "decayed", "peers_decayed", "target", "target_global", "exists", "competes",
    "waited_core_s", "knows_waiting", "n_active", "largest",
)  # fmt: skip


def _window_starts(series: DailySeries, n_days: int) -> npt.NDArray[np.int64]:
    """For each day the place of the first one in its window."""
    ordinals = np.array([on.toordinal() for on in series.days.on], dtype=np.int64)
    return np.searchsorted(ordinals, ordinals - n_days + 1)


def _summed(used: F8, starts: npt.NDArray[np.int64]) -> F8:
    """Sums over the days from each start; exactly 0 where each of them is 0, which differences of sums are not."""
    ends = np.arange(used.shape[1]) + 1
    padded = np.pad(np.cumsum(used, axis=1), ((0, 0), (1, 0)))
    counts = np.pad(np.cumsum(used != 0, axis=1), ((0, 0), (1, 0)))
    sums: F8 = np.where(counts[:, ends] > counts[:, starts], padded[:, ends] - padded[:, starts], 0.0)
    return sums


def _refused(where: str, message: str) -> Invalid:
    return Invalid(message, code="invalid", fields=[FieldProblem(where, message)])
