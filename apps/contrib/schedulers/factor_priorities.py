"""Priorities of waiting jobs as a scheduler would have them if its policy gave other factors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_table import TERMS, QueueTable

F8 = npt.NDArray[np.float64]
_ADDED = {"sitefactor": "site", "nice": "nice"}  # the term that the agent's value is
_LEAST_SLURM = 1.0  # 0 is a held job


def adds_up(scheduler: Scheduler) -> bool:
    """Whether its priorities are sums of terms, of which fair share is one; tickets and dynamic priorities aren't."""
    return bool(scheduler.kind == Scheduler.Kind.SLURM)


def priorities_of_factors(table: QueueTable, scheduler: Scheduler, factor: F8) -> F8:
    """(n,) priorities of the jobs of a listing, of a scheduler that adds up:

        priority − what fair share adds now + weight · factor

    factor: (n,) between 0 and 1, NaN for a job that keeps its priority. So does one whose terms aren't listed, and a
    held one.
    """
    points = np.round(scheduler.weight * factor)
    if scheduler.knob == "priority":
        tried = _LEAST_SLURM + points
    else:
        tried = table.priority - _fair_share(table, scheduler.knob) + points
    changes = ~np.isnan(tried) & (table.priority > 0)
    return np.where(changes, np.maximum(tried, _LEAST_SLURM), table.priority)


def _fair_share(table: QueueTable, knob: str) -> F8:
    """(n,) what the scheduler's own fair share and the agent's value add; NaN where the terms aren't listed."""
    signs = np.zeros(len(TERMS))
    signs[TERMS.index("fairshare")] = 1.0
    signs[TERMS.index(_ADDED[knob])] = -1.0 if knob == "nice" else 1.0
    added: F8 = np.nan_to_num(table.terms) @ signs
    return np.where(np.isnan(table.terms).all(axis=1), np.nan, added)
