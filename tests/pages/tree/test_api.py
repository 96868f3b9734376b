"""Differences of a tree from a snapshot that the client has: applied to the old answer, they give the new one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.policies.models import Grant
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.priorities.models import Snapshot
from tests.grants import make_grant
from tests.instants import AT
from tests.rest_site import Caller
from tests.small_site import Site, push, record
from tests.worlds import fresh_process  # noqa: F401 - fixture

TREE = "policies/grid/tree"


def flat(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {name: value for name, value in entry.items() if name not in ("children", *HEAD)}
    for child in entry["children"]:
        yield from flat(child)


HEAD = ("policy", "revision", "snapshot", "as_of", "moment", "compared_by", "rank_use")


def whole(caller: Caller, **more: Any) -> tuple[int, dict[str, Any]]:
    answer = caller.get(TREE, {"depth": 64, **more}).json()
    return answer["snapshot"], {entry["uid"]: entry for entry in flat(answer)}


def changes(caller: Caller, since: int, **more: Any) -> dict[str, Any]:
    answer = caller.get(TREE, {"since": since, **more})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def applied(old: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    new = {**old, **{entry["uid"]: entry for entry in found["entries"]}}
    for gone in found["gone"]:
        del new[gone["uid"]]
    return new


def go_on(site: Site, monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    """A later instant, with a snapshot for it."""
    site.at = AT + timedelta(minutes=minutes)
    monkeypatch.setenv("FAIRSHARE_CLOCK", site.at.isoformat())
    site.recompute()


def publish(site: Site, *operations: dict[str, Any]) -> None:
    actor = Actor(user=site.admin, via="api")
    made = make_change_set(policy_slug="grid", new=NewChangeSet(operations=list(operations)), at=site.at, actor=actor)
    publish_change_set(id=made.pk, version=1, reason="x", at=site.at, actor=actor)


def test_unchanged_entries_are_not_listed(computed: Site, admin: Caller) -> None:
    snapshot, _ = whole(admin)
    found = changes(admin, snapshot)
    assert (found["since"], found["snapshot"], found["entries"], found["gone"]) == (snapshot, snapshot, [], [])


def test_only_entries_changed_by_usage_are_listed(
    computed: Site, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, old = whole(admin)
    push(computed, [record("20", "bob", "physics", 5, at=AT)])
    go_on(computed, monkeypatch, 1)
    found = changes(admin, snapshot)
    assert found["snapshot"] > snapshot
    assert "/physics/bob" in [entry["path"] for entry in found["entries"]]
    assert found["gone"] == []
    assert applied(old, found) == whole(admin)[1]
    again = changes(admin, found["snapshot"])
    assert again["entries"] == []


def test_a_changed_tree_lists_added_moved_and_removed_entries(
    computed: Site, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot, old = whole(admin)
    bob = computed.uid("/physics/bob")
    publish(
        computed,
        {"op": "add", "parent": "/biology", "name": "dave", "kind": "user", "shares": 2},
        {"op": "archive", "entry": "/physics/bob"},
        {"op": "rename", "entry": "/physics/alice", "name": "alice2"},
        {"op": "set_shares", "entry": "/biology", "shares": 10},
    )
    go_on(computed, monkeypatch, 1)
    found = changes(admin, snapshot)
    assert found["gone"] == [{"uid": str(bob), "path": "/physics/bob"}]
    paths = {entry["path"] for entry in found["entries"]}
    assert {"/biology", "/biology/dave", "/physics", "/physics/alice2"} <= paths
    assert applied(old, found) == whole(admin)[1]


def test_changes_of_a_subtree(computed: Site, admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, old = whole(admin, path="/physics")
    publish(computed, {"op": "set_shares", "entry": "/physics/bob", "shares": 9})
    go_on(computed, monkeypatch, 1)
    found = changes(admin, snapshot, path="/physics")
    assert all(entry["path"].startswith("/physics") for entry in found["entries"])
    assert applied(old, found) == whole(admin, path="/physics")[1]
    publish(computed, {"op": "add", "parent": "/", "name": "new", "kind": "group", "shares": 1})
    go_on(computed, monkeypatch, 2)
    assert [entry["path"] for entry in changes(admin, snapshot, path="/new")["entries"]] == ["/new"]


def test_users_get_only_visible_changes(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = Caller(user=computed.alice)
    snapshot, old = whole(alice)
    publish(
        computed,
        {"op": "archive", "entry": "/physics/bob"},
        {"op": "add", "parent": "/biology", "name": "dave", "kind": "user", "shares": 2},
    )
    push(computed, [record("20", "carol", "biology", 5, at=AT)])
    go_on(computed, monkeypatch, 1)
    found = changes(alice, snapshot)
    text = str(found)
    assert not any(name in text for name in ("bob", "dave", "carol", "biology"))
    assert applied(old, found) == whole(alice)[1]


def test_totals_use_completed_days_for_every_parameter(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two live snapshots a minute apart, asked for by number: nothing of what was used in between."""
    make_grant(
        computed.nobody, computed.uid("/"), "viewer", policy=computed.policy, verbs=["view_aggregate"], reason="sums"
    )
    first = Snapshot.objects.latest("id").pk
    push(computed, [record("20", "bob", "physics", 5, at=AT)])
    go_on(computed, monkeypatch, 1)
    viewer = Caller(user=computed.nobody)
    found = changes(viewer, first)
    collected = [entry for entry in found["entries"] if entry["path"] != "/"]
    assert [entry["path"] for entry in collected] == ["/biology", "/physics"]
    assert not any(entry["usage_core_s"] or entry["actual"] or entry["priority"] for entry in collected)


