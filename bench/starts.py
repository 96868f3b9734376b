"""Promises of starts on three real logs and a simulated one, beside what others say.

The rival is a bound of the published kind (QBETS: recent waits alone). Of each log the last third is apart
(`held out`): every parameter was chosen on the first two thirds. Months are 30 days, weeks 7, bursts are promises of a
user within an hour, and bounds of 5 minutes, the floor, are counted apart. The simulated log
has the jobs of a real one on a machine whose size and order are known. Logs that aren't there are left out.
"""

from __future__ import annotations

import gzip
import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from apps.contrib.schedulers.queue_state import PartitionState, QueueJob, QueueState
from apps.contrib.starts.listed_facts import AskedJob, listed_facts
from apps.contrib.starts.planned_starts import planned_starts
from apps.contrib.starts.prediction.bases import TREES, same_at_all_levels
from apps.contrib.starts.prediction.log_bases import offered_of_log
from apps.contrib.starts.prediction.predictor import PastJob, PastPromise, Predictor, of_kind, replay
from apps.contrib.starts.prediction.promises import (
    CEILING_S,
    FLOOR_S,
    LEVELS,
    Kind,
    Outcome,
    Promise,
    WaitingJob,
    next_age_s,
)
from apps.contrib.starts.prediction.queue_facts import FACTS, UNKNOWN_WAITS_S, as_kept, packed
from apps.contrib.starts.prediction.recent_waits import RECENT, age_class
from apps.contrib.starts.prediction.record import MONTH_S, above_floor, by_group, held, held_by_burst, pinball
from apps.contrib.starts.prediction.trees import Trees, train, waits_s
from bench.clock import timed
from bench.report import BenchLine

_TRACES = Path(__file__).resolve().parent.parent.parent / "shared" / "traces"
LOGS = {
    "HPC2N": "HPC2N-2002-first3171.swf.gz",
    "SDSC": "SDSC-SP2-1998-first4961.swf.gz",
    "CERIT": "CERIT-wagap-2013.alea-swf.gz",
}
SIMULATED, CPUS_OF_SIMULATED = "HPC2N", 140
_WARM_S = 10 * 86_400.0  # first days, of which nothing is counted
_WEEK_S = 7 * 86_400.0
_LEAST_OF_MONTH, _LEAST_OF_WEEK, _LEAST_OF_GROUP = 50, 40, 100
_AT_80 = LEVELS.index(0.80)
_AT_95 = LEVELS.index(0.95)
HELD_AT_SUBMIT, HELD_WHILE_WAITING, HELD_ABOVE_FLOOR = (0.75, 0.90), (0.75, 0.87), (0.76, 0.85)
LEAST_WAITING_MONTH, LEAST_AT_95 = 0.65, 0.93
PINBALL = {Kind.SUBMIT: 0.78, Kind.WAITING: 0.80}
PINBALL_IN_KNOWN_ORDER = 0.55
BRIER = 0.80
WAITING_OF_PASS, PASS_S = 10_000, 1.0
N_BASES = 4  # constant, recent waits, plan and trees


def measure_large() -> list[BenchLine]:
    lines: list[BenchLine] = list(_pass())
    for name, file in LOGS.items():
        if (_TRACES / file).exists():
            past = read_log(_TRACES / file)
            lines += _of_log(name, past, replay(past, offered=offered_of_log(past)), replay(past, _Recent()))
    if (_TRACES / LOGS[SIMULATED]).exists():
        past = simulated(read_log(_TRACES / LOGS[SIMULATED]), CPUS_OF_SIMULATED)
        lines += _of_known_order(past)
    return lines


