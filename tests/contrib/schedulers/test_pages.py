"""Pages of schedulers: connected by a form, state in words, paused, reset, removed."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.contrib.schedulers.models import Scheduler
from tests.contrib.schedulers.reports import instant, job, report
from tests.instants import AT
from tests.pages.page import Page, read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
FORM = {
    "name": "c2", "policy": "grid", "kind": "slurm", "reach": "agent", "namespace": "a", "mode": "shadow",
    "canary_partition": "", "knob": "sitefactor", "weight": "100000", "step": "100", "subtree": "/",
    "partitions": "a, b", "every_s": "30", "snapshot_age_s": "900", "unmapped_percent": "20",
    "changed_percent": "50", "calls_per_s": "20", "updates_per_min": "600",
}  # fmt: skip


@pytest.fixture
def admin(connected: Site, client: Client) -> Client:
    sign_in(client, connected.admin)
    return client


def _page(client: Client, path: str) -> Page:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    return read(answer)


@pytest.mark.parametrize(("mode", "speaks_of_if"), [("on", False), ("shadow", True)])
def test_a_scheduler_that_is_on_is_not_spoken_of_as_if(
    admin: Client, agent: Caller, mode: str, speaks_of_if: bool
) -> None:
    Scheduler.objects.update(mode=mode)
    moving = [job("101", site=20_000, value=99_000), job("102", "bob", site=90_000, value=1_000)]
    agent.post("schedulers/c1/passes", report(mode=mode, queue=moving))
    page = _page(admin, "/schedulers/c1/")
    words = " ".join([page.text("#changes"), *page.texts('[data-testid="place-after"]')])
    assert (re.search(r"\bif (?:turned )?on\b", words, re.IGNORECASE) is not None) == speaks_of_if
    assert page.has('[data-testid="place-after"]')


def test_settings_that_another_person_changed_are_not_overwritten(admin: Client) -> None:
    (tag,) = _page(admin, "/schedulers/c1/settings/").each("input[name=tag]", "value")
    changed = {**FORM, "partitions": "", "tag": tag, "step": "7"}
    assert admin.post("/schedulers/c1/settings/", changed).status_code == 303
    assert admin.post("/schedulers/c1/settings/", {**changed, "step": "8"}).status_code == 412
    assert Scheduler.objects.get(name="c1").step == 7


@pytest.mark.parametrize(
    ("passes", "key"),
    [
        ([], "new"),
        ([{}], "running"),
        ([{"frozen": {"code": "snapshot_too_old", "detail": "2000 s"}}], "frozen"),
        ([{"jobs": {**report()["jobs"], "failed": 2}}], "failing"),
    ],
)
def test_the_state_is_shown_as_text(admin: Client, agent: Caller, passes: list[dict[str, Any]], key: str) -> None:
    for each in passes:
        assert agent.post("schedulers/c1/passes", report(**each)).status_code == 200
    assert _page(admin, "/schedulers/").each(".badge[data-key]", "data-key") == [key]
    assert _page(admin, "/schedulers/c1/").each("[data-testid=state]", "data-key") == [key]


def test_an_agent_is_silent_after_three_intervals(
    admin: Client, agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.post("schedulers/c1/passes", report())
    for after_s, key in ((90, "running"), (91, "silent")):
        monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(seconds=after_s)).isoformat())
        assert _page(admin, "/schedulers/").each(".badge[data-key]", "data-key") == [key]


def test_a_scheduler_is_paused_resumed_and_reset(admin: Client, agent: Caller) -> None:
    agent.post("schedulers/c1/passes", report())
    for to, key, revision in (("pause", "paused", 2), ("resume", "running", 3), ("reset-values", "resetting", 4)):
        assert admin.post("/schedulers/c1/switch/", {"to": to}).status_code == 303
        assert _page(admin, "/schedulers/c1/").each("[data-testid=state]", "data-key") == [key]
        assert Scheduler.objects.get(name="c1").revision == revision
    later = instant(AT - timedelta(seconds=1))
    agent.post("schedulers/c1/passes", report(orders_revision=4, started_at=later, ended_at=later))
    assert _page(admin, "/schedulers/c1/").each("[data-testid=state]", "data-key") == ["reset"]


def test_checks_show_the_line_to_change(admin: Client, agent: Caller) -> None:
    check = {"code": "double_counting", "severity": "error", "found": "Weight=1", "remedy": "Set 0<b>"}
    agent.post("schedulers/c1/passes", report(checks=[check]))
    page = _page(admin, "/schedulers/c1/")
    assert page.texts("[data-testid=check] code") == ["Set 0<b>"]
    assert len(page.all("[data-testid=pass]")) == 1


def test_a_scheduler_is_removed_with_a_reason(admin: Client) -> None:
    (tag,) = _page(admin, "/schedulers/c1/remove/").each("input[name=tag]", "value")
    assert admin.post("/schedulers/c1/remove/", {"tag": tag, "reason": " "}).status_code == 422
    assert admin.post("/schedulers/c1/remove/", {"tag": tag, "reason": "moved"}).status_code == 303
    assert not Scheduler.objects.exists()


def test_a_freeze_that_a_resume_ends_has_its_button(admin: Client, agent: Caller) -> None:
    for code, wanted in (
        ("order_lost", ["resume", "pause", "reset-values"]),
        ("snapshot_too_old", ["pause", "reset-values"]),
    ):
        agent.post("schedulers/c1/passes", report(frozen={"code": code, "detail": "why"}))
        page = read(admin.get("/schedulers/c1/"))
        assert page.each("button[name=to]", "value") == wanted
