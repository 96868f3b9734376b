"""Setting up a watched folder in the browser, in both themes and widths, until its files count."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from apps.accounts.actor import COMMAND
from apps.core import clock
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Source
from apps.usage.sources.services import set_up_source
from tests.browser.conftest import Open, in_windows_of_all
from tests.pages.grid import Grid

LOG = "; UnixStartTime: 1132444805\n1 10 -1 3600 2 -1 -1 -1 -1 -1 1 7 3 -1 -1 40 -1 -1\n"
SHOTS = os.environ.get("SHOTS", "")


@pytest.fixture
def spool(tmp_path: Path, settings: Any) -> Path:
    settings.FAIRSHARE_COLLECT_FOLDERS = [str(tmp_path)]
    (tmp_path / "spool").mkdir()
    return tmp_path / "spool"


def work() -> Run:
    return work_run_now(Run.objects.filter(kind="usage_collect").latest("pk").pk)


@pytest.mark.deep
def test_a_folder_is_set_up_collected_paused_and_resumed(grid: Grid, visit: Open, spool: Path) -> None:
    (spool / "a.swf").write_text(LOG)
    os.utime(spool / "a.swf", (1, 1))
    window = visit()
    window.sign_in("admin")
    page = window.go("/usage/sources/")
    page.locator("main a[href='/usage/sources/new/']").click()
    page.locator("a[href$='?kind=directory']").click()
    page.locator("#id_name").fill("Abisko")
    page.locator("#id_slug").fill("abisko")
    page.locator("#id_folder").fill("/etc")
    page.locator("#source button[type=submit]").click()
    expect(page.locator("#id_folder_error")).to_contain_text("FAIRSHARE_COLLECT_FOLDERS")
    page.locator("#id_folder").fill(str(spool))
    page.locator("#source button[type=submit]").click()
    page.wait_for_url("**/usage/sources/abisko/")
    page.locator("#collect").click()
    expect(page.locator("#collecting [role=status]")).to_have_attribute("data-state", "at_work")
    assert work().counts["new"] == 1
    expect(page.locator("#collecting [role=status]")).to_have_attribute("data-state", "works")
    expect(page.locator("#collecting [data-poll]")).to_have_count(0)
    page.locator("#pause").click()
    expect(page.locator("#collecting [role=status]")).to_have_attribute("data-state", "paused")
    page.locator("#resume").click()
    expect(page.locator("#collecting [role=status]")).to_have_attribute("data-state", "works")
    assert not Source.objects.get(slug="abisko").is_paused


@in_windows_of_all
def test_the_pages_of_a_source_are_accessible_in_both_themes_and_widths(
    theme: str, width: int, grid: Grid, visit: Open, spool: Path, tmp_path: Path, settings: Any
) -> None:
    program = tmp_path / "sacct"
    program.write_text(
        "#!/bin/sh\necho 'sacct: error: slurm_persist_conn_open: slurmdbd: Connection refused' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(program)]
    terms = {
        "command": ["sacct", "-a", "-X", "-P", "-S", "{from}", "-E", "{to}", "--format=" + "JobIDRaw," * 9 + "End"]
    }
    given = {"name": "Abisko", "kind": "command", "collecting": terms, "collect_every_s": 300, "expected_every_s": 3600}
    set_up_source(slug="abisko", new_settings=given, at=clock.now(), actor=COMMAND)
    window = visit(theme=theme, width=width)
    window.sign_in("admin")
    page = window.go("/usage/sources/abisko/")
    page.locator("#collect").click()
    page.wait_for_selector("#collecting [data-poll]", state="attached")
    work()
    expect(page.locator("#collecting")).to_contain_text("Connection refused")
    looks = {"source": "", "settings": "settings/"}
    paths = {name: f"/usage/sources/abisko/{path}" for name, path in looks.items()}
    paths |= {"kinds": "/usage/sources/new/", "rest": "/usage/sources/new/?kind=slurm-rest"}
    paths |= {"folder": "/usage/sources/new/?kind=directory", "list": "/usage/sources/"}
    for name, path in paths.items():
        window.go(path)
        assert window.overflow() == 0, name
        assert window.axe() == [], name
        if SHOTS:
            page.screenshot(path=f"{SHOTS}/{name}-{theme}-{width}.png", full_page=True)
