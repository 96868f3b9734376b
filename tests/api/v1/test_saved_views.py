"""My views of lists by REST: what pages save and what REST saves are the same."""

from __future__ import annotations

from django.test import Client

from apps.accounts.models import SavedView
from apps.accounts.saved_views import LONGEST_QUERY, MOST_VIEWS
from tests.api.conftest import Caller, refused
from tests.api.small_site import Site
from tests.sign_in import sign_in

TREE = "/policy/grid/"


def save(caller: Caller, **given: str) -> int:
    made = caller.post("me/views", {"page": TREE, "name": "Late ones", "query": "?off=1&sort=-deviation", **given})
    assert made.status_code == 201, made.content
    return int(made.json()["id"])


def test_a_view_is_saved_listed_set_as_default_renamed_and_deleted(site: Site, client: Client) -> None:
    pia = Caller(user=site.pia)
    number = save(pia)
    assert save(pia, query="off=1") == number, "the same name again"
    sign_in(client, site.pia)
    assert client.get(TREE).status_code == 200
    changed = pia.patch(f"me/views/{number}", {"name": "Late", "default": True}).json()
    assert (changed["name"], changed["query"], changed["default"]) == ("Late", "off=1", True)
    assert client.get(TREE)["Location"] == f"{TREE}?off=1"
    assert [each["name"] for each in pia.get("me/views").json()["results"]] == ["Late"]
    assert pia.client.delete(f"/api/v1/me/views/{number}").status_code == 204
    assert not SavedView.objects.exists()
    assert refused(pia.client.delete(f"/api/v1/me/views/{number}"))[0] == 404


def test_an_invalid_view_is_refused_by_field(site: Site) -> None:
    pia = Caller(user=site.pia)
    for field, wrong, status in (
        ("name", " ", 400),
        ("name", "x" * 61, 422),
        ("query", "q=" + "x" * LONGEST_QUERY, 422),
        ("page", "//elsewhere.example/", 400),
        ("page", "/policy/grid/?q=1", 400),
        ("page", "policy", 400),
    ):
        given = {"page": TREE, "name": "Mine", "query": "", field: wrong}
        answer = refused(pia.post("me/views", given))
        assert (answer[0], answer[2]) == (status, [field]), given
    for n in range(MOST_VIEWS):
        save(pia, name=f"View {n}")
    assert refused(pia.post("me/views", {"page": TREE, "name": "One more"}))[:2] == (409, "too_many_views")
    numbers = {each["name"]: each["id"] for each in pia.get("me/views").json()["results"]}
    assert refused(pia.patch(f"me/views/{numbers['View 1']}", {"name": "View 2"}))[:2] == (409, "name_taken")


def test_a_token_cannot_read_views(site: Site) -> None:
    save(Caller(user=site.pia))
    text = Caller(user=site.pia).post("tokens", {"name": "t", "scopes": ["policies:read"]}).json()["token"]
    assert refused(Caller(token=text).get("me/views"))[0] == 403
