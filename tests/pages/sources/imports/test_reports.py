"""What a page says about a file: how far it is, what it brought, what to do when it can't be read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.pages.sources.imports.reports import ImportReport, import_line, import_report, reasons, size
from apps.runs.models import Run
from apps.usage.models import Import, Source

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
COUNTS = {"new": 211904, "duplicate": 18220, "corrected": 412, "late": 9, "rejected": 37, "lines": 230582}


def make(state: str = "succeeded", *, dry: bool = False, **of_run: Any) -> Import:
    given = {"counts": COUNTS, "result": {"n_accounts": 214, "cpu_s": 2.31e6 * 3600}} | of_run
    run = Run(
        pk=1,
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


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:,\d+)*", text)


def steps(found: ImportReport) -> list[tuple[str, str]]:
    assert all(step.title for step in found.steps)
    return [(step.key, step.state) for step in found.steps]


def test_a_dry_run_reports_what_would_count_and_asks_to_confirm() -> None:
    found = report(dry=True)
    assert found.key == "would_add_in_part"
    assert numbers(found.heading) == ["211,904", "37"]
    assert numbers(found.text) == ["1", "2026", "30", "2026", "214", "2,310,000", "9"]
    assert [day for day in ("1 November 2026", "30 November 2026") if day not in found.text] == []
    assert [(kpi.key, kpi.value) for kpi in found.kpis] == [
        ("new", "211,904"),
        ("duplicate", "18,220"),
        ("corrected", "412"),
        ("late", "9"),
        ("rejected", "37"),
    ]
    assert len({kpi.label for kpi in found.kpis}) == 5
    assert found.can_confirm
    assert found.n_wanted == 212_316
    assert steps(found) == [("file", "done"), ("dry", "current"), ("import", "later"), ("result", "later")]


def test_an_import_reports_what_was_added_without_a_question() -> None:
    found = report(counts={"new": 188_041})
    assert (found.key, numbers(found.heading)) == ("added", ["188,041"])
    assert not found.can_confirm
    assert steps(found) == [("file", "done"), ("import", "done"), ("result", "current")]


@pytest.mark.parametrize(
    ("counts", "key", "result"),
    [
        ({"duplicate": 5}, "all_here", []),
        ({"duplicate": 5, "rejected": 1}, "nothing_read", ["1"]),
        ({}, "nothing_new", []),
        ({"new": 1, "rejected": 1}, "added_in_part", ["1", "1"]),
        ({"new": 2}, "added", ["2"]),
    ],
)
def test_the_heading_depends_on_the_counts(counts: dict[str, int], key: str, result: list[str]) -> None:
    found = report(counts=counts)
    assert (found.key, numbers(found.heading)) == (key, result)


def test_singular_and_plural_of_records_differ() -> None:
    one, many = (report(counts={"new": n}).heading.replace(str(n), "") for n in (1, 2))
    assert one != many


def test_a_dry_run_without_records_cannot_be_confirmed() -> None:
    assert not report(dry=True, counts={"duplicate": 5}).can_confirm


def test_progress_has_percent_and_remaining_time() -> None:
    found = report("running", progress_done=25_000_000, progress_total=50_000_000, counts={"lines": 1000})
    assert found.is_unfinished
    assert found.progress is not None
    assert (found.progress.percent, found.progress.key, found.progress.bar) == (50, "percent", "320.0")
    assert numbers(found.progress.words) == ["50"]
    assert "1\u00a0min" in found.progress.left
    assert numbers(found.progress.rate) == ["10"]


def test_announcements_change_only_at_every_quarter() -> None:
    collected = [report("running", progress_done=n, progress_total=100).announcement for n in range(0, 101, 5)]
    assert [numbers(text) for text in dict.fromkeys(collected)] == [["0"], ["25"], ["50"], ["75"], ["100"]]


def test_an_unknown_size_has_no_percentage() -> None:
    found = report("running", progress_done=25, progress_total=None)
    assert found.progress is not None
    assert (found.progress.percent, found.progress.key) == (None, "reading")
    assert numbers(found.progress.words) == []


@pytest.mark.django_db
def test_a_waiting_import_names_the_reason() -> None:
    found = report("queued", dry=True, counts={})
    assert found.key == "waiting"
    assert found.progress is not None
    assert found.heading == found.progress.words
    assert found.text != report("queued", counts={}).text, "a real import stores what it reads"
    assert "It waits for a worker" in found.text
    assert found.waiting in import_line(make("queued"), NOW)[0]


@pytest.mark.parametrize(
    ("code", "key"),
    [
        ("corrupt_gzip", "failed.corrupt_gzip"),
        ("unknown_format", "failed.unknown_format"),
        ("too_large", "failed.too_large"),
        ("something_new", "failed"),
    ],
)
def test_a_failure_names_the_next_step(code: str, key: str) -> None:
    found = report("failed", error_code=code, error="It ends after 18,220 lines.", counts={})
    assert found.key == key
    assert found.text == "It ends after 18,220 lines."
    assert found.heading
    assert found.advice


def test_each_known_failure_has_its_own_heading_and_advice() -> None:
    found = [report("failed", error_code=code, counts={}) for code in ("corrupt_gzip", "unknown_format", "x")]
    assert len({each.heading for each in found}) == len({each.advice for each in found}) == 3


def test_lists_show_each_state_in_one_line() -> None:
    text, *plain = import_line(make(), NOW)
    assert (numbers(text), plain) == (["211,904", "37"], ["", ""])
    assert "eva" in text
    _text, badge, kind = import_line(make(dry=True), NOW)
    assert (bool(badge), kind) == (True, "")
    failed, running = make("failed", error_code="corrupt_gzip"), make("running", progress_done=1, progress_total=4)
    text, badge, kind = import_line(failed, NOW)
    assert (text, bool(badge), kind) == (import_report(failed, NOW).heading, True, "bad")
    text, badge, kind = import_line(running, NOW)
    assert (numbers(text), bool(badge), kind) == (["25"], True, "accent")


def test_reasons_are_sentences_with_the_most_frequent_first() -> None:
    assert reasons({"not_a_number": 3, "end_before_start": 24}) == "24 end before start, 3 not a number"


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (9_940, "9.9\u00a0kB"),
        (9_960, "10\u00a0kB"),
        (999_600, "1.0\u00a0MB"),
        (48_000_000, "48\u00a0MB"),
        (999_600_000, "1.0\u00a0GB"),
        (2_100_000_000, "2.1\u00a0GB"),
    ],
)
def test_sizes_have_readable_units(n: int, text: str) -> None:
    assert size(n) == text
