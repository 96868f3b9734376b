"""Bases of promises: trees, plans of a past queue, and which of them is chosen; none of them knows the future."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.starts.prediction import histograms, log_bases, trees
from apps.contrib.starts.prediction.bases import (
    LEAST_OF_RECORD,
    LEAST_TO_RANK_EARLY,
    PLAN,
    RECORD_DAYS,
    TREES,
    BaseRecord,
    log_pinball,
    same_at_all_levels,
)
from apps.contrib.starts.prediction.calibration import SHIFT_S, entries
from apps.contrib.starts.prediction.log_bases import offered_of_log, trained
from apps.contrib.starts.prediction.log_queue import queue_of_log
from apps.contrib.starts.prediction.predictor import PastJob, Predictor, replay
from apps.contrib.starts.prediction.promises import FLOOR_S, LEVELS, Kind, Outcome, Promise, WaitingJob
from apps.contrib.starts.prediction.queue_facts import FACTS
from apps.contrib.starts.prediction.recent_waits import CONSTANT, RECENT
from apps.contrib.starts.prediction.trees import LEAST_TO_TRAIN, SPAN_S, Trees, predict, train, waits_s
from apps.engine import fast
from bench.starts import simulated
from tests.examples import examples

DAY_S = 86_400.0
JOB = WaitingJob("ada", 4, 7_200)


def rows(n: int, seed: int = 1) -> tuple[Any, Any, Any]:
    """Facts of which the first two decide the wait, some unknown; log waits; one wait in ten is only known in part."""
    rng = np.random.default_rng(seed)
    facts = rng.normal(size=(n, 4))
    waits = 7 + facts[:, 0] + 0.5 * facts[:, 1] ** 2 + rng.normal(size=n) * 0.5
    is_known = rng.random(n) < 0.9
    facts[rng.random(facts.shape) < 0.05] = np.nan
    return facts, np.where(is_known, waits, waits - rng.random(n)), is_known


def model_of(facts: Any, waits: Any, is_known: Any) -> Trees:
    model = train(facts, waits, is_known, np.arange(len(facts)))
    assert model is not None
    return model


def test_trees_hold_as_often_as_they_say_and_are_shorter_than_a_constant() -> None:
    facts, waits, _is_known = rows(3_000)
    everything = np.ones(3_000, np.bool_)
    model = model_of(facts[:2_000], waits[:2_000], everything[:2_000])
    bounds = predict(model, facts[2_000:])
    assert (np.diff(bounds, axis=1) >= 0).all()
    for place, level in enumerate(LEVELS):
        held = (waits[2_000:] <= bounds[:, place]).mean()
        assert held == pytest.approx(level, abs=0.06)
        errors, alone = waits[2_000:] - bounds[:, place], waits[2_000:] - np.quantile(waits[:2_000], level)
        loss, of_constant = (np.maximum(level * each, (level - 1) * each).mean() for each in (errors, alone))
        assert loss < 0.75 * of_constant


def test_waits_that_are_known_in_part_only_lengthen_bounds() -> None:
    """Half of the jobs still wait after what they waited so far: those that started are the short waits among all."""
    rng = np.random.default_rng(4)
    waits, so_far = rng.normal(8, 1, 4_000), rng.normal(8, 1, 4_000)
    is_known = waits <= so_far
    facts = np.zeros((4_000, 1))
    seen = np.where(is_known, waits, so_far)
    with_all = model_of(facts, seen, is_known)
    with_known = model_of(facts[is_known], seen[is_known], is_known[is_known])
    median = float(predict(with_known, facts[:1])[0, 0])
    assert median < float(predict(with_all, facts[:1])[0, 0]) < np.median(waits) + 0.2
    assert median < np.median(waits) - 0.3


def test_trees_are_refused_below_a_few_hundred_settled_jobs() -> None:
    facts, waits, is_known = rows(LEAST_TO_TRAIN + 100)
    is_known[:] = False
    is_known[: LEAST_TO_TRAIN - 1] = True
    job = np.arange(len(facts))
    assert train(facts, waits, is_known, job) is None
    is_known[LEAST_TO_TRAIN] = True
    assert train(facts, waits, is_known, job) is not None
    job[LEAST_TO_TRAIN] = 0  # one more promise of the first job
    assert train(facts, waits, is_known, job) is None


def test_trees_are_the_same_bits_with_and_without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object) -> bool:
        raise ValueError("no target machine")

    facts, waits, is_known = rows(600)
    compiled = model_of(facts, waits, is_known)
    with fast.switched(False):
        plain = model_of(facts, waits, is_known)
    monkeypatch.setattr(fast, "_is_on", True)
    monkeypatch.setattr(histograms, "_add_rows", fails)
    after_failure = model_of(facts, waits, is_known)
    assert not fast.is_on()
    for ours, theirs, third in zip(compiled, plain, after_failure, strict=True):
        assert np.array_equal(ours, theirs)
        assert np.array_equal(ours, third)


def test_a_fact_that_is_never_known_or_never_differs_is_no_harm() -> None:
    facts, waits, is_known = rows(500)
    facts = np.column_stack([facts, np.full(500, np.nan), np.full(500, 3.0)])
    model = model_of(facts, waits, is_known)
    assert not np.isin(model.fact, (4, 5)).any()
    assert np.isfinite(predict(model, np.full((2, 6), np.nan))).all()


def test_the_loss_of_a_bound_is_that_of_its_quantile() -> None:
    wait_s, bounds_s = 1_000.0, (400.0, 1_000.0, 9_000.0)
    short = math.log((wait_s + SHIFT_S) / (400 + SHIFT_S))
    long = math.log((9_000 + SHIFT_S) / (wait_s + SHIFT_S))
    assert log_pinball(bounds_s, wait_s) == pytest.approx(0.5 * short + 0.05 * long)


def _count(record: BaseRecord, day: int, bounds: dict[str, float], n: float = LEAST_OF_RECORD) -> None:
    offers = tuple((base, (bound_s,) * 3) for base, bound_s in bounds.items())
    for _ in range(math.ceil(n)):
        record.count(Kind.SUBMIT, offers, left_s=day * DAY_S + 5, wait_s=1_000.0, weight=1.0)


def test_the_base_with_the_best_record_is_chosen_from_the_next_day_on() -> None:
    record, bases = BaseRecord(), (CONSTANT, RECENT, PLAN, TREES)
    assert record.best(Kind.SUBMIT, bases) == RECENT
    record.turn(10 * DAY_S)
    _count(record, 10, {CONSTANT: 3_600, RECENT: 9_000, PLAN: 1_500})
    _count(record, 10, {CONSTANT: 3_600, TREES: 1_000}, LEAST_TO_RANK_EARLY - LEAST_OF_RECORD - 1)
    record.turn(10 * DAY_S + 50)
    assert record.best(Kind.SUBMIT, bases) == RECENT  # too few jobs for a choice within the day
    record.turn(11 * DAY_S)
    assert record.best(Kind.SUBMIT, bases) == PLAN
    assert record.best(Kind.SUBMIT, (CONSTANT, RECENT)) == CONSTANT  # no plan for this job
    assert record.best(Kind.WAITING, bases) == RECENT  # a record of its own
    _count(record, 11, {CONSTANT: 3_600, TREES: 1_000}, 1)
    record.turn(12 * DAY_S)
    assert record.best(Kind.SUBMIT, bases) == TREES
    record.turn((12 + RECORD_DAYS) * DAY_S)
    assert record.best(Kind.SUBMIT, bases) == RECENT  # all of it is too old
    assert record.losses == {}


def test_the_base_is_chosen_within_the_day_each_time_that_the_record_has_doubled() -> None:
    record, bases = BaseRecord(), (CONSTANT, RECENT, PLAN, TREES)
    record.turn(10 * DAY_S)
    _count(record, 10, {CONSTANT: 3_600, RECENT: 9_000, PLAN: 1_500}, LEAST_TO_RANK_EARLY - 1)
    record.turn(10 * DAY_S + 1)
    assert record.best(Kind.SUBMIT, bases) == RECENT
    _count(record, 10, {CONSTANT: 3_600, RECENT: 9_000, PLAN: 1_500}, 1)
    record.turn(10 * DAY_S + 2)
    assert record.best(Kind.SUBMIT, bases) == PLAN
    _count(record, 10, {CONSTANT: 3_600, TREES: 1_000}, LEAST_TO_RANK_EARLY - 1)
    record.turn(10 * DAY_S + 3)
    assert record.best(Kind.SUBMIT, bases) == PLAN
    _count(record, 10, {CONSTANT: 3_600, TREES: 1_000}, 1)
    record.turn(10 * DAY_S + 4)
    assert record.best(Kind.SUBMIT, bases) == TREES


def test_on_a_busy_first_day_a_plan_that_is_right_is_promised_before_midnight() -> None:
    """Known answer: sixteen processors in the order of submission with backfill, as many jobs as they can run."""
    rng, at_s, asked = Random(0), 20_000 * DAY_S, []
    for number in range(600):
        run_s = min(rng.expovariate(1 / 300), 1_800.0)
        at_s += rng.expovariate(1 / 60)
        limit_s = run_s * rng.choice((1.1, 2, 4)) + 60
        job = WaitingJob(f"u{number % 6}", rng.choice((1, 1, 2, 4, 8)), limit_s)
        asked.append(PastJob(job, at_s, at_s, True, at_s + run_s))
    jobs = simulated(asked, 16)
    queue = {(each.number, each.age_s): each.by_submission_s for each in queue_of_log(jobs)}
    settled = replay(jobs, offered=lambda number, age_s: same_at_all_levels({PLAN: queue[number, age_s]}))
    assert jobs[-1].submit_s < 20_001 * DAY_S
    late = [each for each in settled if each.promise.made_s > jobs[300].submit_s and each.promise.kind is Kind.SUBMIT]
    assert {each.promise.basis for each in late} == {PLAN}
    by_recent = [dict(each.promise.offers)[RECENT] for each in late]
    losses = [
        sum(log_pinball(bounds, each.wait_s) for bounds, each in zip(every, late, strict=True))
        for every in ([each.promise.bounds_s for each in late], by_recent)
    ]
    assert losses[0] < 0.9 * losses[1]


def test_bases_are_compared_on_the_same_jobs() -> None:
    """Trees were offered for jobs that are easy for everybody: that makes them no better than the plan."""
    record = BaseRecord()
    _count(record, 1, {CONSTANT: 30_000, PLAN: 1_200})
    _count(record, 1, {CONSTANT: 1_001, TREES: 1_000})
    record.turn(2 * DAY_S)
    assert record.best(Kind.SUBMIT, (PLAN, TREES)) == PLAN


def test_a_plan_is_one_number_at_all_levels_unless_it_never_comes() -> None:
    assert same_at_all_levels({PLAN: 60.0, TREES: math.inf, CONSTANT: -5.0}) == {
        PLAN: (60.0,) * 3,
        CONSTANT: (0.0,) * 3,
    }


class Noting(Predictor):
    """Notes what it would learn."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, int, Outcome]] = []

    def _teach(self, promise: Promise, level: int, outcome: Outcome, n_open: int) -> None:
        self.noted.append((promise.basis, level, outcome))


