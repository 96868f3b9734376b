"""Planned starts: by hand, beside an oracle that tries every instant, alike with and without machine code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.starts.prediction import plan
from apps.contrib.starts.prediction.plan import Taken, Waiting, plan_starts
from apps.contrib.starts.prediction.queue_plan import (
    NeverStarts,
    PlanJob,
    PlannedStart,
    PlanPartition,
    PlanSpan,
    plan_queue,
)
from apps.engine import fast
from tests.examples import examples

Planned = tuple[float | None, NeverStarts | None]

MACHINE = PlanPartition("long", 10, {})


class Job(NamedTuple):
    begin_s: float
    length_s: float
    choices: list[list[tuple[int, float]]]  # parts of each: column and amount


def planned(
    capacity: list[float], taken: list[tuple[int, float, float, float]], jobs: list[Job], order: list[int] | None = None
) -> tuple[list[float], list[int]]:
    choices = [choice for job in jobs for choice in job.choices]
    parts = [part for choice in choices for part in choice]
    columns = list(zip(*taken, strict=True)) or [()] * 4
    starts, chosen = plan_starts(
        np.array(capacity, float),
        Taken(np.array(columns[0], np.int64), *(np.array(each, float) for each in columns[1:])),
        Waiting(
            np.array([job.begin_s for job in jobs], float),
            np.array([job.length_s for job in jobs], float),
            np.cumsum([0, *(len(job.choices) for job in jobs)]),
            np.cumsum([0, *(len(choice) for choice in choices)]),
            np.array([column for column, _amount in parts], np.int64),
            np.array([amount for _column, amount in parts], float),
        ),
        np.array(range(len(jobs)) if order is None else order, np.int64),
    )
    return starts.tolist(), chosen.tolist()


def oracle(capacity: list[float], taken: list[tuple[int, float, float, float]], jobs: list[Job]) -> list[float]:
    """Tries every instant at which something begins or ends, and looks at every other such instant."""
    booked = list(taken)
    starts = []
    for job in jobs:
        instants = sorted({max(job.begin_s, 0.0), *(at for _c, _a, *span in booked for at in span if at < math.inf)})
        best_s, best = math.inf, None
        for choice in job.choices:
            for at_s in instants:
                seen = [at_s, *(each for each in instants if at_s < each < at_s + job.length_s)]
                if at_s >= max(job.begin_s, 0.0) and all(
                    capacity[column] - sum(a for c, a, low, high in booked if c == column and low <= t < high)
                    >= amount - 1e-6
                    for column, amount in choice
                    for t in seen
                ):
                    if at_s < best_s:
                        best_s, best = at_s, choice
                    break
        starts.append(best_s)
        booked += [(column, amount, best_s, best_s + job.length_s) for column, amount in best or []]
    return starts


AMOUNTS = st.integers(1, 9).map(float)
TIMES = st.integers(0, 60).map(float)
COLUMNS = st.integers(0, 2)
TAKEN = st.tuples(COLUMNS, AMOUNTS, TIMES, st.one_of(st.integers(1, 90).map(float), st.just(math.inf))).map(
    lambda each: (each[0], each[1], each[2], each[2] + each[3])
)
JOBS = st.builds(
    Job,
    st.one_of(st.just(0.0), TIMES),
    st.one_of(st.integers(1, 40).map(float), st.just(math.inf)),
    st.lists(st.dictionaries(COLUMNS, AMOUNTS, min_size=1).map(lambda each: list(each.items())), max_size=2),
)


@pytest.mark.parametrize("is_fast", [True, False])
@given(
    capacity=st.lists(st.integers(0, 12).map(float), min_size=3, max_size=3),
    taken=st.lists(TAKEN, max_size=5),
    jobs=st.lists(JOBS, max_size=9),
)
@examples(150)
def test_each_job_starts_when_trying_every_instant_says(
    is_fast: bool, capacity: list[float], taken: list[Any], jobs: list[Job]
) -> None:
    with fast.switched(is_fast):
        starts, choices = planned(capacity, taken, jobs)
    assert starts == oracle(capacity, taken, jobs)
    assert [choice < 0 for choice in choices] == [start == math.inf for start in starts]


def queue_oracle(partitions: list[PlanPartition], spans: list[PlanSpan], jobs: list[PlanJob]) -> list[Planned]:
    """Start and reason of each. Amounts are by pool: processors, GPUs, GPUs of a type; of a shared pool the largest."""
    by_name = {each.name: each for each in partitions}
    has: dict[tuple[str, str], float] = {}
    for each in partitions:
        for column, amount in asked(each, each.cpus, each.gpus).items():
            has[column] = max(has.get(column, 0), amount)
    columns = list(has)

    def parts(partition: PlanPartition, cpus: float, gpus: Mapping[str, float]) -> list[tuple[int, float]]:
        return [(columns.index(c), n) for c, n in asked(partition, cpus, gpus).items() if n > 0 and c in has]

    busy = [
        (column, amount, each.from_s, each.to_s)
        for each in spans
        if each.partition in by_name
        for column, amount in parts(by_name[each.partition], each.cpus, each.gpus)
    ]
    planned_jobs, reasons = [], []
    for job in jobs:
        never, fit = NeverStarts.PARTITION, []
        for each in (by_name[name] for name in job.partitions if name in by_name):
            wanted = asked(each, 0, job.gpus)
            if each.limit_s is not None and job.length_s > each.limit_s:
                never = NeverStarts.LIMIT
            elif job.cpus > each.cpus:
                never = NeverStarts.CPUS
            elif any(n > has.get(column, 0) for column, n in wanted.items()):
                never = NeverStarts.GPUS
            else:
                fit.append(parts(each, job.cpus, job.gpus))
        planned_jobs.append(Job(job.begin_s, job.length_s, fit))
        reasons.append(None if fit else never)
    starts = oracle(list(has.values()), busy, planned_jobs)
    return [
        (None, reason or NeverStarts.TAKEN) if reason or start_s == math.inf else (start_s, None)
        for start_s, reason in zip(starts, reasons, strict=True)
    ]


def asked(partition: PlanPartition, cpus: float, gpus: Mapping[str, float]) -> dict[tuple[str, str], float]:
    pool = partition.pool or partition.name
    of_types = {(pool, f"gpus {kind}"): n for kind, n in gpus.items() if kind not in ("", "gpu")}
    return {(pool, "cpus"): cpus, (pool, "gpus"): sum(gpus.values()), **of_types}


GPUS = st.dictionaries(st.sampled_from(["", "gpu", "a100", "h100"]), st.sampled_from([0.0, 0.5, 1.0, 3.0]), max_size=2)
PARTITIONS = st.builds(
    PlanPartition,
    st.just(""),
    st.integers(0, 8).map(float),
    st.dictionaries(st.sampled_from(["", "a100"]), st.sampled_from([0.5, 1.0, 4.0]), max_size=2),
    st.sampled_from([None, None, 20.0]),
    st.sampled_from([None, "nodes"]),
)
PLAN_SPANS = st.builds(
    PlanSpan,
    st.sampled_from(["p0", "p1", "gone"]),
    st.integers(0, 4).map(float),
    GPUS,
    st.integers(-5, 20).map(float),
    st.integers(21, 60).map(float) | st.just(math.inf),
)
PLAN_JOBS = st.builds(
    PlanJob,
    st.lists(st.sampled_from(["p0", "p1", "gone"]), unique=True, max_size=2).map(tuple),
    st.integers(0, 8).map(float),
    GPUS,
    st.sampled_from([5.0, 20.0, 21.0]),
    st.sampled_from([0.0, 7.0, -3.0]),
)


@given(st.lists(PARTITIONS, min_size=1, max_size=2), st.lists(PLAN_SPANS, max_size=3), st.lists(PLAN_JOBS, max_size=5))
@examples(1_000, fixed=150)
def test_a_queue_is_planned_by_amounts_of_its_pools(
    drawn: list[PlanPartition], spans: list[PlanSpan], jobs: list[PlanJob]
) -> None:
    partitions = [each._replace(name=f"p{n}") for n, each in enumerate(drawn)]
    with fast.switched(False):
        planned_queue = plan_queue(partitions, spans, jobs)
    assert [(each.start_s, each.never) for each in planned_queue] == queue_oracle(partitions, spans, jobs)
    for job, each in zip(jobs, planned_queue, strict=True):
        assert each.partition is None if each.never else each.partition in job.partitions


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_job_that_may_begin_later_holds_back_none_like_it(is_fast: bool) -> None:
    jobs = [Job(begin_s, 10.0, [[(0, 2.0)]]) for begin_s in (50.0, 0.0, 0.0, 45.0)]
    with fast.switched(is_fast):
        assert planned([2.0], [], jobs)[0] == [50.0, 0.0, 10.0, 60.0]


def test_machine_code_and_numpy_plan_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    taken = [
        (int(rng.integers(3)), float(rng.integers(1, 20)) / 10, 0.0, float(rng.uniform(1, 9e4))) for _ in range(60)
    ]
    jobs = [
        Job(
            float(rng.choice([0.0, 500.5])),
            float(rng.uniform(60, 9e4)),
            [[(int(column), float(rng.integers(1, 30)) / 10)] for column in rng.permutation(3)[: rng.integers(1, 3)]],
        )
        for _ in range(400)
    ]
    with fast.switched(False):
        plain = planned([16.0, 8.0, 4.0], taken, jobs)
    assert planned([16.0, 8.0, 4.0], taken, jobs) == plain


def test_jobs_are_planned_where_numba_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object) -> bool:
        raise ValueError("no target machine")

    monkeypatch.setattr(fast, "_is_on", True)
    monkeypatch.setattr(plan, "_plan", fails)
    starts, choices = planned([2.0], [], [Job(0.0, 60.0, [[(0, 2.0)]]), Job(0.0, 60.0, [[(0, 1.0)]])])
    assert (list(starts), list(choices)) == ([0.0, 60.0], [0, 1])
    assert not fast.is_on()


def test_small_jobs_fill_what_a_large_one_leaves_and_never_delay_it() -> None:
    """Ten processors, six of them busy until 100: by hand."""
    busy = PlanSpan("long", 6, {}, 0, 100)
    jobs = [PlanJob(("long",), cpus, {}, length_s) for cpus, length_s in ((8, 50), (4, 90), (4, 200))]
    assert [each.start_s for each in plan_queue([MACHINE], [busy], jobs)] == [100, 0, 150]


def test_a_job_is_kept_out_of_a_reservation_and_waits_for_its_begin_time() -> None:
    drain = PlanSpan("long", 10, {}, 3_600, 7_200)
    job = PlanJob(("long",), 1, {}, 3_600)
    jobs = [job._replace(length_s=3_601), job, job._replace(begin_s=60)]
    assert [each.start_s for each in plan_queue([MACHINE], [drain], jobs)] == [7_200, 0, 7_200]


def test_a_job_of_several_partitions_takes_the_one_where_it_starts_first() -> None:
    partitions = [MACHINE, PlanPartition("short", 4, {}, limit_s=600)]
    busy = PlanSpan("long", 10, {}, 0, 500)
    jobs = [PlanJob(("long", "short"), 4, {}, 600)] * 2 + [PlanJob(("long", "short"), 4, {}, 601)]
    assert plan_queue(partitions, [busy], jobs) == [
        PlannedStart(0, "short", None),
        PlannedStart(500, "long", None),
        PlannedStart(500, "long", None),
    ]


def test_gpus_are_planned_by_type_and_of_any_type() -> None:
    partition = PlanPartition("gpu", 100, {"a100": 4, "h100": 2})
    busy = PlanSpan("gpu", 4, {"a100": 4}, 0, 900)
    jobs = [PlanJob(("gpu",), 1, gpus, 100) for gpus in ({"h100": 2}, {"": 1}, {"a100": 1}, {"gpu": 6})]
    assert [each.start_s for each in plan_queue([partition], [busy], jobs)] == [0, 100, 900, 1_000]


def test_partitions_of_one_pool_share_their_nodes() -> None:
    partitions = [MACHINE._replace(pool="nodes"), PlanPartition("short", 10, {}, pool="nodes")]
    jobs = [PlanJob((name,), 6, {}, 100) for name in ("long", "short")]
    assert [each.start_s for each in plan_queue(partitions, [], jobs)] == [0, 100]
    apart = [each._replace(pool=None) for each in partitions]
    assert [each.start_s for each in plan_queue(apart, [], jobs)] == [0, 0]


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (PlanJob(("other",), 1, {}, 60), NeverStarts.PARTITION),
        (PlanJob((), 1, {}, 60), NeverStarts.PARTITION),
        (PlanJob(("long",), 11, {}, 60), NeverStarts.CPUS),
        (PlanJob(("long",), 1, {"a100": 1}, 60), NeverStarts.GPUS),
        (PlanJob(("gpu",), 1, {"h100": 1}, 60), NeverStarts.GPUS),
        (PlanJob(("gpu",), 1, {"a100": 3}, 60), NeverStarts.GPUS),
        (PlanJob(("gpu",), 1, {"a100": 1}, 601), NeverStarts.LIMIT),
        (PlanJob(("gpu",), 1, {"a100": 1}, math.inf), NeverStarts.LIMIT),
        (PlanJob(("shut",), 1, {}, 60), NeverStarts.TAKEN),
    ],
)
def test_a_job_that_can_never_start_is_named_and_delays_none(job: PlanJob, reason: NeverStarts) -> None:
    partitions = [MACHINE, PlanPartition("gpu", 8, {"a100": 2}, limit_s=600), PlanPartition("shut", 8, {})]
    spans = [PlanSpan("shut", 8, {}, 0, math.inf), PlanSpan("unknown", 8, {"x": 1}, 0, 9)]
    other = PlanJob(("long",), 10, {}, 60)
    assert plan_queue(partitions, spans, [job, other]) == [
        PlannedStart(None, None, reason),
        PlannedStart(0, "long", None),
    ]


def test_a_machine_with_less_than_what_runs_starts_jobs_when_enough_has_ended() -> None:
    """Nodes that were drained under running jobs: four processors are left, six are busy."""
    left = MACHINE._replace(cpus=4)
    spans = [PlanSpan("long", 3, {}, 0, 50), PlanSpan("long", 3, {}, 0, 80)]
    jobs = [PlanJob(("long",), cpus, {}, 60) for cpus in (1, 4)]
    assert [each.start_s for each in plan_queue([left], spans, jobs)] == [50, 110]


def test_an_empty_queue_has_no_starts() -> None:
    assert plan_queue([], [], []) == []
    assert plan_queue([MACHINE], [], []) == []
