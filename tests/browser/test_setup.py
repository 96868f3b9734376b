"""The first steps in a browser: with the mouse at every width, and with nothing but keys and no scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.policies.models import Policy
from apps.priorities import served
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.browser.conftest import Open, Visit
from tests.browser.hands import Keys

SHOTS = os.environ.get("SHOTS", "")


@pytest.fixture
def eva(transactional_db: None) -> Iterator[User]:
    served.forget()
    yield User.objects.create_superuser("eva", first_name="Eva", last_name="Kling")
    served.forget()


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """At noon of the day of the samples: what counts of them depends on no day on which this runs."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-11-20T12:00:00Z")


@pytest.fixture
def samples(golden_dir: Path) -> Path:
    return golden_dir / "slurm" / "samples"


def keep(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


def work() -> None:
    for run in Run.objects.filter(state=Run.State.QUEUED, kind="usage_import"):
        work_run_now(run.pk)


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_from_two_files_to_a_policy(eva: User, samples: Path, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in("eva")
    page = window.go("/")
    _look(window, f"empty-{width}")
    page.get_by_role("link", name="Begin", exact=True).click()
    expect(page.locator("h1")).to_have_text("From your scheduler to a policy you can see")
    _look(window, f"setup-1-{width}")
    page.set_input_files("#id_file", samples / "sacctmgr-dump-demo.cfg")
    page.get_by_role("button", name="Read the tree").click()
    expect(page.locator("#read")).to_be_visible()
    _look(window, f"setup-2-{width}")
    page.set_input_files("#id_file", samples / "sacct-X-P.txt")
    page.get_by_role("button", name="Read the log").click()
    expect(page.locator("#progress")).to_contain_text("Waiting for a worker")
    work()
    expect(page.locator("#id_time_zone")).to_be_visible()  # found by polling
    _look(window, f"setup-zone-{width}")
    page.fill("#id_time_zone", "UTC")
    page.get_by_role("button", name="Read it again").click()
    expect(page.locator("#progress")).to_be_visible()
    work()
    expect(page.locator(".steps [aria-current]")).to_contain_text("Accounting log")
    page.get_by_role("button", name="Import 39 records").wait_for()
    _look(window, f"setup-decide-{width}")
    page.get_by_role("button", name="Import 39 records").click()
    expect(page.locator("#progress")).to_be_visible()
    work()
    expect(page.locator("#first")).to_be_visible()
    _look(window, f"setup-3-{width}")
    page.get_by_role("button", name="Publish revision 1").click()
    page.wait_for_url("**/policy/demo/")
    expect(page.locator("#problem")).to_contain_text("Revision 1 is in force")
    assert Policy.objects.get().head_number == 1


def test_the_whole_way_with_keys_and_without_scripts(eva: User, samples: Path, visit: Open) -> None:
    window = visit(width=390, scripts=False)
    window.sign_in("eva")
    page, keys = window.go("/setup/"), Keys()
    page.set_input_files("#id_file", samples / "sacctmgr-dump-demo.cfg")
    keys.press(page, "button:has-text('Read the tree')")
    page.wait_for_selector("#id_source_name")
    page.set_input_files("#id_file", samples / "sacct-X-P.txt")
    keys.write(page, "#id_time_zone", "UTC")
    keys.press(page, "button:has-text('Read the log')")
    page.wait_for_selector("#progress")
    work()
    keys.press(page, "a:has-text('Refresh')")
    keys.press(page, "button:has-text('Import 39 records')")
    page.wait_for_selector("#progress")
    work()
    window.go("/setup/")
    keys.write(page, "#id_name", "My site")
    keys.press(page, "button:has-text('Publish revision 1')")
    page.wait_for_url("**/policy/my-site/")
    assert window.overflow() <= 0


def _look(window: Visit, name: str) -> None:
    window.look()
    keep(window.page, name)
