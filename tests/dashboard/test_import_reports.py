"""What a page says about a file: how far it is, what it brought, what to do when it can't be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.dashboard.import_reports import ImportReport, import_line, import_report, reasons, size
from apps.runs.models import Run
from apps.usage.models import Import, Source

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
COUNTS = {"new": 211904, "duplicate": 18220, "corrected": 412, "late": 9, "rejected": 37, "lines": 230582}


def make(state: str = "succeeded", *, dry: bool = False, **of_run: Any) -> Import:
    given = {"counts": COUNTS, "result": {"n_accounts": 214, "cpu_s": 2.31e6 * 3600}} | of_run
    run = Run(
        kind="usage_import",
        subject="source:sacct",
        state=state,
        due_at=NOW,
        created_at=NOW,
        started_at=NOW - timedelta(seconds=100),
        **given,
    )
    return Import(
        pk=1,
        source=Source(slug="sacct", name="sacct", namespace="n", created_at=NOW),
        run=run,
        format="swf",
        file_name="november.swf.gz",
        stored_path="1.gz",
        n_bytes=48_000_000,
        dry_run=dry,
        owner=User(username="eva"),
        first_start_at=datetime(2026, 11, 1, tzinfo=UTC),
        last_end_at=datetime(2026, 11, 30, tzinfo=UTC),
        created_at=NOW,
    )


def report(state: str = "succeeded", *, dry: bool = False, **of_run: Any) -> ImportReport:
    return import_report(make(state, dry=dry, **of_run), NOW)


def steps(found: ImportReport) -> list[tuple[str, str]]:
    return [(step.title, step.state) for step in found.steps]


def test_a_dry_run_says_what_would_count_and_asks() -> None:
    found = report(dry=True)
    assert found.heading == "211,904 new records, 37 lines can’t be read"
    assert found.text == (
        "1 November 2026 to 30 November 2026, 214 accounts, 2,310,000 core-hours. "
        "9 records are older than what is stored and change nothing."
    )
    assert [(kpi.label, kpi.value) for kpi in found.kpis] == [
        ("New", "211,904"),
        ("Already here", "18,220"),
        ("Corrected", "412"),
        ("Late", "9"),
        ("Rejected", "37"),
    ]
    assert found.can_confirm
    assert found.n_wanted == 212_316
    assert steps(found) == [("File", "done"), ("Dry run", "current"), ("Import", "later"), ("Result", "later")]


def test_a_real_import_says_what_was_added_and_asks_nothing() -> None:
    found = report(counts={"new": 188_041})
    assert found.heading == "188,041 records added"
    assert not found.can_confirm
    assert steps(found) == [("File", "done"), ("Import", "done"), ("Result", "current")]


@pytest.mark.parametrize(
    ("counts", "heading"),
    [
        ({"duplicate": 5}, "Every record is here already"),
        ({"duplicate": 5, "rejected": 1}, "Nothing new in this file"),
        ({}, "Nothing new in this file"),
        ({"new": 1, "rejected": 1}, "1 record added, 1 line can’t be read"),
    ],
)
def test_the_heading_follows_from_the_counts(counts: dict[str, int], heading: str) -> None:
    assert report(counts=counts).heading == heading


def test_a_dry_run_that_brings_nothing_can_not_be_confirmed() -> None:
    assert not report(dry=True, counts={"duplicate": 5}).can_confirm


def test_progress_is_told_in_percent_with_the_time_left() -> None:
    found = report("running", progress_done=25_000_000, progress_total=50_000_000, counts={"lines": 1000})
    assert found.is_unfinished
    assert found.progress is not None
    assert (found.progress.percent, found.progress.words, found.progress.bar) == (50, "50 % read", "320.0")
    assert found.progress.left == "about 1\u00a0min left"
    assert found.progress.rate == "10 a second"


def test_announcements_change_only_at_every_quarter() -> None:
    said = [report("running", progress_done=n, progress_total=100).announcement for n in range(0, 101, 5)]
    assert list(dict.fromkeys(said)) == ["0 % read", "25 % read", "50 % read", "75 % read", "100 % read"]


def test_an_unknown_size_is_no_percentage() -> None:
    found = report("running", progress_done=25, progress_total=None)
    assert found.progress is not None
    assert (found.progress.percent, found.progress.words) == (None, "Reading")


def test_a_waiting_import_says_for_what() -> None:
    found = report("queued", dry=True, counts={})
    assert found.heading == "Waiting for a worker"
    assert found.text == "Nothing is stored by a dry run."


@pytest.mark.parametrize(
    ("code", "heading", "advice"),
    [
        ("corrupt_gzip", "The compressed file is damaged", "Compare its size"),
        ("unknown_format", "The format isn’t recognised", "choose the format"),
        ("too_large", "The file is too large", "Split it"),
        ("something_new", "The import failed", "send the file again"),
    ],
)
def test_a_failure_says_what_to_do_next(code: str, heading: str, advice: str) -> None:
    found = report("failed", error_code=code, error="It ends after 18,220 lines.", counts={})
    assert found.heading == heading
    assert found.text == "It ends after 18,220 lines."
    assert advice in found.advice


def test_lists_tell_each_state_in_a_line() -> None:
    assert import_line(make(), NOW) == ("211,904 new, 37 rejected, by eva", "", "")
    assert import_line(make(dry=True), NOW)[1] == "dry run"
    assert import_line(make("failed", error_code="corrupt_gzip"), NOW) == (
        "The compressed file is damaged",
        "failed",
        "bad",
    )
    assert import_line(make("running", progress_done=1, progress_total=4), NOW) == ("25 % read", "running", "accent")


def test_reasons_are_in_words_most_frequent_first() -> None:
    assert reasons({"not_a_number": 3, "end_before_start": 24}) == "24 end before start, 3 not a number"


@pytest.mark.parametrize(
    ("n", "text"), [(1, "1 byte"), (999, "999 bytes"), (48_000_000, "48\u00a0MB"), (2_100_000_000, "2.1\u00a0GB")]
)
def test_sizes_are_read_at_a_glance(n: int, text: str) -> None:
    assert size(n) == text
