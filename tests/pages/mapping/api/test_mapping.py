"""Accounts attached by hand, and corrections of usage, by REST."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Account
from apps.policies.models import Adjustment
from tests.small_site import Site, push, record
from tests.worlds import fresh_process  # noqa: F401 - fixture

BASE = "/api/v1/policies/grid"


def call(method: str, path: str, token: str, body: Any = None) -> Any:
    send = getattr(Client(), method)
    more = {} if body is None else {"data": body, "content_type": "application/json"}
    return send(f"{BASE}{path}", headers={"Authorization": f"Bearer {token}"}, **more)


def test_an_account_is_attached_listed_and_detached(site: Site) -> None:
    push(site, [record("9", "guest", "visitors", 2, at=site.at)])
    token = site.token("policies:write", "policies:read", user=site.pia)
    body = {
        "account": {"namespace": "a", "user": "guest", "group": "visitors"},
        "entry": "/physics/bob",
        "reason": "Ours.",
    }
    made = call("post", "/mappings", token, body)
    assert made.status_code == 201, made.content
    data = made.json()
    assert data["account"] == {
        "namespace": "a",
        "user": "guest",
        "group": "visitors",
        "dn": "",
        "fqan": "",
        "project": "",
    }
    assert (data["path"], data["entry"], data["reason"], data["author"]) == (
        "/physics/bob",
        str(site.uid("/physics/bob")),
        "Ours.",
        "pia",
    )
    site.recompute()
    found = call("get", "/priorities?account=guest", site.token("priorities:read")).json()["results"]
    assert [one["entry"] for one in found] == ["/physics/bob"]
    assert call("get", "/mappings?entry=/physics", token).json() == {"results": [data], "next": None}
    assert call("get", "/mappings?entry=/physics/alice", token).json()["results"] == []
    assert call("get", "/mappings", site.token("policies:read", user=site.ben)).json()["results"] == []
    one = f"/mappings/{data['id']}"
    assert call("get", one, token).json() == data
    assert call("get", one, site.token("policies:read", user=site.ben)).status_code == 404
    assert call("delete", one, site.token("policies:write", user=site.ben), {"reason": "x"}).status_code == 404
    assert call("delete", one, token, {}).status_code == 400
    assert call("delete", one, token, {"reason": "left"}).status_code == 204
    assert call("get", one, token).status_code == 404


def test_accounts_of_others_are_answered_like_unknown_ones(site: Site) -> None:
    token = site.token("policies:write", user=site.pia)
    answers = []
    for name in ("carol", "karla"):
        body = {"account": {"namespace": "a", "user": name, "group": "biology"}, "entry": "/physics/bob", "reason": "x"}
        answer = call("post", "/mappings", token, body)
        problem = answer.json()
        answers.append((answer.status_code, problem["code"], problem["detail"].replace(name, "…")))
    assert answers[0] == answers[1]
    assert answers[0][0] == 422
    assert Account.objects.filter(user_name="karla").count() == 0


def test_adjustments_are_listed_with_their_current_effect(site: Site) -> None:
    token = site.token("policies:write", "policies:read")
    before = (site.at - timedelta(hours=2)).isoformat()
    for path, amount in (("/physics/alice", -7200), ("/biology", 3600)):
        operation = {"op": "adjust_usage", "entry": path, "amount_s": amount, "at": before, "note": "n1"}
        body = {"base_revision": _head(token), "reason": "Because.", "operations": [operation]}
        made = call("post", "/changesets", token, body)
        assert made.status_code == 201, made.content
        assert call("post", f"/changesets/{made.json()['id']}/publish", token, {}).status_code == 200
    site.recompute()
    data = call("get", "/adjustments", token).json()
    assert [one["path"] for one in data["results"]] == ["/biology", "/physics/alice"]
    second = data["results"][1]
    assert (second["amount_s"], second["counted_s"], second["note"], second["reason"], second["author"]) == (
        -7200.0,
        pytest.approx(-7200.0 * 2 ** (-1 / 168)),
        "n1",
        "Because.",
        "admin",
    )
    assert second["until"] is None
    mine = call("get", "/adjustments?entry=/physics", site.token("policies:read", user=site.pia)).json()["results"]
    assert [one["uid"] for one in mine] == [second["uid"]]
    assert (
        call("get", "/adjustments", site.token("policies:read", user=site.ben)).json()["results"] == data["results"][:1]
    )
    assert call("get", "/adjustments?entry=/biology", site.token("policies:read", user=site.pia)).status_code == 404
    revoke = {"op": "adjust_usage", "entry": "/physics/alice", "revokes": second["uid"]}
    made = call("post", "/changesets", token, {"base_revision": _head(token), "reason": "No.", "operations": [revoke]})
    assert call("post", f"/changesets/{made.json()['id']}/publish", token, {}).status_code == 200
    active = call("get", "/adjustments?active=true", token).json()["results"]
    assert [one["path"] for one in active] == ["/biology"]
    assert Adjustment.objects.get(uid=second["uid"]).until is not None


def _head(token: str) -> int:
    return int(call("get", "/revisions", token).json()["results"][0]["number"])
