"""Whatever an agent reports, sums of days equal a count over the rows, and what was learned is what the rows teach."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pytest

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import EndedJob, PartitionState, QueueJob
from apps.contrib.starts import learned_trees
from apps.contrib.starts.day_sums import sum_days
from apps.contrib.starts.learned import is_as_rows_teach, rebuild
from apps.contrib.starts.learned_trees import are_as_rows_teach, learn_trees, rebuild_trees, trained
from apps.contrib.starts.models import Outcome, StartDay, StartPromise, StartState, StartTrees
from apps.contrib.starts.prediction import saved, trees
from apps.contrib.starts.prediction.bases import TREES
from apps.contrib.starts.prediction.predictor import Predictor
from apps.contrib.starts.prediction.promises import FLOOR_S
from tests.contrib.starts.queues import MINUTE, Reports, running, waiting
from tests.instants import AT

pytestmark = pytest.mark.django_db
N_REPORTS = 60
PARTITIONS = ("batch", "gpu", "a,b")
SETTLED = (Outcome.KEPT, Outcome.BROKEN)
COUNTED = (
    *("kept", "broken", "unknown", "apart_kept", "apart_broken", "bursts", "bursts_kept", "above", "above_kept"),
    *("above_bursts", "above_bursts_kept", "planned", "planned_kept", "ours_beside_kept"),
)
Group = tuple[date, str, int, int, int, str]


@dataclass
class RandomJob:
    """Minutes from AT. start: None for a job that never starts. plan: of the scheduler, after the submission."""

    number: str
    submit: float
    start: float | None
    user: str
    cpus: float
    partition: str
    limit_s: float | None
    is_array: bool
    plan: float | None
    is_held: bool = False
    has_run: bool = False
    last_seen: float = -1.0

    def facts(self) -> dict[str, Any]:
        return {
            "user": self.user,
            "cpus": self.cpus,
            "partition": self.partition,
            "limit_s": self.limit_s,
            "submit_at": AT + self.submit * MINUTE,
            "array": self.number if self.is_array else "",
        }


class RandomQueue:
    """Jobs come, are altered and held, start unseen, are queued again, end, are cancelled, or leave without a trace."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.jobs, self.n_jobs = rng, list[RandomJob](), 0

    def report(self, agent: Reports, minute: float) -> None:
        for _ in range(self.rng.choice((0, 1, 4))):
            self.jobs.append(self._new_job(minute))
        listed, ended = list[QueueJob](), list[EndedJob]()
        for job in list(self.jobs):
            self._alter(job)
            if job.start is not None and job.start <= minute and not job.is_held:
                self._run(job, minute, listed, ended)
            else:
                self._wait(job, minute, listed, ended)
        down = {name: self.rng.choice((0, 0, 0, 0, 5)) for name in ("batch", "gpu", "a", "b")}
        partitions = tuple(PartitionState(name, 800, 8, {}, {}, 20, 0, n, None) for name, n in down.items())
        agent.at(minute, *listed, ended=tuple(ended), partitions=partitions)
        if self.rng.random() < 0.1 and agent.before is not None:
            agent.take(agent.before)  # the same report again

    def _new_job(self, minute: float) -> RandomJob:
        choice = self.rng.choice
        self.n_jobs += 1
        start = None if self.rng.random() < 0.1 else minute + choice((1, 6, 20, 100, 1_000, 5_000))
        return RandomJob(
            number=str(self.n_jobs),
            submit=minute - choice((0, 1, 100)),
            start=start,
            user=choice("abc"),
            cpus=choice((1.0, 16.0, 64.0)),
            partition=choice(PARTITIONS),
            limit_s=choice((None, 600.0, 7_200.0)),
            is_array=self.rng.random() < 0.15,
            plan=choice((None, 3, 50, 3_000, 20_000)),
        )

    def _alter(self, job: RandomJob) -> None:
        if self.rng.random() < 0.02:
            job.cpus = self.rng.choice((1.0, 16.0))
        if self.rng.random() < 0.03:
            job.is_held = not job.is_held
        if self.rng.random() < 0.02:
            job.partition = self.rng.choice(PARTITIONS)
        if job.start is not None and job.start <= job.last_seen and not job.has_run:
            job.start = job.last_seen + self.rng.choice((0.1, 1, 30))  # it was seen waiting since, as while it was held

    def _run(self, job: RandomJob, minute: float, listed: list[QueueJob], ended: list[EndedJob]) -> None:
        assert job.start is not None
        start_at = AT + job.start * MINUTE
        what = self.rng.choices(("runs", "ends", "vanishes", "is queued again", "unseen"), (50, 20, 5, 10, 15))[0]
        job.has_run = True
        if what == "runs":
            listed.append(running(job.number, start_at=start_at, **job.facts()))
        elif what == "ends":
            array = job.number if job.is_array else ""
            ended.append(EndedJob(job.number, array, False, start_at, AT + minute * MINUTE))
        elif what == "is queued again":
            job.has_run, job.last_seen, job.start = False, minute, minute + self.rng.choice((5, 300))
            listed.append(waiting(job.number, **job.facts()))
        if what in ("ends", "vanishes"):
            self.jobs.remove(job)

    def _wait(self, job: RandomJob, minute: float, listed: list[QueueJob], ended: list[EndedJob]) -> None:
        what = self.rng.choices(("waits", "is cancelled", "unseen"), (96, 1, 3))[0]
        if what == "is cancelled":
            ended.append(EndedJob(job.number, "", True, None, AT + minute * MINUTE))
            self.jobs.remove(job)
        elif what == "waits":
            job.last_seen, job.has_run = minute, False
            planned_at = None if job.plan is None else AT + (job.submit + job.plan) * MINUTE
            listed.append(waiting(job.number, is_held=job.is_held, planned_at=planned_at, **job.facts()))