def test_a_snapshot_that_is_no_longer_kept_is_gone(computed: Site, admin: Caller) -> None:
    answer = admin.get(TREE, {"since": 999_999})
    assert (answer.status_code, answer.json()["code"]) == (410, "snapshot_gone")
    assert "without since" in answer.json()["detail"]


@pytest.mark.parametrize("query", [{"at": 2}, {"depth": 1}, {"format": "csv"}, {"since": "x"}, {"since": "-1"}])
def test_incompatible_parameters_are_refused(computed: Site, admin: Caller, query: dict[str, Any]) -> None:
    answer = admin.get(TREE, {"since": 1, **query})
    assert (answer.status_code, answer.json()["fields"][0]["where"]) == (400, "since")


def test_an_unchanged_tree_is_not_sent_again(computed: Site, admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    first = admin.get(TREE, {"depth": 64})
    tag = first.headers["ETag"]
    same = admin.get(TREE, {"depth": 64}, if_none_match=tag)
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    assert admin.get(TREE, {"depth": 1}, if_none_match=tag).status_code == 200
    since = admin.get(TREE, {"since": first.json()["snapshot"]})
    assert since.headers["ETag"] != tag
    again = admin.get(TREE, {"since": first.json()["snapshot"]}, if_none_match=since.headers["ETag"])
    assert again.status_code == 304
    assert Caller(user=computed.alice).get(TREE, {"depth": 64}, if_none_match=tag).status_code == 200
    assert Caller(user=computed.alice).get(TREE, {"depth": 64}).headers["ETag"] != tag
    go_on(computed, monkeypatch, 1)
    assert admin.get(TREE, {"depth": 64}, if_none_match=tag).status_code == 200


def test_an_expired_right_changes_the_etag(computed: Site) -> None:
    pia = Caller(user=computed.pia)
    whole = pia.get(TREE, {"depth": 64})
    tag = whole.headers["ETag"]
    assert pia.get(TREE, {"depth": 64}, if_none_match=tag).status_code == 304
    Grant.objects.filter(user=computed.pia).update(verbs=["view_aggregate"])
    rest = pia.get(TREE, {"depth": 64}, if_none_match=tag)
    assert (rest.status_code, "bob" in whole.content.decode(), "bob" in rest.content.decode()) == (200, True, False)
