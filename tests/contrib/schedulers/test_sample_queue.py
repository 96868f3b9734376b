"""The sample's queue has a history: jobs wait, run and end, and each report lists what is so at its instant."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from itertools import pairwise

from apps.contrib.schedulers.running_table import read_running
from apps.contrib.schedulers.sample_queue import FIRST_NUMBER, SampleJob, queue_state_at, sample_jobs, waiting_at
from tests.instants import AT

HOUR = timedelta(hours=1)
NAMES = [("kim", "climate"), ("kim", "ocean"), ("ada", "climate"), ("bob", "physics")]
SINCE = AT - 72 * HOUR
INSTANTS = [AT - n * HOUR for n in range(72, -1, -1)]


def jobs() -> list[SampleJob]:
    return sample_jobs(random.Random(1), NAMES, NAMES[2:], SINCE, AT)


def test_at_each_instant_as_many_jobs_wait_and_those_of_the_names_at_the_last() -> None:
    assert {len(waiting_at(jobs(), at)) for at in INSTANTS} == {len(NAMES)}
    last = waiting_at(jobs(), AT)
    assert [job.name for job in last] == NAMES
    assert [job.number for job in last] == [FIRST_NUMBER + n for n in range(len(NAMES))]


def test_jobs_are_numbered_in_the_order_of_their_submission() -> None:
    earlier = [job for job in jobs() if job.number < FIRST_NUMBER]
    assert len(earlier) > 20
    assert all(one.number < other.number and one.submit_at <= other.submit_at for one, other in pairwise(earlier))
    assert len({job.number for job in jobs()}) == len(jobs())


def test_a_job_that_waits_in_one_report_waits_runs_or_has_ended_in_the_next() -> None:
    for before_at, at in pairwise(INSTANTS):
        document = queue_state_at(jobs(), before_at, at)
        table = read_running(document)
        known = {str(job.number) for job in waiting_at(jobs(), at)} | set(table.job) | set(table.ended_job)
        assert {str(job.number) for job in waiting_at(jobs(), before_at)} <= known
        used = Counter[str]()
        for shape in document["running"]:
            used[shape["partition"]] += shape["cpus"] * len(shape["jobs"])
        for partition in document["partitions"]:
            assert partition["cpus"] - partition["cpus_free"] == used[partition["name"]]
