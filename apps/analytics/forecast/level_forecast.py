"""The forecast of the level that decides, as advice needs it: one outcome, and when."""

from __future__ import annotations

from datetime import timedelta

from apps.analytics.forecast.entry_forecast import foresee, needs_hours
from apps.analytics.forecast.past_usage import read_past
from apps.analytics.forecast.selectors import standing_of
from apps.explain.messages import Outlook
from apps.explain.my_priority import MyPriority
from apps.policies.models import Policy
from apps.priorities.metering.usage import window_of
from apps.priorities.selectors.rows import newest_or_none


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
    found = foresee(standing, pasts[0], window, as_of_s=snapshot.as_of.timestamp()).to_target
    instants = [
        None if one.in_s is None else snapshot.as_of + timedelta(seconds=one.in_s)
        for one in (found.middle, found.soonest, found.latest)
    ]
    return Outlook(found.middle.outcome, *instants)
