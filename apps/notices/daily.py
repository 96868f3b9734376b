"""The daily series as this room reads it: up to the last day that is built, and only while it is fresh."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from uuid import UUID

from apps.analytics.series.storage.columns import DailySeries
from apps.analytics.series.stored_series import load_series, series_state
from apps.policies.models import Policy

STALE_AFTER = timedelta(days=3)


def newest_day(policy: Policy, today: date) -> date | None:
    """The last day that is built, or None where it lies so far back that nothing can be said of now."""
    through_on = series_state(policy).through_on
    return through_on if through_on is not None and today - through_on <= STALE_AFTER else None


def last_days(policy: Policy, uids: Sequence[UUID], *, through_on: date, n_days: int) -> DailySeries:
    return load_series(policy, uids, from_on=through_on - timedelta(days=n_days - 1), to_on=through_on)
