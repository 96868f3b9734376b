"""The sample goes on with the clock: the same jobs by the hour, after a week off, by two workers and after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from threading import Barrier, Thread

import pytest
from django.db import connection
from django.test import override_settings

from apps.accounts.actor import COMMAND
from apps.cli.sample.grid import NAMESPACE, SITES, Grid
from apps.cli.sample.jobs import SampleJob, jobs, later_jobs
from apps.cli.sample.living import Progress, continue_sample, source_slug
from apps.usage.models import Bucket, Record, Source
from apps.usage.services import NewSource, make_source
from apps.usage.timeliness import Timeliness, timeliness
from tests.instants import AT
from tests.killed_process import work_until_killed

HOUR = timedelta(hours=1)
WEEK_OFF = AT + timedelta(days=9)
DAYS_OFF = pytest.mark.parametrize("until", [AT + timedelta(days=2), pytest.param(WEEK_OFF, marks=pytest.mark.deep)])
LIVING = [site for site in SITES if not site.silent_h]


def by_hour(until: datetime) -> Iterator[datetime]:
    at = AT
    while at < until:
        at = min(until, (at + HOUR).replace(minute=0, second=0, microsecond=0))
        yield at


@DAYS_OFF
def test_jobs_are_the_same_by_the_hour_and_at_once(until: datetime) -> None:
    at_once = {job.number: job for job in later_jobs(Grid(), loaded_at=AT, after=AT, until=until)}
    known: dict[int, SampleJob] = {}
    after = AT
    for hour_at in by_hour(until):
        known |= {job.number: job for job in later_jobs(Grid(), loaded_at=AT, after=after, until=hour_at)}
        after = hour_at
    assert known == at_once
    assert len(at_once) > (until - AT).days * 200


def test_jobs_that_ran_at_the_start_end() -> None:
    silent = {site.slug for site in SITES if site.silent_h}
    running = {job.number for job in jobs(Grid(), end_at=AT) if job.end_at is None and job.site not in silent}
    later = {job.number: job for job in later_jobs(Grid(), loaded_at=AT, after=AT, until=WEEK_OFF)}
    assert running
    assert running <= later.keys()
    assert all(AT < (later[number].end_at or AT) <= WEEK_OFF for number in running)


def make_sources() -> None:
    for site in LIVING:
        new = NewSource(
            slug=source_slug(site),
            name=site.name,
            namespace=NAMESPACE,
            site=site.slug,
            cluster=site.slug,
            expected_every_s=6 * 3600,
            is_sample=True,
        )
        source = make_source(new, at=AT, actor=COMMAND)
        Source.objects.filter(pk=source.pk).update(cursor=Progress(AT, AT).cursor)


def stored() -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """All records and hourly sums, without what depends on the time of their arrival."""
    records = Record.objects.values_list("source__slug", "job", "state", "start_at", "end_at", "cpus")
    sums = Bucket.objects.values_list("source__slug", "account__user_name", "hour_at", "cpu_s", "jobs")
    return sorted(records, key=str), sorted(sums, key=str)


@pytest.fixture
def empty_sources(db: None) -> None:
    make_sources()


@DAYS_OFF
def test_days_off_are_caught_up_to_equal_numbers(empty_sources: None, until: datetime) -> None:
    n_hours = (until - AT) // HOUR
    for at in by_hour(AT + n_hours // 7 * HOUR):
        continue_sample(at=at)
    for step in range(n_hours // 7, n_hours, 13):
        continue_sample(at=AT + step * HOUR)
    continue_sample(at=until)
    often = stored()
    assert {job[0] for job in often[0]} == {source_slug(site) for site in LIVING}
    assert continue_sample(at=until) == 0, "there is nothing more"
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM usage_record; DELETE FROM usage_bucket")
    Source.objects.update(cursor=Progress(AT, AT).cursor, last_submit_at=None, last_record_end_at=None, n_records=0)
    assert continue_sample(at=until) >= len(often[0]), "and ends of jobs that ran between two steps"
    assert stored() == often


def test_production_and_sources_of_ones_own_are_left_alone(empty_sources: None) -> None:
    with override_settings(PRODUCTION=True):
        assert continue_sample(at=WEEK_OFF) == 0
    changed, paused, archived, own, living = Source.objects.order_by("slug")
    for source, change in (
        (changed, {"namespace": "hpc"}),
        (paused, {"is_paused": True}),
        (archived, {"archived_at": AT}),
        (own, {"is_sample": False}),
    ):
        Source.objects.filter(pk=source.pk).update(**change)
    assert continue_sample(at=WEEK_OFF) > 0
    assert set(Record.objects.values_list("source_id", flat=True)) == {living.pk}
    Source.all_objects.update(namespace=NAMESPACE, is_sample=True)
    continue_sample(at=WEEK_OFF + 3 * HOUR)
    assert set(Record.objects.values_list("source_id", flat=True)) == {living.pk}, "a changed source stays the user's"


@pytest.mark.django_db(transaction=True)
def test_two_workers_and_a_kill_between_count_each_job_once() -> None:
    make_sources()
    work_until_killed(lambda: continue_sample(at=WEEK_OFF), fault="sample_continued:kill:4")
    gate, counts = Barrier(2), []

    def work() -> None:
        try:
            gate.wait()
            counts.append(continue_sample(at=WEEK_OFF))
        finally:
            connection.close()

    before = Record.objects.count()
    workers = [Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expected = list(later_jobs(Grid(), loaded_at=AT, after=AT, until=WEEK_OFF))
    assert 0 < before < Record.objects.count() == len(expected)
    finished = {(str(job.number), job.end_at) for job in expected if job.end_at}
    assert set(Record.objects.filter(state="finished").values_list("job", "end_at")) == finished
    assert len(counts) == 2


@pytest.mark.django_db
def test_the_loaded_sample_goes_on_and_only_one_source_stays_late(sample_grid: None) -> None:
    before = Record.objects.count()
    later = AT + timedelta(hours=25)
    assert continue_sample(at=later) > 200
    assert Record.objects.count() > before
    late = {source.site for source in Source.objects.all() if timeliness(source, later) is not Timeliness.ON_TIME}
    assert late & {site.slug for site in SITES} == {site.slug for site in SITES if site.silent_h}
