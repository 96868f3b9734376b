"""Jobs and trees of the advisor's replays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from apps.accounts.actor import SYSTEM
from apps.contrib.lab.advisor.measuring import measure_policy
from apps.contrib.lab.advisor.replay import Jobs, Replay
from apps.engine.algorithms.inputs import prepare
from apps.engine.tree import FairshareTree
from apps.priorities.selectors.rows import open_view
from tests.contrib.lab.advisor.site import SETTINGS, site_with_history
from tests.priority_site import AS_OF, PROJECTS, Site


def jobs_of(*entries: int) -> Jobs:
    n = len(entries)
    ones, entry = np.ones(n, np.float64), np.array(entries, dtype=np.int64)
    submit_s = np.arange(n, dtype=np.float64) * 600.0
    return Jobs(submit_s, 3600.0 * ones, -ones, np.ones(n, dtype=np.int64), entry, 1)


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
