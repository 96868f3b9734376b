"""The operators paper's future work: operators × resolutions × shapes of trees × noise, simulated on two sites."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from apps.contrib.lab.simulation import simulate
from apps.engine.codecs import MAX_RESOLUTION
from docsite.papers.records import SweepRow

Entry = dict[str, Any]

OPERATORS = ("absolute", "relative", "relative-2", "sigmoid", "sigmoid-2", "slurm", "combined")
RESOLUTIONS: Mapping[str, int] = {"8": 8, "100": 100, "10,000": 10_000, "exact": MAX_RESOLUTION}
NOISE: Mapping[str, Mapping[str, float]] = {
    "none": {},
    "usage 10 minutes late": {"usage_delay_s": 600},
    "5 % of jobs lost": {"loss": 0.05},
}
HOURS = 72
SEEDS = (1, 2, 3, 4, 5)
STEP_H = 0.5
CLOSE_POINTS = 1.0  # of the parent, for every entry
_SITES = [{"name": "R1", "cpus": 50}, {"name": "R2", "cpus": 50}]
_LOAD = 0.8  # of all processors, by each leaf: more than the target of any


def _leaf(name: str, shares: float) -> Entry:
    return {"name": name, "shares": shares}


def _group(name: str, shares: float, children: list[Entry]) -> Entry:
    return {"name": name, "shares": shares, "children": children}


def _thirds(levels: int, name: str, shares: float) -> Entry:
    """A tree in which each group has three children, of 50, 30 and 20 shares."""
    if levels == 0:
        return _leaf(name, shares)
    return _group(name, shares, [_thirds(levels - 1, f"{name}{part}", part) for part in (50, 30, 20)])


def _chain(levels: int, shares: float = 1) -> Entry:
    """Two users beside each group of a chain: the deepest are so many levels down."""
    users = [_leaf(f"u{levels}", 30), _leaf(f"v{levels}", 20)]
    below = _leaf("w1", 50) if levels == 1 else _chain(levels - 1, 50)
    return _group(f"g{levels}", shares, [*users, below])


SHAPES: Mapping[str, list[Entry]] = {
    "flat": [_leaf(f"u{shares}", shares) for shares in (2, 5, 8, 10, 15, 20, 40)],
    "deep": _thirds(3, "e", 1)["children"],
    "unbalanced": _chain(4)["children"],
    "figure 1": [
        _group(
            "VO-A",
            50,
            [_group("P-A1", 25, [_leaf("U-A11", 50), _leaf("U-A12", 50)])] + [_leaf(f"P-A{n}", 25) for n in (2, 3, 4)],
        ),
        _group("VO-B", 25, [_leaf("P-B1", 60), _leaf("P-B2", 30), _leaf("P-B3", 10)]),
        _leaf("local", 25),
    ],
}


def settings() -> Iterator[tuple[str, str, str, str]]:
    """Shape, noise, resolution and operator of each simulation, in the order of the table."""
    return product(SHAPES, NOISE, RESOLUTIONS, OPERATORS)


def scenario(shape: str, noise: str, resolution: str, operator: str) -> dict[str, Any]:
    children = SHAPES[shape]
    leaves = [path for path, entry in _entries(children) if "children" not in entry]
    return {
        "id": f"{shape}, {noise}, {resolution}, {operator}",
        "hours": HOURS,
        "sites": _SITES,
        "policy": {"name": "root", "scope": "global", "children": children},
        "algorithm": {"name": "aequus", "operator": operator, "resolution": RESOLUTIONS[resolution]},
        "usage": {"local": "predictive", "global": "predictive", "global_refresh_s": 60},
        "noise": NOISE[noise],
        "workload": [
            {"entry": path, "load": _LOAD, "run_h": [0.5, 1.5], "requested_factor": [1.2, 1.4]} for path in leaves
        ],
        "report_h": [STEP_H * n for n in range(1, round(HOURS / STEP_H) + 1)],
    }


def run(setting: tuple[str, str, str, str]) -> SweepRow:
    """Mean and median over the seeds."""
    shape, noise, resolution, operator = setting
    targets = dict(_targets(SHAPES[shape]))
    rms, hours = [], []
    for seed in SEEDS:
        result = simulate(scenario(*setting), seed=seed)
        groups = [points for points in result["rms_points"].values() if points is not None]
        rms.append(math.sqrt(sum(points**2 for points in groups) / len(groups)))
        hour = hours_to_target(result["reports"], targets)
        hours.append(math.inf if hour is None else hour)
    to_target_h = statistics.median(hours)
    return SweepRow(
        shape=shape,
        noise=noise,
        resolution=resolution,
        operator=operator,
        rms_points=round(statistics.mean(rms), 2),
        to_target_h=None if math.isinf(to_target_h) else to_target_h,
    )


def hours_to_target(reports: Iterable[Mapping[str, Any]], targets: Mapping[str, float]) -> float | None:
    """The first reported hour from which on every share is close to its target; None if the last one is not."""
    hour: float | None = None
    for report in reports:
        shares = report["share_of_parent"]
        is_close = all(abs((shares[path] or 0.0) - target) <= CLOSE_POINTS for path, target in targets.items())
        hour = (report["hour"] if hour is None else hour) if is_close else None
    return hour


def _targets(children: list[Entry], above: str = "") -> Iterator[tuple[str, float]]:
    """Percent of the parent, by path."""
    total = sum(child["shares"] for child in children)
    for child in children:
        path = f"{above}/{child['name']}"
        yield path, 100 * child["shares"] / total
        yield from _targets(child.get("children", []), path)


def _entries(children: list[Entry], above: str = "") -> Iterator[tuple[str, Entry]]:
    for child in children:
        path = f"{above}/{child['name']}"
        yield path, child
        yield from _entries(child.get("children", []), path)
