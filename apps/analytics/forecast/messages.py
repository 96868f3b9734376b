"""What a forecast says of one level: which sentences, with which values."""

from __future__ import annotations

from typing import Any

from apps.analytics.forecast.entry_forecast import HORIZON_DAYS, Outlook
from apps.analytics.forecast.past_usage import DAY_S
from apps.engine.explain import RecoveryRange
from apps.priorities.sentences import Said, say

HORIZON_S = HORIZON_DAYS * DAY_S
_ALIKE_S = 6 * 3600  # times that are closer together than this make no range


def tell_level(outlook: Outlook, *, name: str, parent: str, window_s: float | None) -> list[Said]:
    """The one that answers "when", and what goes with it."""
    standing, found = outlook.standing, outlook.to_target
    facts: dict[str, Any] = {
        "name": name, "parent": parent, "actual": standing.actual, "target": standing.target, "share": outlook.share,
        "horizon_s": HORIZON_S,
    }  # fmt: skip
    if standing.group_usage <= 0:
        return [say("forecast.nothing_used", **facts)]
    if found.middle.outcome == "on_target":
        return [say("forecast.on_target", **facts)]
    if standing.edge is None:
        return [say("forecast.within_tolerance", **facts)]
    is_over = standing.actual > standing.target
    said = _over(found, facts, window_s) if is_over else _under(found, facts, window_s)
    if is_over and outlook.to_tolerance is not None:
        said += _tolerance(outlook.to_tolerance)
    return said


def _over(found: RecoveryRange, facts: dict[str, Any], window_s: float | None) -> list[Said]:
    outcome = found.middle.outcome
    if outcome == "recovers":
        if found.latest.in_s is None:
            return [say("forecast.recovers_or_not", **facts, **_times(found))]
        key = "forecast.recovers_about" if _is_narrow(found) else "forecast.recovers"
        return [say(key, **facts, **_times(found))]
    if outcome == "never_if_nobody_runs":
        return _quiet(found, facts, window_s)
    if outcome == "not_at_this_pace":
        return [say("forecast.not_at_this_pace", **facts)]
    said = [say("forecast.not_within_horizon", **facts)]
    return said + ([say("forecast.recovers_at_best", **facts, **_times(found))] if found.soonest.in_s else [])


def _under(found: RecoveryRange, facts: dict[str, Any], window_s: float | None) -> list[Said]:
    outcome = found.middle.outcome
    if outcome == "recovers":
        is_range = found.latest.in_s is not None and not _is_narrow(found)
        return [say("forecast.gives_way" if is_range else "forecast.gives_way_about", **facts, **_times(found))]
    if outcome == "never_if_nobody_runs":
        return _quiet(found, facts, window_s)
    return [say("forecast.stays_under", **facts)]


def _quiet(found: RecoveryRange, facts: dict[str, Any], window_s: float | None) -> list[Said]:
    """No job runs on most days, or on any day."""
    if found.soonest.in_s:
        return [say("forecast.quiet_days", **facts), say("forecast.recovers_at_best", **facts, **_times(found))]
    key = "forecast.never_if_nobody_runs" if window_s is None else "forecast.never_within_window"
    return [say(key, **facts, **({} if window_s is None else {"window_s": window_s}))]


def _tolerance(found: RecoveryRange) -> list[Said]:
    if found.middle.in_s is None:
        return []
    is_range = found.latest.in_s is not None and not _is_narrow(found)
    return [say("forecast.tolerance" if is_range else "forecast.tolerance_about", **_times(found))]


def _times(found: RecoveryRange) -> dict[str, float | None]:
    return {"in_s": found.middle.in_s, "soonest_s": found.soonest.in_s, "latest_s": found.latest.in_s}


def _is_narrow(found: RecoveryRange) -> bool:
    soonest, latest = found.soonest.in_s, found.latest.in_s
    if soonest is None or latest is None:
        return False
    return latest - soonest < max(_ALIKE_S, 0.05 * latest)
