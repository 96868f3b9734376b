"""Where an entry's terms come from: beside it in the tree, on its pages, and by REST."""

from __future__ import annotations

from datetime import timedelta

from django.test import Client

from apps.federation.models import Mount
from apps.policies.models import Policy
from tests.instants import AT
from tests.pages.federation.mounted import signed_in
from tests.pages.federation.test_mounts import HTMX, admin, mount, origin, path_of, place, side
from tests.pages.page import read, text_of
from tests.rest_site import computed, site
from tests.small_site import Site
from tests.worlds import fresh_process

__all__ = ["admin", "computed", "fresh_process", "mount", "place", "side", "site"]


def test_tree_and_entries_name_the_authority_of_mounted_entries(mount: Mount, admin: Client, place: Site) -> None:
    Mount.objects.filter(pk=mount.pk).update(good_at=AT - timedelta(minutes=3), n_failed=0)
    tree = read(admin.get("/policy/grid/")).item("origin")
    assert tree.attributes["data-value"] == "1"
    title = (tree.attributes["title"] or "").replace("\N{NO-BREAK SPACE}", " ")
    assert all(part in title for part in ("vo-a.example", "3 min"))
    for path in ("/vo-a", "/vo-a/P-A1", "/vo-a/P-A1/anna"):
        page = admin.get(f"/policy/grid/n/{place.uid(path)}/x/", follow=True)
        assert all(part in origin(page) for part in ("vo-a.example", "3 min")), path
        assert path_of(mount) in read(page).values("href", "[data-testid=origin]"), path
    assert not read(admin.get(f"/policy/grid/n/{place.uid('/physics')}/physics/")).has("[data-testid=origin]")
    panel = admin.get(f"/policy/grid/_panel?entry={place.uid('/vo-a/P-A1')}", headers=HTMX)
    assert all(part in origin(panel) for part in ("vo-a.example", "3 min"))


def test_stale_data_is_reported_with_the_current_behaviour(mount: Mount, admin: Client, place: Site) -> None:
    Mount.objects.filter(pk=mount.pk).update(good_at=AT - timedelta(hours=30), stale_action="local")
    tree = read(admin.get("/policy/grid/")).item("origin")
    assert tree.attributes["data-state"] == "stale"
    assert "vo-a.example" in text_of(tree)
    answer = admin.get(f"/policy/grid/n/{place.uid('/vo-a/P-A1')}/p-a1/")
    assert all(part in origin(answer) for part in ("vo-a.example", "30 h"))
    page = read(answer)
    assert page.values("data-state", "[data-testid=origin]") == ["stale"]
    assert page.values("data-key", "[data-testid=origin]") == ["meanwhile.local"]


def test_a_member_sees_the_authority_without_a_broken_link(mount: Mount, place: Site) -> None:
    Policy.objects.filter(slug="grid").update(visibility=Policy.Visibility.TREE)
    page = signed_in(place.alice).get(f"/policy/grid/n/{place.uid('/vo-a/P-A1')}/p-a1/")
    assert "vo-a.example" in origin(page)
    assert path_of(mount) not in page.content.decode()


def test_the_tree_by_rest_includes_its_mounts(mount: Mount, admin: Client) -> None:
    Mount.objects.filter(pk=mount.pk).update(good_at=AT - timedelta(minutes=3))
    body = admin.get("/api/v1/policies/grid/tree?depth=2").json()
    found = {each["path"]: each["mount"] for each in body["children"]}
    assert found["/vo-a"] == {"issuer": "vo-a.example", "publication": "vo-a", "version": 1, "age_s": 180.0}
    assert found["/physics"] is None
    past = admin.get("/api/v1/policies/grid/tree?at=4").json()
    of_then = {each["path"]: each["mount"] for each in past["children"]}
    assert of_then["/vo-a"] == {"issuer": "vo-a.example", "publication": "vo-a", "version": None, "age_s": None}
