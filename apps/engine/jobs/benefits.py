"""Benefit of a job to its group: named functions of a job's fields and their weighted sums.

Other packages can add functions (`fairshare.benefits`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

from apps.engine.case_text import RepeatedKeys, shown
from apps.engine.errors import BadParameter
from apps.engine.installed import Installed, load_installed, rejection_note, require_name, require_texts
from apps.engine.jobs.base import plain, read_number

PLACE = "algorithm.benefit"
ENTRY_POINT_GROUP = "fairshare.benefits"


@dataclass(frozen=True)
class Benefit:
    """One benefit function B(j, g(j)); `needs` are the job's fields that it reads.

    `of(job)` or `of(job, group)` gets these fields as doubles ≥ 0, and the name of the job's group, and returns a
    number ≥ 0. is_held: the group has the benefit only while the job runs, otherwise it accumulates. weights: of the
    functions in a weighted sum.
    """

    name: str
    label: str
    formula: str
    unit: str
    needs: tuple[str, ...]
    of: Callable[..., float]
    is_held: bool = False
    weights: tuple[tuple[float, Benefit], ...] = ()

    def value(self, job: Mapping[str, float], group: str) -> float:
        """B(j, g(j)) of one job."""
        return float(self.of(job, group) if self._takes_group else self.of(job))

    def parts_of(self, job: Mapping[str, float], group: str) -> dict[str, float]:
        """The weighted benefit of each function of a weighted sum; empty for a single function."""
        return {benefit.name: weight * benefit.value(job, group) for weight, benefit in self.weights}

    @cached_property
    def _takes_group(self) -> bool:
        """Whether `of` requires two arguments; an optional second one isn't passed."""
        try:
            parameters = inspect.signature(self.of).parameters.values()
        except (TypeError, ValueError):  # a callable without a signature
            return False
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return sum(each.kind in positional and each.default is each.empty for each in parameters) > 1


def _product(name: str, label: str, unit: str, *needs: str) -> Benefit:
    """The product of the job's fields; 1 without fields."""
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
    replace(_product("processes", "Processes running at once", "processes", "processes"), is_held=True),
)
_BUILT_IN = {benefit.name: benefit for benefit in _OURS}


def all_benefits() -> dict[str, Benefit]:
    """Built-in functions, then those of other packages (entry points `fairshare.benefits`), by name."""
    return {**_BUILT_IN, **benefits_of_packages().found}


@cache
def benefits_of_packages() -> Installed[Benefit]:
    """Benefit functions of other packages that passed their checks, and those that were rejected."""
    return load_installed(ENTRY_POINT_GROUP, _check_benefit, is_taken=_BUILT_IN.__contains__)


def _check_benefit(name: str, given: object) -> Benefit:
    """Return the function, or raise ValueError unless it is complete and returns a number ≥ 0 for a job of ones."""
    if not isinstance(given, Benefit):
        raise ValueError(f"it must be a Benefit, not a {type(given).__name__}")
    require_name(given, name)
    require_texts(given, ("label", "formula", "unit"))
    try:
        value = given.value(dict.fromkeys(given.needs, 1.0), "group")
    except Exception as error:  # packages may raise anything
        raise ValueError(f"it can't be applied: {type(error).__name__}: {error}") from error
    if not 0 <= value < math.inf:
        raise ValueError("the benefit of a job of ones must be a number ≥ 0")
    return given


def read_benefit(given: object) -> Benefit:
    """The function that a case names, or the weighted sum of several: {"cpu_s": 2, "data_gb": 3}."""
    return _weighted(given) if isinstance(given, dict) else get_benefit(given)


def _weighted(given: Mapping[str, object]) -> Benefit:
    """Σ weight · benefit, each benefit in its own unit. Functions with weight 0 need no fields."""
    if isinstance(given, RepeatedKeys):
        raise BadParameter("given twice", place=f"{PLACE}.{given.repeated}")
    weights = {name: float(read_number(given, name, PLACE, minimum=0.0)) for name in given}
    parts = [(weights[name], get_benefit(name, place=f"{PLACE}.{name}")) for name in given]
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
        of=lambda job, group: sum(weight * benefit.value(job, group) for weight, benefit in parts),
        is_held=parts[0][1].is_held,
        weights=tuple(parts),
    )


def get_benefit(name: object, place: str = PLACE) -> Benefit:
    """The benefit function of this name; BadParameter if there is none."""
    found = all_benefits().get(name) if isinstance(name, str) else None
    if found is None:
        allowed = ", ".join(all_benefits())
        why = rejection_note(benefits_of_packages(), name) if isinstance(name, str) else ""
        raise BadParameter(f"unknown benefit {shown(name)}; allowed are {allowed}{why}", place=place)
    return found
