"""Revisions side by side and the history of an entry, by REST."""

from __future__ import annotations

from typing import Any

import pytest

from apps.policies.models import Policy
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

PATH = "policies/grid/changesets"


@pytest.fixture
def pia(site: Site) -> Caller:
    return Caller(user=site.pia)


def publish(caller: Caller, *operations: dict[str, Any], reason: str = "Because.") -> int:
    base = Policy.objects.get(slug="grid").head_number
    made = caller.post(PATH, {"base_revision": base, "reason": reason, "operations": list(operations)}).json()
    answer = caller.post(f"{PATH}/{made['id']}/publish")
    assert answer.status_code == 200, answer.content
    return int(answer.json()["revision"])


def diff(caller: Caller, revision: int, **query: Any) -> Any:
    answer = caller.get(f"policies/grid/revisions/{revision}/diff", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_two_revisions_differ_by_entries_effects_and_settings(site: Site, admin: Caller) -> None:
    publish(
        admin,
        {"op": "set_shares", "entry": "/physics", "shares": 120},
        {"op": "move", "entry": "/physics/bob", "parent": "/biology"},
        {"op": "set_policy", "settings": {"fallback_factor": 0.25}},
    )
    found = diff(admin, 2)
    assert (found["from"], found["to"], found["n_outside_view"], found["next"]) == (2, 3, 0, None)
    rows = {row["name"]: row for row in found["entries"]}
    assert (rows["bob"]["change"], rows["bob"]["path_before"], rows["bob"]["path"]) == (
        "moved",
        "/physics/bob",
        "/biology/bob",
    )
    assert rows["physics"]["changes"] == [{"field": "shares", "before": 60.0, "after": 120.0}]
    assert (rows["physics"]["target_before"], rows["physics"]["target_after"]) == (0.6, 0.75)
    kept = {row["name"]: (row["target_before"], row["target_after"]) for row in found["effective"]}
    assert kept == {"biology": (0.4, 0.25), "carol": (1.0, 0.5), "alice": (pytest.approx(2 / 3), 1.0)}
    assert found["settings"] == [{"field": "fallback_factor", "before": 0.5, "after": 0.25}]
    back = diff(admin, 3, to=2)
    assert back["settings"] == [{"field": "fallback_factor", "before": 0.25, "after": 0.5}]
    assert diff(admin, 3, to=3)["entries"] == []


def test_adjustments_are_part_of_the_difference(site: Site, admin: Caller) -> None:
    at = site.at.isoformat()
    publish(admin, {"op": "adjust_usage", "entry": "/physics/bob", "amount_s": -3600, "at": at, "note": "Lost jobs"})
    (correction,) = diff(admin, 2)["corrections"]
    assert (correction["name"], correction["amount_s"], correction["change"]) == ("bob", -3600.0, "added")
    assert [each["change"] for each in diff(admin, 3, to=2)["corrections"]] == ["revoked"]
    assert diff(Caller(user=site.ben), 2) | {"corrections": [], "n_outside_view": 1} == diff(Caller(user=site.ben), 2)


def test_invisible_changes_are_counted(site: Site, admin: Caller, pia: Caller) -> None:
    publish(
        admin,
        {"op": "set_shares", "entry": "/biology/carol", "shares": 7},
        {"op": "set_shares", "entry": "/physics/bob", "shares": 7},
    )
    found = diff(pia, 2)
    assert [row["name"] for row in found["entries"]] == ["bob"]
    assert found["n_outside_view"] == 1
    assert "carol" not in str(found)


def test_an_entry_moved_out_of_the_view_is_not_listed(site: Site, admin: Caller, pia: Caller) -> None:
    publish(admin, {"op": "move", "entry": "/physics/bob", "parent": "/biology"})
    for caller in (pia, Caller(user=site.ben)):
        found = diff(caller, 2)
        assert found["n_outside_view"] >= 1
        assert not [row for row in found["entries"] if row["name"] == "bob"]


def test_long_differences_are_paged(site: Site, admin: Caller) -> None:
    added = [{"op": "add", "parent": "/physics", "name": f"u{n:03}", "kind": "user"} for n in range(130)]
    publish(admin, *added)
    first = diff(admin, 2)
    second = diff(admin, 2, cursor=first["next"])
    assert (len(first["entries"]), len(second["entries"]), second["next"]) == (100, 30, None)
    names = [row["name"] for row in [*first["entries"], *second["entries"]]]
    assert sorted(names) == [operation["name"] for operation in added]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"to": "0"}, "invalid"),
        ({"to": "x"}, "invalid"),
        ({"cursor": "x"}, "bad_cursor"),
        ({"from": "1"}, "unknown_field"),
    ],
)
def test_invalid_parameters_are_refused(admin: Caller, query: dict[str, str], code: str) -> None:
    assert refused(admin.get("policies/grid/revisions/2/diff", query)) == (400, code, list(query))


@pytest.mark.parametrize("path", ["revisions/9/diff", "revisions/2/diff?to=9", "revisions/0/diff"])
def test_unknown_revisions_are_not_found(admin: Caller, path: str) -> None:
    assert refused(admin.get(f"policies/grid/{path}")) == (404, "not_found", [])


def test_the_history_of_an_entry_has_author_change_and_reason(site: Site, admin: Caller, pia: Caller) -> None:
    uid = site.uid("/physics/bob")
    publish(pia, {"op": "set_shares", "entry": "/physics/bob", "shares": 3}, reason="Bob leads.")
    publish(admin, {"op": "move", "entry": "/physics/bob", "parent": "/biology"}, reason="He changed sides.")
    publish(admin, {"op": "archive", "entry": str(uid)}, reason="He left.")
    publish(admin, {"op": "restore", "entry": str(uid)}, reason="He is back.")
    undone = admin.post(f"{PATH}/{admin.get(f'policies/grid/entries/{uid}').json()['history'][3]['change_set']}/revert")
    assert undone.status_code == 201, undone.content
    answer = admin.get(f"policies/grid/entries/{uid}").json()
    assert answer["entry"]["path"] == "/biology/bob"
    collected = [(line["reason"], line["author"], line["changes"]) for line in answer["history"]]
    assert collected[:4] == [
        ("He is back.", "admin", [{"field": "archived", "before": True, "after": False}]),
        ("He left.", "admin", [{"field": "archived", "before": False, "after": True}]),
        ("He changed sides.", "admin", [{"field": "parent", "before": "physics", "after": "biology"}]),
        ("Bob leads.", "pia", [{"field": "shares", "before": 1.0, "after": 3.0}]),
    ]


def test_the_history_of_an_archived_entry_needs_former_visibility(site: Site, admin: Caller, pia: Caller) -> None:
    uid = site.uid("/physics/bob")
    publish(admin, {"op": "archive", "entry": "/physics/bob"})
    answer = pia.get(f"policies/grid/entries/{uid}").json()
    assert (answer["entry"], answer["history"][0]["changes"][0]["field"]) == (None, "archived")
    assert pia.get(f"policies/grid/entries/{uid}", {"at": 2}).json()["entry"]["name"] == "bob"
    assert Caller(user=site.ben).get(f"policies/grid/entries/{uid}").status_code == 404


def test_a_parent_outside_the_view_has_no_name_in_the_history(site: Site, admin: Caller) -> None:
    uid = site.uid("/physics/bob")
    publish(admin, {"op": "move", "entry": "/physics/bob", "parent": "/biology"})
    answer = Caller(user=site.ben).get(f"policies/grid/entries/{uid}").json()
    assert answer["history"][0]["changes"] == [{"field": "parent", "before": None, "after": "biology"}]
