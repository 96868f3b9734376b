"""A file on its way through a real browser: dropped or chosen, dry run, live progress, decision, result."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import LazySettings
from playwright.sync_api import Page, expect

from apps.core import clock
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import, Record, Source
from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import Grid

HEADER = "; UnixStartTime: 1700000000\n"
SEND = "#upload button[type=submit]"
TAKE = "section[aria-labelledby=decide] button[name=take]"
POLL_MS = 2000  # the longest interval of an import's pages


@pytest.fixture
def log(tmp_path: Path) -> Path:
    jobs = "".join(f"{n} {n * 10} 0 600 8 -1 -1 8 3600 -1 1 1 1 -1 1 -1 -1 -1\n" for n in range(1, 201))
    bad = "".join(f"{n} cut off\n" for n in range(201, 241))
    path = tmp_path / "november.swf"
    path.write_text(HEADER + jobs + bad)
    return path


def work() -> None:
    """What a worker does when the bell rings."""
    work_run_now(Import.objects.latest("pk").run_id)


def expect_result(page: Page, key: str, *numbers: str) -> None:
    """The page's sentence about the file, and its numbers."""
    expect(page.locator("#verdict")).to_have_attribute("data-key", key)
    for number in numbers:
        expect(page.locator("#verdict")).to_have_text(re.compile(rf"\b{number}\b"))


def choose(page: Page, log: Path) -> None:
    page.set_input_files("#id_file", log)
    page.select_option("#id_source", "+")
    page.fill("#id_new_source", "Abisko log")


@pytest.mark.deep
def test_a_dry_run_is_confirmed_and_imported_with_live_progress(grid: Grid, visit: Open, log: Path) -> None:
    window = visit(is_kept=False)
    window.sign_in("admin")
    window.page.clock.install()
    page = window.go("/usage/sources/")
    page.click("main a[href='/usage/import/']")
    expect(page.locator("#id_new_source")).to_be_hidden()
    choose(page, log)
    expect(page.locator("#chosen")).to_contain_text("kB")
    page.click(SEND)
    expect_result(page, "waiting")
    work()
    expect_result(page, "would_add_in_part", "200", "40")
    expect(page.locator("#status")).to_have_text(re.compile(r"\b200\b.*\b40\b"))
    expect(page.locator("[data-poll]")).to_have_count(0)
    expect(page.locator("[data-pause]")).to_be_hidden()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator("#next-rejected").click()
    expect(page.locator("#rejected tbody tr")).to_have_count(15)
    page.clock.run_for(3 * POLL_MS)
    assert [url for url in asked if "_progress" in url] == []

    assert "200" in page.inner_text(TAKE)
    page.click(TAKE)
    expect_result(page, "waiting")
    work()
    expect_result(page, "added_in_part", "200", "40")
    records = Record.objects.filter(source__slug="abisko-log")
    assert records.count() == 200
    window.go("/usage/sources/abisko-log/")
    expect(page.locator("main")).to_contain_text("200")


@pytest.mark.deep
def test_imports_work_without_scripts(grid: Grid, visit: Open, log: Path) -> None:
    window = visit(scripts=False)
    window.sign_in("admin")
    page = window.go("/usage/import/")
    choose(page, log)
    page.click(SEND)
    expect_result(page, "waiting")
    work()
    page.click("noscript a")
    expect_result(page, "would_add_in_part", "200", "40")
    page.click("#next-rejected")
    expect(page.locator("#rejected tbody tr")).to_have_count(15)
    page.click(TAKE)
    work()
    page.click("noscript a")
    expect_result(page, "added_in_part", "200", "40")


def test_a_file_can_be_dropped(grid: Grid, visit: Open) -> None:
    window = visit()
    window.sign_in("admin")
    page = window.go("/usage/import/")
    transfer = page.evaluate_handle(
        "text => { const d = new DataTransfer(); d.items.add(new File([text], 'dropped.swf')); return d; }", HEADER
    )
    page.dispatch_event("[data-drop]", "drop", {"dataTransfer": transfer})
    expect(page.locator("#status")).to_contain_text("dropped.swf")
    assert page.evaluate("document.getElementById('id_file').files[0].name") == "dropped.swf"


