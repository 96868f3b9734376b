"""Predictions for an own account: when its deciding level returns to target."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.contrib.forecast.entry_forecast import instant_of
from apps.contrib.forecast.selectors import Forecast, build_forecast
from apps.explain.my_priority import MyPriority
from apps.explain.verdict import Outlook
from apps.policies.selectors import find_policy
from apps.priorities.selectors.rows import newest_or_none
from apps.priorities.serving.lookup import AccountQuery

F8 = npt.NDArray[np.float64]
_WEEK_DAYS = 7


def outlook_of(priority: MyPriority) -> Outlook | None:
    """Predict for the user's own deciding level from its forecast; None if recent usage is unknown."""
    snapshot = None if priority.error or priority.moment else newest_or_none(priority.policy_slug)
    if snapshot is None or priority.decisive is None or snapshot.snapshot_id != priority.snapshot_id:
        return None
    policy, entry = find_policy(priority.policy_slug), snapshot.tree.index_of_uid(priority.walk[-1].uid)
    if policy is None or not entry:
        return None
    query = AccountQuery(priority.account, priority.group, priority.namespace)
    visible = np.zeros(len(snapshot.tree), np.bool_)
    visible[snapshot.tree.index_of_uid(priority.decisive.uid) or 0] = True  # the level alone, of those on the path
    return outlook_in(build_forecast(policy, snapshot, entry, query, visible), priority)


def outlook_in(forecast: Forecast, priority: MyPriority) -> Outlook | None:
    """The deciding level's part of a forecast; None if recent usage is unknown."""
    step = priority.decisive
    level = next((level for level in forecast.levels if step is not None and level.uid == step.uid), None)
    if step is None or level is None or level.outlook is None:
        return None
    expected, recoveries, as_of = level.outlook, level.outlook.to_target, forecast.as_of
    is_own = step is priority.walk[-1] and not step.is_group
    quiet = 0.0 if is_own else quietest_week(level.own_daily, expected.daily_group)
    return Outlook(
        recoveries.middle.outcome,
        as_of,
        at=instant_of(as_of, recoveries.middle),
        earliest=instant_of(as_of, recoveries.soonest),
        latest=instant_of(as_of, recoveries.latest),
        usual=expected.share_seen,
        pace_days=expected.days,
        quiet=quiet,
        quiet_at=None if quiet is None else instant_of(as_of, expected.at_share(quiet).middle),
    )


def quietest_week(own_daily: F8, group_daily: F8) -> float | None:
    """Return an entry's smallest share, 0..1, of its group's usage in seven consecutive days; None if unknown."""
    if len(group_daily) < _WEEK_DAYS:
        return None
    # Sums of every seven days in a row.
    own, group = (np.convolve(daily, np.ones(_WEEK_DAYS), mode="valid") for daily in (own_daily, group_daily))
    parts = own[group > 0] / group[group > 0]
    return float(min(parts.min(), 1.0)) if len(parts) else None