@pytest.mark.parametrize(("wait_s", "outcome"), [(3_000.0, Outcome.BROKEN), (1_200.0, Outcome.KEPT)])
def test_another_base_learns_each_level_once_at_a_broken_longer_promise_or_when_the_job_leaves(
    wait_s: float, outcome: Outcome
) -> None:
    """A promise of 1,000, 2,000 and 4,000 seconds; the plan said 1,500 at all levels."""
    predictor = Noting()
    made = predictor.promise(JOB, 0.0, 0.0, {PLAN: (1_500.0,) * 3})
    made = made._replace(bounds_s=(1_000.0, 2_000.0, 4_000.0), basis=CONSTANT)
    for level in range(3):
        predictor.learn(made, level, made.outcome(level, wait_s, started=True))
    before = [noted for noted in predictor.noted if noted[0] == PLAN]
    predictor.left(made, wait_s, started=True)
    of_plan = [noted for noted in predictor.noted if noted[0] == PLAN]
    assert of_plan == [(PLAN, level, outcome) for level in range(3)]
    assert before == (of_plan if outcome is Outcome.BROKEN else [])


def log_of(waits: list[tuple[int, int, int, int, bool]]) -> list[PastJob]:
    jobs, at_s = [], 20_000 * DAY_S
    for gap_s, wait_s, run_s, cpus, started in waits:
        at_s += gap_s
        job = WaitingJob(f"u{cpus % 3}", cpus, 600.0 * cpus if cpus % 4 else None)
        start_s = at_s + wait_s
        jobs.append(PastJob(job, at_s, start_s, started, start_s + run_s if started else None))
    return jobs


