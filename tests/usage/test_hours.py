"""Local times into hours: where clocks change, and where February has 29 days. Each job has one processor."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.actor import COMMAND
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, Source
from apps.usage.services import NewImport, start_import
from tests.instants import AT

ZONE = "Europe/Stockholm"

pytestmark = pytest.mark.django_db(transaction=True)


def of_json(start: str, end: str) -> tuple[str, str]:
    return "ndjson", f'{{"job": "1", "user": "ada", "start": "{start}", "end": "{end}", "cpus": 1}}\n'


def of_usage_record(start: str, end: str) -> tuple[str, str]:
    return "ogf-ur", (
        '<JobUsageRecord><RecordIdentity recordId="1"/><UserIdentity><LocalUserId>ada</LocalUserId></UserIdentity>'
        f"<StartTime>{start}</StartTime><EndTime>{end}</EndTime><Processors>1</Processors></JobUsageRecord>"
    )


def of_sacct(start: str, end: str) -> tuple[str, str]:
    return "sacct", f"JobIDRaw|User|Submit|Start|End|State|AllocCPUS\n1|ada|{start}|{start}|{end}|COMPLETED|1\n"


def of_pbs(start: str, end: str) -> tuple[str, str]:
    """Where no field has the end, the local time in front of the line does."""
    epoch = int(datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(ZONE)).timestamp())
    head = f"{datetime.fromisoformat(end):%m/%d/%Y %H:%M:%S}"
    return "pbs", f"{head};E;1.pbs;user=ada ctime={epoch} start={epoch} Resource_List.ncpus=1\n"


FORMATS = (of_json, of_usage_record, of_sacct, of_pbs)

NIGHTS = (
    # clocks go back at 03:00: the hour from 02:00 is gone through twice
    ("2026-10-25T01:30:00", "2026-10-25T03:30:00", "2026-10-24T23:00", [1800, 3600, 3600, 1800]),
    # clocks go forward at 02:00: the hour from 02:00 doesn't exist
    ("2026-03-29T01:30:00", "2026-03-29T03:30:00", "2026-03-29T00:00", [1800, 1800]),
    # an end in the hour that comes twice is in its first pass
    ("2026-10-25T01:30:00", "2026-10-25T02:15:00", "2026-10-24T23:00", [1800, 900]),
    # a leap day is one
    ("2024-02-28T23:30:00", "2024-03-01T00:30:00", "2024-02-28T22:00", [1800, *[3600] * 24, 1800]),
    # the end of a year in UTC is not that of the zone
    ("2025-12-31T23:30:00", "2026-01-01T00:30:00", "2025-12-31T22:00", [1800, 1800]),
)


def import_text(format_name: str, text: str) -> None:
    made = start_import(
        NewImport(
            source_slug="cluster", format=format_name, file=io.BytesIO(text.encode()), file_name="x", time_zone=ZONE
        ),
        at=AT,
        actor=COMMAND,
    )
    run = work_run_now(made.run_id)
    assert (run.state, run.counts["new"], run.counts["rejected"]) == ("succeeded", 1, 0), run.error


@pytest.mark.parametrize("made", FORMATS, ids=lambda made: made.__name__)
@pytest.mark.parametrize(("start", "end", "first", "seconds"), NIGHTS, ids=lambda value: str(value)[:16])
def test_each_hour_gets_its_seconds(
    source: Source, made: Callable[[str, str], tuple[str, str]], start: str, end: str, first: str, seconds: list[int]
) -> None:
    import_text(*made(start, end))
    hour_at = datetime.fromisoformat(first).replace(tzinfo=UTC)
    expected = [(hour_at + timedelta(hours=n), float(each)) for n, each in enumerate(seconds)]
    assert list(Bucket.objects.order_by("hour_at").values_list("hour_at", "cpu_s")) == expected
