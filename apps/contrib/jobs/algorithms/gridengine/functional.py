"""Functional tickets: running jobs divide them by their owners' shares; pending ones as if they started one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from apps.contrib.jobs.algorithms.base import plain
from apps.contrib.jobs.algorithms.gridengine.case import Job
from apps.contrib.jobs.algorithms.gridengine.config import Config
from apps.contrib.jobs.algorithms.gridengine.line import Amount, Line, total_of
from apps.contrib.jobs.algorithms.gridengine.owners import Kind, Owner
from apps.engine.arrays import FloatArray

OWNERS: tuple[Kind, ...] = ("user", "department", "project")  # in the order in which the scheduler adds them
JOB = "job"
MARGIN = 0.001  # added to sums of shares while candidates are compared, so that none is 0


@dataclass
class Sums:
    """Sums of the functional shares of owners with jobs, by category, and the number of active jobs of each owner."""

    shares: dict[str, float]
    active: Counter[Owner]

    @classmethod
    def of_running(cls, running: Sequence[Job], *, is_shared: bool) -> Sums:
        """Sums over running jobs; owners' shares are divided by their running jobs if they are shared."""
        active = Counter(owner for job in running for owner in job.owners.values())
        sums = cls(dict.fromkeys((*OWNERS, JOB), 0.0), active)
        for job in running:
            for kind, owner in job.owners.items():
                sums.shares[kind] += owner.fshare / active[owner] if is_shared else owner.fshare
            sums.shares[JOB] += job.job_share
        return sums


def rescaled(weights: Mapping[str, float], categories: set[str]) -> dict[str, float]:
    """Weights of these categories rescaled to sum 1, and 0 for the others."""
    kept = {name: weights[name] if name in categories else 0.0 for name in (*OWNERS, JOB)}
    total = sum(kept.values())
    return {name: weight / total if total > 0 else 0.0 for name, weight in kept.items()}


@dataclass(frozen=True)
class Functional:
    """Functional tickets of pending jobs, and those beyond `max_functional_jobs_to_schedule`, by number."""

    of: Mapping[Job, Amount]
    beyond: tuple[Job, ...] = ()


@dataclass(frozen=True)
class _Deal:
    """The tickets of one job: T · k · share/Σ shares, summed over the categories."""

    config: Config
    weights: Mapping[str, float]
    sums: Mapping[str, float]

    def amount(self, job: Job, divisor: Mapping[Owner, int], note: str = "") -> Amount:
        """Tickets of the job; divisor: the number of jobs that each owner's shares are divided by."""
        parts = []
        for kind in OWNERS:
            owner = job.owners.get(kind)
            if owner is not None and owner.fshare > 0:
                jobs = divisor.get(owner, 1)
                text = f"{plain(owner.fshare)} / {jobs}" if jobs > 1 else plain(owner.fshare)
                parts += self._part(kind, owner.fshare / jobs, text, f"{kind} {owner.name}{note}")
        parts += self._part(JOB, job.job_share, plain(job.job_share), f"job share{note}")
        return total_of(parts, "no functional shares in play")

    def _part(self, category: str, share: float, text: str, what: str) -> list[Amount]:
        weight, total, tickets = self.weights[category], self.sums[category], self.config.functional_tickets
        if share <= 0 or weight <= 0 or total <= 0:
            return []
        value = weight * (share * tickets / total)
        return [Amount(value, f"{plain(weight)} × {plain(tickets)} × {text} / {plain(total)} ({what})")]


def share_running(running: Sequence[Job], config: Config) -> dict[Job, Amount]:
    """T · Σ k·share/Σ shares of running jobs; weights are rescaled over the categories with shares in use."""
    is_shared = config.share_functional_shares
    sums = Sums.of_running(running, is_shared=is_shared)
    weights = rescaled(config.category_weights, {name for name, total in sums.shares.items() if total > 0})
    deal = _Deal(config, weights, sums.shares)
    return {job: deal.amount(job, sums.active if is_shared else {}) for job in running}


