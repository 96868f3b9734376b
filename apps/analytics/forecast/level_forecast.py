"""The forecast of the level that decides, as the answer "when" needs it: at the usual pace and at the quietest one."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from apps.analytics.forecast.entry_forecast import foresee, needs_hours
from apps.analytics.forecast.past_usage import LevelPast, read_past
from apps.analytics.forecast.selectors import standing_of
from apps.engine.explain import Recovery
from apps.explain.messages import Outlook
from apps.explain.my_priority import MyPriority
from apps.policies.models import Policy
from apps.priorities.metering.usage import window_of
from apps.priorities.selectors.rows import newest_or_none

F8 = npt.NDArray[np.float64]
_WEEK_DAYS = 7


def outlook_of(mine: MyPriority) -> Outlook | None:
    """Of the user's own deciding level, always visible to them; None where the last days are unknown."""
    snapshot = None if mine.error or mine.moment else newest_or_none(mine.policy_slug)
    if snapshot is None or mine.deciding is None or snapshot.snapshot_id != mine.snapshot_id:
        return None
    policy = Policy.objects.filter(slug=mine.policy_slug).first()
    entry = snapshot.tree.index_of_uid(mine.walk[mine.deciding].uid)
    standing = None if entry is None else standing_of(snapshot, entry)
    if policy is None or entry is None or standing is None:
        return None
    window = window_of(snapshot.settings.window)
    pasts = read_past(policy, snapshot, [entry], hourly=needs_hours(window))
    if not pasts:
        return None
    as_of = snapshot.as_of
    usual = foresee(standing, pasts[0], window, as_of_s=as_of.timestamp())
    quiet = 0.0 if mine.deciding == len(mine.walk) - 1 else quietest_week(pasts[0])
    at_quiet = None
    if quiet is not None:
        at_quiet = foresee(standing, pasts[0], window, as_of_s=as_of.timestamp(), share=quiet).to_target.middle
    found = usual.to_target
    return Outlook(
        found.middle.outcome,
        as_of,
        at=_instant(as_of, found.middle),
        earliest=_instant(as_of, found.soonest),
        latest=_instant(as_of, found.latest),
        usual=usual.share_seen,
        quiet=quiet,
        quiet_at=_instant(as_of, at_quiet),
    )


def quietest_week(past: LevelPast) -> float | None:
    """The least part, 0..1, of its group's usage that an entry had in seven days in a row; None where unknown."""
    if len(past.group_daily) < _WEEK_DAYS:
        return None
    own, group = (_sums(daily, _WEEK_DAYS) for daily in (past.own_daily, past.group_daily))
    parts = own[group > 0] / group[group > 0]
    return float(min(parts.min(), 1.0)) if len(parts) else None


def _sums(daily: F8, n_days: int) -> F8:
    """Of each run of so many days."""
    return np.convolve(daily, np.ones(n_days), mode="valid")


def _instant(as_of: datetime, found: Recovery | None) -> datetime | None:
    return None if found is None or found.in_s is None else as_of + timedelta(seconds=found.in_s)
