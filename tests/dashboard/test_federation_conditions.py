"""How a mount stands: the sign and the word of each condition, its alarm, the navigation's count, its last look."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.federation.models import Fetch, Mount
from tests.api.conftest import AT, _fresh_process, computed, site
from tests.api.small_site import Site
from tests.dashboard.test_federation_pages import HOUR, HTMX, admin, mount, path_of, place, side, signed_in, text_of

__all__ = ["_fresh_process", "admin", "computed", "mount", "place", "side", "site"]


@pytest.mark.parametrize(
    ("changes", "word", "said"),
    [
        ({"state": "blocked", "n_failed": 1}, "blocked", "nothing of it is taken before somebody has looked"),
        ({"state": "paused"}, "paused", ""),
        ({"state": "frozen"}, "frozen", ""),
        ({"state": "frozen", "good_at": AT - 25 * HOUR}, "stale", "The last good look is 25 h old, 24 h are allowed."),
        ({"expires_at": AT - HOUR}, "expired", "No newer document was published"),
        ({"good_at": AT - 25 * HOUR}, "stale", "The last good look is 25 h old, 24 h are allowed."),
        ({"n_failed": 2, "good_at": AT - HOUR}, "late", ""),
        ({"good_at": AT - HOUR}, "late", ""),
        ({"good_at": None, "landed_version": 0, "version": 0}, "first look to come", ""),
    ],
)
def test_each_condition_has_a_sign_and_a_word_and_an_alarm_where_somebody_is_needed(
    mount: Mount, admin: Client, changes: dict[str, Any], word: str, said: str
) -> None:
    Mount.objects.filter(pk=mount.pk).update(**changes)
    text = text_of(admin.get("/federation/"))
    assert word in text
    assert (said in text) if said else ("needs a look" not in text)
    page = text_of(admin.get(path_of(mount)))
    assert word in page


def test_how_long_the_last_look_took_stands_beside_its_age(mount: Mount, admin: Client) -> None:
    for seconds, words in ((0.084, "took 84 ms"), (12.34, "took 12.3 s")):
        Fetch.objects.create(mount=mount, at=AT, outcome="same", duration_s=seconds)
        assert words in text_of(admin.get("/federation/"))
    assert "took 84 ms" not in text_of(admin.get("/federation/_peers", headers=HTMX)), "only the newest"
    Fetch.objects.all().delete()
    assert "took" not in text_of(admin.get("/federation/_peers", headers=HTMX))


def test_the_navigation_counts_what_needs_a_look(mount: Mount, admin: Client, place: Site) -> None:
    def said(client: Client, path: str = "/policy/grid/") -> str:
        text = client.get(path).content.decode()
        found = re.search(r'<a href="/federation/"[^>]*>.*?<span>Federation</span>(.*?)</a>', text, flags=re.S)
        return "nothing" if found is None else found[1]

    assert said(admin) == ""
    Mount.objects.update(state="blocked")
    assert said(admin) == '<span class="count alert">1<span class="sr"> needs a look</span></span>'
    assert said(admin, "/federation/") == said(admin)
    with CaptureQueriesContext(connection) as asked:
        assert said(signed_in(place.pia)) == "nothing"
    counted = [each["sql"] for each in asked if "federation_subscription" in each["sql"]]
    assert counted == [], "nothing is counted for who may not see it"


def test_what_expired_but_was_heard_in_time_isnt_acted_on_yet(mount: Mount, admin: Client, place: Site) -> None:
    Mount.objects.update(expires_at=AT - HOUR, good_at=AT - HOUR, stale_action="local")
    alone = "compared by this site’s usage alone"
    pages = ("/federation/", path_of(mount), f"/policy/grid/n/{place.uid('/vo-a/P-A1')}/p-a1/")
    for path in pages:
        text = text_of(admin.get(path))
        assert "expired" in text, path
        assert alone not in text, path
    Mount.objects.update(good_at=AT - 25 * HOUR)
    for path in pages:
        assert alone in text_of(admin.get(path)), path


def test_a_frozen_mount_that_is_not_heard_says_both(mount: Mount, admin: Client) -> None:
    Mount.objects.update(state="frozen", good_at=AT - 25 * HOUR)
    text = text_of(admin.get(path_of(mount)))
    assert "There was no good look for longer than 24 h. What is in force stays. It is frozen, too:" in text
    assert "1 of 1 needs a look" in text_of(admin.get("/federation/"))
    Mount.objects.update(stale_action="freeze")
    text = text_of(admin.get(path_of(mount)))
    assert "nothing newer lands until somebody decides." in text
    assert "frozen, too" not in text
