"""The overview: a sentence, what needs attention with its action, and cards that fail one by one."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import Account, User
from apps.core import clock
from apps.mapping.attachments import attach_account, key_of
from apps.mapping.models import MappingRule
from apps.pages.overview import cards, presenters
from apps.policies.models import Grant, Pin, Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import change_shares, make_change_set, propose_change_set
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.series.models import SeriesDay
from apps.series.runs import enqueue_series_build
from apps.usage.models import Overlap, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid, make_grid, send_mixed_hours, send_usage
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}
STEPS = ("sources", "shares", "mapping")
CARDS = ("verdict", "children", "recent", "attention", "ends")


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    cards.last_good.clear()
    return open_grid


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def shown(client: Client, path: str = "/", **more: Any) -> Page:
    return read(client.get(path, **more))


def attention_item(page: Page, key: str) -> str:
    return page.text(f'[data-testid="attention-item"][data-key="{key}"]')


def test_the_verdict_names_the_largest_deviation_and_idle_entries(admin: Client) -> None:
    page = shown(admin, "/_verdict", headers=HTMX)
    assert page.one("#verdict-title").attributes["data-value"] == "0 3"
    for part in ("0", "3"):
        assert part in page.text("#verdict-title").split(), "without demand isn't on target"
    for side, name, points in (("over", "biomed", "26.5"), ("under", "atlas", "16.5")):
        text = text_of(page.item(f"furthest-{side}"))
        assert (name in text, points in text) == (True, True), side
    assert "1" in text_of(page.item("idle")).split()


def test_waiting_jobs_are_shown_with_entries_under_target(grid: Grid, admin: Client) -> None:
    source = Source.objects.get(slug="cluster-a")
    now = clock.now()
    waiting = RecordRow(
        job="w",
        user="alice",
        group="atlas",
        submit_at=now - timedelta(hours=3),
        cpus=10,
        requested_s=36_000,
        state="pending",
    )
    ingest_batch(source=source, rows=[waiting], at=now)
    grid.recompute()
    text = text_of(shown(admin).item("furthest-under"))
    for part in ("atlas", "16.5", "100"):
        assert part in text


def test_a_failed_card_shows_its_last_value_and_an_error(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "biomed" in shown(admin, "/_children", headers=HTMX).texts("#children th a")

    def fail(desk: object) -> None:
        raise DatabaseError("secret address of the database")

    monkeypatch.setattr(presenters, "_children", fail)
    answer = admin.get("/")
    page = read(answer)
    assert page.one(".broken").parent.attributes["id"] == "children"  # type: ignore[union-attr]
    assert page.has("#children .broken time")  # from when the last good value is
    assert "biomed" in page.texts("#children th a")
    assert page.has("#verdict-title")
    assert page.has("#attention-title")
    assert "secret" not in answer.content.decode()
    card = shown(admin, "/_children", headers=HTMX)
    assert card.has(f'.broken a[hx-get="/_children?policy={SLUG}"]')
    cards.last_good.clear()
    card = shown(admin, "/_children", headers=HTMX)
    assert (card.has(".broken"), card.has(".broken time"), card.has("th a")) == (True, False, False)


def test_each_card_has_its_own_address(admin: Client) -> None:
    page = shown(admin)
    assert not page.has(".broken")
    for name in CARDS:
        assert page.has(f"[data-live-part] #{name}"), "one answer refreshes all of them"
        alone = admin.get(f"/_{name}", headers=HTMX)
        assert alone.content.decode().startswith("<section")
        assert read(alone).has(f"section#{name}")
        assert admin.get(f"/_{name}").status_code == 303


def test_items_that_need_attention_have_an_action(grid: Grid, admin: Client) -> None:
    now = clock.now()
    source = make_source(NewSource(slug="late", name="Late cluster", expected_every_s=3600), at=now, actor=COMMAND)
    old = RecordRow(
        job="x",
        user="stranger",
        group="nowhere",
        start_at=now - timedelta(hours=30),
        end_at=now - timedelta(hours=20),
        cpus=8,
    )
    ingest_batch(source=source, rows=[old], at=now - timedelta(hours=20))
    Overlap.objects.create(
        site="here",
        kept=Source.objects.get(slug="cluster-a"),
        held=source,
        from_at=now - timedelta(hours=5),
        to_at=now,
        found_at=now,
    )
    other = Actor(user=User.objects.create_superuser("otto"), via="page")
    made = make_change_set(
        policy_slug=SLUG,
        new=NewChangeSet(
            operations=[{"op": "set_shares", "entry": str(grid.uid("/cms")), "shares": 12}], reason="Autumn shares"
        ),
        at=now,
        actor=other,
    )
    propose_change_set(id=made.pk, version=made.version, at=now, actor=other)
    store.forget()
    grid.recompute()
    card = shown(admin, "/_attention", headers=HTMX)
    review = attention_item(card, "review")
    for part in ("Autumn shares", "1", "otto"):
        assert part in review
    assert card.has(f'[data-key="review"] a[href="/changes/{made.pk}/"]')
    unmapped = attention_item(card, "unmapped")
    assert unmapped.startswith("1 ")
    assert re.search(r"\b7\d\b", unmapped)  # core-hours: of 80, 20 hours ago
    assert card.has(f'[data-key="unmapped"] a[href="/policy/{SLUG}/mappings/"]')
    assert attention_item(card, "held").startswith("1 ")
    kinds = [kind for kind in card.items("kind") if kind.attributes["data-key"] != "setup"]
    assert [kind.attributes["data-key"] for kind in kinds] == ["reviews", "data"]
    for kind in kinds:
        assert len(kind.css("a.btn.sm")) == len(kind.css('[data-testid="attention-item"]')) == len(kind.css("li"))
    assert not card.has('[data-testid="no-attention-items"]')
    assert "Late cluster" in text_of(shown(admin).item("stale"))


def steps(page: Page) -> dict[str, bool]:
    """Whether each of the core's first steps is done."""
    items = [item for item in page.items("attention-item") if item.attributes["data-key"] in STEPS]
    return {item.attributes["data-key"] or "": item.attributes.get("data-state") == "done" for item in items}


