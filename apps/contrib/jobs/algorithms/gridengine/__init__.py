"""Grid Engine 8.1.9's job priorities: urgency, tickets and POSIX priority, and the amendments that were proposed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.contrib.jobs.algorithms.base import JobAlgorithm
from apps.contrib.jobs.algorithms.gridengine.case import FIELDS, TERMS, VARIANTS, read_case
from apps.contrib.jobs.algorithms.gridengine.config import read_config
from apps.contrib.jobs.algorithms.gridengine.priorities import answer
from apps.contrib.jobs.algorithms.gridengine.sharetree import decay_factor

__all__ = ["GRID_ENGINE", "decay_factor", "solve", "term_weights"]


def solve(case: Mapping[str, Any]) -> dict[str, Any]:
    """Compute every job's priority by its terms, and the order of pending jobs.

    prior = weight_urgency·nurg + weight_ticket·ntckts + weight_priority·npprior; tickets are override + functional +
    share tree. case: parsed JSON with `config`, owners, share tree and `jobs`; the result is JSON, unrounded. Raises
    BadCase with the location. Source: Grid Engine 8.1.9, measured; "Grid Engine 6.2 job priorities" for
    `config.variant`.
    """
    return answer(read_case(case))


def term_weights(case: Mapping[str, Any]) -> dict[str, float]:
    """Weights of the terms of a case by field name: its own, or those of its preset."""
    config = read_config(case)
    return {
        "config.weight_urgency": config.weight_urgency,
        "config.weight_ticket": config.weight_ticket,
        "config.weight_priority": config.weight_priority,
    }


GRID_ENGINE = JobAlgorithm(
    name="gridengine",
    label="Grid Engine",
    formula="prior = weight_urgency · nurg + weight_ticket · ntckts + weight_priority · npprior",
    reference="Grid Engine 8.1.9, measured; Grid Engine 6.2 job priorities (2011) for the variants",
    fields=FIELDS,
    terms=TERMS,
    solve=solve,
    variants=VARIANTS,
)
