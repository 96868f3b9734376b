"""The jobs of the Grid-wide evaluation, as clusters get them, and the shares that they used."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from apps.cli.demo.cluster import Job
from apps.contrib.lab import simulation
from apps.contrib.lab.simulation.scenario import read_scenario
from apps.contrib.lab.simulation.workload import draw

SHIPPED = Path(simulation.__file__).parent / "scenarios"


def load_scenario(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SHIPPED / f"{name}.json").read_text(encoding="utf-8"))
    return found


def draw_jobs(given: Mapping[str, Any], *, hours: float, seed: int) -> list[Job]:
    """What the product's own simulator submits, in order of arrival; the broker has chosen a site for each."""
    scenario = read_scenario({**given, "hours": hours, "report_h": [hours]}, seed=seed, traces={})
    drawn = draw(scenario)
    path_of = {number: path for path, number in scenario.policy.entry_at.items()}
    n_queues, jobs = len(drawn.entries), drawn.jobs
    found: list[Job] = []
    for at_s, place, job in zip(drawn.arrivals.at_s, drawn.arrivals.site_queue, drawn.arrivals.job, strict=True):
        site, queue = divmod(int(place), n_queues)
        path = path_of[int(drawn.entries[queue])]
        run_s, requested_s = float(jobs.run_s[job]), float(jobs.requested_s[job])
        found.append(Job(len(found), path, site, float(at_s), run_s, requested_s, int(jobs.cpus[job])))
    return found


def shares_of_parents(jobs: Collection[Job], now_s: float) -> dict[str, float]:
    """Percent of what its parent used since the beginning, of every entry on the way to a leaf, by its name."""
    used: dict[str, float] = {}
    for job in jobs:
        if job.start_s >= 0:
            parts = job.path.split("/")
            for n in range(1, len(parts) + 1):
                path = "/".join(parts[:n])
                used[path] = used.get(path, 0.0) + job.core_s(now_s)
    return {
        path.rpartition("/")[2]: 100 * core_s / used[path.rpartition("/")[0]]
        for path, core_s in used.items()
        if path and used[path.rpartition("/")[0]]
    }
