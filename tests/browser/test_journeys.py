"""The ways that people go most often, on the sample grid: with the mouse, with the keyboard alone and in Firefox.

How many clicks a journey takes is asserted. `pytest --deep -s tests/browser/test_journeys.py` also prints how long each
step took to be on the screen. Firefox is the one that Debian packages: `apt-get install firefox-esr`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from apps.accounts.actor import COMMAND
from apps.cli.sample.grid import POLICY_SLUG
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.staleness import request_recompute
from apps.runs.services import work_run_now
from apps.usage.models import Import
from tests.browser.conftest import Open
from tests.browser.desks import ChromiumDesk, Desk, FirefoxDesk, Journey
from tests.browser.firefox import NOT_INSTALLED, find_firefox, firefox
from tests.browser.hands import HANDS
from tests.instants import AT
from tests.pages.grid import Grid

CHROMIUM = ("mouse", "keys")
DESKS = ("mouse", pytest.param("keys", marks=pytest.mark.deep), pytest.param("firefox", marks=pytest.mark.deep))
TREE = f"/policy/{POLICY_SLUG}/"
FAIR_LINE = "#fig-fair-line"


@pytest.fixture
def sample(sample_grid: None, transactional_db: None) -> None:
    """The grid of a first start, whose numbers the workers have computed."""


@pytest.fixture(params=DESKS)
def desk(request: pytest.FixtureRequest, sample: None, visit: Open, live_server: Any) -> Iterator[Desk]:
    """The mouse with motion, as most have it; the others with reduced motion."""
    if request.param in CHROMIUM:
        yield ChromiumDesk(visit(is_kept=False), HANDS[request.param], is_still=request.param == "keys")
        return
    binary = find_firefox()
    if binary is None:
        pytest.skip(NOT_INSTALLED)
    with firefox(binary) as browser:
        yield FirefoxDesk(browser, live_server.url)


def uid_of(path: str) -> str:
    tree = load_tree(Policy.objects.get(slug=POLICY_SLUG))
    index = tree.index_of_path(path)
    assert index is not None, path
    return str(tree.uuid(index))


def come_into_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the workers of an instance do within seconds of a publication."""
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=1)).isoformat())
    work_run_now(request_recompute(policy_slug=POLICY_SLUG, at=clock.now(), actor=COMMAND).pk)


def is_still(desk: Desk) -> bool:
    """No motion where the system asks for none."""
    has_motion = isinstance(desk, ChromiumDesk) and not desk.is_still
    return has_motion or desk.n_animations() == 0


def test_a_manager_raises_a_share_from_the_home_and_watches_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = uid_of("/gravity-waves")
    desk.sign_in("admin")
    journey = Journey(desk)
    with journey.step("home"):
        desk.go("/")
        desk.shows(f"tr[data-uid='{entry}']", "under")
    with journey.step("panel"):
        journey.press(f"tr[data-uid='{entry}'] [data-testid=fix]")
        desk.has_focus("#shares")
    assert is_still(desk)
    with journey.step("preview while typing"):
        desk.write("#shares", "60")
        desk.shows("#effect tr.me", "5.2")
    desk.write("#reason", "New detectors")
    with journey.step("publish"):
        journey.press("#publish")
        desk.shows("#problem .success", "See who moves")
    come_into_force(monkeypatch)
    with journey.step("its course with the raised target"):
        desk.shows("#fig-over-time", "gravity-waves")
    assert is_still(desk)
    assert journey.n_clicks == 2
    journey.say("A share is raised from the home")


