"""Jobs and trees of the advisor's replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from apps.accounts.actor import SYSTEM
from apps.contrib.lab.advisor.measuring import measure_policy
from apps.contrib.lab.comparison.recorded_order import model_error, starts_in_recorded_order
from apps.contrib.lab.comparison.replay import Jobs, Replay, Variant, narrowed, processors_by_day
from apps.engine.algorithms import read_algorithm
from apps.engine.algorithms.inputs import prepare
from apps.engine.tree import FairshareTree
from apps.priorities.metering import window_of
from apps.priorities.selectors.rows import open_view
from tests.contrib.lab.advisor.site import SETTINGS, site_with_history
from tests.priority_site import AS_OF, PROJECTS, Site


def jobs_of(*entries: int) -> Jobs:
    n = len(entries)
    ones, entry = np.ones(n, np.float64), np.array(entries, dtype=np.int64)
    submit_s = np.arange(n, dtype=np.float64) * 600.0
    one, site = np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    return Jobs(submit_s, 3600.0 * ones, -ones, one, entry, submit_s, ones, site, 1)


def test_idle_siblings_keep_their_shares() -> None:
    """Otherwise the targets of a replay are others than those of the policy."""
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0, 0, 0]), np.array([1.0, 1.0, 1.0, 3.0, 5.0]))
    replay = Replay.of(tree, jobs_of(1, 2, 1, 2))
    assert replay is not None
    targets = sorted(prepare(replay.tree).target[1:].tolist())
    assert targets == pytest.approx([0.1, 0.1, 0.8])
    assert replay.jobs.entry.tolist() == [1, 2, 1, 2]


def test_a_replay_needs_two_entries_with_jobs() -> None:
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0]), np.ones(3))
    assert Replay.of(tree, jobs_of(1, 1)) is None


@pytest.mark.deep
@pytest.mark.django_db
def test_the_typical_job_is_in_the_policys_metric(make_site: Callable[..., Site]) -> None:
    """With a factor of 2 for all jobs, the median one counts twice as many hours."""
    site = site_with_history(make_site)
    plain = _typical_h(site)
    doubled = {**SETTINGS, "metric": {"weights": {"cpu_s": 1.0}, "class_factors": [{"factor": 2.0}]}}
    site.publish(PROJECTS, doubled, at=AS_OF)
    assert _typical_h(site) == pytest.approx(2 * plain)


def _typical_h(site: Site) -> float:
    policy = open_view(policy_slug=site.slug, actor=SYSTEM).policy
    typical_h = measure_policy(policy, at=AS_OF).sample.typical_job_h
    assert typical_h is not None
    return typical_h


def test_a_machine_has_on_each_day_what_ran_there_at_once() -> None:
    """Two processors on the first day, none on the second, one on the third: a job waits for it, and none is lost."""
    hour = 3_600.0
    jobs = Jobs(
        submit_s=np.array([0.0, 0.0, 12 * hour, 49 * hour]),
        run_s=np.array([10 * hour, 10 * hour, hour, 5 * hour]),
        requested_s=-np.ones(4),
        cpus=np.ones(4, dtype=np.int64),
        entry=np.array([1, 2, 1, 2]),
        started_s=np.array([0.0, 0.0, 48 * hour, 49 * hour]),
        rate=np.ones(4),
        site=np.zeros(4, dtype=np.int64),
        n_days=3,
    )
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0]), np.ones(3))
    assert processors_by_day(jobs.site, jobs.started_s, jobs.run_s, jobs.cpus, 1, jobs.n_days).tolist() == [[2, 0, 1]]
    replay = Replay.of(tree, jobs)
    assert replay is not None
    # In the recorded order the third starts as soon as it fits: on the first day.
    assert starts_in_recorded_order(replay).tolist() == [0.0, 0.0, 12 * hour, 49 * hour]
    error = model_error(replay, 0)
    assert error.wait_s > 0 == error.model_wait_s
    assert not error.is_met
    late = replace(replay, jobs=jobs.chosen(np.array([0, 1, 3])))
    assert model_error(late, 0).is_met


def test_jobs_of_a_day_without_processors_start_on_the_next() -> None:
    """Although nothing ends and nothing is submitted at that moment."""
    hour = 3_600.0
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0]), np.ones(3))
    jobs = replace(jobs_of(1, 2), submit_s=np.array([1.0, 2.0]), n_days=2)
    replay = Replay.of(tree, jobs)
    assert replay is not None
    closed_first = replace(replay, cpus=np.array([[0, 2]]))
    settings = read_algorithm({"name": "aequus", "operator": "relative"})
    used = []
    for each in (replay, closed_first):
        deviations = each.deviations(Variant(settings, window_of({"aging": "none", "length_s": None})))
        used.append(np.isfinite(deviations).tolist())
    assert used == [[True, True], [False, True]]
    assert starts_in_recorded_order(closed_first).tolist() == [24 * hour, 24 * hour]


def test_a_sample_has_other_jobs_each_time_on_as_much_smaller_a_machine() -> None:
    tree, _ = FairshareTree.from_columns(np.array([-1, 0, 0]), np.ones(3))
    whole = Replay.of(tree, jobs_of(*[1, 2] * 60))
    assert whole is not None
    samples = [whole.sampled(3, number) for number in range(3)]
    submitted = sorted(at_s for each in samples for at_s in each.jobs.submit_s.tolist())
    assert submitted == whole.jobs.submit_s.tolist()
    assert {each.cpus.tolist()[0][0] for each in samples} == {round(whole.cpus[0, 0] / 3)}


def test_a_job_wider_than_the_machine_takes_all_of_it_for_longer() -> None:
    jobs = replace(jobs_of(1, 2), cpus=np.array([8, 1]), rate=np.array([8.0, 1.0]))
    there = narrowed(jobs, np.array([4]))
    assert there.cpus.tolist() == [4, 1]
    assert (there.run_s * there.rate).tolist() == (jobs.run_s * jobs.rate).tolist()
    assert (there.run_s * there.cpus).tolist() == (jobs.run_s * jobs.cpus).tolist()
