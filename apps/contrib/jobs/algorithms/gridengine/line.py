"""A queue of pending jobs that are activated one by one; after each, the jobs are compared again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.contrib.jobs.algorithms.base import plain
from apps.contrib.jobs.algorithms.gridengine.case import Job
from apps.contrib.jobs.algorithms.gridengine.owners import KINDS, Kind, Owner
from apps.engine.arrays import FloatArray

IntArray = npt.NDArray[np.int64]
NOBODY = 0.0  # value of an absent owner, or of one without shares or tickets


@dataclass(frozen=True)
class Amount:
    """A value and its calculation as text. Only words in the text start with a letter, and are in parentheses."""

    value: float
    text: str

    def line(self, label: str) -> str:
        return f"{label} {plain(self.value)} = {self.text}"


NOTHING = Amount(0.0, "0")


def total_of(parts: list[Amount], otherwise: str) -> Amount:
    """The sum in the given order; `otherwise` is the text of an empty sum."""
    if not parts:
        return Amount(0.0, f"0 ({otherwise})")
    value = 0.0
    for part in parts:
        value += part.value
    return Amount(value, " + ".join(part.text for part in parts))


class Line:
    """Jobs grouped by all that their value depends on, so that only the first job of each group is compared.

    of_job and of_owner: shares or tickets of a job and an owner. active: running jobs of each owner, increased as
    pending jobs are activated. earlier: tickets of policies before this one if it is in the hierarchy. A group is
    ordered by these, then age; without a hierarchy by job number.
    """

    def __init__(
        self,
        pending: Sequence[Job],
        active: Counter[Owner],
        earlier: Mapping[Job, float] | None,
        *,
        of_job: Callable[[Job], float],
        of_owner: Callable[[Owner], float],
    ) -> None:
        self.active = active
        self._earlier = earlier
        oldest = sorted(pending, key=lambda job: job.age_key)
        self._age = {job: rank for rank, job in enumerate(oldest)}
        self._number = {job: rank for rank, job in enumerate(pending)}
        self._groups = self._group(pending, of_job, of_owner)
        self.n_jobs = sum(map(len, self._groups))
        firsts = [group[-1] for group in self._groups]
        owners = list(dict.fromkeys(o for job in firsts for o in job.owners.values() if of_owner(o) > 0))
        self._row = {owner: row for row, owner in enumerate(owners)}
        self.worth = np.array([*map(of_owner, owners), NOBODY], dtype=np.float64)
        self.divisor = np.array([*(active[owner] + 1 for owner in owners), 1], dtype=np.float64)
        self.own = np.array([of_job(job) for job in firsts], dtype=np.float64)
        self.rows: dict[Kind, IntArray] = {
            kind: np.array([self._row_of(job.owners.get(kind)) for job in firsts], dtype=np.int64) for kind in KINDS
        }
        self.is_waiting = np.ones(len(firsts), dtype=bool)
        self.earlier = np.array([self._before(job) for job in firsts], dtype=np.float64)
        self.age = np.array([self._age[job] for job in firsts], dtype=np.int64)
        self.number = np.array([self._number[job] for job in firsts], dtype=np.int64)

    def _row_of(self, owner: Owner | None) -> int:
        return len(self._row) if owner is None else self._row.get(owner, len(self._row))

    def _before(self, job: Job) -> float:
        return self._earlier.get(job, 0.0) if self._earlier is not None else 0.0

    def _group(
        self, pending: Sequence[Job], of_job: Callable[[Job], float], of_owner: Callable[[Owner], float]
    ) -> list[list[Job]]:
        """Groups of jobs that have or can get anything; each group's next job is last in its list."""
        groups: dict[tuple[object, ...], list[Job]] = {}
        for job in pending:
            candidates = (job.owners.get(kind) for kind in KINDS)
            owners = tuple(owner if owner is not None and of_owner(owner) > 0 else None for owner in candidates)
            if of_job(job) > 0 or any(owners):
                groups.setdefault((of_job(job), *owners), []).append(job)
        for group in groups.values():
            if self._earlier is not None:
                group.sort(key=lambda job: (-self._before(job), self._age[job]))
            group.reverse()
        return list(groups.values())

    def pick(self, value: FloatArray, *ties: npt.NDArray[np.generic]) -> int:
        """The waiting group of the largest value; among equals the smallest by each tie-breaker in turn."""
        value = np.where(self.is_waiting, value, -1.0)
        best = np.flatnonzero(value == value.max())
        for tie in ties:
            if len(best) > 1:
                best = best[tie[best] == tie[best].min()]
        return int(best[0])

    def activate(self, group: int) -> Job:
        """Activate the group's first job for its owners; the next one becomes first."""
        job = self._groups[group].pop()
        for owner in job.owners.values():
            self.active[owner] += 1
            if owner in self._row:
                self.divisor[self._row[owner]] = self.active[owner] + 1
        if self._groups[group]:
            first = self._groups[group][-1]
            self.earlier[group] = self._before(first)
            self.age[group], self.number[group] = self._age[first], self._number[first]
        else:
            self.is_waiting[group] = False
        return job

    def left(self) -> list[list[Job]]:
        """Groups that still have jobs, each one's first job first."""
        return [group[::-1] for group in self._groups if group]
