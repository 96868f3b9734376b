"""No id twice once what a page asks for by itself has come: on every page, and in each state in which one polls."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.test.signals import template_rendered

from apps.accounts.actor import COMMAND, SYSTEM, Actor
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.schedulers.services import connect_scheduler
from apps.core import clock
from apps.priorities import change_effect_runs
from apps.runs.services import work_due_runs, work_run_now
from apps.series.runs import enqueue_series_build
from apps.usage.models import Import
from apps.usage.sources.services import set_up_source
from tests.contrib.lab.rights import NAME, SPEC
from tests.contrib.onboarding.pages.test_first_steps import DUMP, log_of
from tests.every_page.test_every_page import PARTS, pages_of
from tests.examples import first
from tests.instants import AT
from tests.pages.page import Page, read
from tests.pages.swapped import after_answers, twice
from tests.rights_world import World
from tests.worlds import fresh_process  # noqa: F401 - fixture

POLLS = re.compile(r'hx-trigger="[^"]*\bevery\b|data-poll|id="followup"')
TEMPLATES = Path(settings.BASE_DIR) / "templates"
GRID = "/policy/grid/"


@dataclass(frozen=True)
class Stage:
    """What a state is made of."""

    world: World
    admin: Client
    patch: pytest.MonkeyPatch
    folder: Path

    def send(self, path: str, fields: Any = None, *, actor: str = "admin") -> None:
        sent = self.world.client(actor).post(path, fields or {})
        assert sent.status_code == 303, (path, sent.status_code, sent.content[:300])


def advice(stage: Stage) -> str:
    stage.send(f"{GRID}advice/")
    return f"{GRID}algorithm/"


def experiment(stage: Stage) -> str:
    by = Actor(user=stage.world.site.admin, via="page")
    return f"{GRID}lab/{create_experiment(policy_slug='grid', name=NAME, spec=SPEC, at=AT, actor=by).pk}/"


def experiments(stage: Stage) -> str:
    experiment(stage)
    return f"{GRID}lab/"


def unread_log(stage: Stage) -> str:
    return f"{GRID}lab/new/"  # one is among the objects of the world


def tried_webhook(stage: Stage) -> str:
    page = f"/notices/webhooks/{stage.world.objects['webhook']}/"
    stage.send(f"{page}act/", {"step": "test", "version": "1"}, actor="pia")
    return page


def first_steps(stage: Stage) -> str:
    """A tree and a log, which is being read."""
    stage.send("/setup/tree/", {"file": SimpleUploadedFile("tree.cfg", DUMP.encode()), "format": "auto"})
    version = FirstPolicyDraft.objects.get(is_open=True).version
    log = SimpleUploadedFile("jobs.txt", log_of(("ada", "physics", AT, 4)).encode())
    stage.send(
        "/setup/log/", {"file": log, "format": "auto", "source_name": "demo", "time_zone": "", "version": version}
    )
    return "/setup/"


def connected_scheduler(stage: Stage) -> str:
    connect_scheduler(policy_slug="grid", name="c9", settings={}, at=AT, actor=SYSTEM)
    return "/schedulers/c9/connect/"


def back_test(stage: Stage) -> str:
    """Two days later: then a day with usage has ended."""
    stage.patch.setenv(clock.VARIABLE, (clock.now() + timedelta(days=2)).isoformat())
    page = f"/changes/{stage.world.objects['change_set']}/back-test/"
    stage.send(f"{page}compute/", {"days": "7"})
    return page


def effect(stage: Stage) -> str:
    """Of a policy that is too large to compute it within the request."""
    stage.patch.setattr(change_effect_runs, "MOST_ENTRIES_AT_ONCE", 3)
    page = f"/changes/{stage.world.objects['change_set']}/"
    stage.send(f"{page}compute/")
    return f"{page}effect/"


def followed(stage: Stage) -> str:
    return f"/changes/{stage.world.objects['published']}/"


def building(stage: Stage) -> str:
    enqueue_series_build(stage.world.site.policy, at=clock.now())
    return f"{GRID}convergence/"


def mount(stage: Stage) -> str:
    return f"/federation/mounts/{stage.world.objects['mount']}/"


def peers(stage: Stage) -> str:
    return "/federation/"


def collection(stage: Stage) -> str:
    stage.patch.setattr(settings, "FAIRSHARE_COLLECT_FOLDERS", [str(stage.folder)])
    given = {"kind": "directory", "collecting": {"folder": str(stage.folder)}, "collect_every_s": 300}
    set_up_source(slug="logs", new_settings=given, at=AT, actor=COMMAND)
    stage.send("/usage/sources/logs/collect/")
    return "/usage/sources/logs/"


def reading_import(stage: Stage) -> str:
    return f"/usage/imports/{stage.world.objects['import_id']}/"


def undone_import(stage: Stage) -> str:
    page = reading_import(stage)
    work_run_now(Import.objects.get(pk=stage.world.objects["import_id"]).run_id)
    stage.send(f"{page}undo/", {"reason": "the wrong month"})
    return page


# By the template that polls: what makes a page that has it, and its address.
STATES: dict[str, Callable[[Stage], str]] = {
    "contrib/lab/_advice.html": advice,
    "contrib/lab/_logs.html": unread_log,
    "contrib/lab/_now.html": experiment,
    "contrib/lab/_rows.html": experiments,
    "contrib/notices/_log.html": tried_webhook,
    "contrib/onboarding/_progress.html": first_steps,
    "contrib/schedulers/_first_report.html": connected_scheduler,
    "pages/changes/review/_back_test.html": back_test,
    "pages/changes/review/_effect.html": effect,
    "pages/changes/review/_followup.html": followed,
    "pages/convergence/_building.html": building,
    "pages/federation/_now.html": mount,
    "pages/federation/_peers.html": peers,
    "pages/sources/_collecting.html": collection,
    "pages/sources/imports/_progress.html": reading_import,
    "pages/sources/imports/_undo.html": undone_import,
}


def test_each_template_that_polls_has_a_state_here() -> None:
    polling = {str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html") if POLLS.search(path.read_text())}
    assert polling == STATES.keys()


@pytest.mark.product
@pytest.mark.parametrize("template", STATES)
def test_no_id_is_twice_once_a_poll_is_answered(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, template: str
) -> None:
    admin = world.client("admin")
    path = STATES[template](Stage(world, admin, monkeypatch, tmp_path))
    drawn = set[str]()

    def note(sender: Any, **_more: Any) -> None:
        drawn.add(str(sender.name))

    template_rendered.connect(note)
    try:
        page = read(admin.get(path))
        polled = check(admin, page, path)
        work_due_runs(clock=clock.now)
        check(admin, page, path)  # what comes when it is done
    finally:
        template_rendered.disconnect(note)
    assert template in drawn, f"{path} doesn't show it"
    assert polled > 0, f"{path} doesn't poll"


@pytest.mark.product
@pytest.mark.parametrize("part", first(1, range(PARTS)))
def test_no_id_is_twice_once_all_parts_of_a_page_have_come(world: World, part: int) -> None:
    admin = world.client("admin")
    for _name, path, _row in pages_of(world, part):
        check(admin, read(admin.get(path)), path)


def check(client: Client, page: Page, path: str) -> int:
    """How many polls were answered."""
    assert twice(page) == [], path
    polled = 0
    for asking, then in after_answers(client, page):
        assert twice(then) == [], (path, asking.url)
        polled += asking.is_poll
    return polled
