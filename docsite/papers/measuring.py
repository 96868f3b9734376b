"""Simulations of the grid-wide paper's figures and of the sweep, in parallel processes."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from apps.contrib.lab.scenario_files import SHIPPED
from apps.contrib.lab.simulation import simulate
from docsite.papers import sweep
from docsite.papers.gridwide_figures import SHOWN
from docsite.papers.records import SweepRow

STEP_H = 0.5
_DECIMALS = 2
Curves = dict[str, list[float | None]]
Rms = dict[str, float | None]


def run_scenario(name: str) -> tuple[Curves, Rms]:
    """Curves of the shown entries of a shipped scenario, and its distances from target by group."""
    scenario = json.loads((SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
    steps = round(scenario["hours"] / STEP_H)
    result = simulate(scenario | {"report_h": [STEP_H * n for n in range(1, steps + 1)]})
    curves = {path: [_rounded(report["share_of_parent"][path]) for report in result["reports"]] for path in SHOWN[name]}
    return curves, {path: _rounded(points) for path, points in result["rms_points"].items()}


def measure_all(processes: int) -> tuple[dict[str, Curves], dict[str, Rms], list[SweepRow]]:
    """By scenario its curves and distances, and the rows of the sweep."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        measured = dict(zip(SHOWN, pool.map(run_scenario, SHOWN), strict=True))
        rows = list(pool.map(sweep.run, sweep.settings(), chunksize=7))
    curves = {name: by_path for name, (by_path, _) in measured.items()}
    return curves, {name: rms for name, (_, rms) in measured.items()}, rows


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)
