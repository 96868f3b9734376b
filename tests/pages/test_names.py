"""One name a page: its document, tab, place in the navigation and breadcrumb call it the same."""

from __future__ import annotations

from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.web.shell.places import ENTRY, PLACES, all_tabs
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.sign_in import sign_in


def test_each_page_of_the_navigation_has_one_name(grid: Grid, client: Client) -> None:
    sign_in(client, User.objects.get(username="admin"))
    differing = {}
    for route, tab in all_tabs().items():
        if tab.place == ENTRY or not set(tab.names) <= {"policy"}:
            continue
        answer = client.get(reverse(f"dashboard:{route}", kwargs=dict.fromkeys(tab.names, SLUG)), follow=True)
        if answer.status_code == 404:  # a page of what this grid has none of
            continue
        page = read(answer)
        name, place = str(tab.title or tab.label), str(PLACES[tab.place].label)
        shown = {"document": page.text("title").split(" · ")[0]}
        expected = {"document": name}
        if tab.label and not tab.below and page.has(".tabs [aria-current]"):
            shown["tab"], expected["tab"] = page.texts(".tabs [aria-current]")[0], str(tab.label)
        if crumbs := page.texts(".crumbs li"):
            shown["crumb"], expected["crumb"] = crumbs[-1], crumbs[-1] if crumbs[-1] in (name, place) else place
        if shown != expected:
            differing[route] = (shown, expected)
    assert differing == {}