def _pass() -> Iterator[BenchLine]:
    """One listing of a large queue: planned, and a promise made for each job, by trees and recent waits too."""
    state = _large_queue()
    predictor, trees = _taught()

    def plan_and_promise() -> None:
        planned = planned_starts(state)
        waiting = [job for job in state.jobs if job.state == "waiting"]
        asked = [WaitingJob(job.user, job.cpus, job.limit_s, job.partition) for job in waiting]
        recent = [predictor.waits.quantiles(job, 0.0) or UNKNOWN_WAITS_S for job in asked]
        due = [AskedJob(job, 0.0, recent_s) for job, recent_s in zip(waiting, recent, strict=True)]
        facts = listed_facts(state, planned, due)
        by_trees = waits_s(trees, as_kept(facts)).tolist()
        for place, (job, new) in enumerate(zip(waiting, asked, strict=True)):
            offered = same_at_all_levels(planned[job.job].planned_s) | {TREES: tuple(by_trees[place])}
            predictor.promise(new, 1e9, 0.0, offered)
            packed(facts[place])

    planned_starts(state._replace(jobs=state.jobs[:10]))  # compiled
    _starts, plan_s = timed(lambda: planned_starts(state))
    _none, pass_s = timed(plan_and_promise)
    detail = f"{pass_s:.2f} s with a promise for each by {N_BASES} bases, {plan_s:.3f} s the plan alone"
    yield BenchLine(f"a pass over {WAITING_OF_PASS:,} waiting / {PASS_S:g} s", pass_s / PASS_S, 1.0, detail)
    yield BenchLine(f"planned starts of {WAITING_OF_PASS:,} waiting / 0.1 s", plan_s / 0.1, 1.0)


def _large_queue() -> QueueState:
    rng = np.random.default_rng(2)
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    partitions = [
        PartitionState(f"p{n}", 2_000, 0, {"a100": 64} if n % 2 else {}, {}, 100 + n, 0, 0, None) for n in range(6)
    ]
    jobs = [
        QueueJob(
            job=str(number),
            user=f"u{number % 400}",
            account="a",
            partition=f"p{rng.integers(6)}",
            qos="",
            state="waiting",
            cpus=float(rng.integers(1, 200)),
            gpus={},
            nodes=None,
            limit_s=60.0 * int(rng.integers(10, 4_000)),
            submit_at=at - timedelta(minutes=int(rng.integers(9_000))),
            start_at=None,
            begin_at=None,
            planned_at=None,
            dependency=False,
            reason="",
            priority=float(rng.random()),
        )
        for number in range(WAITING_OF_PASS)
    ]
    runs = [
        job._replace(job=f"r{job.job}", state="running", start_at=at - timedelta(hours=1), cpus=job.cpus % 64 + 1)
        for job in jobs[:400]
    ]
    return QueueState(at, (*jobs, *runs), partitions, has_running=True)


def _taught() -> tuple[Predictor, Trees]:
    """As after weeks: waits of all classes are known, and trees are trained."""
    rng, predictor = np.random.default_rng(3), Predictor()
    for number in range(5_000):
        asked = WaitingJob(f"u{number % 400}", float(rng.integers(1, 200)), 60.0 * int(rng.integers(10, 4_000)))
        predictor.started(asked, float(rng.exponential(20_000)))
    facts = rng.normal(size=(2_000, len(FACTS)))
    trees = train(facts, rng.normal(8, 2, 2_000), np.ones(2_000, np.bool_), np.arange(2_000))
    assert trees is not None
    return predictor, trees


def simulated(past: Sequence[PastJob], cpus: int) -> list[PastJob]:
    """The jobs of a log on a machine of so many processors: in the order of submission, with backfill of jobs that end
    by their limits before the first of the queue could start. The lengths of their runs are those of the log.
    """
    free, jobs = float(cpus), [each for each in past if each.job.cpus <= cpus and each.job.limit_s and each.started]
    queue: list[int] = []
    running: list[tuple[float, int, float]] = []  # end, number, end by its limit
    starts: dict[int, float] = {}
    arrivals = deque(range(len(jobs)))
    while arrivals or queue:
        now_s = min(jobs[arrivals[0]].submit_s if arrivals else math.inf, running[0][0] if running else math.inf)
        while running and running[0][0] <= now_s:
            free += jobs[heapq.heappop(running)[1]].job.cpus
        while arrivals and jobs[arrivals[0]].submit_s <= now_s:
            queue.append(arrivals.popleft())
        reserved_s, spare = math.inf, free
        for number in list(queue):
            job, run_s = jobs[number].job, (jobs[number].ended_s or 0.0) - jobs[number].leaves_s
            limit_s = max(job.limit_s or 0.0, 1.0)
            fits = job.cpus <= free and (now_s + limit_s <= reserved_s or job.cpus <= spare)
            if fits:
                spare -= job.cpus if now_s + limit_s > reserved_s else 0.0
                free -= job.cpus
                queue.remove(number)
                starts[number] = now_s
                heapq.heappush(running, (now_s + max(min(run_s, limit_s), 1.0), number, now_s + limit_s))
            elif reserved_s == math.inf:
                reserved_s, spare = _reservation(
                    job.cpus, free, [(end_s, jobs[n].job.cpus) for _e, n, end_s in running]
                )
    return [
        each._replace(
            left_s=starts[number],
            ended_s=starts[number] + max(min((each.ended_s or 0.0) - each.leaves_s, each.job.limit_s or 0.0), 1.0),
        )
        for number, each in enumerate(jobs)
    ]


