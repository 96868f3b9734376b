"""A job that qstat listed while it ran, and that the accounting file reports at its end, counts once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db.models import Sum

from apps.usage.models import Bucket, Record, Source
from apps.usage.parsers.gridengine import GridEngine
from apps.usage.parsers.gridengine_queue import GridEngineQueue
from apps.usage.records.ingest import ingest_batch
from apps.usage.sources.open_listings import ingest_listing
from tests.usage.parsers.reading import read
from tests.usage.parsers.test_gridengine import START, line
from tests.usage.parsers.test_gridengine_queue import listing, pending, running

pytestmark = pytest.mark.django_db
ZONE = ZoneInfo("Europe/Stockholm")


def listed(source: Source, *jobs: str, minutes: float) -> None:
    at = datetime.fromtimestamp(START, UTC) + timedelta(minutes=minutes)
    pieces = read(GridEngineQueue(), listing(*jobs), zone=ZONE, at=at).pieces
    ingest_listing(source, pieces[0].batch if pieces else [], at)


def local(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, ZONE).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize("vanishes_first", [False, True])
def test_a_job_counts_once_from_waiting_to_its_accounting_line(source: Source, vanishes_first: bool) -> None:
    waits = pending(JB_job_number="101", JB_owner="ada", JB_submission_time=local(START - 60), slots="4")
    runs = running(JB_job_number="101", JAT_start_time=local(START), slots="4")
    listed(source, waits, minutes=-0.5)
    listed(source, runs, minutes=5)
    listed(source, runs, minutes=50)
    states = {record.state for record in Record.objects.all()}
    assert states == {"withdrawn", "running"}
    assert not Bucket.objects.exists()
    if vanishes_first:
        listed(source, minutes=70)
        assert Bucket.objects.aggregate(total=Sum("cpu_s"))["total"] == 4 * 50 * 60

    at = datetime.fromtimestamp(START, UTC) + timedelta(hours=2)
    ingest_batch(source=source, rows=read(GridEngine(), line()).pieces[0].batch, at=at)
    listed(source, minutes=130)
    assert Bucket.objects.aggregate(total=Sum("cpu_s"))["total"] == 4 * 3600
    assert sorted(Record.objects.values_list("state", flat=True)) == ["finished", "withdrawn"]
