"""The page of a scheduler answers in the order in which an operator asks: state, lag, differences, moves, failures."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers import services
from apps.contrib.schedulers.lag import Lag, current_lag, list_pass_lags
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.orders import tag_of
from apps.contrib.schedulers.selectors import newest_pass, open_queue
from apps.contrib.schedulers.switched_queue import SwitchedQueue, compare_orders
from tests.contrib.schedulers.reports import QUEUE, instant, job, report
from tests.instants import AT
from tests.pages.page import Page, read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
LATE = {"code": "snapshot_too_old", "detail": "The snapshot is 33.3 min old; limit 15 min."}
# A job of the first place for alice, all else as it is.
VALUES = [job("101", "alice", site=20_000, value=95_000), *QUEUE[1:]]
OLDER = [{**QUEUE[0], "value": QUEUE[0]["value"] + 100}, *QUEUE[1:]]  # of its place with either value
ON, OFF, SHADOW = ({"mode": mode} for mode in ("on", "off", "shadow"))


@pytest.fixture
def admin(connected: Site, client: Client) -> Client:
    sign_in(client, connected.admin)
    return client


def _page(client: Client) -> Page:
    return read(client.get("/schedulers/c1/"))


def _set(settings: dict[str, Any]) -> None:
    tag = tag_of(Scheduler.objects.get(name="c1"))
    services.change_scheduler(name="c1", tag=tag, settings=settings, at=AT, actor=SYSTEM)


def _kpis(page: Page) -> dict[str, str]:
    return {node.attributes["data-key"] or "": page.text(f"[data-key={node.attributes['data-key']}] dd").split(" ")[0]
            for node in page.items("kpi")}  # fmt: skip


def _nothing() -> None:
    pass


def _pause() -> None:
    services.pause_scheduler(name="c1", at=AT, actor=SYSTEM)


def _reset() -> None:
    services.request_reset(name="c1", at=AT, actor=SYSTEM)


@pytest.mark.parametrize(
    ("settings", "passes", "act", "key"),
    [
        (ON, [], _nothing, "new"),
        (ON, [{}], _nothing, "running-set"),
        (ON, [{"queue": VALUES}], _nothing, "running-differs"),
        (ON, [{"queue": OLDER}], _nothing, "running-in-order"),
        (ON, [{"queue": None}], _nothing, "running-on"),
        (SHADOW, [{"queue": VALUES}], _nothing, "running-moves"),
        (SHADOW, [{}], _nothing, "running-same"),
        (SHADOW, [{"queue": []}], _nothing, "running-idle"),
        (SHADOW, [{"queue": None}], _nothing, "running-shadow"),
        (ON, [{"frozen": LATE}], _nothing, "frozen"),
        (ON, [{"jobs": {**report()["jobs"], "failed": 2}}], _nothing, "failing"),
        (ON, [{}], _pause, "paused"),
        (ON, [{}], _reset, "resetting"),
        (OFF, [{}], _nothing, "off"),
        ({"carries": "shares", "mode": "on"}, [{"queue": None}], _nothing, "running-unlisted"),
    ],
)
def test_the_heading_says_whether_it_follows_and_what_would_change(
    admin: Client,
    agent: Caller,
    settings: dict[str, Any],
    passes: list[dict[str, Any]],
    act: Callable[[], None],
    key: str,
) -> None:
    _set(settings)
    for each in passes:
        assert agent.post("schedulers/c1/passes", report(**each)).status_code == 200
    act()
    page = _page(admin)
    assert page.each("[data-testid=headline]", "data-key") == [key]
    assert page.has("#install") == (not passes), "the command is offered only while no agent has ever reported"
    assert page.has("[data-figure]") == page.has("[data-testid=kpi]") == bool(passes)


def test_a_silent_agent_says_for_how_long(admin: Client, agent: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.post("schedulers/c1/passes", report())
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(minutes=40)).isoformat())
    page = _page(admin)
    assert page.each("[data-testid=headline]", "data-key") == ["silent"]
    assert "40" in page.text("[data-testid=headline]")
    assert page.each("[data-key=lag] dd", "class") == ["warn-t"]


def test_the_lag_is_the_sum_of_its_parts_and_names_the_slowest(connected: Site, agent: Caller) -> None:
    agent.post("schedulers/c1/passes", report())
    scheduler = Scheduler.objects.get(name="c1")
    lag = current_lag(scheduler, newest_pass(scheduler), AT)
    assert lag == Lag(snapshot_s=14.2, pass_s=2.0, wait_s=10.0)
    assert lag.total_s == pytest.approx(26.2)
    assert (lag.slowest, lag.slowest_s) == ("snapshot", 14.2)
    later = current_lag(scheduler, newest_pass(scheduler), AT + timedelta(minutes=5))
    assert later is not None
    assert (later.slowest, later.slowest_s) == ("wait", 310.0)


def test_a_frozen_pass_brings_nothing_so_the_lag_grows_from_the_last_complete_one(
    connected: Site, agent: Caller
) -> None:
    agent.post("schedulers/c1/passes", report(snapshot_age_s=5.0))
    agent.post("schedulers/c1/passes", report(snapshot_age_s=2_000.0, frozen=LATE))
    scheduler = Scheduler.objects.get(name="c1")
    assert current_lag(scheduler, newest_pass(scheduler), AT) == Lag(5.0, 2.0, 10.0)
    assert [(each.lag_s, each.is_bad) for each in list_pass_lags(scheduler, AT)] == [(7.0, False), (2_002.0, True)]


def test_the_last_failed_pass_is_named_with_its_reason(admin: Client, agent: Caller) -> None:
    agent.post("schedulers/c1/passes", report())
    assert _kpis(_page(admin))["failure"] == "none"
    earlier = instant(AT - timedelta(hours=3))
    agent.post("schedulers/c1/passes", report(frozen=LATE, queue=None, started_at=earlier, ended_at=earlier))
    agent.post("schedulers/c1/passes", report())
    assert "33.3 min" in _page(admin).text("[data-key=failure] small")


def _compared(connected: Site, agent: Caller, queue: list[dict[str, Any]], **settings: Any) -> SwitchedQueue:
    _set(settings)
    scheduler = Scheduler.objects.get(name="c1")
    assert agent.post("schedulers/c1/passes", report(queue=queue)).status_code == 200
    listed = open_queue(scheduler, at=AT, actor=SYSTEM)
    assert listed is not None
    return compare_orders(listed, limit=2)


def test_places_are_those_of_the_queue_with_the_agents_values(connected: Site, agent: Caller) -> None:
    switched = _compared(connected, agent, VALUES)
    assert (switched.n_jobs, switched.n_moved, switched.n_kept) == (5, 4, 1), "the held job has no place"
    assert [(move.job, move.before, move.after, move.n_up) for move in switched.moves] == [
        ("101", 5, 2, 3),
        ("102", 2, 3, -1),
    ], "the largest first, of equal ones the first in the queue"
    assert (switched.n_valued, switched.n_differing) == (6, 1)
    assert (switched.moves[0].path, switched.moves[0].of) == ("/physics/alice", switched.moves[1].of)


def test_a_nice_value_lowers_and_a_priority_replaces(connected: Site, agent: Caller) -> None:
    terms = {**QUEUE[0]["terms"], "site": 0, "nice": 0}
    queue = [
        {**QUEUE[0], "job": "1", "priority": 500, "terms": terms, "value": 400},
        {**QUEUE[1], "job": "2", "priority": 450, "terms": terms, "value": 10},
    ]
    assert [move.job for move in _compared(connected, agent, queue, knob="nice").moves] == ["2", "1"]
    assert _compared(connected, agent, queue, knob="priority").n_moved == 0
    assert _compared(connected, agent, queue, knob="priority", step=40).n_differing == 2


def test_jobs_that_the_orders_leave_alone_keep_their_priority(connected: Site, agent: Caller) -> None:
    queue = [{**each, "value": None} for each in QUEUE[1:]] + [VALUES[0]]
    switched = _compared(connected, agent, queue)
    assert (switched.n_valued, [move.job for move in switched.moves][:1]) == (1, ["101"])


def test_an_order_of_tickets_is_not_computed_ahead(admin: Client, connected: Site, agent: Caller) -> None:
    switched = _compared(connected, agent, VALUES, kind="gridengine", knob="override_tickets")
    assert (switched.n_moved, switched.moves) == (None, ())
    assert _page(admin).has("[data-testid=unknown-order]")


def test_the_page_lists_who_moves(admin: Client, agent: Caller) -> None:
    _set(SHADOW)
    agent.post("schedulers/c1/passes", report(queue=VALUES))
    page = _page(admin)
    assert page.each("[data-testid=move]", "data-key") == ["101", "102", "104", "103"]
    assert _kpis(page) | {"lag": "", "longest": ""} == {
        "lag": "", "longest": "", "differing": "1", "moved": "4", "failure": "none"
    }  # fmt: skip


def test_an_agent_of_shares_counts_shares(admin: Client, agent: Caller) -> None:
    _set({"carries": "shares", "mode": "on"})
    agent.post("schedulers/c1/passes", report(queue=None))
    page = _page(admin)
    assert page.has("[data-testid=shares-differ]")
    assert not page.has("[data-testid=move]")


def test_the_tab_of_the_queue_counts_on_pages_of_its_place_alone(
    admin: Client, reported: dict[str, Any], connected: Site
) -> None:
    counts = {
        path: read(admin.get(path)).each(".tabs [data-value]", "data-value") for path in ("/schedulers/", "/audit/")
    }
    assert counts == {"/schedulers/": [str(len(QUEUE))], "/audit/": []}
    assert not read(admin.get("/schedulers/")).has("nav#nav [data-value='6']"), "it is nothing to decide"
    sign_in(admin, connected.alice)
    assert not read(admin.get("/policy/grid/jobs/why/")).has(".tabs [data-value]")


def test_the_figure_of_lag_is_json_and_csv(admin: Client, agent: Caller) -> None:
    agent.post("schedulers/c1/passes", report())
    figure = admin.get("/schedulers/c1/figures/lag").json()
    assert figure["name"] == "lag"
    rows = list(csv.reader(admin.get("/schedulers/c1/figures/lag.csv").getvalue().decode().splitlines()))
    assert rows[0] == ["ended_at", "lag_s", "frozen", "failed"]
    assert [row[1:] for row in rows[1:]] == [["16.2", "", "0"]]
    assert admin.get("/schedulers/c1/figures/lag.png").status_code == 404


def test_checks_come_with_words_and_errors_first(admin: Client, agent: Caller) -> None:
    checks = [
        {"code": "clock", "severity": "ok", "found": "The clocks agree.", "remedy": ""},
        {"code": "double_counting", "severity": "error", "found": "Weight=1", "remedy": "Weight=0"},
        {"code": "weight_urgency", "severity": "warning", "found": "0.1", "remedy": "weight_urgency 0"},
    ]
    agent.post("schedulers/c1/passes", report(checks=checks))
    page = _page(admin)
    assert page.each("[data-testid=check]", "data-key") == ["double_counting", "weight_urgency", "clock"]
    assert "double_counting" not in page.text("[data-testid=check][data-key=double_counting]")
    assert page.text("#checks ~ .count") == "2"
