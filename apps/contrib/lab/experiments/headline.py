"""The few numbers of an outcome that lists show, stored beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, isinf, isnan
from typing import Any

import numpy as np

from apps.contrib.lab.experiments.outcome import Outcome
from apps.contrib.lab.experiments.records import Headline


def headline_json(outcome: Outcome) -> dict[str, Any]:
    """Of the whole tree, as stored: waits of all jobs, and how far all groups were from fair use."""
    settled = float(outcome.settled_h[0])
    return {
        "n_jobs": int(outcome.n_jobs[0]),
        "n_started": int(outcome.n_jobs[0] - outcome.n_waiting[0]),
        "n_waiting": int(outcome.n_waiting[0]),
        "wait_mean_s": known(outcome.wait_mean_s[0]),
        "wait_median_s": known(outcome.wait_median_s[0]),
        "wait_p90_s": known(outcome.wait_p90_s[0]),
        "core_hours": float(outcome.core_h[0]),
        "fair_points": known(outcome.numbers.get("fair_points", float("nan"))),
        "rms_points": known(outcome.rms[0]),
        "settled_h": known(settled),
        "is_settled": None if isnan(settled) else not isinf(settled),
        "busy": float(outcome.numbers["busy_total"]),
    }


def headline_of(stored: Mapping[str, Any] | None) -> Headline | None:
    if not stored:
        return None
    # A release before counted jobs that ran at the start among those that started.
    numbers = {name: value for name, value in stored.items() if name != "core_hours"}
    started = stored["n_jobs"] - stored["n_waiting"]
    headline = Headline(**{**numbers, "core_h": stored["core_hours"], "n_started": started})
    # A release before compared with bare targets.
    return headline if headline.fair_points is not None else replace(headline, settled_h=None, is_settled=None)


def known(value: float | np.float64) -> float | None:
    """None for NaN and infinity."""
    number = float(value)
    return number if isfinite(number) else None