@pytest.mark.deep
def test_a_manager_drags_a_share_in_the_editor_and_sees_who_moves(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = uid_of("/climate")
    desk.sign_in("admin")
    journey = Journey(desk)
    desk.go(TREE)
    with journey.step("editor"):
        journey.press("#edit")
        desk.shows("#views")
    with journey.step("bars"):
        journey.press("#views [data-view=bars]")
        desk.shows("#stage [role=slider] .line")
    assert is_still(desk)
    with journey.step("dragged and saved"):
        journey.pull(f"#stage .pull-grip[data-grip='{entry}'][role=slider]")
        desk.shows("#draftbar[data-edits='1']")
    with journey.step("ranks and days"):
        desk.shows("#editor[data-known]:not([data-asking]) #lead")
    desk.write("#id_reason", "The forecast needs more")
    with journey.step("publish"):
        journey.press("#finish-publish")
        desk.shows("#problem .success")
    come_into_force(monkeypatch)
    with journey.step("who moves"):
        desk.shows("[data-followup-heading]")
    assert is_still(desk)
    assert journey.n_clicks == 4
    journey.say("A share is dragged in the editor")


@pytest.mark.product
def test_a_user_reads_why_and_when_at_once_and_why_a_job_waits_with_a_click(desk: Desk) -> None:
    desk.sign_in("kimberg")
    journey = Journey(desk)
    with journey.step("why, when and what to do"):
        desk.go("/")
        desk.shows("#verdict", "rank")
        desk.shows(".qa dt", "Why")
        desk.shows(".qa dt", "When")
    with journey.step("waiting jobs"):
        desk.shows("#waiting-jobs tbody th", "33701")
    assert journey.n_clicks == 0
    with journey.step("why the job waits"):
        journey.press("#waiting-jobs tbody a[href*='33701']")
        desk.shows("h1", "33701")
        desk.shows("[data-testid=verdict]", "because of fair share")
    assert is_still(desk)
    assert journey.n_clicks == 1
    journey.say("Why a job waits")


@pytest.mark.deep
def test_a_lead_sees_who_is_off_target_and_sets_it_right(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    member = uid_of("/climate/seasonal/toveholm")
    desk.sign_in("ingrid")
    journey = Journey(desk)
    with journey.step("who is off target"):
        desk.go("/")
        desk.shows("#verdict-title", "off target")
        desk.shows(f"tr[data-uid='{member}'] [data-testid=balance]", "over")
    assert journey.n_clicks == 0
    with journey.step("the field"):
        journey.press(f"tr[data-uid='{member}'] [data-testid=fix]")
        desk.has_focus("#shares")
    desk.write("#shares", "2")
    desk.write("#reason", "Runs of the winter outlook")
    with journey.step("publish"):
        journey.press("#publish")
        desk.shows("#problem .success", "See who moves")
    come_into_force(monkeypatch)
    with journey.step("home again"):
        desk.go("/")
        desk.shows(f"tr[data-uid='{member}']", "2 of 9 shares")
    assert is_still(desk)
    assert journey.n_clicks == 2
    journey.say("A lead sets a share right")


@pytest.mark.deep
@pytest.mark.parametrize("hand", ["mouse", "keys"])
def test_a_manager_plays_sixty_days_and_fixes_the_worst_group(
    sample: None, visit: Open, hand: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = ChromiumDesk(visit(is_kept=False), HANDS[hand], is_still=False)
    page = desk.window.page
    desk.sign_in("admin")
    journey = Journey(desk)
    day = page.locator(f"{FAIR_LINE} input[type=range]")
    with journey.step("fair line"):
        desk.go(f"{TREE}convergence/")
        desk.shows(f"{FAIR_LINE}[data-drawn] [data-fair-play]", "Play")
    with journey.step("played and stopped"):
        journey.press("[data-fair-play]")
        expect(day).to_have_value(re.compile(r"^([2-9]|\d\d)$"))
        journey.press("[data-fair-play]")
        desk.shows("[data-fair-play]", "Play")
    worst = page.locator(f"{FAIR_LINE} .fair-group").first
    name = str(worst.get_attribute("data-name"))
    circle = f"{FAIR_LINE} .fair-group[data-name='{name}'] > a"
    with journey.step("its course"):
        journey.press(f"{circle} > circle" if hand == "mouse" else circle)
        desk.shows("#fig-over-time-title", name)
    with journey.step("a drafted share"):
        page.locator(circle).press("+")  # which is about now, whatever day is shown
        desk.shows("[data-fair-draft]", name)
        journey.press("[data-fair-draft] a")
        desk.shows("#shares")
    assert name in page.locator("h1").inner_text()
    desk.write("#reason", "It has been off its target for weeks")
    with journey.step("publish"):
        journey.press("#publish")
        desk.shows("#problem .success", "See who moves")
    come_into_force(monkeypatch)
    revision = Policy.objects.get(slug=POLICY_SLUG).head_number
    with journey.step("undo"):
        journey.press("#problem .success button")
        expect(page.locator("#problem .success")).to_contain_text(str(revision + 1))
    assert Policy.objects.get(slug=POLICY_SLUG).head_number == revision + 1
    assert journey.n_clicks <= 6
    journey.say("60 days are played and the worst group is fixed")


@pytest.mark.deep
def test_a_log_is_imported_in_five_clicks(open_grid: Grid, transactional_db: None, visit: Open, tmp_path: Path) -> None:
    log = tmp_path / "november.swf"
    jobs = (f"{n} {n * 60} 5 3600 4 -1 -1 4 7200 -1 1 {n % 7} 1 -1 1 -1 -1 -1\n" for n in range(1, 201))
    log.write_text("; UnixStartTime: 1700000000\n" + "".join(jobs))
    window = visit()
    desk = ChromiumDesk(window, HANDS["mouse"], is_still=False)
    desk.sign_in("admin")
    journey = Journey(desk)
    page = window.go("/")
    with journey.step("sources"):
        journey.press("nav a[href='/usage/sources/']:visible")
        desk.shows("main a[href='/usage/import/']")
    with journey.step("form"):
        journey.press("main a[href='/usage/import/']")
        expect(page.locator("#id_file")).to_be_attached()
    journey.n_clicks += 1  # the browser's own choice of a file
    page.set_input_files("#id_file", log)
    page.select_option("#id_source", "+")
    page.fill("#id_new_source", "Abisko log")
    with journey.step("dry run"):
        journey.press("#upload button[type=submit]")
        desk.shows("#verdict[data-key=waiting]")
        tried = Import.objects.latest("pk")
        work_run_now(tried.run_id)
        desk.shows("section[aria-labelledby=decide] button[name=take]")
    with journey.step("import"):
        journey.press("section[aria-labelledby=decide] button[name=take]")
        page.wait_for_url(lambda address: f"/usage/imports/{tried.pk}/" not in address)
        work_run_now(Import.objects.latest("pk").run_id)
        desk.shows("#verdict[data-key=added]")
    assert journey.n_clicks <= 5
    journey.say("A log is imported")
