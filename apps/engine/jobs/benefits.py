"""What a job is worth to its group: named functions of a job's fields; packages add more (`fairshare.benefits`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from apps.engine.case_text import shown
from apps.engine.errors import BadParameter
from apps.engine.installed import Installed, load_installed, require_name, require_texts, told_why

ENTRY_POINT_GROUP = "fairshare.benefits"


@dataclass(frozen=True)
class Benefit:
    """One benefit function B(j): `needs` are the job's fields it reads, `of` takes them as doubles ≥ 0."""

    name: str
    label: str
    formula: str
    unit: str
    needs: tuple[str, ...]
    of: Callable[[Mapping[str, float]], float]


def _product(name: str, label: str, unit: str, *needs: str) -> Benefit:
    """The product of the job's fields; 1 of none."""
    return Benefit(
        name, label, " · ".join(needs) or "1", unit, needs, lambda job: math.prod(job[need] for need in needs)
    )


_OURS = (
    _product("cpu_s", "CPU time", "core-seconds", "cpus", "run_s"),
    _product("wall_s", "Wall time", "seconds", "run_s"),
    _product("jobs", "Number of jobs", "jobs"),
    _product("gpu_s", "GPU time", "GPU-seconds", "gpus", "run_s"),
    _product("node_s", "Node time", "node-seconds", "nodes", "run_s"),
    _product("mem_gb_s", "Memory held", "GB-seconds", "mem_gb", "run_s"),
    _product("data_gb", "Data delivered", "GB", "data_gb"),
)
_BUILT_IN = {benefit.name: benefit for benefit in _OURS}


def all_benefits() -> dict[str, Benefit]:
    """Ours, then those that other packages bring (entry points `fairshare.benefits`, each a Benefit)."""
    return {**_BUILT_IN, **brought_benefits().found}


@cache
def brought_benefits() -> Installed[Benefit]:
    """Those of other packages, each tried out, and what was refused."""
    return load_installed(ENTRY_POINT_GROUP, _check_benefit, is_taken=_BUILT_IN.__contains__)


def _check_benefit(name: str, given: object) -> Benefit:
    """ValueError unless it is complete, and a number ≥ 0 for a job of ones."""
    if not isinstance(given, Benefit):
        raise ValueError(f"it must be a Benefit, not a {type(given).__name__}")
    require_name(given, name)
    require_texts(given, ("label", "formula", "unit"))
    try:
        value = float(given.of(dict.fromkeys(given.needs, 1.0)))
    except Exception as error:  # whatever a package does in its functions
        raise ValueError(f"it can't be applied: {type(error).__name__}: {error}") from error
    if not 0 <= value < math.inf:
        raise ValueError("the benefit of a job of ones must be a number ≥ 0")
    return given


def get_benefit(name: object) -> Benefit:
    """The benefit function of this name; BadParameter when there is none."""
    found = all_benefits().get(name) if isinstance(name, str) else None
    if found is None:
        allowed = ", ".join(all_benefits())
        why = told_why(brought_benefits(), name) if isinstance(name, str) else ""
        raise BadParameter(f"unknown benefit {shown(name)}; allowed are {allowed}{why}", place="algorithm.benefit")
    return found
