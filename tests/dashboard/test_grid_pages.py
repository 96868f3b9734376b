"""The grid view and the page without a peer: numbers in words, each beside its age, and nothing for who may not."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.federation.models import Subscription
from apps.policies.models import Policy
from apps.priorities.models import Fallback
from apps.usage.models import Source
from tests.federation.test_grid import _clock, world
from tests.priorities.conftest import AS_OF, Site, make_site

__all__ = ["_clock", "make_site", "world"]
GRID = "/federation/grid/?policy=grid&entry=/vo"


@pytest.fixture
def client(db: None) -> Client:
    found = Client()
    found.force_login(User.objects.create_superuser("admin"))
    return found


def text_of(answer: Any) -> str:
    """What people read, tags and blanks taken out."""
    assert answer.status_code == 200, answer.status_code
    text = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", answer.content.decode(), flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)).replace("\xa0", " ")


def test_it_says_who_is_furthest_off_who_bore_most_and_who_is_behind(world: Site, client: Client) -> None:
    said = text_of(client.get(GRID))
    assert "p1 is furthest over: 67.2 % where 50.0 % is its target." in said
    assert "p2 is furthest under: 32.8 % where 50.0 % is its target." in said
    assert "north delivered 40.6 % of it." in said
    assert "1 hour that East told isn’t counted: it is more than it has." in said
    assert "East enforces version 40; 41 was published 3 min ago." in said


def test_each_site_has_a_column_and_a_row_with_capacity_age_version_and_held_hours(
    world: Site, client: Client
) -> None:  # fmt: skip
    page = client.get(GRID)
    rows = re.findall(r"<tr>.*?</tr>", page.content.decode(), flags=re.S)
    east = next(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)) for row in rows if "east.example" in row)
    east = east.replace("\xa0", " ")
    for words in ("held", "17 26.6 %", "2 cores declares 20 now", "212.5 %", "4 min of 1 h", "version 40", "1 hour"):
        assert words in east, (words, east)
    said = text_of(page)
    assert "its records come another way" in said
    assert re.search(r"p1 50.0 % .*?17.2 over 43 20 46.5 % 11 25.6 % 12 27.9 %", said)


def test_the_csv_has_the_same_numbers_in_full(world: Site, client: Client) -> None:
    answer = client.get("/federation/grid/grid.csv?policy=grid&entry=/vo&levels=2")
    rows = list(csv.DictReader(StringIO(answer.getvalue().decode())))
    assert [row["entry"] for row in rows] == ["/vo", "/vo/p1", "/vo/p1/ada", "/vo/p1/ben", "/vo/p2", "/vo/p2/cleo"]
    ada = rows[2]
    amounts = [float(ada[f"core_h {site}"]) for site in ("this site", "east.example", "west.example")]
    assert amounts == [20, 11, 12]
    assert float(ada["delivered_core_h"]) == 43
    assert float(rows[1]["actual"]) == pytest.approx(43 / 64)


def test_levels_go_deeper(world: Site, client: Client) -> None:
    assert "cleo" not in text_of(client.get(GRID))
    assert "cleo" in text_of(client.get(f"{GRID}&levels=2"))
    assert "cleo" in text_of(client.get(f"{GRID}&levels=99999999999999999999&levels=3"))


def test_without_an_entry_the_first_shared_one_is_shown_and_without_any_it_says_so(
    world: Site, client: Client
) -> None:  # fmt: skip
    assert "/vo (published)" in text_of(client.get("/federation/grid/"))
    assert "p1 is furthest over" in text_of(client.get("/federation/grid/?entry=grid:/vo"))
    world.policy.publications.all().delete()
    assert "No entry is published or mounted" in text_of(client.get("/federation/grid/"))
    assert client.get("/federation/grid/grid.csv").status_code == 404


@pytest.mark.parametrize("query", ["policy=grid&entry=/none", "policy=none&entry=/vo", "entry=none:/vo", "entry=%00"])
def test_what_is_not_there_is_not_found(world: Site, client: Client, query: str) -> None:
    answer: Any = client.get(f"/federation/grid/?{query}")
    assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")


def test_what_may_not_be_seen_is_not_found(world: Site) -> None:
    Policy.objects.update(visibility="path")
    stranger = Client()
    stranger.force_login(User.objects.create_user("stranger"))
    assert stranger.get(GRID).status_code == 404
    said = text_of(stranger.get("/federation/grid/"))
    assert "No entry is published or mounted" in said
    assert "What we publish" not in said


def test_a_site_that_is_not_heard_and_a_fallback_are_said_first(world: Site, client: Client) -> None:
    Subscription.objects.update(good_at=AS_OF - timedelta(hours=9))
    old = "Not everybody is heard. What East told last is older than it may be"
    assert f"{old}; it still counts." in text_of(client.get(GRID))
    Subscription.objects.update(state="paused")
    assert f"{old}; it still counts." in text_of(client.get(GRID)), "whatever the reason is"
    vo = Subscription.objects.get().entry_uid
    Fallback.objects.create(policy=world.policy, entry_uid=vo, reason="not heard", since=AS_OF - timedelta(hours=1))
    assert "Compared by this site’s usage alone." in text_of(client.get(GRID))
    assert f"{old}." in text_of(client.get(GRID))


def test_without_a_peer_shares_are_those_of_the_others(world: Site, client: Client) -> None:
    row = Subscription.objects.get()
    assert row.source == Source.objects.get(slug="east")
    said = text_of(client.get(f"/federation/usage/{row.pk}/without/"))
    assert "Without East, p" in said
    with_it, without = 43 / 64, 32 / 47
    assert f"p1 /vo 50.0 % {with_it * 100:.1f} % {without * 100:.1f} %" in said
    assert "Computed again as if East had told nothing; nothing is kept" in said


def test_the_page_without_a_peer_is_for_who_decides_about_it(world: Site) -> None:
    stranger = Client()
    stranger.force_login(User.objects.create_user("stranger"))
    answer: Any = stranger.get(f"/federation/usage/{Subscription.objects.get().pk}/without/")
    assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")
    assert "p1" not in answer.content.decode()
