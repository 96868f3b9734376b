"""A supposition and its result, as REST sends it."""

from __future__ import annotations

from typing import Any

from apps.analytics.forecast.payload import recovery_json
from apps.analytics.what_if.trial import Place, Tried
from apps.engine.explain import Recovery
from apps.priorities.serving.lookup_index import instant


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
