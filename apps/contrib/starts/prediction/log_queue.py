"""The queue of a past log at each instant at which a promise is made: planned starts and facts, without the future.

A log names neither the order of its scheduler nor its machine. Two orders are planned, by submission and by decayed use
of the users, and the machine is as large as the most that ran at once in the last WINDOW days.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.contrib.starts.prediction.plan import NEVER_S, Taken, Waiting, plan_starts
from apps.contrib.starts.prediction.predictor import PastJob
from apps.contrib.starts.prediction.promises import next_age_s
from apps.contrib.starts.prediction.queue_facts import UNKNOWN_WAITS_S, Lately, Runners, Waiters, facts_of
from apps.contrib.starts.prediction.recent_waits import RecentWaits

WINDOW_DAYS = 21
HALF_LIFE_S = 7 * 86_400.0
OVERDUE_OF_LOG_S = 60.0  # until a job ends that has reached its limit
NO_LIMIT_S = 86_400.0
_DAY_S = 86_400.0
_PROMISED, _ENDED, _LEFT = range(3)  # at one instant: what ends makes room for what starts
Numbers = NDArray[np.float64]


class QueueAt(NamedTuple):
    """One instant of a job: planned seconds to its start, infinity if never; facts as FACTS names them."""

    number: int
    age_s: float
    made_s: float
    by_submission_s: float
    by_use_s: float
    facts: Numbers


def queue_of_log(past: Sequence[PastJob]) -> Iterator[QueueAt]:
    """For each promise of `replay`, in its order. `past` is in the order of submission."""
    return _LogQueue(past).run()


class _LogQueue:
    def __init__(self, past: Sequence[PastJob]) -> None:
        self._past = past
        self._cpus = np.array([max(each.job.cpus, 1.0) for each in past])
        self._limit_s = np.array([each.job.limit_s or NO_LIMIT_S for each in past])
        self._submit_s = np.array([each.submit_s for each in past])
        users = {user: n for n, user in enumerate(dict.fromkeys(each.job.user for each in past))}
        self._user = np.array([users[each.job.user] for each in past], np.int64)
        self._use, self._use_at_s = np.zeros(len(users)), 0.0
        self._waiting: dict[int, None] = {}
        self._running: dict[int, float] = {}  # start
        self._most: deque[tuple[int, float]] = deque()  # day, most processors that ran at once
        self._waits = RecentWaits()
        self._starts: deque[float] = deque(maxlen=1_000)

    def run(self) -> Iterator[QueueAt]:
        order = itertools.count()
        events: list[tuple[float, int, int, int, float]] = []
        for number, each in enumerate(self._past):
            events.append((each.submit_s, _PROMISED, next(order), number, 0.0))
            if each.left_s is not None:
                events.append((each.left_s, _LEFT, next(order), number, 0.0))
                if each.started and each.ended_s is not None and each.ended_s > each.left_s:
                    events.append((each.ended_s, _ENDED, next(order), number, 0.0))
        heapq.heapify(events)
        while events:
            at_s, kind, _order, number, age_s = heapq.heappop(events)
            each = self._past[number]
            if kind == _PROMISED:
                self._waiting[number] = None
                yield self._queue_at(number, age_s, at_s)
                later = next_age_s(age_s)
                if each.left_s is not None and each.submit_s + later < each.left_s:
                    heapq.heappush(events, (each.submit_s + later, _PROMISED, next(order), number, later))
            elif kind == _LEFT:
                del self._waiting[number]
                if each.started:
                    self._start(number, at_s)
            else:
                self._decay(at_s)
                began_s = self._running.pop(number)
                self._use[self._user[number]] += self._cpus[number] * (at_s - began_s)

    def _start(self, number: int, at_s: float) -> None:
        each = self._past[number]
        self._starts.append(at_s)
        self._waits.add(each.job, at_s - each.submit_s)
        if each.ended_s is not None and each.ended_s <= at_s:
            return
        self._running[number] = at_s
        busy, day = float(self._cpus[list(self._running)].sum()), int(at_s // _DAY_S)
        while self._most and (self._most[-1][1] <= busy):
            self._most.pop()
        self._most.append((day, busy))
        while self._most[0][0] < day - WINDOW_DAYS:
            self._most.popleft()

    def _decay(self, at_s: float) -> None:
        self._use *= 0.5 ** ((at_s - self._use_at_s) / HALF_LIFE_S)
        self._use_at_s = at_s

    def _queue_at(self, number: int, age_s: float, at_s: float) -> QueueAt:
        waiting = np.fromiter(self._waiting, np.int64, len(self._waiting))
        running = np.fromiter(self._running, np.int64, len(self._running))
        began_s = np.fromiter(self._running.values(), np.float64, len(self._running))
        left_s = np.maximum(began_s + self._limit_s[running] - at_s, OVERDUE_OF_LOG_S)
        runners = Runners(self._cpus[running], left_s, self._user[running])
        self._decay(at_s)
        use = self._use + np.bincount(runners.user, runners.cpus * (at_s - began_s), len(self._use))
        capacity = self._most[0][1] if self._most else math.nan
        by_use = waiting[np.lexsort((waiting, use[self._user[waiting]]))]
        plans = [self._plan(number, order, runners, capacity) for order in (waiting, by_use)]
        total = use.sum()
        waiters = Waiters(
            self._cpus[by_use],
            self._limit_s[by_use],
            at_s - self._submit_s[by_use],
            self._user[by_use],
            np.ones(len(by_use)),
        )
        facts = facts_of(
            np.flatnonzero(by_use == number),
            waiters,
            runners,
            capacity,
            at_s=at_s,
            plan_s=np.array([plans[1] if plans[1] < NEVER_S else math.nan]),
            share_of_use=np.array([use[self._user[number]] / total if total else math.nan]),
            lately=Lately(
                np.array([self._waits.quantiles(self._past[number].job, age_s) or UNKNOWN_WAITS_S]),
                at_s - self._starts[-1] if self._starts else math.nan,
                sum(1 for start_s in self._starts if start_s > at_s - 3_600.0),
            ),
        )
        return QueueAt(number, age_s, at_s, plans[0], plans[1], facts[0])

    def _plan(self, number: int, order: NDArray[np.int64], runners: Runners, capacity: float) -> float:
        """The job's start: those behind it in the order don't matter."""
        if not self._cpus[number] <= capacity:
            return NEVER_S
        ahead = order[: int(np.flatnonzero(order == number)[0]) + 1]
        n, none = len(ahead), np.zeros(len(runners.cpus))
        fits = np.flatnonzero(self._cpus[ahead] <= capacity)
        starts, _choices = plan_starts(
            np.array([capacity]),
            Taken(none.astype(np.int64), runners.cpus, none, runners.left_s),
            Waiting(
                np.zeros(n),
                self._limit_s[ahead],
                np.arange(n + 1),
                np.arange(n + 1),
                np.zeros(n, np.int64),
                self._cpus[ahead],
            ),
            fits,
        )
        return float(starts[-1])
