"""The first steps in a browser: with the mouse at every width, and with nothing but keys and no scripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.contrib.schedulers.models import Scheduler
from apps.policies.models import Policy
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.browser.conftest import Open, Visit, at_widths
from tests.browser.hands import Keys

SHOTS = os.environ.get("SHOTS", "")
TREE, TAKE, PUBLISH = (f"form[action='/setup/{step}/'] button" for step in ("tree", "confirm", "publish"))
LOG = "#log button[type=submit]"


@pytest.fixture
def eva(transactional_db: None) -> Iterator[User]:
    store.forget()
    yield User.objects.create_superuser("eva", first_name="Eva", last_name="Kling")
    store.forget()


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


@pytest.mark.deep
@at_widths
def test_from_two_files_to_a_policy(eva: User, samples: Path, visit: Open, width: int) -> None:
    window = visit(width=width)
    window.sign_in("eva")
    page = window.go("/")
    _look(window, f"empty-{width}")
    page.click("main a[href='/setup/']")
    expect(page.locator(TREE)).to_be_visible()
    _look(window, f"setup-1-{width}")
    page.set_input_files("#id_file", samples / "sacctmgr-dump-demo.cfg")
    page.click(TREE)
    expect(page.locator("#read")).to_be_visible()
    _look(window, f"setup-2-{width}")
    page.set_input_files("#id_file", samples / "sacct-X-P.txt")
    page.click(LOG)
    expect(page.locator("#reading")).to_have_attribute("data-key", "waiting")
    work()
    expect(page.locator("#id_time_zone")).to_be_visible()  # found by polling
    _look(window, f"setup-zone-{width}")
    page.fill("#id_time_zone", "UTC")
    page.click("form[action='/setup/zone/'] button")
    expect(page.locator("#progress")).to_be_visible()
    work()
    expect(page.locator(".steps li:nth-child(2)")).to_have_attribute("aria-current", "step")
    expect(page.locator(TAKE)).to_contain_text("39")
    _look(window, f"setup-decide-{width}")
    page.click(TAKE)
    expect(page.locator("#progress")).to_be_visible()
    work()
    expect(page.locator("#first")).to_be_visible()
    _look(window, f"setup-3-{width}")
    page.click(PUBLISH)
    page.wait_for_url("**/schedulers/demo/")
    expect(page.locator("#problem .success")).to_be_visible()
    assert Policy.objects.get().head_number == 1


@pytest.mark.deep
@at_widths
def test_from_slurm_outputs_to_a_scheduler_in_shadow_mode(
    eva: User, golden_dir: Path, tmp_path: Path, visit: Open, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", "2026-11-23T07:53:00Z")  # after the capture
    captured = golden_dir / "slurm/charged"
    outputs = tmp_path / "slurm.txt"
    outputs.write_bytes(b"".join((captured / name).read_bytes() for name in ("dump.cfg", "config.txt", "sshare.txt")))
    window = visit(width=width)
    window.sign_in("eva")
    page = window.go("/setup/")
    page.set_input_files("#id_file", outputs)
    page.click(TREE)
    page.set_input_files("#log #id_file", captured / "sacct.txt")  # the step before has a field of this name, too
    page.click(LOG)
    expect(page.locator("#reading")).to_have_attribute("data-key", "waiting")
    work()
    page.click(TAKE)
    expect(page.locator("#progress")).to_be_visible()
    work()
    expect(page.get_by_test_id("sshare")).to_have_attribute("data-value", "8 8 0")  # of 8 users equal, usage too
    _look(window, f"setup-sshare-{width}")
    scheduler = page.locator("#id_scheduler").input_value()
    page.click(PUBLISH)
    page.wait_for_url(f"**/schedulers/{scheduler}/")
    made = Scheduler.objects.get()
    assert (made.name, made.mode, made.policy.head_number) == (scheduler, "shadow", 1)
    window.look()


@pytest.mark.deep
def test_the_setup_works_by_keyboard_and_without_scripts(eva: User, samples: Path, visit: Open) -> None:
    window = visit(width=390, scripts=False)
    window.sign_in("eva")
    page, keys = window.go("/setup/"), Keys()
    page.set_input_files("#id_file", samples / "sacctmgr-dump-demo.cfg")
    keys.press(page, TREE)
    page.wait_for_selector("#id_source_name")
    page.set_input_files("#id_file", samples / "sacct-X-P.txt")
    keys.write(page, "#id_time_zone", "UTC")
    keys.press(page, LOG)
    page.wait_for_selector("#progress")
    work()
    keys.press(page, "noscript a")
    keys.press(page, TAKE)
    page.wait_for_selector("#progress")
    work()
    window.go("/setup/")
    keys.write(page, "#id_name", "My site")
    keys.press(page, PUBLISH)
    page.wait_for_url("**/schedulers/demo/")
    assert Policy.objects.get().slug == "my-site"
    assert window.overflow() <= 0


def _look(window: Visit, name: str) -> None:
    window.look()
    keep(window.page, name)
