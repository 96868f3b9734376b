"""What a process remembers is bounded: answers are the same when it has forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.core.errors import NotFound
from apps.priorities.serving import lookup, served_snapshot, store
from apps.priorities.serving.served_snapshot import AccountQuery, Query, ServedSnapshot
from tests.priority_site import AS_OF, Site

pytestmark = pytest.mark.django_db
ASKED: list[Query] = ["alice", "nobody", AccountQuery("bob", "physics"), "carol", "alice"]


def test_answers_without_memory_equal_those_with_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.recompute()
    snapshot = store.newest("grid")

    def answers(served: ServedSnapshot) -> list[Any]:
        alone = [(served.lookup([one]), served.lookup_columns([one]), served.lookup_json([one])) for one in ASKED]
        return [alone, served.lookup(ASKED), served.lookup(["alice"]), served.lookup(["alice", "carol"])]

    def identities(served: ServedSnapshot) -> list[Any]:
        return [served.index.identities(i) for i in range(1, len(served.tree))]

    expected = answers(snapshot), identities(snapshot)
    monkeypatch.setattr(served_snapshot, "_MOST_ENTRIES_CACHED", 1)
    monkeypatch.setattr(served_snapshot, "_MOST_ANSWERS_CACHED", 1)
    monkeypatch.setattr(lookup, "_MOST_REMEMBERED_RESULTS", 1)
    store.forget()
    forgetful = store.newest("grid")
    assert forgetful is not snapshot
    for _twice in range(2):
        assert (answers(forgetful), identities(forgetful)) == expected
    assert len(forgetful._answers) == len(forgetful._entries) == len(forgetful.index._results) == 1


def test_no_question_has_no_rows(site: Site) -> None:
    site.recompute()
    snapshot = store.newest("grid")
    assert (snapshot.lookup([]), snapshot.lookup_columns([]), snapshot.lookup_json([])) == ([], ([], [], []), b"[]")


def test_older_snapshots_are_read_again_when_many_are_asked_for(site: Site) -> None:
    n = store._MOST_KEPT_SNAPSHOTS + 2
    kept = [site.recompute(AS_OF + timedelta(milliseconds=k)).pk for k in range(n)]
    for _twice in range(2):
        assert [store.load_stored("grid", pk).snapshot_id for pk in kept] == kept
    assert len(store._process._stored) == store._MOST_KEPT_SNAPSHOTS
    with pytest.raises(NotFound):
        store.load_stored("other", kept[-1])
