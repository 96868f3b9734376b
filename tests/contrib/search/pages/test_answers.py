"""The palette answers what is asked, by rights: who is over, undo, reports, waiting jobs, shares to preview."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.services import connect_scheduler
from apps.core import clock
from apps.policies.services import change_shares
from apps.priorities.selectors.rows import PolicyView, open_view
from tests.contrib.schedulers.reports import job, report
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
OPTIONS = "[data-key=answers] [role=option]"
MOST_ANSWER_QUERIES = 12  # of a whole request for one question, frame and rights included


def ask(client: Client, query: str) -> Page:
    return read(client.get("/search/_results", {"q": query, "policy": SLUG}, headers={"HX-Request": "true"}))


def answered(client: Client, query: str) -> list[str]:
    """Each answer's title and note."""
    return [text_of(option) for option in ask(client, query).all(OPTIONS)]


def view_of(grid: Grid) -> PolicyView:
    return open_view(policy_slug=SLUG, actor=Actor(user=grid.admin, via="page"))


def test_who_is_off_target_is_answered_as_the_tree_has_it(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    view = view_of(grid)
    everybody = list(range(1, len(view.tree)))
    assert view.states_of(everybody) == [view.row(i).state for i in everybody]
    assert [round(float(each) * 100, 9) for each in view.deviations_of(everybody)] == [
        round(view.row(i).deviation_points or 0.0, 9) for i in everybody
    ]
    for question, level, sides in (
        ("who is over", "", {"over"}),
        ("Over target?", "", {"over"}),
        ("who is under", "", {"under"}),
        ("who is off target", "", {"over", "under"}),
        ("who is over target in atlas", "atlas", {"over"}),
        ("off target in biomed", "biomed", {"over", "under"}),
    ):
        at = view.tree.index_of_path(f"/{level}") if level else 0
        assert at is not None
        rows = [view.row(i) for i in view.visible_children(at)]
        off = sorted((row for row in rows if row.state in sides), key=lambda row: -abs(row.deviation_points or 0))
        first, *others = answered(client, question)
        assert f"{len(off)} of {len(rows)} in {level or 'SweGrid'} " in first, question
        assert len(others) == len(off)
        for row, text in zip(off, others, strict=True):
            kind = "Rank" if not row.n_children else "Best rank"
            assert text.startswith(f"{row.name} {kind} {row.rank}, "), text
            assert f"{abs(row.deviation_points or 0):.1f} {row.state}" in text
    assert answered(client, "who is over target in nowhere") == []


def test_changes_of_shares_open_as_a_preview_for_those_who_may(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    page = ask(client, "atlas 12 %")
    (url,) = page.each(OPTIONS, "href")
    assert url == f"/policy/{SLUG}/n/{grid.uid('/atlas')}/?panel=shares&shares=12+%25"
    assert "now 60.0 % of SweGrid" in text_of(page.one(OPTIONS)).replace("\xa0", " ")
    opened = read(client.get(url, follow=True))
    assert "12 %" in opened.each("input[name=shares]", "value")
    assert "12.0 %" in opened.text("#panel").replace("\xa0", " "), "its effect is shown"
    assert ask(client, "change shares atlas").each(OPTIONS, "href") == [url.partition("&shares")[0]]
    assert answered(client, "nowhere 12 %") == []
    sign_in(client, grid.alice)
    assert ask(client, "atlas 12 %").each(OPTIONS, "href") == [""]
    assert ask(client, "atlas 12 %").each(OPTIONS, "aria-disabled") == ["true"]


def test_undo_reports_and_connections_lead_to_pages_that_answer(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    urls: set[str] = set()
    for query, start in (
        ("undo", f"/policy/{SLUG}/history/"),
        ("report", f"/policy/{SLUG}/n/"),
        ("last month", f"/policy/{SLUG}/n/"),
        ("report of atlas", f"/policy/{SLUG}/n/{grid.uid('/atlas')}/"),
        ("why does my job wait", f"/policy/{SLUG}/jobs/why/"),
    ):
        links = ask(client, query).each(OPTIONS, "href")
        assert links, query
        assert all(link.startswith(start) for link in links), (query, links)
        urls |= set(links)
    for query, url in (("connect scheduler", "/schedulers/new/"), ("experiment", f"/policy/{SLUG}/lab/new/")):
        (link, *_more) = ask(client, query).each("[data-key=actions] [role=option]", "href")
        assert link == url
        urls.add(link)
    assert {url: client.get(url).status_code for url in urls if client.get(url).status_code != 200} == {}
    sign_in(client, grid.alice)
    assert ask(client, "undo").each(OPTIONS, "aria-disabled") == ["true"]
    assert ask(client, "connect scheduler").each("[data-key=denied] [role=option]", "aria-disabled") == ["true"]


def test_this_month_comes_first_where_it_is_asked_for(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    last, this = "October 2026 of SweGrid Report", "November 2026 of SweGrid, so far Report"
    assert answered(client, "last month") == answered(client, "report") == [last, this]
    assert answered(client, "this month") == [this, last]


def test_the_whole_of_a_target_is_named_also_below_a_group_that_inherits(grid: Grid, client: Client) -> None:
    """Its members compete with the groups beside it: their targets are parts of the level above."""
    sign_in(client, grid.admin)
    actor = Actor(user=grid.admin, via="page")
    uid, at = grid.uid("/atlas"), clock.now()
    change_shares(policy_slug=SLUG, entry_uid=uid, shares="parent", reason="One level.", at=at, actor=actor)
    grid.recompute()
    (text,) = answered(client, "alice 12 %")
    assert "now 2.4 % of SweGrid" in text.replace("\xa0", " ")
    panel = read(client.get(ask(client, "alice 12 %").each(OPTIONS, "href")[0], follow=True)).one("#panel")
    assert "1 of 42 shares of SweGrid" in text_of(panel)
    assert "Its group 'atlas' inherits its shares" in text_of(panel), "12 % of what its members have is no target"
    me = Client()
    sign_in(me, grid.alice)
    story = text_of(read(me.get(reverse("pages:my-priority"))).one("main"))
    assert "of SweGrid" in story
    assert "of atlas" not in story


def test_own_waiting_jobs_and_ranks_that_a_scheduler_does_not_use(grid: Grid, client: Client) -> None:
    settings = {"mode": "shadow", "namespace": "cluster-a"}
    connect_scheduler(policy_slug=SLUG, name="c1", settings=settings, at=grid.at, actor=SYSTEM)
    sign_in(client, grid.alice)
    assert answered(client, "why does my job wait")[0].startswith("None of your jobs waits")
    times = {"pass": uuid4(), "started_at": grid.at - timedelta(seconds=9), "ended_at": grid.at - timedelta(seconds=8)}
    queue = [job("201", "alice", "atlas", site=20_000, value=95_000), job("202", "bob", "atlas", site=90_000)]
    record_pass(name="c1", report=report(mode="shadow", queue=queue, **times), body_sha256="", at=grid.at, actor=SYSTEM)
    page = ask(client, "why does my job wait")
    assert page.each(OPTIONS, "href") == [f"/policy/{SLUG}/jobs/why/201/?scheduler=c1"]
    assert client.get(page.each(OPTIONS, "href")[0]).status_code == 200
    for query, key in (("alice", "people"), ("atlas", "entries")):
        page = ask(client, query)
        assert "c1" in (page.one(f"[data-key={key}]").attributes["aria-label"] or ""), "screen readers hear it"
        assert "shadow" in page.text(f"[data-key={key}] [data-testid=rank-use]")
        (group,) = [each for each in client.get("/api/v1/search", {"q": query}).json()["groups"] if each["kind"] == key]
        assert [one["key"] for one in group["rank_use"]] == ["use.shadow"]
        assert group["hits"][0]["rank"] is not None


@pytest.mark.parametrize("query", ["who is over", "undo", "report", "why does my job wait", "atlas 12 %"])
def test_an_answer_needs_a_bounded_number_of_queries(large_grid: Grid, client: Client, query: str) -> None:
    sign_in(client, large_grid.admin)
    ask(client, "warm")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert answered(client, query)
    assert len(queries) <= MOST_ANSWER_QUERIES, len(queries)
