"""Views of lists that people keep: saved, renamed, deleted, one the default; one's own only."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.models import SavedView, User
from apps.accounts.saved_views import LONGEST_QUERY, MOST_VIEWS
from tests.dashboard.grid import SLUG, Grid
from tests.dashboard.page import read
from tests.sign_in import sign_in

TREE = f"/policy/{SLUG}/"


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    sign_in(client, grid.admin)
    return client


def save(client: Client, name: str = "Late ones", query: str = "?off=1&sort=-deviation", page: str = TREE) -> str:
    answer = client.post("/me/views/", {"page": page, "name": name, "query": query})
    return str(answer["Location"]) if answer.status_code == 303 else str(answer.status_code)


def change(client: Client, view: SavedView, step: str, **fields: str) -> int:
    return client.post(f"/me/views/{view.pk}/", {"step": step, **fields}).status_code


def test_a_view_keeps_filter_order_and_columns_but_not_the_position(admin: Client) -> None:
    query = "off=1&sort=-deviation&col=target&col=rank&after=3f&entry=x&csrfmiddlewaretoken=secret"
    assert save(admin, query=f"?{query}") == f"{TREE}?off=1&sort=-deviation&col=target&col=rank"
    view = SavedView.objects.get()
    assert (view.name, view.query) == ("Late ones", "off=1&sort=-deviation&col=target&col=rank")
    page = read(admin.get(f"{TREE}?{view.query}"))
    assert page.text("#views summary") == "Late ones"
    assert f"{TREE}?{view.query}" in page.each("#views a", "href")
    save(admin, query="level=1")
    assert SavedView.objects.get().query == "level=1", "the same name again"


def test_the_default_view_opens_without_parameters(admin: Client) -> None:
    save(admin)
    view = SavedView.objects.get()
    assert admin.get(TREE).status_code == 200
    assert change(admin, view, "default") == 303
    answer = admin.get(TREE)
    assert (answer.status_code, answer["Location"]) == (303, f"{TREE}?{view.query}")
    assert admin.get(f"{TREE}?view=all").status_code == 200
    save(admin, name="Other", query="level=1")
    change(admin, SavedView.objects.get(name="Other"), "default")
    assert [each.name for each in SavedView.objects.filter(is_default=True)] == ["Other"]
    change(admin, SavedView.objects.get(name="Other"), "not-default")
    assert admin.get(TREE).status_code == 200


def test_views_are_renamed_and_deleted(admin: Client) -> None:
    save(admin)
    save(admin, name="Other", query="level=1")
    view = SavedView.objects.get(name="Other")
    change(admin, view, "rename", name="  First   level ")
    view.refresh_from_db()
    assert view.name == "First level"
    for wrong in ("", "x" * 61, "Late ones"):
        change(admin, view, "rename", name=wrong)
    view.refresh_from_db()
    assert view.name == "First level"
    change(admin, view, "delete")
    assert [each.name for each in SavedView.objects.all()] == ["Late ones"]


def test_views_of_other_users_are_not_found(grid: Grid, admin: Client) -> None:
    save(admin)
    view = SavedView.objects.get()
    change(admin, view, "default")
    other = Client()
    sign_in(other, grid.alice)
    assert other.get(TREE).status_code == 200
    assert not read(other.get(TREE)).has("#views li")
    for step in ("rename", "default", "not-default", "delete"):
        assert change(other, view, step, name="mine") == 404
    view.refresh_from_db()
    assert (view.name, view.is_default) == ("Late ones", True)


@pytest.mark.parametrize("page", ["", "/sign-out/", "https://elsewhere.example/", "//elsewhere.example/", "/nothing/"])
def test_views_redirect_to_lists_only(admin: Client, page: str) -> None:
    assert save(admin, page=page) == "422"
    assert not SavedView.objects.exists()


def test_views_are_limited_in_name_query_and_number(admin: Client, grid: Grid) -> None:
    save(admin, name=" ")
    save(admin, query="q=" + "x" * LONGEST_QUERY)
    assert save(admin, query="&".join("open=1" for _ in range(600))) == "422"
    assert not SavedView.objects.exists()
    person = User.objects.get(pk=grid.admin.pk)
    SavedView.objects.bulk_create(
        SavedView(user=person, page=TREE, name=f"v{n}", query="", created_at=grid.at) for n in range(MOST_VIEWS)
    )
    save(admin)
    assert SavedView.objects.count() == MOST_VIEWS


LISTS = (
    f"{TREE}changes/?list=published",
    "/notices/?state=open",
    "/audit/?q=x",
    f"{TREE}allocations/?from=2026-01-01&to=2026-12-31",
)


@pytest.mark.parametrize("page", LISTS)
def test_every_stateful_list_has_views(admin: Client, page: str) -> None:
    path, _, query = page.partition("?")
    assert save(admin, page=path, query=query) == page
    assert save(admin, name="Second", page=path, query="") == f"{path}?view=all"
    change(admin, SavedView.objects.get(name="Late ones"), "default")
    assert admin.get(path)["Location"] == page
    assert read(admin.get(f"{path}?view=all")).texts("#views .views a") == ["Late ones", "Second", "Reset"]
