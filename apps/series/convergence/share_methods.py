"""How a share is computed and of what: decayed, windowed or raw; of the parent or of all."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.engine.convergence import actual_share as share_of
from apps.engine.convergence import trailing_sum
from apps.series.convergence.query import DAY_S, DECAYED, OFS, PARENT, TOTAL, VIEWS, WINDOWED
from apps.series.daily_series import F8, DailySeries, Mask

DEFAULT_WINDOW_DAYS = 7
MOST_WINDOW_DAYS = 3_660


@dataclass(frozen=True, slots=True)
class ShareMethod:
    """How a share is computed and of what. view: `decayed` as for priorities, `windowed` summed over the last
    `window_days` days, or `raw` usage of the day. of: share of the parent or of the total.
    """

    view: str = DECAYED
    of: str = PARENT
    window_days: int = DEFAULT_WINDOW_DAYS

    @property
    def days_before(self) -> int:
        """Number of days to load before the first shown one."""
        return self.window_days - 1 if self.view == WINDOWED else 0


def read_share_method(view: str = "", of: str = "", window_s: float | None = None) -> ShareMethod:
    """Parse the parameters of an address. A window is rounded up to whole days."""
    view, of = view or DECAYED, of or PARENT
    if view not in VIEWS:
        raise _share_error("view", f"“{view[:40]}” is not one of {', '.join(VIEWS)}.")
    if of not in OFS:
        raise _share_error("of", f"“{of[:40]}” is not one of {', '.join(OFS)}.")
    if window_s is None:
        return ShareMethod(view, of)
    if not 0 < window_s <= MOST_WINDOW_DAYS * DAY_S:
        raise _share_error(
            "window_s", f"A window has between 1 second and {MOST_WINDOW_DAYS:,} days ({window_s:g} s given)."
        )
    return ShareMethod(view, of, max(1, ceil(window_s / DAY_S)))


def reject_windowed(counting: ShareMethod) -> None:
    """Raise Invalid for a windowed view, which hourly series don't have."""
    if counting.view == WINDOWED:
        message = _("Windows are counted in days: by hour, use decayed or raw.")
        raise Invalid(message, code="invalid", fields=[FieldProblem("view", message)])


def target_share(series: DailySeries, of: str) -> F8:
    """Target shares (entries, days), 0..1; NaN where an entry doesn't compete."""
    stated = series.target_global if of == TOTAL else series.target
    return np.where(series.competes, stated, np.nan)


def actual_share(series: DailySeries, counting: ShareMethod) -> F8:
    """Actual shares (entries, days), 0..1; NaN where an entry doesn't compete or its peers have no usage."""
    if counting.view == DECAYED:
        own, all_of, whole = series.decayed, series.peers_decayed, series.days.root_decayed
    else:
        own, all_of, whole = series.used, series.peers_used, series.days.root_used
    if counting.of == TOTAL:
        all_of = np.broadcast_to(whole[None, :], own.shape)
    if counting.view == WINDOWED and own.size:
        own, all_of = trailing_sum(own, counting.window_days), trailing_sum(all_of, counting.window_days)
    return np.where(series.competes & (all_of > 0), share_of(own, all_of), np.nan)


def visible_windows(visible: Mask, n_days: int) -> Mask:
    """Mask of windows all of whose days are visible: the difference of two windows would reveal the day that left."""
    if not visible.size:
        return visible
    whole: Mask = trailing_sum((~visible).astype(np.float64), n_days) == 0
    return whole


def _share_error(where: str, message: str) -> Invalid:
    return Invalid(message, code="invalid", fields=[FieldProblem(where, message)])
