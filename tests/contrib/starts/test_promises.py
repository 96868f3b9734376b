"""Promises of starts: what they are, when they are settled, what they teach, and that none knows the future."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.starts.prediction.bases import BaseRecord
from apps.contrib.starts.prediction.calibration import CALM, SHIFT_S, STEP, Calibration, entries, features
from apps.contrib.starts.prediction.predictor import PastJob, PastPromise, Predictor, of_kind, replay
from apps.contrib.starts.prediction.promises import (
    CEILING_S,
    FLOOR_S,
    LEVELS,
    UNKNOWN_LENGTH,
    Kind,
    Outcome,
    Promise,
    WaitingJob,
    next_age_s,
)
from apps.contrib.starts.prediction.recent_waits import (
    CONSTANT,
    LEAST_FOR_QUANTILES,
    RECENT,
    RecentWaits,
    age_class,
)
from apps.contrib.starts.prediction.record import above_floor, held, held_by_burst, pinball
from apps.contrib.starts.prediction.soon import SoonCounters, counter_of
from tests.examples import examples

JOB = WaitingJob("ada", 4, 7_200)


def promise(bound_s: float = 3_600.0, *, made_s: float = 0.0, age_s: float = 0.0, user: str = "ada") -> Promise:
    return Promise(JOB._replace(user=user), made_s, age_s, (bound_s,) * len(LEVELS), CONSTANT)


@pytest.mark.parametrize(
    ("cpus", "limit_s", "classes"),
    [
        (1, 60, (0, 0)),
        (3, 3_599, (0, 0)),
        (4, 3_600, (1, 1)),
        (15, 14_399, (1, 1)),
        (16, 14_400, (2, 2)),
        (0, None, (0, UNKNOWN_LENGTH)),
        (64, math.inf, (3, UNKNOWN_LENGTH)),
        (64, 0, (3, UNKNOWN_LENGTH)),
    ],
)
def test_sizes_and_limits_have_classes(cpus: float, limit_s: float | None, classes: tuple[int, int]) -> None:
    job = WaitingJob("ada", cpus, limit_s)
    assert (job.size, job.length) == classes


def test_a_promise_is_made_at_submission_and_whenever_the_wait_has_doubled() -> None:
    ages, age_s = [], 0.0
    for _ in range(5):
        ages.append(age_s / 3_600)
        age_s = next_age_s(age_s)
    assert ages == [0, 1, 2, 4, 8]
    assert [age_class(hours * 3_600) for hours in (0, 0.5, 1, 1.9, 2, 4, 8)] == [0, 0, 1, 1, 2, 3, 4]


@given(
    bound_s=st.floats(FLOOR_S, CEILING_S),
    made_s=st.floats(0, 1e9),
    wait_s=st.floats(0, 1e7),
    started=st.booleans(),
)
@examples(200)
def test_no_promise_is_open_beyond_its_deadline(bound_s: float, made_s: float, wait_s: float, started: bool) -> None:
    made = promise(bound_s, made_s=made_s)
    settled_s = made.settled_s(0, made_s + wait_s)
    assert made_s <= settled_s <= made_s + bound_s
    outcome = made.outcome(0, made_s + wait_s, started=started)
    if made_s + wait_s > made_s + bound_s:
        assert outcome is Outcome.BROKEN
    else:
        assert outcome is (Outcome.KEPT if started else Outcome.WITHDRAWN)


def test_promises_of_a_user_within_an_hour_are_a_burst() -> None:
    bursts = [promise(made_s=at_s, user=user).burst for at_s, user in ((0, "ada"), (3_599, "ada"), (3_600, "ada"))]
    assert bursts[0] == bursts[1] != bursts[2]
    assert promise(made_s=7 * 3_600).burst[2] == 7
    others = promise(user="bob"), promise(age_s=3_600.0)
    assert all(each.burst != bursts[0] for each in others)


def test_sizes_up_to_64_processors_are_counted_apart() -> None:
    counters = [counter_of(JOB._replace(cpus=cpus), others_wait=False) for cpus in (1, 4, 16, 64, 256)]
    assert counters == [(0, False), (1, False), (2, False), (3, False), (3, False)]


def test_the_loss_of_a_level_is_the_mean_of_its_quantile_over_promises_that_were_not_withdrawn() -> None:
    """Logs of seconds and SHIFT: at 80 %, a wait above its bound costs four times one as far below."""

    def settled(wait_s: float, outcome: Outcome) -> PastPromise:
        return PastPromise(promise(1_000.0), (outcome,) * len(LEVELS), wait_s, None)

    far = math.log(3)
    above, below = (math.exp(math.log(1_000 + SHIFT_S) + sign * far) - SHIFT_S for sign in (1, -1))
    late, early = settled(above, Outcome.BROKEN), settled(below, Outcome.KEPT)
    away = settled(above, Outcome.WITHDRAWN)
    assert pinball([late, away], 1) == pytest.approx(0.8 * far)
    assert pinball([early, away], 1) == pytest.approx(0.2 * far)
    assert pinball([late, early, away], 2) == pytest.approx((0.95 + 0.05) / 2 * far)
    assert math.isnan(pinball([away], 0))


BOUNDS = st.lists(st.integers(1, 5).map(float), min_size=len(LEVELS), max_size=len(LEVELS)).map(sorted).map(tuple)


@given(own=BOUNDS, others=BOUNDS, waited_s=st.integers(1, 6).map(float), started=st.booleans())
@examples(300)
def test_each_level_that_another_base_offered_teaches_once(
    own: tuple[float, ...], others: tuple[float, ...], waited_s: float, started: bool
) -> None:
    """What is broken while the job waits, and the rest when it leaves the queue."""
    made = Promise(JOB, 0.0, 0.0, own, RECENT, ((CONSTANT, others), (RECENT, own)))
    predictor, taught, compared = Predictor(), [], []
    predictor.count(made)

    def learn(calibration: Calibration, promise: Promise, level: int, outcome: Outcome, **_numbers: int) -> None:
        taught.append((promise.basis, level, outcome))

    def count(record: BaseRecord, *_promise: Any, wait_s: float, **_numbers: float) -> None:
        compared.append(wait_s)

    with patch.object(Calibration, "learn", learn), patch.object(BaseRecord, "count", count):
        for level, bound_s in enumerate(own):
            if bound_s < waited_s:
                predictor.learn(made, level, Outcome.BROKEN)
        predictor.left(made, waited_s, started=started)
    at_end = Outcome.KEPT if started else Outcome.WITHDRAWN
    outcomes = [Outcome.BROKEN if bound_s < waited_s else at_end for bound_s in others]
    assert sorted(level for level in taught if level[0] == CONSTANT) == [
        (CONSTANT, level, outcome) for level, outcome in enumerate(outcomes)
    ]
    assert compared == ([waited_s] if started else []), "a base is as good as it is for jobs that started"


@pytest.mark.parametrize("age_s", [0.0, 3_600.0])
@pytest.mark.parametrize("level", range(len(LEVELS)))
def test_a_settled_promise_moves_its_offsets_by_the_formula(level: int, age_s: float) -> None:
    calibration, made = Calibration(), promise()._replace(age_s=age_s)
    q, kind = LEVELS[level], made.kind
    calibration.learn(made, level, Outcome.BROKEN, n_of_burst=4, n_open=25)
    named = features(JOB, kind)
    n_counted = 4 if (kind, q) == (Kind.WAITING, 0.95) else 2  # a burst counts once, or as its square root
    step = STEP[kind] / (len(named) * n_counted * (1 + CALM * STEP[kind] * 25)) * q
    assert [(at, feature) for at, feature, _offset in entries(calibration)] == [(level, each) for each in sorted(named)]
    assert [offset for _level, _feature, offset in entries(calibration)] == pytest.approx([step] * len(named))
    bounds = calibration.bounds_s(JOB, kind, (3_600.0,) * len(LEVELS))
    assert max(bounds) == pytest.approx((3_600 + SHIFT_S) * math.exp(step * len(named)) - SHIFT_S)
    calibration.learn(made, level, Outcome.KEPT, n_of_burst=1, n_open=0)
    step -= STEP[kind] / len(named) * (1 - q)
    assert [offset for _level, _feature, offset in entries(calibration)] == pytest.approx([step] * len(named))


def test_neither_a_kept_promise_of_the_floor_nor_a_withdrawn_one_teaches() -> None:
    calibration = Calibration()
    calibration.learn(promise(FLOOR_S), 0, Outcome.KEPT, n_of_burst=1, n_open=0)
    calibration.learn(promise(), 0, Outcome.WITHDRAWN, n_of_burst=1, n_open=0)
    assert list(entries(calibration)) == []
    calibration.learn(promise(FLOOR_S), 0, Outcome.BROKEN, n_of_burst=1, n_open=0)
    assert len(list(entries(calibration))) == len(features(JOB, Kind.SUBMIT))


def test_what_was_learned_of_a_user_is_known_by_another_name_and_nothing_else_is() -> None:
    """Also where the name of a user is the number of a size or length."""
    calibration = Calibration()
    for user in ("ada", "1", "eva"):
        calibration.learn(promise(user=user), 0, Outcome.BROKEN, n_of_burst=1, n_open=0)
    before = {feature: offset for _level, feature, offset in entries(calibration)}
    calibration.rename_users({"ada": "p-1", "1": "p-2"})
    renamed = {"ada": "p-1", "1": "p-2", "eva": "eva"}
    assert {feature: offset for _level, feature, offset in entries(calibration)} == {
        (*each[:2], renamed[each[2]]) if each[1:2] == ("user",) else each: offset for each, offset in before.items()
    }
    assert (Kind.SUBMIT, "size", "1") in before


def test_a_burst_of_a_thousand_moves_as_much_as_its_square_root_and_not_as_a_thousand() -> None:
    one, many = Calibration(), Calibration()
    one.learn(promise(), 0, Outcome.BROKEN, n_of_burst=1, n_open=0)
    for n in range(1, 1_001):
        many.learn(promise(), 0, Outcome.BROKEN, n_of_burst=n, n_open=0)
    moved, by_one = (sum(offset for _l, _f, offset in entries(each)) for each in (many, one))
    assert by_one * 61 < moved < by_one * 2 * math.sqrt(1_000)


@given(bases=st.lists(st.floats(0, 1e9), min_size=3, max_size=3), offsets=st.lists(st.floats(-50, 50), max_size=15))
@examples(200)
def test_bounds_rise_with_the_level_between_floor_and_ceiling(bases: list[float], offsets: list[float]) -> None:
    calibration = Calibration()
    named = features(JOB, Kind.SUBMIT)
    for place, offset in enumerate(offsets):
        calibration.offsets[place % 3][named[place // 3]] = offset
    bounds = calibration.bounds_s(JOB, Kind.SUBMIT, tuple(bases))
    assert list(bounds) == sorted(bounds)
    assert all(FLOOR_S <= bound <= CEILING_S for bound in bounds)


def test_the_base_is_of_the_smallest_class_with_enough_waits() -> None:
    waits, other = RecentWaits(), JOB._replace(cpus=64)
    assert list(waits.bases(JOB, 0.0)) == [CONSTANT]
    for n in range(LEAST_FOR_QUANTILES):
        waits.add(other, float(n))
    assert list(waits.bases(JOB, 0.0)) == [CONSTANT, RECENT]
    assert waits.bases(JOB, 0.0)[RECENT] == pytest.approx((14.5, 23.2, 27.55))  # of all
    for _ in range(LEAST_FOR_QUANTILES):
        waits.add(JOB, 5_000.0)
    assert waits.bases(JOB, 0.0)[RECENT] == (5_000.0,) * 3
    assert waits.bases(JOB, 3_600.0)[RECENT] == (1_400.0,) * 3  # what was left after an hour
    assert waits.bases(other, 0.0)[RECENT] == pytest.approx((14.5, 23.2, 27.55))


def test_counters_say_how_many_lately_started_within_five_minutes() -> None:
    soon, counter = SoonCounters(), counter_of(JOB, others_wait=False)
    assert soon.probability(counter) == 0.5
    for _ in range(500):
        soon.count(counter, 1, started=True)
    assert 0.98 < soon.probability(counter) < 1
    of_none = soon.probability(counter_of(JOB, others_wait=True))  # as all jobs, and 20 of which half started
    assert of_none == pytest.approx((100 / 3 + 10) / (100 / 3 + 20), abs=1e-6)
    for _ in range(23):  # half of what the counter remembers
        soon.count(counter, 1, started=False)
    assert soon.probability(counter) == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(1, 9), st.booleans()), max_size=40))
@examples(60)
def test_a_counter_says_a_mean_of_its_jobs_and_of_all_the_newer_the_more(jobs: list[Any]) -> None:
    soon = SoonCounters()
    for size, others_wait, n_of_burst, started in jobs:
        soon.count((size, others_wait), n_of_burst, started=started)

    def sums(chosen: list[Any]) -> tuple[float, float]:
        """Each job with the weight that is left of it after those behind it."""
        starts = n_jobs = 0.0
        for place, (_size, _others_wait, n_of_burst, started) in enumerate(chosen):
            left = math.prod(0.97 ** (1 / math.sqrt(later[2])) for later in chosen[place + 1 :])
            n_jobs += left / math.sqrt(n_of_burst)
            starts += started * left / math.sqrt(n_of_burst)
        return starts, n_jobs

    all_starts, all_jobs = sums(jobs)
    rate = (all_starts + 10) / (all_jobs + 20)
    for counter in ((0, False), (3, True)):
        starts, n_jobs = sums([each for each in jobs if each[:2] == counter])
        assert soon.probability(counter) == pytest.approx((starts + 3 * rate) / (n_jobs + 3))


def _log(waits: list[tuple[int, int, int, bool]]) -> list[PastJob]:
    jobs, at_s = [], 0.0
    for gap_s, wait_s, cpus, started in waits:
        at_s += gap_s
        jobs.append(PastJob(WaitingJob(f"u{cpus % 3}", cpus, 600.0 * cpus), at_s, at_s + wait_s, started))
    return jobs


LOGS = st.lists(
    st.tuples(st.integers(0, 4_000), st.integers(0, 90_000), st.integers(1, 40), st.booleans()),
    min_size=5,
    max_size=60,
)


@given(waits=LOGS, changes=LOGS, part=st.floats(0.1, 0.9))
@examples(60)
def test_no_promise_depends_on_what_happens_after_it(waits: Any, changes: Any, part: float) -> None:
    """Jobs that come after an instant, and ends of waits after it, are changed: promises up to it are the same."""
    jobs = _log(waits)
    instant_s = jobs[-1].submit_s * part
    changed = [
        each if each.leaves_s <= instant_s else each._replace(left_s=each.leaves_s + 5_000, started=not each.started)
        for each in jobs
        if each.submit_s <= instant_s
    ]
    later = [each._replace(submit_s=each.submit_s + instant_s + 1, left_s=None) for each in _log(changes)]
    before, after = (
        [(each.promise, each.soon) for each in replay(log) if each.promise.made_s <= instant_s]
        for log in (jobs, [*changed, *later])
    )
    known = {promise for promise, _soon in before}
    assert [pair for pair in after if pair[0] in known] == before


@given(waits=LOGS)
@examples(40)
def test_every_promise_has_one_outcome_at_each_level_and_a_replay_repeats_them(waits: Any) -> None:
    predictor = Predictor()
    settled = replay(_log(waits), predictor)
    for level in range(len(LEVELS)):
        shares = held(settled, level)
        assert shares.n + shares.withdrawn == len(settled)
        assert held_by_burst(settled, level).n <= shares.n
        assert set(above_floor(settled, level)) <= set(settled)
    again = Predictor()
    assert replay(_log(waits), again) == settled
    for base, calibration in predictor.calibrations.items():
        assert list(entries(again.calibrations[base])) == list(entries(calibration))


@pytest.mark.deep
def test_promises_of_a_steady_machine_hold_as_often_as_they_say() -> None:
    """Waits of a known distribution that nobody tells, with fifty promises open at any time: 4 of 5 promises of 80 %
    hold, also those of large jobs, which wait longer.
    """
    from random import Random

    rng = Random(7)
    jobs = []
    for n in range(6_000):
        size = rng.choice((1, 8, 32))
        wait_s = rng.lognormvariate(9 + math.log2(size) / 2, 1.0)
        jobs.append(PastJob(WaitingJob(f"u{n % 40}", size, 3_600.0 * size), n * 900.0, n * 900.0 + wait_s, True))
    settled = [each for each in of_kind(replay(jobs), Kind.SUBMIT) if each.promise.made_s > 1_000 * 900]
    for level, promised in enumerate(LEVELS):
        beyond: list[PastPromise] = above_floor(settled, level)
        assert held(beyond, level).share == pytest.approx(promised, abs=0.03)
    big = [each for each in settled if each.promise.job.cpus == 32]
    assert held(big, LEVELS.index(0.80)).share == pytest.approx(0.80, abs=0.04)
