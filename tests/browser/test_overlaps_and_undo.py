"""Hours from two sources, and an undone import, in both themes and widths."""

from __future__ import annotations

import io
import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.runs.services import work_run_now
from apps.usage.models import Import, Overlap
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewImport, NewSource, make_source, start_import
from tests.browser.conftest import Open, in_windows
from tests.pages.grid import Grid

LOG = "; UnixStartTime: 1132444805\n" + "".join(
    f"{n} {n} -1 3600 4 -1 -1 -1 -1 -1 1 1 1 -1 -1 1 -1 -1\n" for n in range(40)
)


@pytest.fixture
def twice(grid: Grid) -> None:
    """A site whose usage a peer and an upload report."""
    at = clock.now()
    ours = make_source(NewSource(slug="north-log", name="Uploads of North", site="north"), at=at, actor=COMMAND)
    theirs = make_source(
        NewSource(slug="north-peer", name="North by its own word", origin="north-org"), at=at, actor=COMMAND
    )
    start = at - timedelta(days=4)
    for source in (ours, theirs):
        rows = [
            RecordRow(str(n), "ann", site="north", cpus=64.0, start_at=start, end_at=start + timedelta(hours=30))
            for n in range(9)
        ]
        ingest_batch(source=source, rows=rows, at=at)


@pytest.fixture
def imported(twice: None) -> Import:
    made = start_import(
        NewImport(source_slug="north-log", format="swf", file=io.BytesIO(LOG.encode()), file_name="november.swf"),
        at=clock.now(),
        actor=COMMAND,
    )
    work_run_now(made.run_id)
    return made


@pytest.mark.deep
@pytest.mark.usefixtures("twice")
@in_windows
def test_overlapping_sources_are_decided_with_a_reason(visit: Open, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(reverse("pages:overlaps"))
    expect(page.locator("h1")).to_have_attribute("data-value", "1")
    window.look()
    _keep(page.screenshot(full_page=True), f"overlaps-{theme}-{width}")
    page.locator("main [name=reason]").fill("the peer tells the same jobs")
    page.locator("[name=decision][value=drop]", has_text="Uploads of North").click()
    expect(page.locator("h1")).to_have_attribute("data-value", "0")
    window.look()
    assert Overlap.objects.get().state == "dropped"


@pytest.mark.deep
@in_windows
def test_an_import_is_undone(visit: Open, imported: Import, theme: str, width: int) -> None:
    window = visit(theme=theme, width=width)
    window.sign_in()
    page = window.go(reverse("pages:import", args=[imported.pk]))
    page.locator("[data-testid=undo] summary").click()
    window.look()
    _keep(page.screenshot(full_page=True), f"undo-{theme}-{width}")
    page.locator("[data-testid=undo] [name=reason]").fill("the wrong month")
    page.locator("[data-testid=undo-import][data-value='40']").click()
    expect(page.locator("[data-testid=undo]")).to_have_attribute("data-state", "at_work")
    window.look()
    imported.refresh_from_db()
    work_run_now(imported.undone_run_id or 0)
    expect(page.locator("[data-testid=undo][data-state=done] [data-testid=undo-text]")).to_contain_text("40")
    window.look()
    _keep(page.screenshot(full_page=True), f"undone-{theme}-{width}")


def _keep(picture: bytes, name: str) -> None:
    """For inspection, if pictures are requested."""
    folder = os.environ.get("PICTURES")
    if folder:
        (Path(folder) / f"{name}.png").write_bytes(picture)
