"""How far the replay of the policy as published is from what happened: what a difference of variants must exceed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apps.contrib.lab.comparison.recorded_order import explains_waits
from apps.contrib.lab.experiments.headline import known
from apps.contrib.lab.experiments.outcome import Outcome
from apps.contrib.lab.experiments.records import Headline, ModelError


def model_error_json(replayed: Outcome, happened: Outcome) -> dict[str, Any]:
    """Both are outcomes of one tree."""
    return {
        "wait_mean_s": known(replayed.wait_mean_s[0] - happened.wait_mean_s[0]),
        "wait_median_s": known(replayed.wait_median_s[0] - happened.wait_median_s[0]),
        "wait_p90_s": known(replayed.wait_p90_s[0] - happened.wait_p90_s[0]),
        "core_hours_points": _core_hours_points(replayed, happened),
        "n_jobs": int(replayed.n_jobs[0]),
    }


def _core_hours_points(replayed: Outcome, happened: Outcome) -> float | None:
    """The part of a day's core-hours that other top groups had, in points; the mean of days on which both had some."""
    top = np.flatnonzero(replayed.parent[replayed.shown] == 0)
    days, days_was = replayed.day_core_h[:, top], happened.day_core_h[:, top]
    total, total_was = days.sum(axis=1, keepdims=True), days_was.sum(axis=1, keepdims=True)
    both = (total[:, 0] > 0) & (total_was[:, 0] > 0)
    if not both.any():
        return None
    apart = np.abs(days[both] / total[both] - days_was[both] / total_was[both]).sum(axis=1)
    return float(50.0 * apart.mean())


def base_explains_waits(history: Headline | None, base: Headline | None) -> bool:
    """Whether the base waits as jobs did in fact; true where one of them isn't known."""
    return history is None or base is None or explains_waits(history.wait_mean_s, base.wait_mean_s)


def model_error_of(stored: Mapping[str, Any] | None) -> ModelError | None:
    return ModelError(**stored) if stored else None
