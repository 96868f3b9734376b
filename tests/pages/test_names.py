"""One name a page: navigation, tabs, documents, headings, breadcrumbs, links, guides and documentation use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.web.links.guides import guides
from apps.web.shell.places import ENTRY, PLACES, Tab, all_tabs, tabs_of
from tests.each_case import each_case
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.sign_in import sign_in

ENTRY_PATH = "/atlas"
# Pages whose heading is a finding, such as "No pending decisions"; of all others it begins with the name.
FINDINGS = {
    *("overview", "my-priority", "inbox", "notices", "edit", "history", "mappings", "sources", "federation"),
    *("audit", "entry", "entry-convergence", "entry-core-hours", "statements", "allocations", "allocation-rules"),
}
# Texts of links that say what happens there, instead of naming the page to which they lead.
ACTIONS = {
    *("Add adjustment", "Add capacity", "Cancel", "Change", "Open", "Reload", "Reset", "Start over", "Back to now"),
    *("Clear filter", "Newest", "Older", "Older ones", "All events at this entry"),
    *(
        "All",
        "All drafts",
        "All my jobs",
        "All roles",
        "Details",
        "Groups and users",
        "Why",
    ),  # beside a part of the page
}
ACTIONS.add("First steps")  # the heading of Home without a policy
VIEWS = {"List", "Matrix", "Now", "Peers"}  # switches between drawings of one page
BRAND = "Fairshare"
_LINK = re.compile(r'<a\b[^>]*?href="{% url "pages:([\w-]+)"[^%]*%}(?:\?[^"]*)?"[^>]*>(.*?)</a>', re.DOTALL)
_TRANSLATE = re.compile(r'{% translate "([^"]*)" %}')
_PATH = re.compile(r"\*([^*\n]+)\*,\s\*([^*\n]+)\*")
_PAGE = re.compile(r"\bpage (\*{1,2})([A-Z][^*\n]*)\1")


def name_of(tab: Tab) -> str:
    return str(tab.title or tab.label)


def is_a_group(route: str) -> bool:
    """Whether a tab holds several pages, or is the first of its place, whose page has the place's name."""
    tab = all_tabs()[route]
    has_views = any(other.below == route for other in all_tabs().values())
    return has_views or (tab.place != ENTRY and tabs_of(tab.place)[0][0] == route)


def pages_of(grid: Grid, client: Client) -> Iterator[tuple[str, Tab, Page]]:
    sign_in(client, User.objects.get(username="admin"))
    names = {"policy": SLUG, "uid": grid.uid(ENTRY_PATH), "name": ENTRY_PATH[1:]}
    for route, tab in all_tabs().items():
        address = reverse(f"pages:{route}", kwargs={name: names[name] for name in tab.names})
        answer = client.get(address, follow=True)
        if answer.status_code != 404:  # a page of what this grid has none of
            yield route, tab, read(answer)


def test_a_tab_has_the_name_of_its_page_or_holds_several() -> None:
    names = {route: (str(tab.label), name_of(tab)) for route, tab in all_tabs().items() if not is_a_group(route)}
    assert {route: pair for route, pair in names.items() if pair[0] != pair[1]} == {}


@pytest.mark.deep
def test_documents_tabs_headings_and_breadcrumbs_name_each_page(grid: Grid, client: Client) -> None:
    differing = {}
    for route, tab, page in pages_of(grid, client):
        name = ENTRY_PATH[1:] if route == "entry" else name_of(tab)
        shown = {"document": page.text("title").split(" · ")[0]}
        expected = {"document": name}
        if tab.label and not tab.below and page.has(".tabs [aria-current]"):
            shown["tab"], expected["tab"] = page.texts(".tabs [aria-current]")[0], str(tab.label)
        if route not in FINDINGS:
            shown["heading"], expected["heading"] = page.text("h1")[: len(name)], name
        if crumbs := page.texts(".crumbs li"):
            place = ENTRY_PATH[1:] if tab.place == ENTRY else str(PLACES[tab.place].label)
            shown["crumb"], expected["crumb"] = crumbs[-1], crumbs[-1] if crumbs[-1] in (name, place) else place
            assert len(set(crumbs)) == len(crumbs), (route, crumbs)
        if shown != expected:
            differing[route] = (shown, expected)
    assert differing == {}


def test_links_to_a_page_have_its_name_or_say_what_happens_there() -> None:
    differing = []
    for path in sorted(Path(settings.BASE_DIR, "templates").rglob("*.html")):
        for route, content in _LINK.findall(path.read_text(encoding="utf-8")):
            if (tab := all_tabs().get(route)) is None:
                continue
            text = _TRANSLATE.sub(r"\1", re.sub(r"{% (?:icon|include)[^%]*%}|<[^>]+>", "", content)).strip()
            if "{" in text or text in ACTIONS | VIEWS | {BRAND, name_of(tab), str(tab.label)}:
                continue
            differing.append((path.name, route, text))
    assert differing == []


def test_guides_begin_with_the_name_of_their_first_page() -> None:
    differing = {}
    for guide in guides():
        tab = all_tabs().get(guide.routes.split()[0])
        if tab is not None and guide.pages.replace("*", "").split(", ")[0] != name_of(tab):
            differing[guide.pages] = name_of(tab)
    assert differing == {}


def documents() -> list[Path]:
    return [Path(settings.BASE_DIR, "README.md"), *sorted(Path(settings.BASE_DIR, "docs").rglob("*.md"))]


@pytest.mark.product
def test_the_table_of_the_manual_lists_places_and_tabs() -> None:
    text = Path(settings.BASE_DIR, "docs", "manager.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]*?) ?\|$", text.partition("## Where things are")[2], re.MULTILINE))
    for key, place in PLACES.items():
        tabs = [str(tab.label) for _, tab in tabs_of(key) if tab.label]
        if len(tabs) > 1:
            assert rows[str(place.label)] == ", ".join(tabs)
    assert f"tabs of its own: {', '.join(str(tab.label) for _, tab in tabs_of(ENTRY))}." in text


@pytest.mark.product
@each_case("path", documents(), ids=lambda path: path.name)
def test_documentation_calls_pages_by_their_names(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = {name.strip("*") for guide in guides() for name in guide.pages.split(", ")}
    named |= {name_of(tab) for tab in all_tabs().values()}
    assert {name for _, name in _PAGE.findall(text)} - named - OTHER_PAGES == set()
    tabs = {str(PLACES[key].label): {str(tab.label) for _, tab in tabs_of(key)} for key in PLACES}
    paths = [(place, tab) for place, tab in _PATH.findall(text) if place in tabs and len(tabs[place]) > 1]
    assert [(place, tab) for place, tab in paths if tab not in tabs[place] | OTHER_PAGES] == []


OTHER_PAGES = {"Remove or archive", "Shares", "Connect a scheduler"}  # below a scheduler, a source or a policy
