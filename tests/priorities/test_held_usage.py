"""What open jobs hold in a unit equals a sum by hand, and is never in what was delivered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from random import Random

import pytest

from apps.policies.tree.stored import load_tree
from apps.policies.units import Unit
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.held_usage import Held, load_held
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.priorities.test_units_by_hand import UNITS
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)
USERS = (("alice", "physics"), ("bob", "physics"), ("carol", "biology"), ("nobody", "knows"))


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    return site


def held(site: Site, unit: Unit, path: str) -> Held:
    site.policy.refresh_from_db()
    tree = load_tree(site.policy)
    i = tree.index_of_path(path)
    assert i is not None
    return load_held(policy=site.policy, tree=tree, entries=[i], at=AS_OF, unit=unit)[i]


def open_job(draw: Random, number: int) -> RecordRow:
    user, group = draw.choice(USERS)
    is_running = draw.random() < 0.5
    begun = AS_OF - timedelta(seconds=draw.randrange(1, 200_000))
    return RecordRow(
        job=str(number),
        user=user,
        group=group,
        state="running" if is_running else "pending",
        submit_at=begun - HOUR,
        start_at=begun if is_running else None,
        end_at=None,
        cpus=draw.choice((1, 4, 48)),
        gpus=draw.choice((0, 0, 1, 4, 0.5)),
        nodes=draw.choice((0, 1, 2)),
        mem_mb=draw.choice((0, 1_024, 256_000)),
        billing=draw.choice((0, 10, 3.5)),
        partition=draw.choice(("", "fat", "thin")),
        qos=draw.choice(("", "low")),
        requested_s=draw.choice((None, 30, 600, 3_600, 86_400, 400_000)),
    )


def by_hand(jobs: list[RecordRow], unit: Unit, group: str) -> Held:
    total, n_jobs, n_unlimited = Fraction(0), 0, 0
    for job in jobs:
        if job.group != group:
            continue
        ran_s = 0 if job.start_at is None else int((AS_OF - job.start_at).total_seconds())
        if job.requested_s is not None:
            ran_s = min(ran_s, int(job.requested_s))  # no listing confirms that it ran longer than it may
        seconds = max(int(job.requested_s or 0), ran_s, unit.minimum_charge_s)
        of_resource = {
            "cpu_s": Fraction(job.cpus),
            "gpu_s": Fraction(job.gpus),
            "mem_gb_s": Fraction(job.mem_mb) / 1024,
            "node_s": Fraction(job.nodes),
            "billing": Fraction(job.billing),
        }
        factor = Fraction(1)
        for rule in unit.rules:
            if all(rule[name] in ("", getattr(job, name)) for name in ("queue", "partition", "qos")):
                factor *= Fraction(str(rule["factor"]))
        rate = factor * sum((Fraction(weight) * of_resource[name] for name, weight in unit.weights), Fraction(0))
        total += rate * seconds
        n_jobs += 1
        n_unlimited += job.requested_s is None
    return Held(float(total), n_jobs, n_unlimited)


def test_held_amounts_equal_a_sum_by_hand_in_each_unit(site: Site) -> None:
    draw = Random(7)
    jobs = [open_job(draw, number) for number in range(300)]
    ingest_batch(source=site.source, rows=jobs, at=AS_OF)
    for unit in UNITS:
        for group in ("physics", "biology"):
            own, expected = held(site, unit, f"/{group}"), by_hand(jobs, unit, group)
            assert (own.n_jobs, own.n_unlimited) == (expected.n_jobs, expected.n_unlimited)
            assert own.amount_s == expected.amount_s, (unit.symbol, group)


def test_a_job_that_has_ended_is_delivered_and_no_longer_held(site: Site) -> None:
    begun = AS_OF - 2 * HOUR
    job = RecordRow(
        job="1", user="alice", group="physics", state="running", submit_at=begun, start_at=begun, end_at=None, cpus=2
    )._replace(requested_s=4 * 3600)
    ingest_batch(source=site.source, rows=[job], at=AS_OF)
    assert held(site, UNITS[0], "/physics") == Held(2 * 4 * 3600, 1, 0)
    assert delivered_s(site) == 0
    site.jobs([job._replace(state="finished", end_at=AS_OF - HOUR, revision=1)])
    assert held(site, UNITS[0], "/physics") == Held(0, 0, 0)
    assert delivered_s(site) == 2 * 3600


def delivered_s(site: Site) -> float:
    tree = load_tree(site.policy)
    i = tree.index_of_path("/physics")
    assert i is not None
    edges = [AS_OF - 24 * HOUR, AS_OF]
    return load_delivered(policy=site.policy, tree=tree, entries=[i], edges=edges).between(i, *edges)


def test_nothing_is_held_without_open_jobs(site: Site) -> None:
    assert held(site, UNITS[0], "/physics") == Held(0, 0, 0)
