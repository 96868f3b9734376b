"""A cluster that starts jobs in the order that its site's priorities say, as a batch scheduler does."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Job:
    """path: of its entry in the policy; times in seconds since the beginning, −1 for not yet."""

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
        self.queues: dict[str, deque[Job]] = {}
        self.running: list[tuple[float, int, Job]] = []
        self._arrived = 0

    def submit(self, jobs: Sequence[Job]) -> None:
        """Add jobs that arrive after all earlier ones."""
        self.jobs += jobs

    def n_waiting(self, leaf: str) -> int:
        return len(self.queues.get(leaf, ()))

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
            self.queues.setdefault(job.leaf, deque()).append(job)
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
