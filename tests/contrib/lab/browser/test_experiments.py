"""The lab in a browser: a half-life is tried, made a change set, and reviewed by a colleague with the evidence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.contrib.lab.experiments.runs import PREPARE, VARIANT
from apps.contrib.lab.experiments.traces import KIND
from apps.contrib.lab.models import Experiment
from apps.core import clock
from apps.policies.models import ChangeSet, Policy
from apps.runs.services import work_due_runs
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.browser.conftest import SET_THEME, Open, Visit
from tests.grants import make_grant
from tests.pages.grid import SLUG, VOS, Grid

LAB = f"/policy/{SLUG}/lab/"
SHOTS = os.environ.get("FAIRSHARE_SHOTS", "")
DAYS, CPUS, CORES = 6, 8, 115  # as wide as the one job of the grid itself


def queued_rows(grid: Grid) -> Iterator[RecordRow]:
    """Jobs of six days on eight processors, first come first served, with more demand than these have."""
    random, free_at = np.random.default_rng(58), [grid.at - timedelta(days=DAYS)] * CPUS
    people = [(vo, user) for vo, (_shares, users) in VOS.items() for user, (_own, cores) in users.items() if cores]
    submit_at = grid.at - timedelta(days=DAYS)
    number = 0
    while submit_at < grid.at - timedelta(hours=40):
        submit_at += timedelta(minutes=int(random.integers(1, 20)))
        vo, user = people[int(random.integers(len(people)))]
        place = free_at.index(min(free_at))
        start_at = max(submit_at, free_at[place])
        end_at = start_at + timedelta(minutes=int(random.integers(20, 150)))
        if end_at > grid.at - timedelta(hours=27):
            return
        free_at[place] = end_at
        number += 1
        yield RecordRow(
            job=f"q-{number}",
            user=user,
            group=vo,
            submit_at=submit_at,
            start_at=start_at,
            end_at=end_at,
            cpus=CORES,
            requested_s=3 * 3600,
        )


@pytest.fixture
def managers(grid: Grid) -> Grid:
    """maria and lars manage the whole; the site has some days of queued jobs."""
    for name, first, last in (("maria", "Maria", "Hedin"), ("lars", "Lars", "Ek")):
        user = User.objects.create_user(name, first_name=first, last_name=last)
        make_grant(user, grid.uid("/"), policy=Policy.objects.get(slug=SLUG), at=clock.now())
    source = Source.objects.get(slug="cluster-a")
    ingest_batch(source=source, rows=list(queued_rows(grid)), at=grid.at)
    return grid


def work() -> None:
    assert work_due_runs(clock=clock.now, of_kinds=[PREPARE, VARIANT]) > 0


def shoot(window: Visit, name: str) -> None:
    """Both themes at both widths into the folder FAIRSHARE_SHOTS; without it none is taken."""
    if not SHOTS:
        return
    page = window.page
    for width in (1440, 390):
        window.resize(width)
        for theme in ("light", "dark"):
            page.evaluate(SET_THEME, theme)
            page.wait_for_timeout(300)
            page.screenshot(path=Path(SHOTS) / f"{name}-{width}-{theme}.png", full_page=True)
    page.evaluate(SET_THEME, "light")
    window.resize(1440)


def signed_in(visit: Open, name: str, *, scripts: bool = True) -> Visit:
    window = visit(scripts=scripts)
    window.sign_in(name)
    return window


def draw(page: Page) -> None:
    page.click("details.pictures > summary")
    for name in ("share", "waits"):
        page.locator(f"#fig-{name}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#fig-{name}[data-drawn]")


@pytest.mark.deep
def test_a_half_life_is_tried_made_a_change_set_and_reviewed_with_the_evidence(managers: Grid, visit: Open) -> None:
    maria = signed_in(visit, "maria")
    page = maria.go(f"/policy/{SLUG}/")
    page.click("nav.place a:has-text('Lab')")
    expect(page.locator(".lab-mark")).to_contain_text("Nothing here changes a priority.")
    expect(page.locator("#question-half_life [data-testid=estimate]")).to_contain_text("processor time")
    expect(page.locator("#question-operator [data-testid=estimate]")).to_contain_text("processor time")
    expect(page.locator("#question-project_doubles [data-testid=estimate]")).to_contain_text("processor time")
    maria.look()
    shoot(maria, "lab-empty")
    page.click("#question-half_life button:has-text('Start')")
    expect(page.locator("[data-testid=state]")).to_have_attribute("data-state", "queued")
    expect(page.locator("#experiment-now")).to_contain_text("You may close this page.")
    maria.look()
    shoot(maria, "experiment-queued")
    work()
    expect(page.locator("[data-testid=state]")).to_have_attribute("data-state", "done", timeout=20_000)
    expect(page.locator("[data-testid=model-error]")).to_contain_text("Error of the model")
    first, *rest = page.locator("[data-testid=history], [data-testid=variant]").all()
    expect(first).to_contain_text("What happened")
    assert len(rest) == 2  # the policy has a half-life of 7 days already
    draw(page)
    maria.look()
    shoot(maria, "experiment-done")
    page.click("#fig-share .fig-controls a:has-text('biomed')")
    expect(page.locator("#fig-share .fig-title")).to_contain_text("biomed")
    page.click("[data-testid=draft][data-key='1'] button")
    expect(page).to_have_url(re.compile(r"/changes/\d+/$"))
    expect(page.locator("#experiments")).to_contain_text("this change set")
    page.click("#decide-propose")
    expect(page.locator(".page-head .badge").first).to_have_text("Waiting for a decision")
    change_set = ChangeSet.objects.latest("pk")
    assert change_set.operations == [{"op": "set_policy", "settings": {"window": {"half_life_s": 1_209_600}}}]

    lars = signed_in(visit, "lars")
    page = lars.go(f"/changes/{change_set.pk}/")
    evidence = page.locator("#experiments")
    expect(evidence).to_contain_text("Error of the model")
    expect(evidence.locator("tr.chosen")).to_contain_text("this change set")
    lars.look()
    shoot(lars, "review-evidence")
    page.click("#decide-publish")
    expect(page.locator("[data-testid=decided]")).to_be_visible()
    expect(page.locator("#experiments")).to_contain_text("this change set")
    assert Policy.objects.get(slug=SLUG).head_number == change_set.base_number + 1
    page = lars.go(LAB)
    expect(page.locator("[data-testid=experiment]")).to_contain_text("median wait")
    shoot(lars, "lab-list")


@pytest.mark.deep
def test_the_builder_follows_what_is_typed_and_the_picture(managers: Grid, visit: Open) -> None:
    maria = signed_in(visit, "maria")
    page = maria.go(f"{LAB}new/")
    expect(page.locator("#estimate [data-testid=estimate]")).to_contain_text("processor time")
    page.check("[name=kind][value=synthetic]")
    page.fill("#id_hours", "x")
    expect(page.locator("#estimate [data-testid=problems]")).to_contain_text("Hours")
    page.fill("#id_hours", "12")
    page.fill("#id_sites", "R1 8")
    expect(page.locator("#estimate [data-testid=estimate]")).to_contain_text("processor time")
    page.locator("#fig-tree").scroll_into_view_if_needed()
    page.wait_for_selector("#fig-tree[data-drawn]")
    page.focus("#fig-tree [tabindex='0']")
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#id_entry")).to_have_value(re.compile("^/"))
    path = page.input_value("#id_entry")
    page.click("button[value=jobs]")
    expect(page.locator("#id_v1-entries")).to_have_value(f"{path} jobs 2")
    page.click("button[value=add-variant]")
    expect(page.locator("#id_v2-half_life_d")).to_be_visible()
    assert page.input_value("#id_hours") == "12"
    page.fill("#id_v2-half_life_d", "-2")
    page.fill("#id_name", "By hand")
    maria.look()
    shoot(maria, "builder")
    page.click(".builder-side button.primary")
    expect(page.locator("#id_v2-half_life_d")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#id_v2-half_life_d")).to_be_focused()
    shoot(maria, "builder-refused")
    page.fill("#id_v2-half_life_d", "2")
    page.keyboard.press("Enter")
    expect(page.locator("[data-testid=state]")).to_have_attribute("data-state", "queued")
    spec = Experiment.objects.get().spec
    assert [sorted(each) for each in spec["variants"]] == [["entries"], ["settings"]]
    page.click("button:has-text('Cancel the experiment')")
    expect(page.locator("[data-testid=state]")).to_have_attribute("data-state", "cancelled")


@pytest.mark.deep
def test_a_log_is_uploaded_and_removed(managers: Grid, visit: Open) -> None:
    maria = signed_in(visit, "maria")
    page = maria.go(f"{LAB}new/")
    page.check("#id_kind_trace")
    log = "".join(f"{n} {90 * n} 5 3000 1 -1 -1 1 6000 -1 1 {1 + n % 2} 1 -1 1 -1 -1 -1\n" for n in range(60))
    page.set_input_files("#id_log", {"name": "small.swf", "mimeType": "text/plain", "buffer": log.encode()})
    page.click("button:has-text('Upload')")
    expect(page.get_by_test_id("unread-log")).to_contain_text("small.swf: It waits")
    page.fill("#id_trace_sites", "R1 4")
    page.fill("#id_map", "/nowhere")
    expect(page.locator("#estimate")).to_contain_text("wait until it is read")
    maria.look()
    work_due_runs(clock=clock.now, of_kinds=[KIND])
    expect(page.locator("#id_trace option:checked")).to_contain_text("small.swf: 60 jobs of 2 users")
    expect(page.locator("#estimate")).to_contain_text("No job of the log has an entry")
    assert page.input_value("#id_map") == "/nowhere"
    expect(page.locator("#logs [data-poll]")).to_have_count(0)
    shoot(maria, "builder-log")
    page.click("button:has-text('Remove the chosen log')")
    expect(page.locator("#id_trace")).to_contain_text("none is uploaded yet")
    expect(page.get_by_text("Experiments that were made of it keep its jobs.")).to_be_visible()


@pytest.mark.deep
def test_without_scripts_a_question_is_started_and_read(managers: Grid, visit: Open) -> None:
    window = signed_in(visit, "maria", scripts=False)
    page = window.go(LAB)
    page.click("#question-half_life a:has-text('Estimate')")
    page.click("#question-half_life button:has-text('Start')")
    work()
    page = window.go(f"{LAB}{Experiment.objects.get().pk}/")
    expect(page.locator("[data-testid=findings] li")).to_have_count(1)
    page.click("details.pictures > summary")
    expect(page.locator("#fig-share tbody tr").first).to_be_visible()
    window.look()