def _reservation(cpus: float, free: float, ends: list[tuple[float, float]]) -> tuple[float, float]:
    """When so many processors are free by the limits of what runs, and how many are left over then."""
    for end_s, freed in sorted(ends):
        free += freed
        if free >= cpus:
            return end_s, free - cpus
    return math.inf, free


def _of_known_order(past: list[PastJob]) -> Iterator[BenchLine]:
    ours, rival = replay(past, offered=offered_of_log(past)), replay(past, _Recent())
    for kind in Kind:
        settled, theirs = (_counted(every, kind, past) for every in (ours, rival))
        loss, other = pinball(settled, _AT_80), pinball(theirs, _AT_80)
        goal = PINBALL_IN_KNOWN_ORDER if kind is Kind.SUBMIT else None
        detail = f"{loss:.3f} ÷ {other:.3f}; 80 % by burst {_share(settled, _AT_80):.3f}; {_bases(settled)}"
        yield BenchLine(f"order known, {kind}: loss ÷ bound of recent waits", loss / other, goal, detail)


def read_log(path: Path) -> list[PastJob]:
    """Jobs of a log in Standard Workload Format by submission; of one without run time the end of its wait is known."""
    jobs = []
    with gzip.open(path, "rt", errors="replace") as file:
        for line in file:
            cells = line.split()
            if not cells or cells[0].startswith(";"):
                continue
            submit, wait, run, used, asked, limit = (float(cells[place]) for place in (1, 2, 3, 4, 7, 8))
            cpus = used if used > 0 else asked
            job = WaitingJob(cells[11], cpus, limit if limit > 0 else None, cells[14])
            start = submit + max(wait, 0.0)
            jobs.append(PastJob(job, submit, start, run > 0, start + run if run > 0 else None))
    return sorted(jobs, key=lambda each: each.submit_s)


def _counted(every: list[PastPromise], kind: Kind, past: Sequence[PastJob]) -> list[PastPromise]:
    return [each for each in of_kind(every, kind) if each.promise.made_s > past[0].submit_s + _WARM_S]


