"""A slow readable twin of the simulator for jobs of one processor: every number is summed again at every decision.

It takes the drawn jobs from the product and decides by itself what starts when: no increments, no lines over time, no
tree of arrays; usage is a sum over jobs, an entry's vector is a list, and candidates are narrowed level by level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Job:
    """One job as it was drawn; started_s is the twin's to find out."""

    number: int
    entry: str
    site: int
    at_s: float
    run_s: float
    requested_s: float
    counts: bool
    leaves_s: float
    started_s: float | None = None
    has_arrived: bool = False  # at one instant ends come before arrivals, so the clock doesn't tell

    @property
    def end_s(self) -> float:
        return math.inf if self.started_s is None else self.started_s + self.run_s


APPROACHES: dict[str, Callable[[Job, float], float]] = {
    "historical": lambda job, now_s: job.run_s if job.end_s <= now_s else 0.0,
    "active": lambda job, now_s: max(0.0, min(job.end_s, now_s) - (job.started_s or 0.0)),
    "predictive": lambda job, now_s: job.run_s if job.end_s <= now_s else job.requested_s,
}


class Twin:
    """All sites under one policy; `given` is the scenario as JSON has it, without *inherit* and jobs of groups."""

    def __init__(self, given: dict[str, Any], jobs: list[Job]) -> None:
        self.given, self.jobs = given, jobs
        self.children: dict[str, list[tuple[str, float]]] = {}
        self.is_global: dict[str, bool] = {}
        self._read(given["policy"], "", is_global=False)
        self.delay_s = given.get("noise", {}).get("usage_delay_s", 0.0)
        self.refreshed: dict[str, float] = {}

    def _read(self, entry: dict[str, Any], path: str, *, is_global: bool) -> None:
        self.is_global[path] = {"global": True, "local": False}.get(entry.get("scope", ""), is_global)
        self.children[path] = [(f"{path}/{child['name']}", child["shares"]) for child in entry.get("children", [])]
        for child in entry.get("children", []):
            self._read(child, f"{path}/{child['name']}", is_global=self.is_global[path])

    def usage(self, path: str, site: int | None, now_s: float) -> float:
        """Of an entry and all below, at one site or all of them, as it is known at this instant."""
        approach = APPROACHES[self.given["usage"]["global" if site is None else "local"]]
        known_s = max(0.0, now_s - self.delay_s)
        return math.fsum(
            approach(job, known_s)
            for job in self.jobs
            if job.counts and (job.entry == path or job.entry.startswith(f"{path}/"))
            if site in (None, job.site) and job.started_s is not None and job.started_s <= known_s
        )

    def refresh(self, now_s: float) -> None:
        self.refreshed = {
            path: self.usage(path, None, now_s)
            for above, below in self.children.items()
            for path, _ in below
            if self.is_global[above]
        }

    def component(self, above: str, path: str, site: int, now_s: float) -> float:
        amounts = {
            child: self.refreshed[child] if self.is_global[above] else self.usage(child, site, now_s)
            for child, _ in self.children[above]
        }
        whole, shares = math.fsum(amounts.values()), dict(self.children[above])
        target = shares[path] / sum(shares.values()) if sum(shares.values()) else 0.0
        actual = amounts[path] / whole if whole > 0 else 0.0
        is_on_target = abs(target - actual) <= 1e-12 * max(target, actual)
        if self.given["algorithm"]["name"] == "gridwide":
            return 0.0 if is_on_target else 100 * (target - actual)
        relative = 0.0 if is_on_target else (target - actual) / max(target, actual)
        resolution = self.given["algorithm"]["resolution"]
        return float(min(resolution - 1, math.floor((relative + 1) / 2 * resolution)))

    def vector(self, path: str, site: int, now_s: float) -> list[float]:
        names = path.split("/")
        steps = [("/".join(names[:n]), "/".join(names[: n + 1])) for n in range(1, len(names))]
        return [self.component(above, child, site, now_s) for above, child in steps]

    def choose(self, site: int, now_s: float) -> Job | None:
        """The first pending job of the entry that is ahead, of those that tie the one whose job came first."""
        first: dict[str, Job] = {}
        for job in self.jobs:
            if job.site == site and job.has_arrived and now_s < job.leaves_s and job.started_s is None:
                first.setdefault(job.entry, job)
        is_gridwide = self.given["algorithm"]["name"] == "gridwide"
        tie, pad = (1e-9, 0.0) if is_gridwide else (0.0, self.given["algorithm"]["resolution"] // 2)
        vectors = {path: self.vector(path, site, now_s) for path in first}
        depth = max(map(len, vectors.values()), default=0)
        left = list(first)
        for level in range(depth):
            value = {path: (vectors[path] + [pad] * depth)[level] for path in left}
            ahead = sorted(left, key=lambda path: -value[path])
            kept = [ahead[0]]
            for path in ahead[1:]:
                if value[kept[-1]] - value[path] > tie:
                    break
                kept.append(path)
            left = kept
        return min((first[path] for path in left), key=lambda job: job.number, default=None)

    def instants(self) -> Iterator[tuple[float, int, int]]:
        """What happens next, one after the other: (when, kind, job); ends, withdrawals, refreshes, arrivals."""
        done: set[tuple[int, int]] = set()
        end_s = self.given["hours"] * 3600
        every_s = self.given["usage"]["global_refresh_s"]
        n_refreshed = 0
        while True:
            ends = [(job.end_s, 0, job.number) for job in self.jobs if job.started_s is not None]
            leavings = [(job.leaves_s, 1, -int(job.leaves_s)) for job in self.jobs if job.leaves_s < end_s]
            arrivals = [(job.at_s, 3, job.number) for job in self.jobs]
            waiting = [each for each in [*ends, *leavings, *arrivals] if each[1:] not in done]
            instant = min([*waiting, (n_refreshed * every_s, 2, n_refreshed)])
            if instant[0] > end_s or (instant[0] == end_s and instant[1] > 0):
                return
            done.add(instant[1:])
            n_refreshed += instant[1] == 2
            yield instant

    def run(self) -> dict[int, float]:
        """When each job that starts before the end does so, by its number."""
        free = [site["cpus"] for site in self.given["sites"]]
        by_number = {job.number: job for job in self.jobs}
        for now_s, kind, number in self.instants():
            if kind == 2:
                self.refresh(now_s)
                continue
            if kind == 0:
                free[by_number[number].site] += 1
            if kind == 3:
                by_number[number].has_arrived = True
            for site in range(len(free)):
                while free[site] > 0:
                    job = self.choose(site, now_s)
                    if job is None:
                        break
                    job.started_s = now_s
                    free[site] -= 1
        return {job.number: job.started_s for job in self.jobs if job.started_s is not None}
