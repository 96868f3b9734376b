"""The jobs of the Grid-wide evaluation, and clusters that start them in the order that their site's priorities say."""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.contrib.lab import simulation
from apps.contrib.lab.simulation.scenario import read_scenario
from apps.contrib.lab.simulation.workload import draw

SHIPPED = Path(simulation.__file__).parent / "scenarios"


@dataclass
class Job:
    """path: of its entry in the scenario's policy; times in seconds since the beginning, −1 for not yet."""

    number: int
    path: str
    site: int
    submit_s: float
    run_s: float
    requested_s: float
    cpus: int
    start_s: float = -1.0

    @property
    def end_s(self) -> float:
        return self.start_s + self.run_s

    @property
    def leaf(self) -> str:
        return self.path.rpartition("/")[2]

    def core_s(self, now_s: float) -> float:
        """Used up to an instant, the elapsed part of a running job included."""
        return self.cpus * max(min(now_s, self.end_s) - self.start_s, 0.0)


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


@dataclass
class Step:
    """What happened at a site in a round."""

    started: list[Job] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)


class Cluster:
    """Processors and a queue for each leaf. A free processor takes the first job of the leaf with the best rank."""

    def __init__(self, cpus: int, jobs: Sequence[Job]) -> None:
        self.free = cpus
        self.jobs = list(jobs)  # in order of arrival
        self.queues: dict[str, deque[Job]] = {job.leaf: deque() for job in self.jobs}
        self.running: list[tuple[float, int, Job]] = []
        self._arrived = 0

    def advance(self, until_s: float, ranks: Mapping[str, int]) -> Step:
        """Everything before `until_s`. ranks: by leaf, the smallest goes first; what has none comes last."""
        step = Step()
        for now_s, ended in self._events(until_s):
            if ended is not None:
                self.free += ended.cpus
                step.ended.append(ended)
            self._start(now_s, ranks, step)
        return step

    def _events(self, until_s: float) -> Iterator[tuple[float, Job | None]]:
        while True:
            next_end_s = self.running[0][0] if self.running else float("inf")
            is_over = self._arrived == len(self.jobs)
            next_arrival_s = float("inf") if is_over else self.jobs[self._arrived].submit_s
            if min(next_end_s, next_arrival_s) >= until_s:
                return
            if next_end_s <= next_arrival_s:
                yield next_end_s, heapq.heappop(self.running)[2]
                continue
            job = self.jobs[self._arrived]
            self._arrived += 1
            self.queues[job.leaf].append(job)
            yield next_arrival_s, None

    def _start(self, now_s: float, ranks: Mapping[str, int], step: Step) -> None:
        last = len(ranks) + 1
        while self.free > 0:
            waiting = [queue for queue in self.queues.values() if queue and queue[0].cpus <= self.free]
            if not waiting:
                return
            job = min(waiting, key=lambda queue: (ranks.get(queue[0].leaf, last), queue[0].submit_s))[0]
            self.queues[job.leaf].popleft()
            job.start_s = now_s
            self.free -= job.cpus
            heapq.heappush(self.running, (job.end_s, job.number, job))
            step.started.append(job)


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