def test_first_steps_are_listed_until_all_of_them_are_done(db: None, client: Client) -> None:
    store.forget()
    admin = sign_in(client, User.objects.create_superuser("root"))
    assert steps(shown(admin)) == dict.fromkeys(STEPS, False), "before the first policy"
    User.objects.all().delete()
    cards.last_good.clear()
    grid = make_grid(clock.now(), with_usage=False)
    admin = sign_in(Client(), grid.admin)
    assert steps(shown(admin)) == {"sources": False, "shares": True, "mapping": True}, "the grid has a rule"
    MappingRule.objects.all().delete()
    link = f'[data-key="mapping"] a[href="/policy/{SLUG}/mappings/"]'
    assert shown(admin).has(link), "an open step leads to its place"
    send_usage(clock.now())
    grid.recompute()
    assert steps(shown(admin))["mapping"] is False, "usage alone maps nothing"
    attach_account(
        policy_slug=SLUG,
        entry_uid=grid.uid("/atlas/alice"),
        account=key_of(Account.objects.earliest("pk")),
        reason="x",
        at=clock.now(),
        actor=COMMAND,
    )
    assert set(steps(shown(admin)).values()) <= {True}
    make_grant(grid.alice, grid.uid("/"))
    assert not steps(shown(sign_in(Client(), grid.alice))), "others don't set the site up"


def test_the_home_of_a_user_without_a_role_is_their_own_priority(grid: Grid, client: Client) -> None:
    sign_in(client, grid.alice)
    answer = client.get("/")
    assert (answer.status_code, answer["Location"]) == (302, "/me/priority/")


def test_administration_is_shown_to_administrators_alone(grid: Grid, client: Client) -> None:
    administration = '[data-testid="unmapped"], [data-testid="attention-item"][data-key="unmapped"]'
    make_grant(grid.alice, grid.uid("/"), "viewer")
    sign_in(client, grid.alice)
    page = shown(client)
    assert (page.has("#verdict-title"), page.has("#mine"), page.has(administration)) == (True, True, False)
    sign_in(client, grid.admin)
    assert shown(client).has(administration)