WAITS = st.lists(
    st.tuples(st.integers(0, 4_000), st.integers(0, 30_000), st.integers(1, 30_000), st.integers(1, 40), st.booleans()),
    min_size=3,
    max_size=30,
)


@given(waits=WAITS, changes=WAITS, part=st.floats(0.2, 0.9))
@examples(40)
def test_rows_of_a_queue_are_the_same_bits_when_the_future_is_changed(waits: Any, changes: Any, part: float) -> None:
    jobs = log_of(waits)
    instant_s = jobs[0].submit_s + part * (jobs[-1].submit_s - jobs[0].submit_s)
    changed = [_changed_after(each, instant_s) for each in jobs if each.submit_s <= instant_s]
    first_s = log_of(changes)[0].submit_s
    later = [
        each._replace(submit_s=each.submit_s - first_s + instant_s + 1, left_s=None, started=False, ended_s=None)
        for each in log_of(changes)
    ]
    before, after = (
        [each for each in queue_of_log(log) if each.made_s <= instant_s] for log in (jobs, [*changed, *later])
    )
    assert {(row.number, row.age_s) for row in after} >= {(row.number, row.age_s) for row in before}
    known = {(row.number, row.age_s): row for row in after}
    for row in before:
        other = known[row.number, row.age_s]
        assert row[:5] == other[:5]
        assert row.facts.tobytes() == other.facts.tobytes()