def share_pending_evenly(running: Sequence[Job], pending: Sequence[Job], config: Config) -> Functional:
    """The amendment: T is divided by the shares of all owners with jobs, and each part evenly among an owner's jobs."""
    jobs = [*running, *pending]
    divisor = Counter(owner for job in jobs for owner in job.owners.values())
    sums: dict[str, float] = {kind: sum(owner.fshare for owner in divisor if owner.kind == kind) for kind in OWNERS}
    sums[JOB] = sum(job.job_share for job in jobs)
    weights = rescaled(config.category_weights, {name for name, total in sums.items() if total > 0})
    deal = _Deal(config, weights, sums)
    return Functional({job: deal.amount(job, divisor) for job in pending})


def share_pending(
    running: Sequence[Job], pending: Sequence[Job], config: Config, earlier: Mapping[Job, float] | None
) -> Functional:
    """The scheduler's algorithm: the job with most tickets is assumed to start next, and its tickets are final.

    earlier: tickets of policies before this one if it is in the hierarchy; they count in the comparison. After
    `max_functional_jobs` rounds the others keep the last candidate value of their group.
    """
    greedy = _Greedy(running, pending, config, earlier)
    amounts = {job: Amount(0.0, "0 (no functional shares)") for job in pending}
    for left in range(min(config.max_functional_jobs, greedy.line.n_jobs), 0, -1):
        group = greedy.find_best()
        if left == 1:
            amounts.update(greedy.last_candidates())
        job, amount = greedy.activate(group)
        amounts[job] = amount
    beyond = {job for group in greedy.line.left() for job in group}
    if config.max_functional_jobs == 0:
        amounts.update(dict.fromkeys(beyond, Amount(0.0, "0 (max_functional_jobs_to_schedule is 0)")))
    return Functional(amounts, tuple(job for job in pending if job in beyond))


class _Greedy:
    """The queue of pending jobs, and the sums of shares that grow as jobs are activated."""

    def __init__(
        self, running: Sequence[Job], pending: Sequence[Job], config: Config, earlier: Mapping[Job, float] | None
    ) -> None:
        self._config = config
        self._weights = rescaled(config.category_weights, {*OWNERS, JOB})
        self._sums = Sums.of_running(running, is_shared=config.share_functional_shares)
        self.line = Line(
            pending, self._sums.active, earlier, of_job=lambda job: job.job_share, of_owner=lambda owner: owner.fshare
        )

    def _candidates(self) -> FloatArray:
        """The tickets of each group's first job if it started next."""
        tickets, line = self._config.functional_tickets, self.line
        value = np.zeros(len(line.own))
        for kind in OWNERS:
            total: float | FloatArray = self._sums.shares[kind] + MARGIN
            if self._config.share_functional_shares:
                share = (line.worth / line.divisor)[line.rows[kind]]
            else:
                share = line.worth[line.rows[kind]]
                total = total + share
            value += self._weights[kind] * (share * tickets / total)
        total = self._sums.shares[JOB] + MARGIN + line.own
        value += self._weights[JOB] * (line.own * tickets / total)
        return value

    def find_best(self) -> int:
        """The group whose first job would get most, including tickets of earlier policies; the oldest of equals."""
        return self.line.pick(self._candidates() + self.line.earlier, self.line.age)

    def activate(self, group: int) -> tuple[Job, Amount]:
        """Activate the group's first job: sums grow with owners who had no active job, and its tickets are final."""
        is_shared = self._config.share_functional_shares
        job = self.line.activate(group)
        for kind, owner in job.owners.items():
            if not is_shared or self._sums.active[owner] == 1:
                self._sums.shares[kind] += owner.fshare
        self._sums.shares[JOB] += job.job_share
        deal = _Deal(self._config, self._weights, self._sums.shares)
        return job, deal.amount(job, self._sums.active if is_shared else {}, note=", jobs before it counted")

    def last_candidates(self) -> dict[Job, Amount]:
        """The tickets of jobs beyond the limit: the candidate value of their group in the last round."""
        is_shared = self._config.share_functional_shares
        amounts: dict[Job, Amount] = {}
        for group in self.line.left():
            first = group[0]
            sums = {name: total + MARGIN for name, total in self._sums.shares.items()}
            sums[JOB] += first.job_share
            if not is_shared:
                for kind, owner in first.owners.items():
                    sums[kind] += owner.fshare
            divisor = {owner: self._sums.active[owner] + 1 for owner in first.owners.values()} if is_shared else {}
            deal = _Deal(self._config, self._weights, sums)
            amount = deal.amount(first, divisor, note=", as if next; beyond the number of jobs looked at")
            amounts.update(dict.fromkeys(group, amount))
        return amounts