def test_pins_are_private_and_work_for_every_visible_entry(grid: Grid, admin: Client) -> None:
    uid = grid.uid("/atlas/alice")
    entry = f"/policy/{SLUG}/n/{uid}/alice/"
    pin = f'form[action="/policy/{SLUG}/pins/{uid}/"] [name=pinned]'
    assert shown(admin, entry).one(pin).attributes["value"] == "1"
    answer = admin.post(f"/policy/{SLUG}/pins/{uid}/", {"pinned": "1", "next": entry})
    assert (answer.status_code, answer["Location"]) == (303, entry)
    admin.post(f"/policy/{SLUG}/pins/{uid}/", {"pinned": "1"})
    assert Pin.objects.count() == 1
    assert shown(admin, entry).one(pin).attributes["value"] == "0"
    pinned = shown(admin, "/_pins", headers=HTMX).text(".pins li")
    assert ("SweGrid" in pinned, "/atlas/alice" in pinned) == (True, True)
    other = sign_in(Client(), grid.alice)
    assert not shown(other, "/_pins", headers=HTMX).has(".pins li")
    answer = admin.post(f"/policy/{SLUG}/pins/{uid}/", {"pinned": "0", "next": "https://elsewhere.example/"})
    assert answer["Location"] == "/"
    assert not Pin.objects.exists()


def test_a_hidden_entry_cannot_be_pinned_and_a_pin_of_one_shows_nothing(grid: Grid, client: Client) -> None:
    Policy.objects.update(visibility=Policy.Visibility.PATH)
    hidden = grid.uid("/biomed")
    sign_in(client, grid.alice)
    assert client.post(f"/policy/{SLUG}/pins/{hidden}/", {"pinned": "1"}).status_code == 404
    Pin.objects.create(user=grid.alice, policy=Policy.objects.get(), entry_uid=hidden, created_at=grid.at)
    pins = client.get("/_pins", headers=HTMX)
    assert not read(pins).has(".pins li")
    assert "biomed" not in pins.content.decode()


def test_the_line_of_deviation_has_a_table_and_a_csv(grid: Grid, admin: Client) -> None:
    assert "No daily data yet." in shown(admin, "/_deviation", headers=HTMX).text("#fig-deviation .fig-state")
    now = clock.now()
    source = Source.objects.get(slug="cluster-a")
    rows = [
        RecordRow(
            job=f"{vo}{n}",
            user=user,
            group=vo,
            start_at=now - timedelta(days=n, hours=5),
            end_at=now - timedelta(days=n, hours=4),
            cpus=cpus,
        )
        for n in range(1, 12)
        for vo, user, cpus in (("atlas", "alice", 60), ("biomed", "carol", 30 + n))
    ]
    ingest_batch(source=source, rows=rows, at=now)
    actor = Actor(user=grid.admin, via="page")
    change_shares(policy_slug=SLUG, entry_uid=grid.uid("/cms"), shares=20, reason="more", at=now, actor=actor)
    build(now)
    card = shown(admin, "/_deviation", headers=HTMX)
    assert not card.has(".fig-state")
    label = card.one(".fig-plot").attributes["aria-label"]
    assert len(re.findall(r"\d+\.\d", label or "")) == 2  # from the first day to the last
    drawn = admin.get("/overview/figures/deviation").json()
    assert len(drawn["data"][0]["x"]) == len(card.all("tbody tr"))
    assert len(card.all("tr")) >= 11
    download: Any = admin.get("/overview/figures/deviation.csv")
    lines = b"".join(download.streaming_content).decode().splitlines()
    assert lines[0] == '"day","revision","share_weighted_deviation_points","entries_compared"'
    assert len(lines) >= 11
    days = [line.split(",") for line in lines[1:]]
    assert all(0 < float(points) < 100 for _day, _revision, points, n in days if points != '""')


def test_the_line_of_deviation_begins_with_the_first_hours(grid: Grid, admin: Client) -> None:
    send_mixed_hours(grid)
    build(clock.now())
    assert SeriesDay.objects.count() < 2, "no line of days"
    card = shown(admin, "/_deviation", headers=HTMX)
    assert not card.has(".fig-state")
    drawn = admin.get("/overview/figures/deviation").json()
    assert len(drawn["data"][0]["x"]) == len(card.all("tbody tr")) >= 2
    assert all(len(at) == len("2026-11-20 12:00") for at in drawn["data"][0]["x"])


def build(at: datetime) -> None:
    enqueue_series_build(Policy.objects.get(), at=at)
    for run in Run.objects.filter(state=Run.State.QUEUED):
        work_run_now(run.pk)


def test_an_expired_role_is_not_listed_as_one_that_expires(grid: Grid, admin: Client) -> None:
    now = clock.now()
    for days in (-1, 1):
        make_grant(grid.alice, grid.uid("/atlas"), "viewer", at=now - timedelta(9), expires_at=now + timedelta(days))
        item = shown(admin, "/_ends", headers=HTMX).text('[data-testid="end"][data-key="role_ends"]')
        assert ("expired" in item) == (days < 0)
        Grant.objects.all().delete()
