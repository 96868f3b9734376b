"""What bases offer for each job of a past log: planned starts, and trees that are trained each day on days before it.

Nothing of a day's own outcomes is known to the trees of that day, nor to any plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from apps.contrib.starts.prediction.bases import PLAN, TREES, Bounds, same_at_all_levels
from apps.contrib.starts.prediction.calibration import SHIFT_S
from apps.contrib.starts.prediction.log_queue import queue_of_log
from apps.contrib.starts.prediction.predictor import Offered, PastJob
from apps.contrib.starts.prediction.promises import LEVELS
from apps.contrib.starts.prediction.trees import MOST_TRAINING_ROWS, SPAN_S, Trees, train, waits_s

PLAN_BY_USE = "plan by use"
_DAY_S = 86_400.0


def offered_of_log(past: Sequence[PastJob]) -> Offered:
    """For `replay`. past: in the order of submission."""
    instants = list(queue_of_log(past))
    bounds = _of_trees(
        np.array([each.number for each in instants]),
        np.array([each.made_s for each in instants]),
        np.array([each.facts for each in instants]),
        np.array([past[each.number].leaves_s for each in instants]),
        np.array([past[each.number].started for each in instants], np.bool_),
    )
    offered: dict[tuple[int, float], Mapping[str, Bounds]] = {}
    for each, of_trees in zip(instants, bounds.tolist(), strict=True):
        bases = same_at_all_levels({PLAN: each.by_submission_s, PLAN_BY_USE: each.by_use_s})
        if not math.isnan(of_trees[0]):
            bases[TREES] = tuple(of_trees)
        offered[each.number, each.age_s] = bases
    return lambda number, age_s: offered[number, age_s]


def _of_trees(
    number: NDArray[np.int64],
    made_s: NDArray[np.float64],
    facts: NDArray[np.float64],
    left_s: NDArray[np.float64],
    started: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Seconds at LEVELS for each instant, which rise; NaN before there is enough to train on."""
    bounds = np.full((len(made_s), len(LEVELS)), np.nan)
    days, firsts = np.unique(made_s // _DAY_S, return_index=True)
    for day, first, after in zip(days, firsts, [*firsts[1:], len(made_s)], strict=True):
        trees = trained(
            number[:first], made_s[:first], facts[:first], left_s[:first], started[:first], now_s=day * _DAY_S
        )
        if trees is not None:
            bounds[first:after] = waits_s(trees, facts[first:after])
    return bounds


def trained(
    number: NDArray[np.int64],
    made_s: NDArray[np.float64],
    facts: NDArray[np.float64],
    left_s: NDArray[np.float64],
    started: NDArray[np.bool_],
    *,
    now_s: float,
) -> Trees | None:
    """Trees on settled promises, as `learned_trees` has them: of jobs that left the queue before an instant.

    In the order in which they were made. number: of the job. left_s: infinity: it waits. A deadline that broke while
    the job still waits teaches a scheduler's trees as well; here it isn't known, as promises are made afterwards.
    """
    settled = np.flatnonzero((left_s < now_s) & (made_s > now_s - SPAN_S))[-MOST_TRAINING_ROWS:]
    log_waits = np.log(left_s[settled] - made_s[settled] + SHIFT_S)
    return train(facts[settled], log_waits, started[settled], number[settled])