def test_a_job_that_ends_when_it_starts_is_in_the_queue_until_then_and_never_runs() -> None:
    begin_s = 20_000 * DAY_S
    short = PastJob(JOB, begin_s, begin_s + 60, True, begin_s + 60)
    rows = list(queue_of_log([short, PastJob(JOB, begin_s + 120, begin_s + 180, True, begin_s + 300)]))
    assert [(row.number, row.made_s) for row in rows] == [(0, begin_s), (1, begin_s + 120)]
    assert [float(row.facts[FACTS.index("running_jobs")]) for row in rows] == [0, 0]


def _changed_after(job: PastJob, instant_s: float) -> PastJob:
    if job.leaves_s > instant_s:
        return job._replace(left_s=job.leaves_s + 5_000, ended_s=None)
    if job.ended_s is not None and job.ended_s > instant_s:
        return job._replace(ended_s=job.ended_s + 7_000)
    return job


def busy_log(n: int) -> list[PastJob]:
    """One processor for jobs of an hour and a half that ask for two, in the order in which they come."""
    rng, free_s, jobs, at_s = Random(2), 0.0, [], 20_000 * DAY_S
    for number in range(n):
        at_s += rng.expovariate(1 / 5_700)
        start_s = max(at_s, free_s)
        free_s = start_s + 5_400
        jobs.append(PastJob(WaitingJob(f"u{number % 5}", 1, 7_200.0), at_s, start_s, True, free_s))
    return jobs


