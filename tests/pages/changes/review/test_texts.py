"""Texts of the edits of a change set: a key for each kind, the names in it, and the sentences in one snapshot."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from apps.policies.models import ChangeSet
from tests.pages.changes.review.test_review import drafted, signed_in
from tests.pages.grid import Grid
from tests.pages.page import Page, names_in, read

OPERATIONS: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"op": "add", "parent": "/cms", "name": "new", "kind": "user"}, "add", ["new", "cms"]),
    ({"op": "rename", "entry": "/cms", "name": "cms2"}, "rename", ["cms", "cms2"]),
    ({"op": "archive", "entry": "/cms/dave"}, "archive", ["dave"]),
    ({"op": "lock", "entry": "/cms"}, "lock", ["cms"]),
    ({"op": "set_scope", "entry": "/cms", "scope": "global"}, "set_scope", ["cms", "global"]),
    ({"op": "set_dates", "entry": "/cms", "dates": {"ends_on": "2027-03-31"}}, "set_dates", ["cms", "31 Mar 2027"]),
    ({"op": "set_members", "entry": "/cms", "members": [{"group": "cms"}]}, "set_members", ["cms"]),
    ({"op": "mount", "entry": "/cms", "mount": {"issuer": "cms.example", "publication": "cms"}}, "mount", ["cms"]),
    ({"op": "set_shares", "entry": "/cms", "shares": "parent"}, "pass_shares_on", ["cms"]),
    ({"op": "set_shares", "entry": "/cms", "shares": {"percent": 50}}, "set_percent", ["cms", "50.00"]),
    (
        {"op": "set_shares", "entry": "/cms", "shares": {"percent": 50, "from": ["/atlas"]}},
        "take_from_chosen",
        ["cms", "50.00"],
    ),
    (
        {"op": "adjust_usage", "entry": "/cms", "resource": "cpu_s", "amount_s": -36000, "at": "2026-11-19T00:00:00Z"},
        "adjust_usage",
        ["cms", "−10"],
    ),
    ({"op": "set_policy", "settings": {"window": {"half_life_s": 86400}}}, "set_policy", []),
]


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


def page_of(grid: Grid, change_set: ChangeSet) -> Page:
    return read(signed_in(grid.admin).get(f"/changes/{change_set.pk}/"))


@pytest.mark.deep
def test_sentences_of_the_review(grid: Grid, snapshot: SnapshotAssertion) -> None:
    sentences = {}
    for operation, key, names in OPERATIONS:
        change_set = drafted(grid.admin, operation)
        page = page_of(grid, change_set)
        assert page.each("#diff tr[data-change]", "data-key")[:1] == [key]
        sentences[key] = shown = page.texts("#diff tr[data-change] th b")[0]
        assert names_in(shown, *names), (key, shown)
        assert shown not in names, (key, "more than a name")
        for tab in ("effect", "checks"):
            assert signed_in(grid.admin).get(f"/changes/{change_set.pk}/{tab}/").status_code == 200, (key, tab)
    assert signed_in(grid.admin).get(f"/changes/{change_set.pk}/discussion/").status_code == 200
    assert sentences == snapshot
