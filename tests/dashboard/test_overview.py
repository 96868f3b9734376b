"""The overview: a sentence, what needs somebody with its action, and cards that fail one by one."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from apps import clock
from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.dashboard import cards, overview_cards
from apps.policies.models import Pin, Policy
from apps.policies.services import change_shares, make_change_set, propose_change_set
from apps.priorities import served
from apps.priorities.series.runs import ask_for_series
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.collectors.base import RecordRow
from apps.usage.ingest import ingest_batch
from apps.usage.models import Overlap, Source
from apps.usage.services import make_source
from tests.dashboard.grid import SLUG, Grid

HTMX = {"HX-Request": "true"}
CARDS = ("verdict", "top", "deviation", "pins", "attention", "sources", "recent")


@pytest.fixture
def grid(open_grid: Grid) -> Grid:
    cards.last_good.clear()
    return open_grid


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    client.force_login(grid.admin)
    return client


def read(client: Client, path: str = "/", **more: Any) -> str:
    return re.sub(r"\s+", " ", client.get(path, **more).content.decode()).replace("\u00a0", " ")


def words(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text))


def test_the_verdict_names_who_is_furthest_and_who_is_idle(admin: Client) -> None:
    text = words(read(admin, "/_verdict", headers=HTMX))
    assert "1 of 3 VOs is within their band" not in text
    assert "1 of 3 VOs is within its band" in text
    assert "Furthest over: biomed, 26.5 points" in text
    assert "Furthest under: atlas, 16.5 points" in text
    assert "1 idle one has handed its share on" in text


def test_jobs_that_wait_are_told_beside_who_is_under(grid: Grid, admin: Client) -> None:
    source = Source.objects.get(slug="cluster-a")
    now = clock.now()
    waiting = RecordRow(
        job="w", user="alice", group="atlas", submit_at=now - timedelta(hours=3), cpus=10, requested_s=36_000,
        state="pending",
    )  # fmt: skip
    ingest_batch(source=source, rows=[waiting], at=now)
    grid.recompute()
    assert "Furthest under: atlas, 16.5 points, with 100 core-h waiting." in words(read(admin))


def test_a_broken_card_says_so_beside_its_last_good_value_and_the_rest_stays(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "biomed" in read(admin, "/_top", headers=HTMX)

    def fail(desk: object) -> None:
        raise DatabaseError("secret address of the database")

    monkeypatch.setattr(overview_cards, "_top", fail)
    page = read(admin)
    assert "This part can’t be shown now" in page
    assert "Below is what it said at" in page
    assert "biomed</a>" in page  # the last good value
    assert "within its band" in page
    assert "Usage sources" in page
    assert "secret" not in page
    card = admin.get("/_top", headers=HTMX)
    assert card.status_code == 200
    assert "Retry" in card.content.decode()
    cards.last_good.clear()
    assert "biomed" not in read(admin, "/_top", headers=HTMX)


def test_each_card_has_an_address_of_its_own(admin: Client) -> None:
    page = read(admin)
    assert "can’t be shown" not in page
    for name in CARDS:
        assert f'id="{name}"' in page
        assert f'hx-get="/_{name}?policy={SLUG}"' in page
        alone = read(admin, f"/_{name}", headers=HTMX)
        assert alone.startswith("<section")
        assert admin.get(f"/_{name}").status_code == 303


def test_what_needs_me_comes_with_what_to_do(grid: Grid, admin: Client) -> None:
    now = clock.now()
    source = make_source(slug="late", name="Late cluster", expected_every_s=3600, at=now, actor=COMMAND)
    old = RecordRow(job="x", user="stranger", group="nowhere", start_at=now - timedelta(hours=30),
                    end_at=now - timedelta(hours=20), cpus=8)  # fmt: skip
    ingest_batch(source=source, rows=[old], at=now)
    Overlap.objects.create(
        site="here", kept=Source.objects.get(slug="cluster-a"), held=source, from_at=now - timedelta(hours=5),
        to_at=now, found_at=now,
    )  # fmt: skip
    other = Actor(user=User.objects.create_superuser("otto"), via="page")
    made = make_change_set(
        policy_slug=SLUG, operations=[{"op": "set_shares", "entry": str(grid.uid("/cms")), "shares": 12}],
        reason="Autumn shares", at=now, actor=other,
    )  # fmt: skip
    propose_change_set(id=made.pk, version=made.version, at=now, actor=other)
    served.forget()
    grid.recompute()
    card = read(admin, "/_attention", headers=HTMX)
    assert "Review “Autumn shares”" in card
    assert "1 edit by otto" in card
    assert f"/changes/{made.pk}/" in card
    assert "Late cluster is late" in card
    assert "1 account has no entry" in card
    assert re.search(r"7\d core-h in the window, counted for nobody", card)  # of 80, 20 hours ago
    assert f"/policy/{SLUG}/mappings/" in card
    assert "1 stretch of hours is held" in card
    assert "biomed is" in card
    assert card.count('class="btn sm"') == card.count("<li>")


def test_a_member_sees_the_own_priority_first_and_nothing_of_what_administrators_do(grid: Grid, client: Client) -> None:
    client.force_login(grid.alice)
    page = read(client)
    assert page.index("Your priority") < page.index("within its band")
    assert "Accounts without entry" not in page
    assert "have no entry" not in page


def test_the_overview_of_a_part_says_so_and_tells_no_other_numbers(grid: Grid, client: Client) -> None:
    Policy.objects.update(visibility=Policy.Visibility.PATH)
    client.force_login(grid.alice)
    page = read(client)
    assert "biomed" not in page
    assert "atlas" in page


def test_pins_are_ones_own_and_may_be_of_any_entry_one_sees(grid: Grid, admin: Client) -> None:
    uid = grid.uid("/atlas/alice")
    entry = f"/policy/{SLUG}/n/{uid}/alice/"
    assert "Pin<span" in read(admin, entry)
    answer = admin.post(f"/policy/{SLUG}/pins/{uid}/", {"pinned": "1", "next": entry})
    assert (answer.status_code, answer["Location"]) == (303, entry)
    admin.post(f"/policy/{SLUG}/pins/{uid}/", {"pinned": "1"})
    assert Pin.objects.count() == 1
    assert "Unpin<span" in read(admin, entry)
    assert "SweGrid /atlas/alice" in words(read(admin, "/_pins", headers=HTMX))
    other = Client()
    other.force_login(grid.alice)
    assert "/atlas/alice" not in words(read(other, "/_pins", headers=HTMX))
    answer = admin.post(f"/policy/{SLUG}/pins/{uid}/", {"pinned": "0", "next": "https://elsewhere.example/"})
    assert answer["Location"] == "/"
    assert not Pin.objects.exists()


def test_a_hidden_entry_cant_be_pinned_and_a_pin_of_one_tells_nothing(grid: Grid, client: Client) -> None:
    Policy.objects.update(visibility=Policy.Visibility.PATH)
    hidden = grid.uid("/biomed")
    client.force_login(grid.alice)
    assert client.post(f"/policy/{SLUG}/pins/{hidden}/", {"pinned": "1"}).status_code == 404
    Pin.objects.create(user=grid.alice, policy=Policy.objects.get(), entry_uid=hidden, created_at=grid.at)
    assert "biomed" not in read(client, "/_pins", headers=HTMX)


def test_the_line_of_deviation_has_a_table_and_a_csv(grid: Grid, admin: Client) -> None:
    assert "No days yet" in read(admin, "/_deviation", headers=HTMX)
    now = clock.now()
    source = Source.objects.get(slug="cluster-a")
    rows = [
        RecordRow(job=f"{vo}{n}", user=user, group=vo, start_at=now - timedelta(days=n, hours=5),
                  end_at=now - timedelta(days=n, hours=4), cpus=cpus)
        for n in range(1, 12) for vo, user, cpus in (("atlas", "alice", 60), ("biomed", "carol", 30 + n))
    ]  # fmt: skip
    ingest_batch(source=source, rows=rows, at=now)
    actor = Actor(user=grid.admin, via="page")
    change_shares(policy_slug=SLUG, entry_uid=grid.uid("/cms"), shares=20, reason="more", at=now, actor=actor)
    build(now)
    card = read(admin, "/_deviation", headers=HTMX)
    assert 'role="img" aria-label="Share-weighted deviation, from' in card
    assert card.count("<tr>") >= 11
    lines = b"".join(admin.get("/deviation.csv").streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert lines[0] == '"day","revision","share_weighted_deviation_points","entries_compared"'
    assert len(lines) >= 11
    days = [line.split(",") for line in lines[1:]]
    assert all(0 < float(points) < 100 for _day, _revision, points, n in days if points != '""')


def build(at: datetime) -> None:
    ask_for_series(Policy.objects.get(), at=at)
    for run in Run.objects.filter(state=Run.State.QUEUED):
        work_run_now(run.pk)


def test_an_empty_site_leads_its_administrator_to_the_first_steps(db: None, client: Client) -> None:
    client.force_login(User.objects.create_superuser("eva"))
    assert 'href="/setup/"' in read(client)
    client.force_login(User.objects.create_user("guest"))
    assert "/setup/" not in read(client)
