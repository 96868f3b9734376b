"""The forecast of the level that decides, as the advice on my priority wants it."""

from __future__ import annotations

from datetime import timedelta

from apps.policies.models import Policy
from apps.priorities import advice
from apps.priorities.accrual import window_of
from apps.priorities.forecast.asking import standing_of
from apps.priorities.forecast.outlook import foresee, needs_hours
from apps.priorities.forecast.reading import read_past
from apps.priorities.selectors.me import MyPriority
from apps.priorities.selectors.rows import newest_or_none


def outlook_of(mine: MyPriority) -> advice.Outlook | None:
    """For an account of whoever asks, now; None where no level decides or nothing tells the pace."""
    if mine.error or mine.moment is not None or mine.deciding is None:
        return None
    policy, snapshot = Policy.objects.get(slug=mine.policy_slug), newest_or_none(mine.policy_slug)
    entry = None if snapshot is None else snapshot.tree.index_of_uid(mine.walk[mine.deciding].uid)
    if snapshot is None or entry is None:
        return None
    window, standing = window_of(snapshot.settings.window), standing_of(snapshot, entry)
    pasts = read_past(policy, snapshot, [entry], hourly=needs_hours(window))
    if standing is None or pasts is None:
        return None
    found = foresee(standing, pasts[0], window, as_of_s=snapshot.as_of.timestamp()).to_target
    at, earliest, latest = (
        None if one.in_s is None else snapshot.as_of + timedelta(seconds=one.in_s)
        for one in (found.middle, found.soonest, found.latest)
    )
    if standing.edge is None:
        return advice.Outlook("on_target")
    return advice.Outlook(found.middle.outcome, at, earliest, latest)
