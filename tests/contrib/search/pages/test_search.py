"""Search as a page and as the lines of the palette: the same groups, small fragments, rights, keys."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.search.pages.groups import MOST_SEARCH_LINES, recent_refs
from apps.policies.models import Policy
from apps.priorities.selectors.rows import open_view
from tests.examples import first
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read, text_of
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


@pytest.mark.parametrize("query", first(3, ["a", "al", "policy", "why is bob behind alice", "xyzzy"]))
def test_the_page_without_scripts_lists_the_groups_of_the_palette(eva: Client, query: str) -> None:
    palette, whole = lines(eva, query), page(eva, query)
    assert palette.each(GROUPS, "data-key") == whole.each(GROUPS, "data-key")
    assert palette.has("[data-testid=nothing]") == whole.has("[data-testid=nothing]")


@pytest.mark.parametrize("query", first(3, ["a", "e", "", "policy"]))
def test_search_results_have_at_most_twenty_lines_and_ten_kilobytes(
    large_grid: Grid, client: Client, query: str
) -> None:
    sign_in(client, large_grid.admin)
    answer = client.get("/search/_results", {"q": query, "policy": SLUG}, headers=HTMX)
    assert len(answer.content) <= 10_000
    assert 0 < len(read(answer).all("[role=option]")) <= MOST_SEARCH_LINES


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
    assert lines(eva, "allocat").each("[data-key=pages] [role=option]", "href")[0] == f"/policy/{SLUG}/allocations/"
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


def test_a_person_is_found_with_rank_and_balance(grid: Grid, eva: Client) -> None:
    uid = grid.uid("/atlas/alice")
    alice = lines(eva, "alice").one(f"[data-key=people] [data-ref='{SLUG}:{uid}']")
    view = open_view(policy_slug=SLUG, actor=Actor(user=grid.admin, via="page"))
    at = view.tree.index_of_uid(uid)
    assert at is not None
    entry = view.row(at)
    assert entry.deviation_points is not None
    assert entry.state == "over"
    assert f"Rank {entry.rank}, {entry.deviation_points:.1f} over" in text_of(alice)


@pytest.mark.parametrize("text", ["", "grid", ":" + "0" * 36, "grid:short", "grid:" + "0" * 37])
def test_a_stored_reference_that_is_none_is_left_out(text: str) -> None:
    known = f"grid:{uuid4()}"
    assert list(recent_refs([text, known])) == [tuple(known.split(":"))]
    assert len(list(recent_refs([known] * 4))) == 3


def test_every_page_has_search_and_the_keys_of_its_links(eva: Client) -> None:
    around = read(eva.get(f"/policy/{SLUG}/"))
    assert around.each("header [data-palette]", "href") == ["/search/"]
    keys = around.values("data-shortcut", "#nav")
    assert {"g m", "g t", "g c", "g v", "g a", "g s", "g h"} <= set(keys)
    assert len(set(keys)) == len(keys)
    assert around.each("#edit", "data-shortcut") == ["e"]


def test_single_keys_are_switched_off_and_on_in_one_browser(eva: Client) -> None:
    assert read(eva.get("/")).one("#keys-parts").attributes["data-keys"] == "on"
    answer = eva.post("/keys/", {"keys": "off", "next": "/usage/sources/"})
    assert (answer.status_code, answer["Location"]) == (303, "/usage/sources/")
    assert read(eva.get("/")).one("#keys-parts").attributes["data-keys"] == "off"
    eva.post("/keys/", {"keys": "on", "next": "https://elsewhere.example/"})
    assert read(eva.get("/")).one("#keys-parts").attributes["data-keys"] == "on"
    assert eva.post("/keys/", {"keys": "on", "next": "https://elsewhere.example/"})["Location"] == "/"
