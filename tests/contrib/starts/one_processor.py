"""Ninety jobs of an hour for one processor, and the reports of an agent that lists them."""

from __future__ import annotations

from random import Random

from django.db import transaction

from apps.contrib.schedulers.models import Scheduler
from tests.contrib.starts.queues import Reports, TrueJob, listing
from tests.instants import AT
from tests.small_site import Site

NAME = "reported"
N_JOBS = 90
REPORTED = 3_600  # minutes that are reported before a test begins
_EVERY = 40  # minutes between reports


def one_processor(seed: int = 5) -> list[TrueJob]:
    """In the order in which they come."""
    rng, jobs, at, free = Random(seed), [], 0.0, 0.0
    for number in range(1, N_JOBS + 1):
        at += rng.expovariate(1 / 55)
        start = max(at, free)
        free = start + 60
        jobs.append(TrueJob(str(number), at, start, free, user=f"u{number % 4}", cpus=1.0))
    return jobs


def report_until(agent: Reports, jobs: list[TrueJob], minute: float, *, after: float = 0.0) -> None:
    at = after
    while (at := at + _EVERY) <= minute:
        agent.take(listing(jobs, at))


def report_queue(site: Site) -> None:
    """The queue of a new scheduler, until REPORTED."""
    scheduler = Scheduler.objects.create(
        name=NAME, policy=site.policy, kind="slurm", knob="sitefactor", mode="on", created_at=AT, changed_at=AT
    )
    with transaction.atomic():
        report_until(Reports(scheduler), one_processor(), REPORTED)


def reporting_agent() -> Reports:
    """The agent that has reported it, for its next report."""
    agent = Reports(Scheduler.objects.get(name=NAME))
    agent.before = listing(one_processor(), REPORTED)
    return agent
