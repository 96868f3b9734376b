"""GET /compare: which of two leaves goes first, the level that decides, and changes that are enough to turn it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from tests.grants import make_grant
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site, push, record
from tests.worlds import fresh_process  # noqa: F401 - fixture

COMPARE = "policies/grid/compare"


def compared(caller: Caller, **asked: str) -> Any:
    answer = caller.get(COMPARE, asked)
    assert answer.status_code == 200, answer.content
    data = answer.json()
    assert json.dumps(data, allow_nan=False)
    return data


def test_the_first_differing_level_decides_and_both_entries_are_returned(computed: Site, admin: Caller) -> None:
    data = compared(admin, one="alice", other="carol")
    assert (data["ahead"], data["behind"], data["decided_by"], data["level"]) == (
        "/biology/carol",
        "/physics/alice",
        "level",
        1,
    )
    assert (data["ahead_step"]["entry"], data["behind_step"]["entry"]) == ("/biology", "/physics")
    assert (data["ahead_step"]["state"], data["behind_step"]["state"]) == ("under", "over")
    assert data["sentence"].startswith("carol is ahead of alice: rank 1 and rank 3 of 3. Level 1 decides")
    keys = [one["key"] for one in data["sentences"]]
    assert keys[:4] == ["contrast.ahead", "contrast.level", "contrast.one.under", "contrast.one.over"]
    assert "turn.behind_sheds" in keys


def test_the_suggested_change_reverses_the_order(computed: Site, admin: Caller) -> None:
    before = compared(admin, one="alice", other="carol")
    more = before["turn"]["ahead_gains_usage_s"]
    assert more > 0
    push(computed, [record("9", "carol", "biology", int(more / 3600) + 2, at=computed.at)])
    computed.recompute()
    assert compared(admin, one="alice", other="carol")["ahead"] == "/physics/alice"


def test_paths_and_accounts_select_the_same_entries(computed: Site, admin: Caller) -> None:
    by_path = compared(admin, one="/physics/bob", other="/physics/alice")
    assert by_path == compared(admin, one="a:bob", other="a:alice")
    assert (by_path["ahead"], by_path["level"]) == ("/physics/bob", 2)


def test_an_omitted_entry_is_the_best_own_account(computed: Site) -> None:
    make_grant(computed.alice, computed.uid("/"), "lead", policy=computed.policy, at=computed.at, reason="test")
    data = compared(Caller(user=computed.alice), other="carol")
    assert (data["one"]["entry"], data["ahead"]) == ("/physics/alice", "/biology/carol")


@pytest.mark.parametrize("other", ["bob", "/physics/bob", "/physics", "nobody-at-all", "/no/such/entry"])
def test_a_colleague_is_answered_like_an_unknown_user(computed: Site, other: str) -> None:
    for token in (None, computed.token("self:read", user=computed.alice)):
        caller = Caller(token=token) if token else Caller(user=computed.alice)
        answer = caller.get(COMPARE, {"one": "alice", "other": other})
        if other == "/physics":
            assert answer.status_code == 422, "her own group is hers to see, and has no rank of its own"
            continue
        unknown = caller.get(COMPARE, {"one": "alice", "other": "nobody-at-all"})
        assert (answer.status_code, answer.json()["detail"]) == (404, unknown.json()["detail"])


def test_a_manager_compares_only_inside_the_own_group(computed: Site) -> None:
    assert compared(Caller(user=computed.pia), one="alice", other="bob")["ahead"] == "/physics/bob"
    assert Caller(user=computed.pia).get(COMPARE, {"one": "alice", "other": "carol"}).status_code == 404


def test_viewers_of_totals_compare_no_members(computed: Site) -> None:
    vera = User.objects.create_user("vera")
    make_grant(vera, computed.uid("/"), "viewer", policy=computed.policy, at=computed.at, reason="test")
    hidden, unknown = (
        Caller(user=vera).get(COMPARE, {"one": "alice", "other": other}) for other in ("carol", "nobody-at-all")
    )
    assert refused(hidden) == refused(unknown) == (404, "not_found", [])
    assert hidden.json()["detail"] == unknown.json()["detail"]


def test_duplicate_group_and_missing_names_are_refused_with_the_field(computed: Site, admin: Caller) -> None:
    twice = admin.get(COMPARE, {"one": "alice", "other": "/physics/alice"})
    assert (twice.status_code, twice.json()["fields"][0]["where"]) == (422, "other")
    group = admin.get(COMPARE, {"one": "/physics", "other": "alice"})
    assert (group.status_code, group.json()["fields"][0]["where"]) == (422, "one")
    assert admin.get(COMPARE, {"one": "alice"}).status_code == 400
    assert admin.get(COMPARE, {"one": "alice", "other": "bob", "at": "tomorrow"}).status_code == 400
    assert admin.get(COMPARE, {"one": "alice", "other": "x" * 20_000}).status_code == 400


def test_a_past_instant_is_compared_with_its_numbers(
    computed: Site, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = (AT + timedelta(minutes=1)).isoformat()
    before = compared(admin, one="alice", other="carol")
    later = AT + timedelta(hours=5)
    push(computed, [record("9", "carol", "biology", 400, at=AT)])
    computed.at = later
    monkeypatch.setenv("FAIRSHARE_CLOCK", later.isoformat())
    computed.recompute()
    assert compared(admin, one="alice", other="carol")["ahead"] == "/physics/alice"
    back = compared(admin, one="alice", other="carol", at=then)
    assert (back["ahead"], back["moment"]["revision"]) == (before["ahead"], 2)
    assert back["turn"] == before["turn"]


def test_an_instant_without_numbers_names_the_first_one(computed: Site, admin: Caller) -> None:
    answer = admin.get(COMPARE, {"one": "alice", "other": "carol", "at": "1"})
    assert (answer.status_code, answer.json()["code"]) == (422, "nothing_kept")
    assert "the oldest are from 2026-11-20T12:00:00Z" in answer.json()["fields"][0]["message"]
