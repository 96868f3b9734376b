from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from apps.accounts.actor import COMMAND
from apps.series.storage_growth import Holding, list_holdings, shown_size, total
from apps.usage.models import Bucket, Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.instants import AT

DAY = timedelta(days=1)


def holding(name: str) -> Holding:
    return next(one for one in list_holdings(at=AT) if one.name == name)


@pytest.fixture
def filled(db: None) -> None:
    """Ten days with twenty jobs a day, an hour each, in an hour of their own each day."""
    source = make_source(NewSource(slug="cluster", name="The cluster"), at=AT, actor=COMMAND)
    rows = [
        RecordRow(f"{day}-{n}", "alice", start_at=AT - (day + 1) * DAY, end_at=AT - (day + 1) * DAY + DAY / 48, cpus=1)
        for day in range(10)
        for n in range(20)
    ]
    ingest_batch(source=source, rows=rows, at=AT)


@pytest.mark.usefixtures("filled")
def test_storage_of_a_year_follows_from_recent_growth() -> None:
    records, buckets = holding("usage records"), holding("usage buckets")
    assert (records.n_rows, records.n_rows_in_a_year) == (200, 200 + 20 * 365)
    assert (buckets.n_rows, buckets.n_rows_in_a_year) == (Bucket.objects.count(), 10 + 365)
    per_row = records.n_bytes / records.n_rows
    assert records.bytes_in_a_year == pytest.approx(per_row * (200 + 20 * 365), abs=1)


@pytest.mark.usefixtures("filled")
def test_deleted_records_do_not_add_to_growth(settings: Any) -> None:
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 90
    assert holding("usage records").n_rows_in_a_year == 20 * 90
    assert holding("usage buckets").n_rows_in_a_year == 10 + 365


@pytest.mark.usefixtures("filled")
def test_growth_is_that_of_when_jobs_ran_although_all_arrived_today() -> None:
    """Ninety days more, in one import: the rate stays that of a day."""
    rows = [
        RecordRow(f"old-{day}-{n}", "alice", start_at=AT - day * DAY, end_at=AT - day * DAY + DAY / 48, cpus=1)
        for day in range(11, 101)
        for n in range(20)
    ]
    ingest_batch(source=Source.objects.get(), rows=rows, at=AT)
    records = holding("usage records")
    assert (records.n_rows, records.n_rows_in_a_year) == (2_000, 2_000 + 20 * 365)


@pytest.mark.django_db
def test_the_first_day_of_a_site_is_not_repeated_all_year() -> None:
    for number in range(70):
        make_source(NewSource(slug=f"cluster-{number}", name="A cluster"), at=AT, actor=COMMAND)
    audit = holding("audit log")
    assert audit.n_rows_in_a_year == audit.n_rows + round(audit.n_rows / 7 * 365)


@pytest.mark.django_db
def test_an_empty_site_does_not_grow() -> None:
    for one in list_holdings(at=AT):
        assert (one.bytes_in_a_year, one.n_rows_in_a_year) == (one.n_bytes, 0)


@pytest.mark.usefixtures("filled")
def test_the_command_prints_a_line_per_table_and_the_sum() -> None:
    out = StringIO()
    call_command("storage", "--json", stdout=out)
    body = json.loads(out.getvalue())
    assert {one["name"] for one in body["holdings"]} == {
        *("usage records", "usage buckets", "snapshots", "daily series", "audit log", "rest", "files"),
    }
    assert body["bytes"] == sum(one["n_bytes"] for one in body["holdings"])
    assert body["bytes_in_a_year"] == total([Holding(**one) for one in body["holdings"]])[1]
    out = StringIO()
    call_command("storage", stdout=out)
    lines = out.getvalue().splitlines()
    assert len(lines) == len(body["holdings"]) + 2
    assert f"{Record.objects.count():,}" in out.getvalue()
    assert lines[-1].startswith("together")


def test_sizes_are_in_the_largest_unit_that_leaves_a_whole_number() -> None:
    sizes = {0: "0 B", 999: "999 B", 1000: "1.0 kB", 99_949: "99.9 kB", 100_000: "100 kB", 999_000: "999 kB"}
    sizes |= {1_000_000: "1.0 MB", 12_340_000_000: "12.3 GB", 5_000_000_000_000: "5.0 TB", 10**16: "10000.0 TB"}
    sizes |= {99_960: "100 kB", 999_499: "999 kB", 999_600: "1.0 MB", 999_999_999: "1.0 GB"}
    assert {n_bytes: shown_size(n_bytes) for n_bytes in sizes} == sizes
