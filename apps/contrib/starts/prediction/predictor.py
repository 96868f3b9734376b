"""Make promises for jobs as they come, and learn from each as it is settled, in the order of time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apps.contrib.starts.prediction.bases import BaseRecord, Bounds
from apps.contrib.starts.prediction.calibration import Calibration
from apps.contrib.starts.prediction.promises import (
    CEILING_S,
    FLOOR_S,
    LEVELS,
    Burst,
    Kind,
    Outcome,
    Promise,
    WaitingJob,
    next_age_s,
)
from apps.contrib.starts.prediction.recent_waits import RecentWaits, kind_at
from apps.contrib.starts.prediction.soon import Counter as SoonCounter
from apps.contrib.starts.prediction.soon import SoonCounters, counter_of

# At one instant promises are made first: what settles then isn't known yet, the job's own start least of all.
_COMES, _AGES, _SETTLES, _SOON, _LEAVES = range(5)
RECENT_LEVEL = 0.80
MOST_RECENT_PROMISES = 300
_BURST_HOURS = int(CEILING_S // 3_600) + 24


class PastJob(NamedTuple):
    """A job of a log. left_s: when it started, or was withdrawn without a start; None if it waits to the log's end.

    ended_s: when its run ended; None if it runs to the log's end, or didn't start.
    """

    job: WaitingJob
    submit_s: float
    left_s: float | None
    started: bool
    ended_s: float | None = None

    @property
    def leaves_s(self) -> float:
        return math.inf if self.left_s is None else self.left_s


class PastPromise(NamedTuple):
    """A promise with what became of it at each level; wait_s: from the promise until the job left the queue.

    soon: said probability of a start within 5 minutes, at submission; None at later promises.
    """

    promise: Promise
    outcomes: tuple[Outcome, ...]
    wait_s: float
    soon: float | None


@dataclass(slots=True)
class Predictor:
    """State: offsets of each base and their record, recent waits, counters, and how many promises each burst has.

    n_open: by kind and level. recent: of the latest settled promises of 80 %, by kind, whether they held. Bursts are
    forgotten after the longest promise, with a day for one settled late.
    """

    calibrations: defaultdict[str, Calibration] = field(default_factory=lambda: defaultdict(Calibration))
    record: BaseRecord = field(default_factory=BaseRecord)
    waits: RecentWaits = field(default_factory=RecentWaits)
    soon: SoonCounters = field(default_factory=SoonCounters)
    n_of_burst: Counter[Burst] = field(default_factory=Counter)
    n_open: Counter[tuple[Kind, int]] = field(default_factory=Counter)
    newest_hour: int = 0
    recent: dict[Kind, deque[bool]] = field(
        default_factory=lambda: {kind: deque(maxlen=MOST_RECENT_PROMISES) for kind in Kind}
    )

    def promise(
        self, job: WaitingJob, made_s: float, age_s: float, offered: Mapping[str, Bounds] | None = None
    ) -> Promise:
        """The promise for a job at an instant, by what was settled before it."""
        made = self.estimate(job, made_s, age_s, offered)
        self.count(made)
        return made

    def estimate(
        self, job: WaitingJob, made_s: float, age_s: float, offered: Mapping[str, Bounds] | None = None
    ) -> Promise:
        """What would be promised: nothing remembers it.

        offered: seconds at LEVELS by each base beside recent waits, not calibrated.
        """
        kind = kind_at(age_s)
        raw = {**self.waits.bases(job, age_s), **(offered or {})}
        offers = tuple((base, self._offsets(base).bounds_s(job, kind, raw[base])) for base in sorted(raw))
        basis = self.record.best(kind, raw)
        return Promise(job, made_s, age_s, dict(offers)[basis], basis, offers)

    def count(self, made: Promise) -> None:
        """A promise was made."""
        self.record.turn(made.made_s)
        hour = made.burst[2]
        if hour > self.newest_hour:
            self.newest_hour = hour
            for burst in [each for each in self.n_of_burst if each[2] < hour - _BURST_HOURS]:
                del self.n_of_burst[burst]
        self.n_of_burst[made.burst] += 1
        self.n_open.update((made.kind, level) for level in range(len(LEVELS)))

    def learn(self, promise: Promise, level: int, outcome: Outcome) -> None:
        """A level of what was promised is settled. Where it broke, shorter bounds of other bases broke, too."""
        self.n_open[promise.kind, level] -= 1
        n_open = self.n_open[promise.kind, level]
        self._teach(promise, level, outcome, n_open)
        if outcome is Outcome.BROKEN:
            shorter_s = promise.bounds_s[level - 1] if level else 0.0
            for other, at in _others(promise):
                if shorter_s < other.bounds_s[at] <= promise.bounds_s[level]:
                    self._teach(other, at, outcome, n_open)
        if LEVELS[level] == RECENT_LEVEL and outcome is not Outcome.WITHDRAWN:
            self.recent[promise.kind].append(outcome is Outcome.KEPT)

    def left(self, promise: Promise, left_s: float, *, started: bool) -> None:
        """The job of a promise has left the queue: what other bases offered is settled, and all are compared."""
        waited_s = left_s - promise.made_s
        broken_s = max((bound_s for bound_s in promise.bounds_s if bound_s < waited_s), default=0.0)
        for other, at in _others(promise):
            if other.bounds_s[at] > broken_s:
                n_open = self.n_open[promise.kind, at]
                self._teach(other, at, other.outcome(at, left_s, started=started), n_open)
        if started:
            weight = 1 / math.sqrt(max(self.n_of_burst[promise.burst], 1))
            self.record.count(promise.kind, promise.offers, left_s=left_s, wait_s=max(waited_s, 0.0), weight=weight)

    def count_soon(self, promise: Promise, counter: SoonCounter, *, started: bool) -> None:
        """The first 5 minutes of a job are over; promise: that of its submission."""
        self.soon.count(counter, max(self.n_of_burst[promise.burst], 1), started=started)

    def started(self, job: WaitingJob, wait_s: float) -> None:
        """A job started. wait_s: since its submission."""
        self.waits.add(job, wait_s)

    def _teach(self, promise: Promise, level: int, outcome: Outcome, n_open: int) -> None:
        n_of_burst = max(self.n_of_burst[promise.burst], 1)
        self.calibrations[promise.basis].learn(promise, level, outcome, n_of_burst=n_of_burst, n_open=n_open)

    def _offsets(self, base: str) -> Calibration:
        """Those of a base; none before it has learned."""
        return self.calibrations.get(base) or Calibration()


def _others(promise: Promise) -> Iterator[tuple[Promise, int]]:
    """What the other bases would have promised, with each of their levels."""
    for base, bounds_s in promise.offers:
        if base != promise.basis:
            other = promise._replace(bounds_s=bounds_s, basis=base)
            yield from ((other, level) for level in range(len(LEVELS)))


Offered = Callable[[int, float], Mapping[str, Bounds]]


def replay(
    jobs: Iterable[PastJob],
    predictor: Predictor | None = None,
    offered: Offered | None = None,
    *,
    until_s: float = math.inf,
) -> list[PastPromise]:
    """Promises for a whole log, each made by what was known at its instant, in the order in which they were made.

    Promises of jobs that wait to the log's end are left out: nobody knows their waits. offered: of a job's number and
    age, what bases beside recent waits say. until_s: what happens later teaches nothing, also not to those that wait.
    """
    return _Replay(list(jobs), predictor or Predictor(), offered or (lambda _number, _age_s: {})).run(until_s)


class _Made(NamedTuple):
    promise: Promise
    number: int  # of its job
    counter: SoonCounter
    soon: float | None


class _Replay:
    """Events in the order of time; of those at one instant in the order of their kinds, then as they were added."""

    def __init__(self, past: list[PastJob], predictor: Predictor, offered: Offered) -> None:
        self._past, self._predictor, self._offered = past, predictor, offered
        self._promises: defaultdict[int, list[Promise]] = defaultdict(list)  # of jobs that wait
        self._events: list[tuple[float, int, int, int, float]] = []  # instant, kind, order, number, age or level
        self._order = itertools.count()
        self._made: list[_Made] = []
        self._n_waiting: Counter[str] = Counter()  # by queue

    def run(self, until_s: float) -> list[PastPromise]:
        for number, each in enumerate(self._past):
            self._add(each.submit_s, _COMES, number, 0.0)
            if each.left_s is not None:
                self._add(each.left_s, _LEAVES, number, 0.0)
        steps = {_COMES: self._promise, _AGES: self._promise, _SETTLES: self._settle, _SOON: self._settle_soon}
        while self._events and self._events[0][0] <= until_s:
            at_s, kind, _order, number, value = heapq.heappop(self._events)
            if kind == _LEAVES:
                self._leave(number)
            else:
                steps[kind](at_s, number, value)
        return [self._settled(made) for made in self._made if self._past[made.number].left_s is not None]

    def _add(self, at_s: float, kind: int, number: int, value: float) -> None:
        heapq.heappush(self._events, (at_s, kind, next(self._order), number, value))

    def _promise(self, at_s: float, number: int, age_s: float) -> None:
        each, place = self._past[number], len(self._made)
        counter = counter_of(each.job, others_wait=self._n_waiting[each.job.queue] > 0)
        soon = None if age_s else self._predictor.soon.probability(counter)
        promise = self._predictor.promise(each.job, at_s, age_s, self._offered(number, age_s))
        self._promises[number].append(promise)
        self._made.append(_Made(promise, number, counter, soon))
        for level in range(len(LEVELS)):
            self._add(promise.settled_s(level, each.leaves_s), _SETTLES, place, level)
        if not age_s:
            self._n_waiting[each.job.queue] += 1
            self._add(min(at_s + FLOOR_S, each.leaves_s), _SOON, place, 0.0)
        later = next_age_s(age_s)
        if each.left_s is not None and each.submit_s + later < each.left_s:
            self._add(each.submit_s + later, _AGES, number, later)

    def _settle(self, at_s: float, place: int, level: float) -> None:
        promise, number = self._made[place][:2]
        each = self._past[number]
        self._predictor.learn(promise, int(level), promise.outcome(int(level), each.leaves_s, started=each.started))

    def _settle_soon(self, at_s: float, place: int, _value: float) -> None:
        promise, number, counter, _soon = self._made[place]
        each = self._past[number]
        is_soon = each.leaves_s <= promise.made_s + FLOOR_S
        if each.started or not is_soon:
            self._predictor.count_soon(promise, counter, started=is_soon)

    def _leave(self, number: int) -> None:
        each = self._past[number]
        self._n_waiting[each.job.queue] -= 1
        for promise in self._promises.pop(number):
            self._predictor.left(promise, each.leaves_s, started=each.started)
        if each.started:
            self._predictor.started(each.job, each.leaves_s - each.submit_s)

    def _settled(self, made: _Made) -> PastPromise:
        each = self._past[made.number]
        outcomes = tuple(
            made.promise.outcome(level, each.leaves_s, started=each.started) for level in range(len(LEVELS))
        )
        return PastPromise(made.promise, outcomes, each.leaves_s - made.promise.made_s, made.soon)


def of_kind(settled: Iterable[PastPromise], kind: Kind) -> list[PastPromise]:
    return [each for each in settled if each.promise.kind is kind]