def test_a_too_large_file_is_not_uploaded(grid: Grid, visit: Open, log: Path, settings: LazySettings) -> None:
    settings.FAIRSHARE_UPLOAD_BYTES = 100
    window = visit()
    window.sign_in("admin")
    page = window.go("/usage/import/")
    choose(page, log)
    expect(page.locator("[data-too-large]")).to_be_visible()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.click(SEND)
    expect(page.locator("[data-too-large]")).to_be_visible()
    assert "POST" not in sent


def test_a_broken_file_is_reported_at_the_field_and_other_input_kept(grid: Grid, visit: Open, tmp_path: Path) -> None:
    broken = tmp_path / "broken.swf.gz"
    broken.write_bytes(b"\x1f\x8bnot really")
    window = visit()
    window.sign_in("admin")
    page = window.go("/usage/import/")
    choose(page, broken)
    page.fill("#id_time_zone", "Europe/Stockholm")
    page.click(SEND)
    expect(page.locator("#id_file_error")).to_have_text(re.compile(r"\d"))  # at which byte
    expect(page.locator("#id_new_source")).to_have_value("Abisko log")
    expect(page.locator("#id_time_zone")).to_have_value("Europe/Stockholm")
    expect(page.locator("#id_file")).to_be_focused()
    assert page.evaluate("document.getElementById('id_file').files[0].name") == "broken.swf.gz"
    expect(page.locator("#chosen")).to_contain_text("12")


def running(done: int) -> Import:
    """An import in the middle of its work, as a worker writes it."""
    found = Import.objects.latest("pk")
    Run.objects.filter(pk=found.run_id).update(
        state=Run.State.RUNNING,
        started_at=clock.now() - timedelta(seconds=60),
        lease_until=clock.now() + timedelta(hours=1),
        progress_done=done,
        progress_total=100,
        counts={"new": done, "lines": done},
    )
    return found


@pytest.mark.deep
def test_progress_is_announced_by_quarters_and_keeps_the_focus(grid: Grid, visit: Open, log: Path) -> None:
    window = visit(is_kept=False)
    window.sign_in("admin")
    window.page.clock.install()
    page = window.go("/usage/import/")
    choose(page, log)
    page.click(SEND)
    expect_result(page, "waiting")
    running(30)
    bar = page.get_by_role("progressbar")
    expect(bar).to_have_attribute("aria-valuenow", "30")
    page.locator("#stop").focus()
    running(62)
    expect(bar).to_have_attribute("aria-valuenow", "62")
    expect(page.locator("#status")).to_have_text(re.compile(r"\b50\b"))
    expect(page.locator("#stop")).to_be_focused()
    page.click("[data-pause]")
    running(80)
    page.clock.run_for(3 * POLL_MS)
    expect(bar).to_have_attribute("aria-valuenow", "62")
    page.click("[data-pause]")
    expect(bar).to_have_attribute("aria-valuenow", "80")
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_be_disabled()
    assert Import.objects.latest("pk").run.cancel_requested


@in_windows_of_all
def test_the_pages_are_accessible_and_fit_their_window(
    grid: Grid, visit: Open, log: Path, theme: str, width: int
) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in("admin")
    problems: dict[str, list[str]] = {}
    wide: dict[str, int] = {}

    def look(name: str) -> None:
        problems[name], wide[name] = window.axe(), window.overflow()

    page = window.go("/usage/sources/")
    Source.objects.update(expected_every_s=3600)
    window.go("/usage/sources/")
    page.click("#fig-coverage details summary")
    look("sources")
    window.go(f"/usage/sources/{Source.objects.first().slug}/")  # type: ignore[union-attr]
    look("source")
    window.go("/usage/import/")
    look("upload")
    page.select_option("#id_source", "+")
    page.set_input_files("#id_file", log)
    page.click(SEND)
    expect(page.locator("#id_new_source_error")).to_be_visible()
    look("upload with errors")
    choose(page, log)
    page.click(SEND)
    expect(page.locator("#verdict")).to_be_visible()
    running(40)
    page.reload()
    look("running")
    Run.objects.update(state=Run.State.QUEUED, lease_until=None)
    work()
    page.reload()
    look("dry run")
    Run.objects.update(state=Run.State.FAILED, error_code="corrupt_gzip", error="It ends in the middle.")
    page.reload()
    look("failed")
    assert {name: found for name, found in problems.items() if found} == {}
    assert {name: pixels for name, pixels in wide.items() if pixels > 0} == {}
