"""Benefit of a job to its group: named functions of a job's fields and their weighted sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from apps.contrib.jobs.algorithms.base import plain
from apps.engine.case_fields import read_number
from apps.engine.case_text import RepeatedKeys, shown
from apps.engine.errors import BadParameter

PLACE = "algorithm.benefit"


@dataclass(frozen=True)
class Benefit:
    """One benefit function B(j); `needs` are the job's fields that it reads.

    `of(job)` gets these fields as doubles ≥ 0 and returns a number ≥ 0, infinite beyond the largest double. is_held:
    the group has the benefit only while the job runs, otherwise it accumulates. weights: of the functions in a
    weighted sum.
    """

    name: str
    label: str
    formula: str
    unit: str
    needs: tuple[str, ...]
    of: Callable[[Mapping[str, float]], float]
    is_held: bool = False
    weights: tuple[tuple[float, Benefit], ...] = ()

    def parts_of(self, job: Mapping[str, float]) -> dict[str, float]:
        """The weighted benefit of each function of a weighted sum; empty for a single function."""
        return {benefit.name: weight * benefit.of(job) for weight, benefit in self.weights}


def _product(name: str, label: str, unit: str, *needs: str) -> Benefit:
    """The product of the job's fields; 1 without fields."""
    return Benefit(
        name, label, " · ".join(needs) or "1", unit, needs, lambda job: math.prod(job[need] for need in needs)
    )


_FUNCTIONS = (
    _product("cpu_s", "CPU time", "core-seconds", "cpus", "run_s"),
    _product("wall_s", "Wall time", "seconds", "run_s"),
    _product("jobs", "Number of jobs", "jobs"),
    _product("gpu_s", "GPU time", "GPU-seconds", "gpus", "run_s"),
    _product("node_s", "Node time", "node-seconds", "nodes", "run_s"),
    _product("mem_gb_s", "Memory held", "GB-seconds", "mem_gb", "run_s"),
    _product("data_gb", "Data delivered", "GB", "data_gb"),
    replace(_product("processes", "Processes running at once", "processes", "processes"), is_held=True),
)
BENEFITS = {benefit.name: benefit for benefit in _FUNCTIONS}


def read_benefit(name_or_weights: object) -> Benefit:
    """The function that a case names, or the weighted sum of several: {"cpu_s": 2, "data_gb": 3}."""
    return _weighted(name_or_weights) if isinstance(name_or_weights, dict) else get_benefit(name_or_weights)


def _weighted(table: Mapping[str, object]) -> Benefit:
    """Σ weight · benefit, each benefit in its own unit. Functions with weight 0 need no fields."""
    if isinstance(table, RepeatedKeys):
        raise BadParameter("given twice", place=f"{PLACE}.{table.repeated}")
    weights = {name: float(read_number(table, name, PLACE, minimum=0.0)) for name in table}
    parts = [(weights[name], get_benefit(name, place=f"{PLACE}.{name}")) for name in table]
    parts = [(weight, benefit) for weight, benefit in parts if weight > 0]
    if not parts:
        raise BadParameter("no benefit has a weight; numbers ≥ 0, at least one above 0, are allowed", place=PLACE)
    if len({benefit.is_held for _, benefit in parts}) > 1:
        held = next(benefit.name for _, benefit in parts if benefit.is_held)
        message = f"{held} counts while jobs run and the others for ever; sums of one kind are allowed"
        raise BadParameter(message, place=f"{PLACE}.{held}")
    return Benefit(
        name=" + ".join(f"{plain(weight)} {benefit.name}" for weight, benefit in parts),
        label="Weighted sum",
        formula=" + ".join(f"{plain(weight)} · ({benefit.formula})" for weight, benefit in parts),
        unit="weighted units",
        needs=tuple(dict.fromkeys(need for _, benefit in parts for need in benefit.needs)),
        of=lambda job: sum(weight * benefit.of(job) for weight, benefit in parts),
        is_held=parts[0][1].is_held,
        weights=tuple(parts),
    )


def get_benefit(name: object, place: str = PLACE) -> Benefit:
    """The benefit function of this name; BadParameter if there is none."""
    benefit = BENEFITS.get(name) if isinstance(name, str) else None
    if benefit is None:
        raise BadParameter(f"unknown benefit {shown(name)}; allowed are {', '.join(BENEFITS)}", place=place)
    return benefit
