"""Search as a page and as the lines of the palette: the same groups, small answers, rights, keys."""

from __future__ import annotations

from typing import Literal
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.dashboard.search.views import MOST_LINES, answer_groups, recent_refs
from apps.policies.models import Policy
from apps.search.answers import Link, SearchAnswer
from tests.dashboard.grid import SLUG, Grid
from tests.dashboard.page import Page, read
from tests.examples import first
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
GROUPS = "[data-testid=group]"


@pytest.fixture
def eva(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def lines(client: Client, query: str, **more: str) -> Page:
    return read(client.get("/search/_results", {"q": query, "policy": SLUG, **more}, headers=HTMX))


def page(client: Client, query: str, **more: str) -> Page:
    return read(client.get("/search/", {"q": query, "policy": SLUG, **more}))


# --- Groups -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("query", first(3, ["a", "al", "policy", "why is bob behind alice", "how so?", "xyzzy"]))
def test_the_page_without_scripts_lists_the_groups_of_the_palette(eva: Client, query: str) -> None:
    palette, whole = lines(eva, query), page(eva, query)
    assert palette.each(GROUPS, "data-key") == whole.each(GROUPS, "data-key")
    assert palette.has("[data-testid=answer]") == whole.has("[data-testid=answer]")
    assert palette.has("[data-testid=nothing]") == whole.has("[data-testid=nothing]")


@pytest.mark.parametrize("query", first(3, ["a", "e", "", "who is over target", "what changed", "policy"]))
def test_search_results_have_at_most_twenty_lines_and_ten_kilobytes(
    large_grid: Grid, client: Client, query: str
) -> None:
    sign_in(client, large_grid.admin)
    answer = client.get("/search/_results", {"q": query, "policy": SLUG}, headers=HTMX)
    assert len(answer.content) <= 10_000
    assert 0 < len(read(answer).all("[role=option]")) <= MOST_LINES


def test_options_have_their_own_addresses_and_unique_ids(eva: Client) -> None:
    found = lines(eva, "a")
    ids = found.each("[role=option]", "id")
    assert len(set(ids)) == len(ids)
    assert all(found.each("[role=option]:not([data-press])", "href"))
    assert eva.get(found.each("[data-key=people] [role=option]", "href")[0]).status_code == 200


def test_more_results_of_a_group_link_to_its_full_list(large_grid: Grid, client: Client) -> None:
    sign_in(client, large_grid.admin)
    (more,) = lines(client, "member").each("[data-key=people] .pal-h a", "href")
    whole = read(client.get(more))
    assert len(whole.items("hit")) == 100
    assert whole.each(GROUPS, "data-key") == ["people"]


def test_pages_settings_and_actions_are_found_by_name_and_by_section(eva: Client) -> None:
    assert lines(eva, "allocat").each("[data-key=pages] [role=option]", "href") == [f"/policy/{SLUG}/allocations/"]
    assert lines(eva, "half-life").each("[data-key=settings] [role=option]", "href") == [f"/policy/{SLUG}/decay/"]
    assert lines(eva, "import a").each("[data-key=actions] [role=option]", "href") == ["/usage/import/"]
    assert lines(eva, "dark").each("[data-key=actions] [role=option]", "data-press") == ["theme"]
    assert page(eva, "dark").items("hit") == [], "a page without scripts has the switch in its top bar"


def test_every_offered_action_opens(eva: Client) -> None:
    found = set()
    for query in ("change", "give", "import", "add", "mount", "compare", "create", "choose"):
        found |= set(lines(eva, query).each("[data-key=actions] [role=option]", "href"))
    assert len(found) >= 8
    assert {url: eva.get(url).status_code for url in found if eva.get(url).status_code not in (200, 303)} == {}


# --- Rights -----------------------------------------------------------------------------------------------------------
def test_a_forbidden_action_names_the_decider_and_an_alternative(closed: Grid, client: Client) -> None:
    sign_in(client, closed.alice)
    found = lines(client, "change shares")
    assert found.each(GROUPS, "data-key") == ["denied", "instead"]
    assert found.each("[data-key=denied] [role=option]", "aria-disabled") == ["true"]
    assert found.each("[data-key=denied] [role=option]", "href") == [""]
    assert "/me/priority/" in found.each("[data-key=instead] [role=option]", "href")
    assert not lines(client, "").has("[aria-disabled]"), "nothing is offered that is denied"


def test_recent_pages_are_listed_by_current_rights(closed: Grid, client: Client) -> None:
    own, other = closed.uid("/atlas/alice"), closed.uid("/atlas/bob")
    last = [f"{SLUG}:{own}", f"{SLUG}:{other}", "nowhere:" + "0" * 36, "rubbish"]
    sign_in(client, closed.alice)
    answer = client.get("/search/_results", {"q": "", "last": last}, headers=HTMX)
    assert read(answer).each("[data-key=recent] [role=option]", "data-ref") == [f"{SLUG}:{own}"]
    sign_in(client, closed.admin)
    answer = client.get("/search/_results", {"q": "", "last": last}, headers=HTMX)
    assert len(read(answer).all("[data-key=recent] [role=option]")) == 2


def test_a_user_without_a_policy_finds_pages(grid: Grid, client: Client) -> None:
    Policy.objects.update(visibility="path")
    sign_in(client, User.objects.create_user("guest"))
    assert lines(client, "notices").each(GROUPS, "data-key")[:1] == ["pages"]
    assert lines(client, "alice").has("[data-testid=nothing]")


# --- Answers ----------------------------------------------------------------------------------------------------------
def test_a_false_assumption_is_marked_and_rows_link_to_their_entries(eva: Client) -> None:
    found = lines(eva, "why is bob behind alice")
    assert found.item("answer").attributes["data-key"] == "ahead"
    assert found.has("[data-testid=contradicts]")
    assert sorted(found.texts("[data-testid=answer-row] th")) == ["alice", "bob"]
    for url in found.values("href"):
        assert eva.get(url).status_code in (200, 303), url


def test_an_example_runs_the_question(eva: Client) -> None:
    found = lines(eva, "how so?")
    assert len(found.values("data-q", "[data-key=questions]")) == 3


@pytest.mark.parametrize("to", ["history", "convergence"])
def test_a_link_of_an_answer_leads_to_the_page_of_the_policy_or_of_its_entry(
    eva: Client, grid: Grid, to: Literal["history", "convergence"]
) -> None:
    links = [Link(to, SLUG, "atlas", uid) for uid in (None, grid.uid("/atlas"))]
    (group,) = answer_groups(SearchAnswer("off", "x", links=links))
    whole, entry = group.items
    assert (str(grid.uid("/atlas")) in whole.url, str(grid.uid("/atlas")) in entry.url) == (False, True)
    assert [eva.get(each.url).status_code for each in group.items] == [200, 200]


@pytest.mark.parametrize(("number", "before"), [(2, 1), (1, 1)])
def test_a_revision_of_an_answer_is_compared_with_the_one_before(eva: Client, number: int, before: int) -> None:
    (group,) = answer_groups(SearchAnswer("changed", "x", links=[Link("revision", SLUG, "x", number=number)]))
    assert group.items[0].url.endswith(f"?from={before}&to={number}")
    assert eva.get(group.items[0].url).status_code == 200


@pytest.mark.parametrize("text", ["", "grid", ":" + "0" * 36, "grid:short", "grid:" + "0" * 37])
def test_a_stored_reference_that_is_none_is_left_out(text: str) -> None:
    known = f"grid:{uuid4()}"
    assert list(recent_refs([text, known])) == [tuple(known.split(":"))]
    assert len(list(recent_refs([known] * 4))) == 3


# --- Around every page ------------------------------------------------------------------------------------------------
def test_every_page_has_search_and_the_keys_of_its_links(eva: Client) -> None:
    around = read(eva.get(f"/policy/{SLUG}/"))
    assert around.each("header [data-palette]", "href") == ["/search/"]
    keys = around.values("data-shortcut", "#nav")
    assert {"g m", "g t", "g c", "g v", "g a", "g s", "g h"} <= set(keys)
    assert len(set(keys)) == len(keys)
    assert around.each("#edit", "data-shortcut") == ["e"]


def test_single_keys_are_switched_off_and_on_in_one_browser(eva: Client) -> None:
    assert read(eva.get("/")).one("#palette-parts").attributes["data-keys"] == "on"
    answer = eva.post("/keys/", {"keys": "off", "next": "/usage/sources/"})
    assert (answer.status_code, answer["Location"]) == (303, "/usage/sources/")
    assert read(eva.get("/")).one("#palette-parts").attributes["data-keys"] == "off"
    eva.post("/keys/", {"keys": "on", "next": "https://elsewhere.example/"})
    assert read(eva.get("/")).one("#palette-parts").attributes["data-keys"] == "on"
    assert eva.post("/keys/", {"keys": "on", "next": "https://elsewhere.example/"})["Location"] == "/"
