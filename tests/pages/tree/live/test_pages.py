"""What pages say about their state, so that they can follow it, and what the answer to a request for news has."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from django.http import HttpRequest
from django.test import Client, RequestFactory, override_settings

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core import clock
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.priorities.serving import store
from apps.usage.models import Source
from apps.web.shell.navigation import Shell
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.pages.page import read
from tests.sign_in import sign_in

LIVE = f"/policy/{SLUG}/live"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def admin(grid: Grid, client: Client) -> Client:
    return sign_in(client, grid.admin)


def parts(client: Client) -> dict[str, str]:
    found: dict[str, str] = client.get(LIVE).json()["parts"]
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize("path", ["/", f"/policy/{SLUG}/", "/usage/sources/", f"/policy/{SLUG}/history/"])
def test_every_page_has_the_etag_of_its_contents(admin: Client, path: str) -> None:
    box = read(admin.get(path)).one("#fresh").attributes
    assert box["data-live"] == LIVE
    assert admin.get(LIVE, headers={"If-None-Match": f'"{box["data-tag"]}"'}).status_code == 304
    assert json.loads(str(box["data-parts"])) == parts(admin)


def test_a_page_of_a_past_instant_is_not_refreshed(admin: Client) -> None:
    assert "data-live" not in read(admin.get(f"/policy/{SLUG}/?at=1")).one("#fresh").attributes


@pytest.mark.paper("4.71")
def test_changes_name_the_changed_parts(grid: Grid, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    before = parts(admin)
    monkeypatch.setenv(clock.VARIABLE, (AT + timedelta(minutes=2)).isoformat())
    grid.recompute()
    assert changed(before, parts(admin)) == {"numbers"}


def test_a_late_source_changes_the_freshness_chip(admin: Client) -> None:
    before = parts(admin)
    Source.objects.update(expected_every_s=60, last_received_at=AT - timedelta(days=3), collected_at=None)
    answer = admin.get(LIVE).json()
    assert changed(before, answer["parts"]) >= {"fresh"}
    assert "Cluster A is late" in answer["fresh"]


def test_changes_include_freshness_counts_and_newest_revision(grid: Grid, admin: Client) -> None:
    publish_operations(
        policy_slug=SLUG,
        operations=[{"op": "set_shares", "entry": "/biomed", "shares": 77}],
        reason="More for biomed.",
        at=clock.now(),
        actor=COMMAND,
    )
    grid.recompute()
    answer = admin.get(LIVE).json()
    assert (answer["revision"], answer["published"]["reason"]) == (3, "More for biomed.")
    assert "Rev 3" in answer["fresh"]
    assert {"inbox", "tab-inbox"} <= {one["key"] for one in answer["counts"]}


def test_a_page_older_than_the_snapshot_reloads_all_parts(
    grid: Grid, rf: RequestFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._process, "start", lambda: None)  # nothing polls but this test

    def tag(request: HttpRequest) -> str:
        live = Shell(request).live
        assert live is not None
        return live.tag

    request = rf.get("/")
    request.user, request.resolver_match = grid.admin, None
    store.poll()
    request.served_at_start = store.cached_state()  # type: ignore[attr-defined]
    with override_settings(FAIRSHARE_SNAPSHOT_POLL_S=3600.0):
        assert tag(request) != ""
        request.served_at_start = replace(store.cached_state(), snapshots={})  # type: ignore[attr-defined]
        assert tag(request) == ""


def test_refreshed_rows_equal_the_rows_of_the_page(grid: Grid, admin: Client) -> None:
    page = read(admin.get(f"/policy/{SLUG}/"))
    wanted = [grid.uid(path) for path in ("/", "/atlas", "/atlas/bob", "/biomed/carol")]
    query = "&".join(f"e={uid}" for uid in wanted)
    found = read(admin.get(f"/policy/{SLUG}/_current?{query}", headers=HTMX))
    assert [one.attributes["data-uid"] for one in found.all("tr")] == [str(uid) for uid in wanted]
    for uid in wanted:
        for column in (".c-shares", ".c-target", ".c-actual", ".c-bal"):
            assert found.one(f"#e-{uid} {column}").html == page.one(f"#e-{uid} {column}").html
    assert found.text("#tree-head") == page.text("#tree-head")


def test_removed_rows_are_left_out(grid: Grid, admin: Client) -> None:
    gone = "00000000-0000-0000-0000-000000000001"
    found = read(admin.get(f"/policy/{SLUG}/_current?e={gone}&e={grid.uid('/cms')}", headers=HTMX))
    assert [one.attributes["data-uid"] for one in found.all("tr")] == [str(grid.uid("/cms"))]


def test_an_archived_policy_is_no_longer_refreshed(grid: Grid, admin: Client) -> None:
    Policy.objects.filter(slug=SLUG).update(archived_at=AT)
    assert admin.get(LIVE).status_code in (404, 410)


def test_a_publication_is_news_to_others_alone(grid: Grid, admin: Client) -> None:
    """The publisher has an answer already; a page shows no message where `is_own` is true."""
    operation = {"op": "set_shares", "entry": str(grid.uid("/biomed")), "shares": 35}
    publish_operations(
        policy_slug=SLUG, operations=[operation], reason="Mine.", at=clock.now(), actor=Actor(grid.admin, "page")
    )
    assert admin.get(LIVE).json()["published"]["is_own"] is True
    other = sign_in(Client(), User.objects.create_superuser("olga"))
    assert other.get(LIVE).json()["published"]["is_own"] is False