def counted_sums(rows: list[StartPromise]) -> dict[Group, dict[str, float]]:
    """What the sums of days mean, counted one promise at a time."""
    sums: defaultdict[Group, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))

    def burst(row: StartPromise) -> tuple[bool, str, datetime]:
        return row.age_s > 0, row.user, row.made_at.replace(minute=0, second=0, microsecond=0)

    for place, level in enumerate((50, 80, 95)):
        settled = [row for row in rows if row.outcomes[place] in SETTLED]
        of_burst = Counter(map(burst, settled))
        above_of_burst = Counter(burst(row) for row in settled if row.bounds_s[place] > FLOOR_S)
        names = dict(zip(list(Outcome)[1:], COUNTED, strict=False))
        for row in rows:
            outcome = Outcome(row.outcomes[place])
            if outcome is Outcome.OPEN:
                continue
            kind = "waiting" if row.age_s > 0 else "submit"
            day = row.made_at.astimezone(UTC).date()
            of_group = sums[day, kind, level, row.size, row.length, row.partition]
            of_group[names[outcome]] += 1
            if outcome not in SETTLED:
                continue
            counts = {"bursts": 1 / of_burst[burst(row)]}
            if row.bounds_s[place] > FLOOR_S:
                counts |= {"above": 1.0, "above_bursts": 1 / above_of_burst[burst(row)]}
                if level == 80 and row.planned_outcome in SETTLED:
                    of_group["planned"] += 1
                    of_group["planned_kept"] += row.planned_outcome == Outcome.KEPT
                    of_group["ours_beside_kept"] += outcome is Outcome.KEPT
            for name, count in counts.items():
                of_group[name] += count
                of_group[f"{name}_kept"] += count * (outcome is Outcome.KEPT)
    return {group: {name: of_group[name] for name in COUNTED} for group, of_group in sums.items()}


def stored_sums(scheduler: Scheduler) -> dict[Group, dict[str, float]]:
    stored = {}
    for each in StartDay.objects.filter(scheduler=scheduler):
        sums = {name: getattr(each, name) for name in COUNTED}
        if any(sums.values()):
            stored[each.day, each.kind, each.level, each.size, each.length, each.partition] = sums
    return stored


def check_sums(scheduler: Scheduler, at: datetime) -> None:
    sum_days(scheduler, at=at)
    counted = counted_sums(list(StartPromise.objects.filter(scheduler=scheduler)))
    stored = stored_sums(scheduler)
    assert stored.keys() == counted.keys()
    for group, sums in counted.items():
        assert stored[group] == pytest.approx(sums, abs=1e-9), group


def check_rows(scheduler: Scheduler) -> None:
    """A job that left has nothing open, and one that waits has one promise that the next one follows."""
    rows = StartPromise.objects.filter(scheduler=scheduler)
    for row in rows.exclude(left_at=None):
        assert (row.due_at, row.next_at) == (None, None)
        assert Outcome.OPEN not in row.outcomes
    assert not rows.filter(left_at=None, due_at=None, outcomes__contains=[Outcome.OPEN]).exists()
    n_next = Counter(rows.filter(left_at=None).exclude(next_at=None).values_list("job", flat=True))
    assert set(n_next) == set(rows.filter(left_at=None).values_list("job", flat=True))
    assert set(n_next.values()) <= {1}


def check_from_nothing(scheduler: Scheduler) -> None:
    """Rows alone make again what was learned, the trees among it, which are one base of late promises."""
    state, model = StartState.objects.get(scheduler=scheduler), StartTrees.objects.get(scheduler=scheduler)
    offers = StartPromise.objects.filter(scheduler=scheduler).values_list("offers", flat=True)
    assert any(base == TREES for each in offers for base, _bounds in each)
    empty, digest = saved.save(Predictor())
    StartState.objects.update(data=empty, digest=digest)
    StartTrees.objects.update(data=b"", digest=digest)
    rebuild(scheduler)
    assert StartState.objects.get(scheduler=scheduler).digest == state.digest
    assert trained(scheduler, seq=model.seq, at=model.at).digest == model.digest
    assert rebuild_trees(scheduler)
    assert are_as_rows_teach(scheduler)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(25))
def test_sums_and_what_was_learned_follow_from_the_rows(
    new_scheduler: Callable[[], Scheduler], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (learned_trees, trees):
        monkeypatch.setattr(module, "LEAST_TO_TRAIN", 20)
    rng, agent, minute = Random(seed), Reports(new_scheduler()), 0.0
    queue = RandomQueue(rng)
    for n in range(N_REPORTS):
        minute += rng.choice((1, 5, 5, 5, 30, 70, 400, 1_500))
        queue.report(agent, minute)
        if n % 6 == 5:
            assert is_as_rows_teach(agent.scheduler), n
            assert are_as_rows_teach(agent.scheduler), n
            check_sums(agent.scheduler, AT + minute * MINUTE)
        if n % 10 == 9:
            learn_trees(agent.scheduler)
    check_rows(agent.scheduler)
    check_from_nothing(agent.scheduler)
    outcomes = {outcome for row in StartPromise.objects.all() for outcome in row.outcomes}
    assert {Outcome.KEPT, Outcome.BROKEN} < outcomes
    assert StartPromise.objects.filter(made_at__gt=AT + timedelta(days=2)).exists()
