"""The navigation: places, their tabs, and who is shown them."""

from __future__ import annotations

import pytest
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.urls import get_resolver

from apps.accounts.models import User
from apps.web.shell.navigation import Shell
from apps.web.shell.places import ENTRY, PLACES, all_tabs, tab_of
from fairshare_web.urls import PAGES
from tests.grants import make_grant
from tests.sign_in import sign_in
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


def shell_of(user: User, address: str = "/") -> Shell:
    request: HttpRequest = RequestFactory().get(address)
    request.user = user
    request.resolver_match = get_resolver().resolve(address)
    return Shell(request)


def names(shell: Shell) -> list[str]:
    """The rows of each group."""
    return [", ".join(item.label for item in group) for group in shell.places]


def labels(shell: Shell) -> str:
    return ", ".join(item.label for item in shell.tabs.items) if shell.tabs else ""


def test_tabs_name_places_and_routes_that_exist() -> None:
    routes = {pattern.name for pattern in PAGES}
    for route, tab in all_tabs().items():
        assert route in routes
        assert tab.place in {*PLACES, ENTRY}
        assert not tab.below or all_tabs()[tab.below].place == tab.place


def test_a_page_below_a_tab_belongs_to_it() -> None:
    assert tab_of("icicle") == "icicle"
    assert tab_of("draft-paste") == "edit"
    assert tab_of("diff") == tab_of("change-checks") == tab_of("history") == "changes"
    assert tab_of("my-priority") == "overview"
    assert tab_of("tokens") == ""


@pytest.mark.product
def test_ten_places_stand_in_three_groups(computed_site: Site) -> None:
    make_grant(computed_site.admin, computed_site.uid("/"), policy=computed_site.policy)
    assert names(shell_of(computed_site.admin)) == [
        "Home, My group, Inbox",
        "Policy, Convergence, Allocations, People",
        "Data, Schedulers, Settings",
    ]


@pytest.mark.product
def test_a_user_without_a_role_has_four_places(computed_site: Site) -> None:
    assert names(shell_of(computed_site.alice)) == ["Home, My jobs, My group, Inbox"]


@pytest.mark.product
def test_shortcuts_are_not_given_twice(computed_site: Site) -> None:
    shell = shell_of(computed_site.admin)
    keys = [item.keys for group in [*shell.places, shell.shortcuts] for item in group if item.keys]
    assert sorted(keys) == sorted(set(keys))
    assert {f"g {key}" for key in "omintcrvash"} == set(keys)


@pytest.mark.parametrize(
    ("address", "place", "tab"),
    [
        ("/", ("Home", "page"), None),
        ("/policy/grid/", ("Policy", "page"), ("Tree", "page")),
        ("/policy/grid/icicle/", ("Policy", "true"), ("Treemap", "page")),
        ("/policy/grid/history/", ("Policy", "true"), ("Changes and history", "true")),
        ("/audit/", ("Settings", "true"), ("Audit", "page")),
    ],
)
def test_place_and_tab_of_a_page_are_marked(
    computed_site: Site, address: str, place: tuple[str, str], tab: tuple[str, str] | None
) -> None:
    shell = shell_of(computed_site.admin, address)
    assert [(item.label, item.current) for group in shell.places for item in group if item.current] == [place]
    marked = [(item.label, item.current) for item in shell.tabs.items if item.current] if shell.tabs else []
    assert marked == ([tab] if tab else [])


def test_pages_of_an_entry_have_the_tabs_of_the_entry(computed_site: Site) -> None:
    admin = sign_in(Client(), computed_site.admin)
    uid = computed_site.uid("/physics")
    for address in (
        f"/policy/grid/n/{uid}/physics/",
        f"/policy/grid/members/{uid}/",
        f"/policy/grid/adjustments/{uid}/",
    ):
        shell = admin.get(address).context["shell"]
        assert shell.tabs.label == "physics"
        assert labels(shell).startswith("Overview, Over time")
        assert [item.url for item in shell.tabs.items if item.current == "page"] == [address]


def test_a_tab_without_rights_is_not_shown(computed_site: Site) -> None:
    assert "Usage upload" in labels(shell_of(computed_site.admin, "/usage/sources/"))
    assert shell_of(computed_site.alice, "/usage/sources/").tabs is None
    assert "Federation" not in labels(shell_of(computed_site.alice, "/policy/grid/decay/"))