def _of_log(
    name: str, past: Sequence[PastJob], ours: list[PastPromise], rival: list[PastPromise]
) -> Iterator[BenchLine]:
    held_out_s = past[len(past) * 2 // 3].submit_s
    for kind in Kind:
        settled, theirs = (_counted(every, kind, past) for every in (ours, rival))
        months = _shares_by(settled, past[0].submit_s + _WARM_S, MONTH_S, _LEAST_OF_MONTH)
        low, high = HELD_AT_SUBMIT if kind is Kind.SUBMIT else (LEAST_WAITING_MONTH, 1.0)
        yield _within(f"{name}, {kind}: 80 % by burst in each 30 days", months, low, high)
        late = [each for each in settled if each.promise.made_s >= held_out_s]
        above = [_share(above_floor(settled, _AT_80), _AT_80)]
        if kind is Kind.SUBMIT:
            yield _within(f"{name}, {kind}: 80 % above the floor, by burst", above, *HELD_ABOVE_FLOOR)
        else:
            yield _within(f"{name}, {kind}: 80 % by burst", [_share(settled, _AT_80)], *HELD_WHILE_WAITING)
        yield _within(f"{name}, {kind}: 95 % by burst", [_share(settled, _AT_95)], LEAST_AT_95, 1.0)
        loss, other = pinball(settled, _AT_80), pinball(theirs, _AT_80)
        by_job, by_burst, rival_by_job = _by_job(settled), _by_burst(settled), _by_job(theirs)
        detail = f"{loss:.3f} ÷ {other:.3f}; by job {by_job}, by burst {by_burst}; the rival by job {rival_by_job}"
        yield BenchLine(f"{name}, {kind}: loss ÷ bound of recent waits", loss / other, PINBALL[kind], detail)
        yield BenchLine(f"{name}, {kind}: held out alone", *_held_out(late, theirs, held_out_s))
        yield BenchLine(f"{name}, {kind}: by base", loss / other, None, _bases(settled))
        yield BenchLine(f"{name}, {kind}: worst", min(months, default=math.nan), None, _worst(settled, past))
    yield _brier(name, _counted(ours, Kind.SUBMIT, past))


def _held_out(late: list[PastPromise], theirs: list[PastPromise], from_s: float) -> tuple[float, None, str]:
    other = pinball([each for each in theirs if each.promise.made_s >= from_s], _AT_80)
    return pinball(late, _AT_80) / other, None, f"loss ÷ bound of recent waits; by burst {_by_burst(late)}"


def _bases(settled: list[PastPromise]) -> str:
    """Loss of 80 % of each base with its own offsets, on the promises that had it, how often it was chosen, and the
    median bound of jobs that waited beyond the floor.
    """
    parts = []
    for base in sorted({base for each in settled for base, _bounds in each.promise.offers}):
        offered = [
            each._replace(promise=each.promise._replace(bounds_s=bounds))
            for each in settled
            if (bounds := dict(each.promise.offers).get(base)) is not None
        ]
        n_chosen = sum(each.promise.basis == base for each in settled)
        parts.append(f"{base} {pinball(offered, _AT_80):.3f} (chosen {n_chosen / len(settled):.0%})")
    waited = [each.promise.bounds_s[_AT_80] / 3_600 for each in settled if each.wait_s > FLOOR_S]
    hours = [
        (each.wait_s - each.promise.bounds_s[_AT_80]) / 3_600
        for each in settled
        if each.outcomes[_AT_80] is not Outcome.WITHDRAWN
    ]
    loss_h = float(np.mean([max(0.8 * hour, -0.2 * hour) for hour in hours]))
    return f"{', '.join(parts)}; median bound {np.median(waited):.1f} h, loss {loss_h:.2f} h"


def _worst(settled: list[PastPromise], past: Sequence[PastJob]) -> str:
    """Of 80 %: the worst week by burst, and the worst class of size and of length by job."""
    weeks = _shares_by(settled, past[0].submit_s + _WARM_S, _WEEK_S, _LEAST_OF_WEEK)
    parts = [f"80 % held in the worst week by burst {min(weeks, default=math.nan):.3f}"]
    keys: dict[str, Callable[[PastPromise], int]] = {
        "size": lambda each: each.promise.job.size,
        "length": lambda each: each.promise.job.length,
    }
    for label, key in keys.items():
        groups = {
            group: held(each, _AT_80).share or 0.0
            for group, each in by_group(settled, key).items()
            if len(each) >= _LEAST_OF_GROUP
        }
        if groups:
            group = min(groups, key=lambda each: groups[each])
            parts.append(f"worst {label} {group}: {groups[group]:.3f}")
    return "; ".join(parts)


def _shares_by(settled: list[PastPromise], from_s: float, span_s: float, least: int) -> list[float]:
    groups = by_group(settled, lambda each: int((each.promise.made_s - from_s) // span_s))
    return [_share(group, _AT_80) for _span, group in sorted(groups.items()) if len(group) >= least]


def _share(settled: list[PastPromise], level: int) -> float:
    share = held_by_burst(settled, level).share
    return math.nan if share is None else share


def _by_job(settled: list[PastPromise]) -> str:
    """Shares at LEVELS that held."""
    shares = (held(settled, level).share for level in range(len(LEVELS)))
    return " ".join(f"{math.nan if share is None else share:.3f}" for share in shares)


def _by_burst(settled: list[PastPromise]) -> str:
    return " ".join(f"{_share(settled, level):.3f}" for level in range(len(LEVELS)))


def _within(name: str, shares: list[float], low: float, high: float) -> BenchLine:
    """1 at the nearer bound, smaller inside of both."""
    least = min(shares, default=math.nan)
    ratio = max(low / least if least else math.inf, max(shares) / high) if shares else math.nan
    return BenchLine(name, ratio, 1.0, " ".join(f"{share:.3f}" for share in shares) + f", goal {low:g} to {high:g}")


def _brier(name: str, settled: list[PastPromise]) -> BenchLine:
    """Of "within 5 minutes", each burst once, beside the constant that would have been best."""
    pairs = [(each.soon, each.wait_s <= FLOOR_S, each.promise.burst) for each in settled if each.soon is not None]
    n_of: defaultdict[object, int] = defaultdict(int)
    for _probability, _is_soon, burst in pairs:
        n_of[burst] += 1
    weights = [1 / n_of[burst] for _probability, _is_soon, burst in pairs]
    best = sum(weight * is_soon for weight, (_s, is_soon, _b) in zip(weights, pairs, strict=True)) / sum(weights)
    losses = [
        sum(weight * (probability - is_soon) ** 2 for weight, (probability, is_soon) in zip(weights, each, strict=True))
        for each in (
            [(probability, is_soon) for probability, is_soon, _b in pairs],
            [(best, is_soon) for _s, is_soon, _b in pairs],
        )
    ]
    detail = f"by burst; {best:.2f} started within 5 minutes"
    return BenchLine(f"{name}: Brier of within 5 minutes ÷ constant", losses[0] / losses[1], BRIER, detail)


class _Recent(Predictor):
    """The rival: an upper bound of a quantile by recent waits of the same size, with 95 % confidence (Brevik, Nurmi and
    Wolski, 2006), whose history is cut after a run of misses. It knows no queue and learns from no promise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits = _BoundedWaits()  # type: ignore[assignment]

    def estimate(
        self, job: WaitingJob, made_s: float, age_s: float, offered: Mapping[str, tuple[float, ...]] | None = None
    ) -> Promise:
        made = super().estimate(job, made_s, age_s)
        bounds = sorted(min(max(bound, FLOOR_S), CEILING_S) for bound in self.waits.bases(job, age_s)[RECENT])
        return made._replace(bounds_s=tuple(bounds), offers=())


class _BoundedWaits:
    """Recent waits by age and size; after MISSES waits in a row beyond their own 80 % bound only the newest stay."""

    MISSES, KEPT, MOST = 4, 59, 2_000

    def __init__(self) -> None:
        self._waits: defaultdict[tuple[int, int], deque[float]] = defaultdict(lambda: deque(maxlen=self.MOST))
        self._misses: defaultdict[tuple[int, int], int] = defaultdict(int)

    def add(self, job: WaitingJob, wait_s: float) -> None:
        age_s = 0.0
        while age_s < wait_s or age_s == 0:
            key = age_class(age_s), min(job.size, 3)
            known, left_s = self._waits[key], wait_s - age_s
            is_miss = len(known) >= self.KEPT and left_s > _upper_bound(known, LEVELS[_AT_80])
            self._misses[key] = self._misses[key] + 1 if is_miss else 0
            known.append(left_s)
            if self._misses[key] >= self.MISSES:
                self._waits[key] = deque(list(known)[-self.KEPT :], maxlen=self.MOST)
                self._misses[key] = 0
            age_s = next_age_s(age_s)

    def bases(self, job: WaitingJob, age_s: float) -> dict[str, tuple[float, ...]]:
        known = self._waits[age_class(age_s), min(job.size, 3)]
        return {RECENT: tuple(_upper_bound(known, level) for level in LEVELS)}


def _upper_bound(known: deque[float], level: float) -> float:
    """The order statistic that is no smaller than the quantile with 95 %, by the normal limit of the binomial."""
    n = len(known)
    if n < 10:
        return 3_600.0
    place = math.ceil(n * level + 1.645 * math.sqrt(n * level * (1 - level)))
    return sorted(known)[min(place, n) - 1]
