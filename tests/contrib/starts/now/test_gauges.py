"""Metrics of now: the numbers of the page, and none from which a single person's could be derived."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import QueueState
from apps.contrib.starts.now import listed_jobs
from apps.contrib.starts.now.gauges import core_samples
from apps.contrib.starts.now.level import Level, LevelRow
from apps.contrib.starts.now.listed_jobs import add_jobs, no_jobs
from apps.pages.monitoring.exposition import exposition
from tests.contrib.starts.now.conftest import waited_job
from tests.contrib.starts.now.test_listed_jobs import listed, queue_job  # noqa: F401 - fixture
from tests.instants import AT
from tests.small_site import Site, push

FIVE = 5


def samples(name: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(exposition().decode())
    return {
        tuple(value for label, value in sorted(each.labels.items()) if label != "policy"): each.value
        for family in families
        for each in family.samples
        if each.name == name
    }


@pytest.mark.django_db
def test_waits_of_a_group_with_jobs_of_five_accounts_are_metrics(site: Site) -> None:
    """Twelve jobs: two of each account, and two of the site that did not wait."""
    jobs = [
        waited_job(f"{user}{n}", f"user{user}", "physics", 60 * user, AT - timedelta(hours=n + 1))
        for user in range(1, 6)
        for n in range(2)
    ]
    jobs += [waited_job(f"c{n}", "carol", "biology", 5, AT - timedelta(hours=n + 1)) for n in range(9)]
    push(site, jobs)
    assert samples("fairshare_group_wait_seconds") == {("/physics", "0.5"): 150.0, ("/physics", "0.9"): 294.0}


@pytest.mark.django_db
def test_cores_of_a_group_of_few_users_are_no_metric(listed: Site, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Two users run in physics; and biology's single user waits."""
    assert samples("fairshare_group_cores") == {("/biology", "running"): 0.0}
    jobs = [queue_job(str(n), "running", f"user{n}", "physics", cpus=10.0) for n in range(FIVE)]
    monkeypatch.setattr(listed_jobs, "load_queue_state", lambda scheduler: QueueState(AT, jobs, has_running=True))
    assert samples("fairshare_group_cores") == {
        ("/biology", "running"): 0.0, ("/biology", "entitled"): 20.0, ("/biology", "waiting"): 0.0,
        ("/physics", "running"): 50.0, ("/physics", "entitled"): 30.0, ("/physics", "waiting"): 0.0,
    }  # fmt: skip


def _is_safe(cores: dict[str, float]) -> bool:
    amounts = [each for each in cores.values() if each > 0]
    return not amounts or (len(amounts) >= FIVE and max(amounts) <= 0.8 * sum(amounts))


@pytest.mark.parametrize("seed", range(200))
def test_no_sum_that_metrics_disclose_is_of_few_users(seed: int) -> None:
    """Known are the targets, each sample, and from one entitled number what runs in all rows: all differences of these
    are sums of rows, and each is tried.
    """
    rng = Random(seed)
    n_rows = rng.randrange(1, 5)
    targets = np.array([1.0 + rng.randrange(3) for _ in range(n_rows)])
    level = Level(
        0, [LevelRow("group", i, float(each)) for i, each in enumerate(targets / targets.sum())], *np.zeros((2, 1), int)
    )
    users = [f"u{n}" for n in range(rng.choice((1, 4, 8, 30)))]
    jobs, rows = [], []
    for n in range(rng.randrange(60)):
        jobs.append(queue_job(str(n), "running", rng.choice(users), cpus=rng.choice((1.0, 1.0, 2.0, 99.0))))
        rows.append(rng.randrange(n_rows))
    total = add_jobs(no_jobs(n_rows), QueueState(AT, jobs, has_running=True), np.array(rows), Scheduler.Kind.SLURM)
    shown: dict[tuple[int, str], float] = {
        (row, state): value for row, state, value in core_samples(level, total, list(range(n_rows)))
    }
    cores: list[dict[str, float]] = [{} for _ in range(n_rows)]
    for job, row in zip(jobs, rows, strict=True):
        cores[row][job.user] = cores[row].get(job.user, 0.0) + job.cpus
    running = {row for row, state in shown if state == "running"}
    for row in running:
        assert shown[row, "running"] == sum(cores[row].values())
        assert _is_safe(cores[row])
    if any(state == "entitled" for _row, state in shown):
        rest: dict[str, float] = {}
        for row in set(range(n_rows)) - running:
            for user, amount in cores[row].items():
                rest[user] = rest.get(user, 0.0) + amount
        assert _is_safe(rest)
    assert {state for _row, state in shown} <= {"running", "entitled", "waiting"}
