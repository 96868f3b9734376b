"""Priorities by REST: what schedulers ask, from memory."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper
from django.test import Client
from pytest_django.fixtures import DjangoAssertNumQueries

from apps.accounts import token_cache
from apps.accounts.actor import SYSTEM
from apps.accounts.models import Token
from apps.accounts.services import revoke_token
from apps.accounts.token_cache import TokenCache
from apps.priorities.serving import store
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site, push, record

ONE = "policies/grid/priorities"
BULK = "policies/grid/priorities/lookup"
ALL = "policies/grid/priorities/all"


def lines(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines()]


@pytest.mark.paper("4.38")
def test_one_account_gets_the_contracted_object(scheduler: Caller) -> None:
    answer = scheduler.get(ONE, {"account": "alice"})
    assert answer.status_code == 200
    data = answer.json()
    assert {"policy", "snapshot", "revision", "as_of", "computed_at", "age_s", "algorithm", "results"} == set(data)
    assert data["algorithm"] == {"name": "aequus", "operator": "relative", "resolution": 10000}
    (found,) = data["results"]
    assert found["entry"] == "/physics/alice"
    assert found["of"] == 3
    assert 1 <= found["rank"] <= 3
    assert found["factor"] == pytest.approx(1 - (found["rank"] - 1) / 3)
    assert len(found["priorities"]) == len(found["vector"]) == 2
    assert found["key"] == "".join(f"{part:0{len(found['key']) // 2}d}" for part in found["vector"])


def test_usage_changes_ranks_according_to_shares(scheduler: Caller) -> None:
    ranks = {
        found["account"]: found["rank"]
        for found in scheduler.get(ONE, {"account": ["alice", "bob", "carol"]}).json()["results"]
    }
    # physics has 7 of 10 hours and 60 % of the shares, biology 3 and 40 %; within physics alice has 6 of 7 with 2 of 3
    assert ranks == {"carol": 1, "bob": 2, "alice": 3}


def test_unmapped_accounts_get_the_fallback_factor_with_status_200(scheduler: Caller) -> None:
    found = scheduler.get(ONE, {"account": ["nobody-of-this-name", "alice"]}).json()["results"]
    assert {**found[0], "hint": ""} == {
        "account": "nobody-of-this-name",
        "entry": None,
        "error": "unmapped",
        "factor": 0.5,
        "tried": [{"user": "nobody-of-this-name"}],
        "hint": "",
    }
    assert "Send group too" in found[0]["hint"]
    assert found[1]["entry"] == "/physics/alice"


def test_bulk_accepts_names_and_objects_and_agrees_with_single_look_ups(scheduler: Caller) -> None:
    accounts = ["alice", {"user": "bob", "group": "physics", "namespace": "a"}, {"user": "bob", "group": "biology"}]
    bulk = scheduler.post(BULK, {"accounts": accounts}).json()["results"]
    single = scheduler.get(ONE, {"account": "alice"}).json()["results"]
    assert bulk[0] == single[0]
    assert bulk[1]["entry"] == "/physics/bob"
    assert bulk[2]["entry"] != "/physics/bob"


def test_columns_and_objects_agree(scheduler: Caller) -> None:
    accounts = {"accounts": ["alice", "zzz", "carol"]}
    objects = scheduler.post(BULK, accounts).json()["results"]
    columns = scheduler.post(f"{BULK}?columns=1", accounts).json()
    assert columns["accounts"] == [found["account"] for found in objects]
    assert columns["factors"] == [found["factor"] for found in objects]
    assert columns["ranks"] == [found.get("rank") for found in objects]
    assert "results" not in columns


@pytest.mark.parametrize("value", ["maybe", "", "2", "TRUE"])
def test_the_columns_parameter_is_0_or_1(scheduler: Caller, value: str) -> None:
    answers = [
        scheduler.get(f"{ONE}?account=alice&columns={value}"),
        scheduler.post(f"{BULK}?columns={value}", {"accounts": ["alice"]}),
    ]
    assert [refused(answer) for answer in answers] == [(400, "invalid", ["columns"])] * 2


@pytest.mark.parametrize(
    ("body", "status", "places"),
    [
        ({"accounts": [{"user": "x", "grp": "y"}]}, 400, ["accounts[0].grp"]),
        ({"accounts": ["a", 7]}, 400, ["accounts[1]"]),
        ({"accounts": [{"namespace": "n"}]}, 400, ["accounts[0]"]),
        ({"accounts": [{"user": ["x"]}]}, 400, ["accounts[0].user"]),
        ({"accounts": "alice"}, 400, ["accounts"]),
        ({"accounts": [], "more": 1}, 400, ["accounts"]),
        ([], 400, ["accounts"]),
        ({"accounts": ["x"] * 10_001}, 413, []),
        (b'{"accounts": [NaN]}', 400, ["accounts[0]"]),
        (b'{"accounts": ["a"], "accounts": ["b"]}', 400, ["accounts"]),
        (b"[" * 50_000, 400, ["byte 200"]),
    ],
)
def test_invalid_bodies_are_refused_with_the_location(
    scheduler: Caller, body: Any, status: int, places: list[str]
) -> None:
    found = refused(scheduler.post(BULK, body))
    assert (found[0], found[2]) == (status, places)


def test_ten_thousand_accounts_fit_in_one_response(scheduler: Caller) -> None:
    found = scheduler.post(BULK, {"accounts": [f"user{i}" for i in range(9_999)] + ["alice"]}).json()["results"]
    assert len(found) == 10_000
    assert found[-1]["entry"] == "/physics/alice"


def test_look_ups_make_no_queries(
    scheduler: Caller, django_assert_num_queries: DjangoAssertNumQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.get(ONE, {"account": "alice"})
    monkeypatch.setattr(store._process, "poll", lambda: None)  # the poll thread's work, done here by the caller
    with django_assert_num_queries(0):
        assert scheduler.get(ONE, {"account": "alice"}).status_code == 200
        assert scheduler.post(BULK, {"accounts": ["alice", "bob"]}).status_code == 200
        assert len(lines(scheduler.get(ALL).getvalue())) == 3
    assert "Set-Cookie" not in scheduler.get(ONE, {"account": "alice"}).headers


@pytest.mark.fault("F25")
def test_without_a_database_the_last_snapshot_is_served_with_its_age(
    scheduler: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scheduler.get(ONE, {"account": "alice"})

    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError("no server")

    later = AT + timedelta(minutes=5)
    with monkeypatch.context() as patch:
        patch.setenv("FAIRSHARE_CLOCK", later.isoformat())
        patch.setattr(CursorWrapper, "execute", refuse)
        patch.setattr(connection, "cursor", refuse)
        patch.setattr("apps.accounts.token_cache.FRESH_S", 0.0)
        patch.setattr("apps.accounts.token_cache.look_up_token", refuse)
        during = scheduler.get(ONE, {"account": "alice"})
        other = Client(raise_request_exception=False).get("/api/v1/policies", headers=scheduler.headers)
        ready = Client().get("/readyz")
        alive = Client().get("/healthz")
    assert during.status_code == 200
    assert during.json()["results"] == before.json()["results"]
    assert int(during.headers["Age"]) == int(before.headers["Age"]) + 300
    assert (other.status_code, other.json()["code"]) == (503, "database_down")
    assert "Retry-After" in other.headers
    assert (ready.status_code, alive.status_code) == (503, 200)


@pytest.mark.fault("F25")
def test_a_known_snapshot_is_not_sent_again(scheduler: Caller) -> None:
    first = scheduler.get(ONE, {"account": "alice"})
    assert first.headers["Cache-Control"] == "private, no-store"
    again = scheduler.get(ONE, {"account": "alice"}, If_None_Match=first.headers["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert scheduler.get(ONE, {"account": "alice"}, If_None_Match='"0"').status_code == 200


def test_before_the_first_snapshot_the_response_has_retry_after(site: Site) -> None:
    answer = Caller(token=site.token("priorities:read")).get(ONE, {"account": "alice"})
    assert (answer.status_code, answer.json()["code"]) == (503, "no_snapshot")
    assert int(answer.headers["Retry-After"]) > 0


def test_all_streams_every_leaf_and_since_only_changed_ones(computed: Site) -> None:
    caller = Caller(token=computed.token("priorities:read"))
    everything = caller.get(ALL)
    assert everything.headers["Content-Type"] == "application/x-ndjson"
    found = {line["entry"]: line for line in lines(everything.getvalue())}
    assert set(found) == {"/physics/alice", "/physics/bob", "/biology/carol"}
    assert found["/physics/alice"]["account"] == "alice"
    first = caller.get(ONE, {"account": "alice"}).json()["snapshot"]
    assert caller.get(ALL, {"since": first}).getvalue() == b""
    push(computed, [record("9", "bob", "physics", 8, at=AT)])
    computed.recompute()
    changed = {line["entry"]: line for line in lines(caller.get(ALL, {"since": first}).getvalue())}
    now = {line["entry"]: line for line in lines(caller.get(ALL).getvalue())}
    assert changed == {entry: line for entry, line in now.items() if line != found[entry]}
    assert "/physics/bob" in changed


def test_removed_entries_are_reported_as_gone(computed: Site, admin: Caller) -> None:
    first = admin.get(ONE, {"account": "alice"}).json()["snapshot"]
    operation = {"op": "archive", "entry": "/physics/bob"}
    draft = admin.post("policies/grid/changesets", {"base_revision": 2, "operations": [operation], "reason": "left"})
    published = admin.post(f"policies/grid/changesets/{draft.json()['id']}/publish")
    assert published.status_code == 200, published.content
    computed.recompute()
    changed = lines(admin.get(ALL, {"since": first}).getvalue())
    gone = [line for line in changed if line.get("gone")]
    assert [(line["account"], line["entry"]) for line in gone] == [("bob", "/physics/bob")]


@pytest.mark.parametrize("since", ["x", "-1", "1" * 30])
def test_an_invalid_snapshot_number_is_refused(scheduler: Caller, since: str) -> None:
    assert refused(scheduler.get(ALL, {"since": since})) == (400, "invalid", ["since"])


def test_a_deleted_snapshot_is_410(scheduler: Caller) -> None:
    answer = scheduler.get(ALL, {"since": "999999"})
    assert refused(answer) == (410, "snapshot_gone", [])
    assert "repeat the request without since" in answer.json()["detail"]


def test_a_token_of_one_subtree_sees_the_rest_as_unmapped(computed: Site) -> None:
    caller = Caller(token=computed.token("priorities:read", policy_slug="grid", subtree_uid=computed.uid("/physics")))
    alice, carol = caller.get(ONE, {"account": ["alice", "carol"]}).json()["results"]
    assert alice["entry"] == "/physics/alice"
    (nobody,) = caller.get(ONE, {"account": "nobody"}).json()["results"]
    assert (carol["entry"], carol["error"], carol["factor"]) == (None, "unmapped", 0.5)
    assert {**carol, "account": "nobody", "tried": [{"user": "nobody"}]} == nobody, "as what doesn't exist"
    assert {line["entry"] for line in lines(caller.get(ALL).getvalue())} == {"/physics/alice", "/physics/bob"}


def test_a_token_of_one_policy_finds_no_other(computed: Site) -> None:
    caller = Caller(token=computed.token("priorities:read", policy_slug="other"))
    hidden = caller.get(ONE, {"account": "alice"})
    missing = caller.get("policies/nowhere/priorities", {"account": "alice"})
    assert hidden.status_code == missing.status_code == 404
    assert {**hidden.json(), "request_id": ""} == {**missing.json(), "request_id": ""}


def test_a_revoked_token_stops_within_five_seconds(computed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    text = computed.token("priorities:read")
    caller = Caller(token=text)
    assert caller.get(ONE, {"account": "alice"}).status_code == 200
    revoke_token(token_id=Token.objects.latest("id").pk, at=AT, actor=SYSTEM)
    assert token_cache.FRESH_S < 5
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)  # as if so long had passed
    assert caller.get(ONE, {"account": "alice"}).status_code == 401


@pytest.mark.parametrize("header", ["Bearer", "Bearer nonsense", "Bearer fsh_000000000000_" + "0" * 64, "bearer \x7f"])
def test_a_wrong_token_and_no_token_have_different_errors(scheduler: Caller, header: str) -> None:
    answer = Client().get(f"/api/v1/{ONE}?account=alice", headers={"authorization": header})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.json()["code"] == "invalid_token"


def test_a_signed_in_member_sees_only_their_own_entry(computed: Site) -> None:
    caller = Caller(user=computed.alice)
    alice, bob = caller.get(ONE, {"account": ["alice", "bob"]}).json()["results"]
    assert alice["entry"] == "/physics/alice"
    assert bob["error"] == "unmapped"


def test_a_self_read_token_sees_only_its_owner(computed: Site) -> None:
    caller = Caller(token=computed.token("self:read", user=computed.alice))
    alice, bob = caller.post(BULK, {"accounts": ["alice", "bob"]}).json()["results"]
    assert (alice["entry"], bob["entry"]) == ("/physics/alice", None)


def test_a_token_without_the_scope_is_refused(computed: Site) -> None:
    answer = Caller(token=computed.token("usage:write")).get(ONE, {"account": "alice"})
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")


def test_the_token_cache_stores_no_secret(computed: Site) -> None:
    cache, text = TokenCache(), computed.token("priorities:read")
    cache.verify(text, at=AT)
    assert text.rpartition("_")[2] not in repr(vars(cache))
