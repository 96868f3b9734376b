"""What a process remembers is bounded: answers are the same when it has forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.core.errors import NotFound
from apps.priorities.serving import lookup, served_snapshot, store
from apps.priorities.serving.served_snapshot import AccountQuery, Query, ServedSnapshot
from tests.examples import examples
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
    monkeypatch.setattr(lookup, "_MOST_REMEMBERED", 1)
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
    n = store._MOST_KEPT + 2
    kept = [site.recompute(AS_OF + timedelta(milliseconds=k)).pk for k in range(n)]
    for _twice in range(2):
        assert [store.load_stored("grid", pk).snapshot_id for pk in kept] == kept
    assert len(store._process._stored) == store._MOST_KEPT
    with pytest.raises(NotFound):
        store.load_stored("other", kept[-1])


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_ANSWERS = st.builds(lambda account, rank: {"account": account, "rank": rank}, _TEXTS, st.none() | st.integers(1, 9))


@examples(100)
@given(st.lists(st.lists(_ANSWERS, max_size=2)))
@example([[{"account": '},{"account":'}], [{"account": "b", "tried": [{"user": "b"}, {"user": "c"}]}]])
def test_answers_written_at_once_are_those_written_one_by_one(answers: list[list[dict[str, Any]]]) -> None:
    assert served_snapshot._dump_each(answers) == [orjson.dumps(each)[1:-1] for each in answers]
