"""Running jobs count as long as they may run, or are listed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, SYSTEM
from apps.usage.arrays import load_open_records
from apps.usage.models import Record, Source
from apps.usage.open_jobs import LONGEST_RUN_S, known_until_s
from apps.usage.parsers.base import RecordRow
from apps.usage.quality.findings import count_overrun
from apps.usage.records.ingest import ingest_batch
from apps.usage.sources.open_listings import close_silent_jobs, ingest_listing
from apps.usage.sources.services import change_source, tag_of
from tests.instants import AT

pytestmark = pytest.mark.django_db
START = AT - timedelta(days=60)
DAY_S = 86_400


def running(job: str = "1", requested_s: float | None = 3600.0, **given: Any) -> RecordRow:
    values = {"user": "ada", "state": "running", "submit_at": START, "start_at": START, "cpus": 4.0, **given}
    return RecordRow(job=job, requested_s=requested_s, **values)


def until(source: Source) -> list[datetime]:
    records = load_open_records(sources=[source.pk])
    assert records.known_until_epoch is not None
    assert [known_until_s(each) for each in Record.objects.order_by("job")] == sorted(records.known_until_epoch)
    return [datetime.fromtimestamp(each, AT.tzinfo) for each in sorted(records.known_until_epoch)]


def test_a_job_of_a_log_counts_for_the_time_that_it_asked_for(source: Source) -> None:
    ingest_batch(source=source, rows=[running("1"), running("2", requested_s=2 * 3600.0)], at=AT)
    assert until(source) == [START + timedelta(hours=1), START + timedelta(hours=2)]
    assert count_overrun(at=AT, actor=SYSTEM) == {source.slug: 2}


def test_a_job_that_asked_for_no_time_counts_for_the_longest_run_of_its_source(source: Source) -> None:
    ingest_batch(source=source, rows=[running(requested_s=None)], at=AT)
    assert until(source) == [START + timedelta(seconds=LONGEST_RUN_S)]
    Source.objects.update(longest_run_s=DAY_S)
    assert until(source) == [START + timedelta(days=1)]


def test_another_longest_run_of_a_source_moves_its_watermark(source: Source) -> None:
    """Snapshots and feeds are made of what runs, and have nothing else to see it by."""
    ingest_batch(source=source, rows=[running(requested_s=None)], at=AT)
    source.refresh_from_db()
    before = source.watermark
    changed = change_source(
        slug=source.slug, tag=tag_of(source), new_settings={"longest_run_s": DAY_S}, at=AT, actor=COMMAND
    )
    assert (until(source), changed.watermark) == ([START + timedelta(days=1)], before + 1)
    same = change_source(slug=source.slug, tag=tag_of(changed), new_settings={"name": "x"}, at=AT, actor=COMMAND)
    assert same.watermark == before + 1


def test_a_listed_job_counts_until_the_last_listing(source: Source) -> None:
    ingest_batch(source=source, rows=[running()], at=AT - timedelta(days=1))
    before = Source.objects.get(pk=source.pk).watermark
    ingest_listing(source, [running()], AT)
    assert until(source) == [AT]
    assert count_overrun(at=AT + timedelta(hours=1), actor=SYSTEM) == {}
    assert Source.objects.get(pk=source.pk).watermark > before  # more of it counts


def test_a_listing_without_a_job_of_a_log_closes_it_when_its_time_was_over(source: Source) -> None:
    ingest_batch(source=source, rows=[running()], at=AT - timedelta(days=1))  # the log was imported 59 days later
    ingest_listing(source, [], AT)
    closed = Record.objects.get()
    assert (closed.state, closed.note, closed.end_at) == ("finished", "vanished", START + timedelta(hours=1))


def test_jobs_of_a_silent_source_are_closed_when_their_time_was_over(source: Source, settings: Any) -> None:
    settings.FAIRSHARE_CLOSE_OPEN_DAYS = 10
    ingest_batch(source=source, rows=[running()], at=AT - timedelta(days=20))
    assert close_silent_jobs(at=AT) == 1
    assert Record.objects.get().end_at == START + timedelta(hours=1)