@pytest.mark.deep
def test_trees_of_a_day_know_only_days_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "LEAST_TO_TRAIN", 40)
    jobs = busy_log(220)
    cut_s = (jobs[150].submit_s // DAY_S) * DAY_S
    changed = [_changed_after(each, cut_s) for each in jobs if each.submit_s <= cut_s]
    before, after = offered_of_log(jobs), offered_of_log(changed)
    numbers = [n for n, each in enumerate(jobs) if each.submit_s <= cut_s]
    assert [before(n, 0.0) for n in numbers] == [after(n, 0.0) for n in numbers]
    assert TREES in before(numbers[-1], 0.0)
    assert TREES not in before(numbers[0], 0.0)


@pytest.mark.deep
def test_the_plan_of_a_log_in_its_own_order_is_never_too_early_and_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_bases, "PLAN_BY_USE", "other")
    jobs = busy_log(400)
    settled = replay(jobs, offered=offered_of_log(jobs))
    for each in queue_of_log(jobs):
        start_s = jobs[each.number].leaves_s
        assert each.by_submission_s == math.inf or each.made_s + each.by_submission_s >= start_s - 1e-3
    late = [each for each in settled[len(settled) // 2 :] if each.promise.kind is Kind.SUBMIT]
    assert {each.promise.basis for each in late} <= {PLAN, "other", TREES}
    constant = [dict(each.promise.offers)[CONSTANT] for each in late]
    losses = [
        sum(log_pinball(bounds, each.wait_s) for bounds, each in zip(every, late, strict=True))
        for every in ([each.promise.bounds_s for each in late], constant)
    ]
    assert losses[0] < 0.6 * losses[1]


def test_facts_have_their_names_and_units() -> None:
    jobs = log_of([(0, 0, 9_000, 8, True), (600, 7_000, 100, 4, True), (60, 9_000, 100, 5, True)])
    row = list(queue_of_log(jobs))[2]
    assert row.number == 2
    named = dict(zip(FACTS, row.facts.tolist(), strict=True))
    assert named["cpus"] == pytest.approx(math.log2(5))
    assert named["waiting_jobs"] == pytest.approx(math.log(3))
    assert named["running_cpus"] == 1.0
    assert named["own_waiting"] == pytest.approx(math.log(2))
    assert named["plan"] == pytest.approx(math.log(row.by_use_s + SHIFT_S))
    assert row.by_use_s < math.inf
    assert math.isnan(named["recent_50"])
    assert named["last_start"] == pytest.approx(math.log(660 + SHIFT_S))


def test_trees_of_a_log_are_trained_on_what_had_left_the_queue_within_sixty_days() -> None:
    facts, waits, _is_known = rows(600)
    left_s = np.exp(waits)
    number, made_s, started = np.arange(600), np.zeros(600), np.ones(600, np.bool_)
    now_s = float(np.median(left_s))
    has_left = left_s < now_s
    assert trained(number, made_s, facts, left_s, started, now_s=float(np.quantile(left_s, 0.2))) is None
    early = trained(number, made_s, facts, left_s, started, now_s=now_s)
    later = trained(number, made_s, facts, np.where(has_left, left_s, np.inf), started, now_s=now_s)
    alone = trained(*(column[has_left] for column in (number, made_s, facts, left_s, started)), now_s=now_s)
    assert early is not None
    for others in (later, alone):
        assert others is not None
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(early, others, strict=True))
    assert (waits_s(early, facts) >= 0).all()
    assert trained(number // 2, made_s, facts, left_s, started, now_s=now_s) is None  # too few jobs
    moved = now_s - SPAN_S  # of promises that are too old
    assert trained(number, made_s + moved, facts, left_s + moved, started, now_s=now_s) is None


@given(waits=WAITS)
@examples(25)
def test_a_replay_with_all_bases_repeats_itself(waits: Any) -> None:
    jobs = log_of(waits)
    predictor, again = Predictor(), Predictor()
    offered = offered_of_log(jobs)
    settled = replay(jobs, predictor, offered)
    assert replay(jobs, again, offered) == settled
    for base, calibration in predictor.calibrations.items():
        assert list(entries(again.calibrations[base])) == list(entries(calibration))
    for each in settled:
        assert dict(each.promise.offers)[each.promise.basis] == each.promise.bounds_s
        assert all(bound_s >= FLOOR_S for _base, bounds in each.promise.offers for bound_s in bounds)
