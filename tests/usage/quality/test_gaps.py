"""Days on which a source brought nothing though it should have."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND
from apps.usage.parsers.base import RecordRow
from apps.usage.quality.missing_days import list_gaps
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source

NOW = datetime(2026, 3, 11, 6, tzinfo=UTC)
ZONE = ZoneInfo("UTC")
FIRST, LAST = date(2026, 3, 1), date(2026, 3, 10)


def used_on(slug: str, days: list[int], every_s: int | None) -> None:
    source = make_source(NewSource(slug=slug, name=slug.title(), expected_every_s=every_s), at=NOW, actor=COMMAND)
    rows = [
        RecordRow(
            f"{day}",
            "alice",
            "physics",
            start_at=datetime(2026, 3, day, 9, tzinfo=UTC),
            end_at=datetime(2026, 3, day, 10, tzinfo=UTC),
            cpus=1.0,
        )
        for day in days
    ]
    ingest_batch(source=source, rows=rows, at=NOW)


def gaps() -> dict[date, tuple[str, ...]]:
    return list_gaps(from_on=FIRST, to_on=LAST, at=NOW, zone=ZONE, actor=COMMAND)


@pytest.mark.django_db
def test_whole_days_without_usage_are_missing_by_the_name_of_the_source() -> None:
    used_on("abisko", [2, 3, 6, 7, 8, 9, 10], every_s=3600)
    assert gaps() == {date(2026, 3, 4): ("Abisko",), date(2026, 3, 5): ("Abisko",)}


@pytest.mark.django_db
def test_nothing_is_missing_before_the_first_record_or_without_an_interval() -> None:
    used_on("abisko", [8, 9, 10], every_s=3600)
    used_on("kebne", [2, 10], every_s=None)
    assert gaps() == {}


@pytest.mark.django_db
def test_a_break_shorter_than_the_interval_is_no_gap() -> None:
    used_on("abisko", [2, 3, 6, 7, 10], every_s=int(timedelta(days=3).total_seconds()))
    assert gaps() == {}
