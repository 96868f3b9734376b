"""State of a mount: the icon and label of each condition, its alarm, the navigation's count, its last fetch."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.federation.conditions import Condition
from apps.federation.grid.peers import Direction, Peer
from apps.federation.models import Fetch, Mount
from apps.pages.federation import presenters
from tests.instants import AT
from tests.pages.federation.mounted import signed_in
from tests.pages.federation.test_mounts import HOUR, HTMX, admin, mount, path_of, place, side
from tests.pages.page import read, text_of
from tests.rest_site import computed, site
from tests.small_site import Site
from tests.worlds import fresh_process

__all__ = ["admin", "computed", "fresh_process", "mount", "place", "side", "site"]


@pytest.mark.parametrize(
    ("changes", "condition", "alarm"),
    [
        ({"state": "blocked", "n_failed": 1}, "blocked", "blocked"),
        ({"state": "paused"}, "paused", ""),
        ({"state": "frozen"}, "frozen", ""),
        ({"state": "frozen", "good_at": AT - 25 * HOUR}, "stale", "stale meanwhile.keep"),
        ({"expires_at": AT - HOUR}, "expired", "expired meanwhile.keep"),
        ({"good_at": AT - 25 * HOUR}, "stale", "stale meanwhile.keep"),
        ({"n_failed": 2, "good_at": AT - HOUR}, "late", ""),
        ({"good_at": AT - HOUR}, "late", ""),
        ({"good_at": None, "applied_version": 0, "version": 0}, "new", ""),
    ],
)
def test_each_condition_has_icon_label_and_an_alarm_if_attention_is_needed(
    mount: Mount, admin: Client, changes: dict[str, Any], condition: str, alarm: str
) -> None:
    Mount.objects.filter(pk=mount.pk).update(**changes)
    peers = read(admin.get("/federation/"))
    for page in (peers, read(admin.get(path_of(mount)))):
        assert page.item("standing").attributes["data-state"] == condition
        assert page.has("[data-testid=standing] svg")
        assert text_of(page.item("standing"))
    assert peers.values("data-key", "[data-testid=alarm]") == ([alarm] if alarm else [])
    assert peers.item("peers-headline").attributes["data-key"] == ("needs_a_look" if alarm else "in_order")
    if condition == "stale":
        assert all(part in text_of(peers.item("alarm")) for part in ("25 h", "24 h"))


def test_the_duration_of_the_last_fetch_is_shown_with_its_age(mount: Mount, admin: Client) -> None:
    def took() -> list[str]:
        return read(admin.get("/federation/_peers", headers=HTMX)).texts("[data-testid=took]")

    for seconds, words in ((0.084, "84 ms"), (12.34, "12.3 s")):
        Fetch.objects.create(mount=mount, at=AT, outcome="same", duration_s=seconds)
        (found,) = took()
        assert words in found
        assert words in text_of(read(admin.get("/federation/")).item("took"))
    assert "84 ms" not in took()[0], "only the newest"
    Fetch.objects.all().delete()
    assert took() == []


def test_the_navigation_counts_peers_that_need_attention(mount: Mount, admin: Client, place: Site) -> None:
    def count(client: Client, path: str = "/policy/grid/", link: str = "#nav [data-counted=settings]") -> list[str]:
        page = read(client.get(path))
        assert page.has(link)
        return page.texts(f"{link} .count.alert")

    assert count(admin) == []
    Mount.objects.update(state="blocked")
    (found,) = count(admin)
    assert found.startswith("1 "), "the number, and in words what it counts"
    assert count(admin, "/federation/") == [found]
    assert count(admin, "/federation/", '.tabs a[href="/federation/"]')[0].startswith("1 ")
    with CaptureQueriesContext(connection) as asked:
        assert not read(signed_in(place.pia).get("/policy/grid/decay/")).has('.tabs a[href="/federation/"]')
    rows_read = [each["sql"] for each in asked if 'FROM "federation_subscription"' in each["sql"]]
    assert rows_read == [], (
        "no rows are counted for users who may not see them; the frame asks only whether there are any"
    )


def test_connections_are_counted_by_direction_not_by_peer() -> None:
    def peer(direction: Direction, name: str) -> Peer:
        return Peer(direction, 1, name, "vo", "grid", uuid4(), "/vo", Condition.FRESH, 0.0, 3600.0, 1, 1, "", None)

    rows = [peer(Direction.MOUNT, "b"), peer(Direction.USAGE, "b"), peer(Direction.USAGE, "b")]
    assert re.findall(r"\d+", presenters.counted(rows)) == ["1", "2", "0"]


def test_an_expired_document_fetched_in_time_triggers_no_action_yet(mount: Mount, admin: Client, place: Site) -> None:
    Mount.objects.update(expires_at=AT - HOUR, good_at=AT - HOUR, stale_action="local")
    pages = ("/federation/", path_of(mount), f"/policy/grid/n/{place.uid('/vo-a/P-A1')}/p-a1/")

    def acts(path: str) -> bool:
        """What is done where nothing good came in time is said, beside the sign of what expired."""
        page = read(admin.get(path))
        assert "expired" in page.values("data-state"), path
        return any("meanwhile.local" in key.split() for key in page.values("data-key"))

    assert [acts(path) for path in pages] == [False, False, False]
    Mount.objects.update(good_at=AT - 25 * HOUR)
    assert [acts(path) for path in pages] == [True, True, True]


def test_a_frozen_unreachable_mount_shows_both_conditions(mount: Mount, admin: Client) -> None:
    def next_step() -> list[str]:
        found = read(admin.get(path_of(mount))).item("next-step")
        assert "24 h" in text_of(found)
        return [key for key in (found.attributes["data-key"] or "").split() if not key.startswith("due_")]

    Mount.objects.update(state="frozen", good_at=AT - 25 * HOUR)
    assert next_step() == ["stale", "meanwhile.keep", "frozen_too"]
    headline = read(admin.get("/federation/")).item("peers-headline")
    assert (headline.attributes["data-key"], "1" in text_of(headline)) == ("needs_a_look", True)
    Mount.objects.update(stale_action="freeze")
    assert next_step() == ["stale", "meanwhile.freeze"]


def test_sizes_of_answers_are_below_a_thousand_of_their_unit() -> None:
    sizes = {0: "0 B", 999: "999 B", 1_234: "1 kB", 212_000: "212 kB", 999_499: "999 kB", 999_600: "1.0 MB"}
    sizes |= {48_230_000: "48.2 MB", 999_600_000: "1.0 GB"}
    assert {n: presenters.size(n).replace("\u00a0", " ") for n in sizes} == sizes
