"""Usage in any unit equals a sum by hand, job by job, also after corrections and withdrawals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from apps.policies.tree.stored import load_tree
from apps.policies.units import CORE_HOUR, Unit
from apps.priorities.delivered_usage import load_delivered
from apps.usage.models import Record
from apps.usage.parsers.base import RecordRow
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db(transaction=True)  # what isn't committed is never remembered
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
N_JOBS = 1_000
USERS = (("alice", "physics"), ("bob", "physics"), ("carol", "biology"), ("nobody", "knows"))
UNITS = (
    CORE_HOUR,
    Unit("GPU-hour", "GPU-h", (("gpu_s", 1.0),), minimum_charge_s=900),
    Unit("Node-hour", "node-h", (("node_s", 1.0),)),
    Unit("Service unit", "SU", (("cpu_s", 0.5), ("gpu_s", 64.0), ("mem_gb_s", 0.125)), minimum_charge_s=3600),
    Unit(
        "Billing unit",
        "BU",
        (("billing", 1.0), ("gpu_s", 2.0)),
        class_factors=(
            (("queue", ""), ("partition", "fat"), ("qos", ""), ("factor", 2.0)),
            (("queue", ""), ("partition", ""), ("qos", "low"), ("factor", 0.25)),
        ),
        minimum_charge_s=60,
    ),
)


def random_job(draw: Random, number: int) -> RecordRow:
    """Whole seconds and resources of which a quantum of 2⁻¹⁰ s is a divisor, so that sums by hand are exact."""
    user, group = draw.choice(USERS)
    end_at = AS_OF - timedelta(seconds=draw.randrange(1, 80 * 86_400))
    ran = timedelta(
        seconds=draw.choice((1, 30, 59, 60, 899, 900, 901, 3_599, 3_600, 90_000, draw.randrange(1, 400_000)))
    )
    return RecordRow(
        job=str(number),
        user=user,
        group=group,
        submit_at=end_at - ran,
        start_at=end_at - ran,
        end_at=end_at,
        cpus=draw.choice((1, 4, 48)),
        gpus=draw.choice((0, 0, 1, 4, 0.5)),
        nodes=draw.choice((0, 1, 2)),
        mem_mb=draw.choice((0, 1_024, 256_000)),
        billing=draw.choice((0, 10, 3.5)),
        partition=draw.choice(("", "fat", "thin")),
        qos=draw.choice(("", "low")),
        is_charge=draw.random() < 0.05,
    )


def by_hand(jobs: list[RecordRow], unit: Unit, group: str) -> Fraction:
    """Unit-seconds of a group's jobs in the last 40 days.

    Usage counts in the hours that began since; what a short job is short of, in the hour in which it ended.
    """
    since = AS_OF - 40 * DAY
    total = Fraction(0)
    for job in jobs:
        assert job.start_at is not None
        assert job.end_at is not None
        if job.group != group:
            continue
        of_resource: dict[str, float | Fraction] = {
            "cpu_s": job.cpus,
            "gpu_s": job.gpus,
            "mem_gb_s": Fraction(job.mem_mb) / 1024,
            "node_s": job.nodes,
            "billing": job.billing,
        }
        factor = Fraction(1)
        for rule in unit.rules:
            if all(rule[name] in ("", getattr(job, name)) for name in ("queue", "partition", "qos")):
                factor *= Fraction(str(rule["factor"]))
        rate = factor * sum(
            (Fraction(weight) * Fraction(of_resource[name]) for name, weight in unit.weights), Fraction(0)
        )
        first_hour = since.replace(minute=0, second=0) + (HOUR if since.minute or since.second else timedelta(0))
        seconds = max(Fraction(0), Fraction((job.end_at - max(job.start_at, first_hour)).total_seconds()))
        ran_s = Fraction((job.end_at - job.start_at).total_seconds())
        if not job.is_charge and ran_s < unit.minimum_charge_s and job.end_at >= first_hour:
            seconds += unit.minimum_charge_s - ran_s
        total += rate * seconds
    return total


def assert_equal(site: Site, jobs: list[RecordRow]) -> None:
    site.policy.refresh_from_db()
    tree = load_tree(site.policy)
    groups = {name: tree.index_of_path(f"/{name}") for name in ("physics", "biology")}
    for unit in UNITS:
        edges = [AS_OF - 40 * DAY, AS_OF - 20 * DAY, AS_OF + HOUR]
        delivered = load_delivered(
            policy=site.policy, tree=tree, entries=[i for i in groups.values() if i is not None], edges=edges, unit=unit
        )
        for name, i in groups.items():
            assert i is not None
            assert delivered.between(i, edges[0], edges[-1]) == by_hand(jobs, unit, name), (unit.symbol, name)
        assert delivered.unmapped.sum() == by_hand(jobs, unit, "knows"), unit.symbol


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(1, 5))])
def test_delivered_usage_equals_a_sum_by_hand_in_each_unit(make_site: Callable[..., Site], seed: int) -> None:
    draw = Random(seed)
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    jobs = [random_job(draw, number) for number in range(N_JOBS)]
    site.jobs(jobs)
    assert_equal(site, jobs)
    changed: dict[str, Any]
    for number in draw.sample(range(N_JOBS), 200):
        changed = {"gpus": draw.choice((0, 2)), "revision": 1, "partition": draw.choice(("fat", "thin"))}
        if draw.random() < 0.3:
            changed["state"] = "withdrawn"
        jobs[number] = jobs[number]._replace(**changed)
    site.jobs([job for job in jobs if job.revision])
    assert_equal(site, [job for job in jobs if job.state != "withdrawn"])


def test_no_memory_holds_what_short_jobs_are_short_of(make_site: Callable[..., Site]) -> None:
    """Retention removes records, and changes no hour: what is of records is read each time."""
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    end_at = AS_OF - HOUR
    site.jobs([RecordRow(job="1", user="alice", group="physics", start_at=end_at - HOUR / 60, end_at=end_at, gpus=1)])
    site.policy.refresh_from_db()
    tree = load_tree(site.policy)
    i = tree.index_of_path("/physics")
    assert i is not None

    def delivered_s(unit: Unit) -> float:
        edges = [AS_OF - DAY, AS_OF]
        asked = load_delivered(policy=site.policy, tree=tree, entries=[i], edges=edges, unit=unit)
        return asked.between(i, *edges)

    with_minimum, without = UNITS[1], Unit("GPU-hour", "GPU-h", (("gpu_s", 1.0),))
    assert (delivered_s(with_minimum), delivered_s(without)) == (900, 60)
    Record.objects.all().delete()
    assert (delivered_s(with_minimum), delivered_s(without)) == (60, 60)
