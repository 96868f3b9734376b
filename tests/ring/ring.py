"""Rounds of five minutes: every site's jobs run by its newest priorities, and all look at each other again."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.cli.demo.cluster import Job, Step
from tests.ring.evaluation import Evaluation
from tests.ring.instances import Instances

START = datetime(2026, 11, 20, tzinfo=UTC)
ROUND_S = 300.0


class Ring:
    """The instances of an evaluation. others: authorities that aren't sites; they look before the sites do."""

    def __init__(self, evaluation: Evaluation, instances: Instances, *, others: Sequence[str] = ()) -> None:
        self.evaluation = evaluation
        self.instances = instances
        self.sites = evaluation.sites
        self.others = others
        self.clusters = evaluation.clusters()
        self.began_at = START
        self.now_s = 0.0
        self.ranks: dict[str, dict[str, int]] = {}  # by site, of each leaf
        self.used: dict[str, dict[str, float]] = {}  # by site, core-seconds that an entry's siblings are compared by
        self.inflates: dict[str, float] = {}  # by site, times as many cores as its jobs have
        self.spent_s: dict[str, float] = defaultdict(float)

    def run_round(self) -> None:
        self.now_s += ROUND_S
        steps = {name: one.advance(self.now_s, self.ranks[name]) for name, one in self.clusters.items()}
        self._set_clocks()
        self.tell(self.sites, "take", lambda name: {"rows": self._rows(name, steps[name])})
        self._look()

    def refresh(self, after_s: float = ROUND_S) -> None:
        """As a round, before the first job is submitted."""
        assert self.now_s == 0, "jobs are running"
        self.began_at += timedelta(seconds=after_s)
        self._set_clocks()
        self._look()

    def _look(self) -> None:
        for name in self.others:  # one after another, as what is mounted leads on
            self.tell([name], "look")
        self.tell(self.sites, "look")
        self.recompute()

    def recompute(self) -> None:
        for name, entries in self.tell(self.sites, "recompute").items():
            self.ranks[name] = {entry: rank for entry, (rank, _) in entries.items() if rank is not None}
            self.used[name] = {entry: core_s for entry, (_, core_s) in entries.items()}

    def tell(self, names: Sequence[str], do: str, of: Callable[[str], dict[str, Any]] = lambda _: {}) -> dict[str, Any]:
        """Several at once; the time that it took is added up."""
        began_s = time.monotonic()
        found = self.instances.tell_each(names, do, of)
        self.spent_s[do] += time.monotonic() - began_s
        return found

    def best_of(self, *leaves: str) -> set[str]:
        """Which of these is before the others, at any site."""
        return {min(leaves, key=lambda leaf: self.ranks[name][leaf]) for name in self.sites}

    def _rows(self, site: str, step: Step) -> list[list[Any]]:
        """As the worker's `take` wants them; a job that began and ended in one round is reported once."""
        ended = {job.number for job in step.ended}
        running = [self._row(site, job, is_over=False) for job in step.started if job.number not in ended]
        return running + [self._row(site, job, is_over=True) for job in step.ended]

    def _row(self, site: str, job: Job, *, is_over: bool) -> list[Any]:
        began_s = self.began_at.timestamp()
        submit_s, start_s, end_s = (round(began_s + s, 6) for s in (job.submit_s, job.start_s, job.end_s))
        cpus = job.cpus * self.inflates.get(site, 1.0)
        return [job.number, job.leaf, submit_s, start_s, end_s if is_over else None, cpus, round(job.requested_s, 3)]

    def _set_clocks(self) -> None:
        for one in self.instances.all.values():
            one.set_clock(self.began_at + timedelta(seconds=self.now_s))
