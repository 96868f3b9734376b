"""Forecasts and suppositions as REST sends them: numbers unrounded, instants in UTC, sentences by key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from apps.analytics.forecast.entry_forecast import FactorAhead
from apps.analytics.forecast.selectors import Forecast, ForecastLevel, days_to_draw
from apps.analytics.what_if.trial import Place, Tried
from apps.engine.explain import Recovery, RecoveryRange
from apps.priorities.sentences import text_of
from apps.priorities.serving.served_snapshot import instant

# --- Forecasts --------------------------------------------------------------------------------------------------------
_QUARTILES = ("soonest", "middle", "latest")


def forecast_json(found: Forecast) -> dict[str, Any]:
    """One account's entry, level by level, and the curve of the level that decides."""
    shown = found.shown
    said = [] if shown is None else list(shown.said)
    return {
        "account": found.account,
        "namespace": found.namespace or None,
        "policy": found.policy.slug,
        "entry": found.entry_path,
        "entry_uid": str(found.entry_uid),
        "snapshot": found.snapshot.snapshot_id,
        "revision": found.snapshot.revision,
        "as_of": instant(found.as_of),
        "has_days": found.has_days,
        "deciding": None if found.deciding is None else found.levels[found.deciding].path,
        "sentence": text_of(said),
        "sentences": [one.json() for one in said],
        "levels": [_level(each, found.as_of) for each in found.levels],
        "curve": [] if shown is None else _curve(shown, found.as_of),
        "so_far": [] if shown is None else [{"at": instant(at), "actual": part} for at, part in shown.so_far],
        "factor_ahead": _factor_ahead(found, found.factor_ahead()),
    }


def _factor_ahead(found: Forecast, ahead: FactorAhead | None) -> dict[str, Any] | None:
    if ahead is None:
        return None
    return {
        "sentence": text_of(list(ahead.said)),
        "sentences": [one.json() for one in ahead.said],
        "level": None if ahead.level is None else found.snapshot.index.path(ahead.level),
        "points": [{"days": point.days, "at": instant(point.at), "factor": point.factor} for point in ahead.points],
    }


def recovery_json(found: Recovery, as_of: datetime) -> dict[str, Any]:
    at = None if found.in_s is None else instant(as_of + timedelta(seconds=found.in_s))
    return {"outcome": found.outcome, "in_s": found.in_s, "at": at}


def _level(level: ForecastLevel, as_of: datetime) -> dict[str, Any]:
    outlook = level.outlook
    told: dict[str, Any] = {
        "entry": level.path,
        "entry_uid": str(level.uid),
        "name": level.name,
        "target": level.target,
        "actual": level.actual,
        "tolerance": None,
        "share": None,
        "share_seen": None,
        "days": level.n_days,
        "daily_usage": None,
        "method": None,
        "to_target": None,
        "to_tolerance": None,
        "sentence": text_of(list(level.said)),
        "sentences": [one.json() for one in level.said],
    }
    if outlook is None:
        return told
    daily = dict(
        zip(("least", "p25", "p50", "p75", "most"), (p.group_rate * 86_400 for p in outlook.paces), strict=True)
    )
    return told | {
        "tolerance": outlook.standing.slack,
        "share": outlook.share,
        "share_seen": outlook.share_seen,
        "daily_usage": daily,
        "method": outlook.method,
        "to_target": _range(outlook.to_target, as_of),
        "to_tolerance": None if outlook.to_tolerance is None else _range(outlook.to_tolerance, as_of),
    }


def _range(found: RecoveryRange, as_of: datetime) -> dict[str, Any]:
    return {name: recovery_json(getattr(found, name), as_of) for name in _QUARTILES}


def _curve(level: ForecastLevel, as_of: datetime) -> Sequence[dict[str, Any]]:
    return [
        {
            "at": instant(one.at),
            "likely": one.middle,
            "least": one.low,
            "p25": one.lower,
            "p75": one.upper,
            "most": one.high,
        }
        for one in level.curve(as_of, days_to_draw(level))
    ]


# --- Suppositions -----------------------------------------------------------------------------------------------------
def tried_json(tried: Tried) -> dict[str, Any]:
    """Without it and with it, now and in a week; an estimate that nothing is kept of."""
    asked, found = tried.asked, tried.forecast
    shown = found.shown
    return {
        "account": found.account,
        "namespace": found.namespace or None,
        "policy": found.policy.slug,
        "entry": found.entry_path,
        "snapshot": found.snapshot.snapshot_id,
        "as_of": instant(found.as_of),
        "then_at": instant(tried.then_at),
        "of": tried.of,
        "basis": tried.basis,
        "is_estimate": True,
        "supposed": {
            "core_h": asked.core_h,
            "days": asked.days,
            "load": asked.load,
            "level": asked.level or None,
            "target": asked.target,
        },
        "without": _side(tried, tried.now, tried.then, tried.back),
        "with": _side(tried, tried.now_if, tried.then_if, tried.back_if),
        "level": None if shown is None else shown.path,
    }


def _side(tried: Tried, now: Place, then: Place, back: Recovery | None) -> dict[str, Any]:
    return {
        "now": _place(now),
        "then": _place(then),
        "back": None if back is None else recovery_json(back, tried.forecast.as_of),
    }


def _place(place: Place) -> dict[str, Any]:
    first, last = (None, None) if place.rank is None else place.rank
    return {"rank": first, "rank_to": last, "factor": place.factor}
