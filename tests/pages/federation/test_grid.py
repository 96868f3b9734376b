"""The grid view and the page without a peer: numbers in words, each beside its age, and nothing for who may not."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from selectolax.lexbor import LexborNode

from apps.accounts.models import User
from apps.federation.models import Subscription
from apps.pages.federation import grid_presenters, grid_views
from apps.policies.models import Policy
from apps.priorities.models import Fallback
from apps.usage.models import Source
from tests.federation.grid.grid_site import SETTINGS, TREE
from tests.federation.grid.test_grid import _clock, world
from tests.pages.page import Page, read, text_of
from tests.priority_site import AS_OF, Site, make_site
from tests.sign_in import sign_in

__all__ = ["_clock", "make_site", "world"]
GRID = "/federation/grid/?policy=grid&entry=/vo"


@pytest.fixture
def client(db: None) -> Client:
    return sign_in(Client(), User.objects.create_superuser("admin"))


def verdicts(answer: Any) -> list[tuple[str, str]]:
    """What the page says first: keys and texts."""
    return [(each.attributes["data-key"] or "", text_of(each)) for each in read(answer).items("verdict")]


def warnings(answer: Any) -> list[str]:
    """Keys of the sentences above all numbers."""
    return [" ".join([each.attributes["data-key"] or "", *_keys_in(each)]) for each in read(answer).items("warning")]


def _keys_in(node: LexborNode) -> list[str]:
    return [each.attributes["data-key"] or "" for each in node.css("[data-key]") if each != node]


def entries(answer: Any) -> list[str]:
    return read(answer).texts("[data-testid=grid-row] th")


def test_usage_at_other_sites_only_is_shown_as_no_local_usage(world: Site, client: Client) -> None:
    Source.objects.filter(origin="").update(origin="south.example")
    world.publish([{**TREE[0], "scope": "local"}, TREE[1]], SETTINGS)
    world.recompute()
    rows = read(client.get(GRID)).items("grid-row")
    collected = [
        (text_of(row.css_first("th")), row.css_first("[data-testid=ran-elsewhere]") is not None) for row in rows
    ]
    assert collected == [("vo", True), ("p1", True), ("p2", True)]


def test_the_headline_names_the_largest_deviation_main_site_and_late_sites(world: Site, client: Client) -> None:
    expected = [
        ("furthest_over", ("p1", "67.2 %", "50.0 %")),
        ("furthest_under", ("p2", "32.8 %", "50.0 %")),
        ("delivered_most", ("north", "40.6 %")),
        ("held_hours", ("1", "East")),
        ("behind", ("East", "40", "41", "3 min")),
    ]
    answer = verdicts(client.get(GRID))
    assert [key for key, _text in answer] == [key for key, _parts in expected]
    for (key, text), (_key, parts) in zip(answer, expected, strict=True):
        assert [part for part in parts if part not in text] == [], key


def test_each_site_has_a_column_and_a_row_with_capacity_age_version_and_held_hours(world: Site, client: Client) -> None:
    page = read(client.get(GRID))
    sites = {
        state: Page(f"<table>{each.html}</table>")
        for each in page.items("site")
        for state in [Page(f"<table>{each.html}</table>").item("standing").attributes["data-state"]]
    }
    east = sites["held"]
    shown = east.text("tr")
    for words in ("east.example", "17 26.6 %", "212.5 %", "4 min", "1 h", "40"):
        assert words in shown, (words, shown)
    assert re.findall(r"\d+", text_of(east.item("capacity-note"))) == ["20"]
    assert east.item("capacity-note").attributes["data-value"] == "20.0"
    assert east.item("held").attributes["data-value"] == "1"
    assert {"here", "held", "untold"} == set(sites)
    (row,) = (text for text in page.texts("[data-testid=grid-row]") if text.startswith("p1 "))
    assert re.search(r"p1 50.0 % .*?17.2 \S+ 43 20 46.5 % 11 25.6 % 12 27.9 %", row), row


def test_the_figure_has_the_amounts_of_the_table(world: Site, client: Client) -> None:
    query = "?policy=grid&entry=/vo"
    figure = client.get(f"/federation/grid/figures/flow{query}").json()
    grid = list(csv.DictReader(StringIO(client.get(f"/federation/grid/grid.csv{query}").getvalue().decode())))
    drawn = list(csv.DictReader(StringIO(client.get(f"/federation/grid/figures/flow.csv{query}").getvalue().decode())))
    wanted = {row["path"].rpartition("/")[2]: float(row["delivered_core_h"]) for row in grid[1:]}
    assert {row["entry"]: float(row["core_h all"]) for row in drawn} == pytest.approx(wanted)
    assert sum(link["amount"] for link in figure["flow"]["links"]) == pytest.approx(sum(wanted.values()), abs=0.01)
    assert client.get(f"/federation/grid/figures/flow{query}", headers={"If-None-Match": "x"}).status_code == 200


def test_the_csv_has_the_same_numbers_unrounded(world: Site, client: Client) -> None:
    answer = client.get("/federation/grid/grid.csv?policy=grid&entry=/vo&levels=2")
    rows = list(csv.DictReader(StringIO(answer.getvalue().decode())))
    assert [row["path"] for row in rows] == ["/vo", "/vo/p1", "/vo/p1/ada", "/vo/p1/ben", "/vo/p2", "/vo/p2/cleo"]
    ada = rows[2]
    amounts = [float(ada[f"core_h {site}"]) for site in ("this site", "east.example", "west.example")]
    assert amounts == [20, 11, 12]
    assert float(ada["delivered_core_h"]) == 43
    assert float(rows[1]["actual"]) == pytest.approx(43 / 64)


def test_levels_go_deeper(world: Site, client: Client) -> None:
    assert "cleo" not in entries(client.get(GRID))
    assert "cleo" in entries(client.get(f"{GRID}&levels=2"))
    assert "cleo" in entries(client.get(f"{GRID}&levels=99999999999999999999&levels=3"))


def test_without_an_entry_the_first_shared_one_or_a_message_is_shown(world: Site, client: Client) -> None:
    answer = client.get("/federation/grid/")
    (choice,) = answer.context["choices"]
    assert (choice[0], choice[1].why) == ("grid:/vo", "published")
    assert "/vo" in read(answer).text('option[value="grid:/vo"]')
    assert not read(answer).has("[data-testid=nothing-shared]")
    assert verdicts(client.get("/federation/grid/?entry=grid:/vo"))[0][0] == "furthest_over"
    world.policy.publications.all().delete()
    assert read(client.get("/federation/grid/")).has("[data-testid=nothing-shared]")
    assert client.get("/federation/grid/grid.csv").status_code == 404


@pytest.mark.parametrize("query", ["policy=grid&entry=/none", "policy=none&entry=/vo", "entry=none:/vo", "entry=%00"])
def test_unknown_objects_are_not_found(world: Site, client: Client, query: str) -> None:
    answer: Any = client.get(f"/federation/grid/?{query}")
    assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")


def test_invisible_entries_are_not_found(world: Site) -> None:
    Policy.objects.update(visibility="path")
    stranger = sign_in(Client(), User.objects.create_user("stranger"))
    assert stranger.get(GRID).status_code == 404
    page = read(stranger.get("/federation/grid/"))
    assert page.has("[data-testid=nothing-shared]")
    assert "/federation/published/" not in page.values("href")
    administrator = sign_in(Client(), User.objects.create_superuser("admin"))
    assert "/federation/published/" in read(administrator.get("/federation/grid/")).values("href")


def test_unreachable_sites_and_fallbacks_are_listed_first(world: Site, client: Client) -> None:
    Subscription.objects.update(good_at=AS_OF - timedelta(hours=9))
    assert warnings(client.get(GRID)) == ["unheard old_counts"]
    assert "East" in text_of(read(client.get(GRID)).item("warning"))
    Subscription.objects.update(state="paused")
    assert warnings(client.get(GRID)) == ["unheard old_counts"], "whatever the reason is"
    vo = Subscription.objects.get().entry_uid
    Fallback.objects.create(policy=world.policy, entry_uid=vo, reason="not heard", since=AS_OF - timedelta(hours=1))
    assert warnings(client.get(GRID)) == ["fallback since", "unheard old"]


def test_shares_without_a_peer_use_the_other_sites(world: Site, client: Client) -> None:
    row = Subscription.objects.get()
    assert row.source == Source.objects.get(slug="east")
    page = read(client.get(f"/federation/usage/{row.pk}/without/"))
    title = page.item("without-verdict")
    assert title.attributes["data-key"] == "shares"
    assert all(part in text_of(title) for part in ("East", "p"))
    with_it, without = 43 / 64, 32 / 47
    differences = [text_of(each) for each in page.items("difference")]
    assert any(each.startswith(f"p1 /vo 50.0 % {with_it * 100:.1f} % {without * 100:.1f} %") for each in differences)


def test_shares_beside_each_other_are_rounded_for_each_other() -> None:
    """Rounded alone, an entry that is off its target, or would have another share, had equal numbers."""
    entry: Any = SimpleNamespace(name="p1", state="over", actual=0.1254, target=0.1246, deviation_points=0.08)
    grid: Any = SimpleNamespace(children=[SimpleNamespace(entry=entry)])
    (sentence,) = grid_presenters._largest_deviations(grid)
    assert sentence.text.replace("\xa0", " ") == "p1: actual 12.54 %, target 12.46 %."
    own: Any = SimpleNamespace(own=SimpleNamespace(entry=entry), name="vo", sites=[1, 2])
    assert grid_presenters.headline(own) == "vo has used 0.08 points more than its share"
    before, after = (SimpleNamespace(actual=actual, priority=0.1, rank=1) for actual in (0.1254, 0.1251))
    row: Any = SimpleNamespace(uid=UUID(int=1), name="p1", path="/vo/p1", target=0.1246, before=before, after=after)
    found: Any = SimpleNamespace(policy_slug="grid", rows=[row])
    line = grid_views._line(found, row)
    shown = [text.replace("\xa0", " ") for text in (line.target, line.before, line.after, line.change)]
    assert shown == ["12.46 %", "12.54 %", "12.51 %", "\u22120.03"]


def test_the_page_without_a_peer_needs_the_right_to_manage_it(world: Site) -> None:
    stranger = sign_in(Client(), User.objects.create_user("stranger"))
    answer: Any = stranger.get(f"/federation/usage/{Subscription.objects.get().pk}/without/")
    assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")
    assert "p1" not in read(answer, 404).text("body")  # in the markup are random tokens
