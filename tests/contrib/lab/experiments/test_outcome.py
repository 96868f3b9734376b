"""Numbers of an outcome beside a slow readable computation job by job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.contrib.lab.experiments.inputs import Inputs, PastUsage, VariantInputs
from apps.contrib.lab.experiments.outcome import Outcome, RanJobs, outcome_of
from apps.contrib.lab.experiments.spec import ExperimentSpec, ReplayWorkload, Site
from apps.policies.settings import PolicySettings
from tests.contrib.lab.test_simulated_tree import whole_tree

HOURS, HALF_LIFE_S, LENGTH_S = 60.0, 30_000, 150_000
N_JOBS = 700


@pytest.fixture(scope="module")
def summed() -> tuple[Inputs, RanJobs, Outcome]:
    """Random jobs of the users of a random tree; some wait at the end, some don't count."""
    tree = whole_tree(7, is_whole=True)
    random = np.random.default_rng(3)
    settings = PolicySettings().to_json()
    settings["window"] |= {"half_life_s": HALF_LIFE_S, "length_s": LENGTH_S}
    users = np.flatnonzero(tree.is_user)
    past = PastUsage(users[:5], np.full(5, -1), np.array([-1, -2, -30, -40, -41]), np.full(5, 50_000.0))
    variant = VariantInputs(tree, users, past, settings)
    spec = ExperimentSpec(ReplayWorkload(2))
    inputs = Inputs(spec, HOURS, (Site("s", 100),), [variant], day_ends_s=(86_400.0, 172_800.0, 216_000.0))
    at_s = np.sort(random.random(N_JOBS) * HOURS * 3600)
    start_s = at_s + random.exponential(9_000, N_JOBS)
    jobs = RanJobs(
        entry=random.choice(users[:20], N_JOBS),
        at_s=at_s,
        before_s=np.where(at_s < 9_000, 500.0, 0.0),
        start_s=np.where(start_s < HOURS * 3600, start_s, np.nan),
        run_s=random.exponential(4_000, N_JOBS),
        cpus=random.integers(1, 5, N_JOBS).astype(np.float64),
        rate=random.random(N_JOBS),
        counts=random.random(N_JOBS) < 0.9,
    )
    numbers = {"busy": np.zeros(1), "busy_total": 0.0, "n_submitted": N_JOBS, "n_started": 0, "n_events": 0}
    return inputs, jobs, outcome_of(inputs, variant, jobs, numbers)


def below(parent: Any, i: int) -> list[int]:
    """The entry and all below it."""
    members = [i]
    for child in range(len(parent)):
        if int(parent[child]) in members:
            members.append(child)
    return members


def test_waits_are_those_of_all_jobs_below(summed: tuple[Inputs, RanJobs, Outcome]) -> None:
    _inputs, jobs, outcome = summed
    end_s = HOURS * 3600
    for i in range(len(outcome.uid)):
        mine = jobs.counts & np.isin(jobs.entry, below(outcome.parent, i))
        wait = (np.where(np.isnan(jobs.start_s), end_s, jobs.start_s) - jobs.at_s + jobs.before_s)[mine]
        assert outcome.n_jobs[i] == len(wait)
        assert outcome.n_waiting[i] == np.isnan(jobs.start_s[mine]).sum()
        if len(wait):
            assert outcome.wait_mean_s[i] == pytest.approx(wait.mean())
            assert outcome.wait_median_s[i] == pytest.approx(np.median(wait))
            assert outcome.wait_p90_s[i] == pytest.approx(np.percentile(wait, 90))
        else:
            assert np.isnan(outcome.wait_mean_s[i])


def ran_s(jobs: RanJobs, from_s: float, to_s: float) -> Any:
    """Seconds that each job ran in this span."""
    return np.nan_to_num(
        np.clip(np.minimum(jobs.start_s + jobs.run_s, to_s) - np.maximum(jobs.start_s, from_s), 0, None)
    )


def test_core_hours_by_day_are_those_that_ran_in_it(summed: tuple[Inputs, RanJobs, Outcome]) -> None:
    inputs, jobs, outcome = summed
    edges = [0.0, *inputs.day_ends_s]
    for column, i in enumerate(outcome.shown.tolist()):
        mine = np.isin(jobs.entry, below(outcome.parent, i))
        for day in range(3):
            expected = (ran_s(jobs, edges[day], edges[day + 1]) * jobs.cpus)[mine].sum() / 3600
            assert outcome.day_core_h[day, column] == pytest.approx(expected, abs=1e-6)
        assert outcome.core_h[i] == pytest.approx(outcome.day_core_h[:, column].sum())


def test_shares_are_of_usage_in_the_window_by_its_age(summed: tuple[Inputs, RanJobs, Outcome]) -> None:
    inputs, jobs, outcome = summed
    past = inputs.variant(0).past
    at_s = outcome.at_h * 3600
    step_s = at_s[1] - at_s[0]
    for sample in (3, 40, len(at_s) - 1):
        used = np.zeros(len(outcome.uid))
        ages = [(at_s[sample] - (at_s[step] - step_s / 2), step) for step in range(sample + 1)]
        for age_s, step in ages:
            if age_s < LENGTH_S:
                amount = ran_s(jobs, at_s[step] - step_s, at_s[step]) * jobs.rate * 2 ** (-age_s / HALF_LIFE_S)
                used += np.bincount(jobs.entry, amount, minlength=len(used))
        for entry, hour, amount in zip(past.entry, past.hour, past.amount, strict=True):
            age_s = at_s[sample] - 3600 * (hour + 0.5)
            used[entry] += amount * 2 ** (-age_s / HALF_LIFE_S) if age_s < LENGTH_S else 0.0
        total = np.array([used[below(outcome.parent, i)].sum() for i in range(len(used))])
        for column, i in enumerate(outcome.shown.tolist()):
            group = total[outcome.parent == outcome.parent[i]].sum()
            assert outcome.share[sample, column] == pytest.approx(total[i] / group if group else np.nan, nan_ok=True)
