"""What a job is worth to its group: named functions of a job's fields; packages add more (`fairshare.benefits`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from apps.engine.case_text import shown
from apps.engine.errors import BadParameter

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


@cache
def all_benefits() -> dict[str, Benefit]:
    """Ours, then those that other packages bring (entry points `fairshare.benefits`, each a Benefit)."""
    brought = {point.name: point.load() for point in entry_points(group=ENTRY_POINT_GROUP)}
    return {**_BUILT_IN, **{name: benefit for name, benefit in brought.items() if name not in _BUILT_IN}}


def get_benefit(name: object) -> Benefit:
    """The benefit function of this name; BadParameter when there is none."""
    found = all_benefits().get(name) if isinstance(name, str) else None
    if found is None:
        allowed = ", ".join(all_benefits())
        raise BadParameter(f"unknown benefit {shown(name)}; allowed are {allowed}", place="algorithm.benefit")
    return found
