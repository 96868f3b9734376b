"""GET /me and /me/explain: one's own priorities in numbers, keys and sentences."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from apps.accounts.models import User
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


def test_a_self_read_token_is_sufficient(computed: Site) -> None:
    caller = Caller(token=computed.token("self:read", user=computed.alice))
    me = caller.get("me").json()
    assert (me["username"], me["token"]["scopes"], me["at"]) == ("alice", ["self:read"], None)
    (line,) = me["accounts"]
    assert (line["account"], line["policy"], line["entry"]) == ("alice", "grid", "/physics/alice")
    assert (line["rank"], line["of"], line["error"]) == (3, 3, None)
    assert [one["key"] for one in line["sentences"]] == ["verdict.behind", "reason.group_bad_over"]
    assert line["sentence"].startswith(f"{line['sentences'][0]['text']}. {line['sentences'][1]['text']}")
    assert caller.get("me/explain").json()["accounts"][0]["entry"] == "/physics/alice"


def test_other_scopes_are_refused(computed: Site) -> None:
    for path in ("me", "me/explain"):
        other = Caller(token=computed.token("priorities:read")).get(path)
        assert refused(other) == (403, "insufficient_scope", [])
        assert refused(Caller().get(path)) == (401, "not_authenticated", [])


def test_every_sentence_has_key_values_and_text(computed: Site) -> None:
    (found,) = Caller(user=computed.alice).get("me/explain").json()["accounts"]
    levels = [one for step in found["steps"] for one in step["sentences"]]
    collected = [*found["sentences"], *found["when"], *found["changes"], found["number"], *levels]
    kinds = {"verdict", "reason", "when", "change", "number", "walk", "ahead"}
    assert {one["key"].split(".")[0] for one in collected} == kinds
    assert all(set(one) == {"key", "values", "text"} and "%(" not in one["text"] for one in collected)
    physics, alice = found["steps"]
    assert (physics["entry"], physics["decides"], alice["decides"]) == ("/physics", True, False)
    assert physics["target"] == 0.6
    assert physics["deviation_points"] == pytest.approx((physics["actual"] - 0.6) * 100)
    assert alice["sentences"][0]["key"].endswith("_you")
    assert json.dumps(found, allow_nan=False)


def test_one_account_can_be_chosen(computed: Site) -> None:
    caller = Caller(user=computed.alice)
    assert len(caller.get("me/explain", {"account": "alice", "namespace": "a"}).json()["accounts"]) == 1
    assert caller.get("me/explain", {"account": "bob"}).json()["accounts"] == []
    assert caller.get("me/explain", {"entry": "/physics/bob"}).json()["accounts"] == []


def test_an_unknown_user_gets_a_hint(computed: Site) -> None:
    (found,) = Caller(user=computed.nobody).get("me", {"policy": "grid"}).json()["accounts"]
    assert (found["error"], found["entry"]) == ("unmapped", None)
    assert [one["key"] for one in [*found["when"], *found["changes"]]] == ["when.unmapped", "change.unmapped"]


def test_a_past_instant_uses_its_snapshot(computed: Site) -> None:
    caller = Caller(user=computed.alice)
    then = (AT + timedelta(hours=1)).isoformat()
    (found,) = caller.get("me", {"at": then}).json()["accounts"]
    assert (found["rank"], found["moment"]["revision"], found["moment"]["reconstructed"]) == (3, 2, False)
    assert [found["when"], found["changes"]] == [[], []], "the past can't be changed"
    (before,) = caller.get("me", {"at": (AT - timedelta(days=400)).isoformat(), "policy": "grid"}).json()["accounts"]
    assert (before["error"], before["rank"]) == ("no_snapshot", None)


def test_a_revision_without_policy_and_a_time_without_zone_are_refused(computed: Site) -> None:
    caller = Caller(user=computed.alice)
    revision = caller.get("me", {"at": "2"})
    assert (revision.status_code, revision.json()["fields"][0]["where"]) == (422, "at")
    assert caller.get("me", {"at": "2", "policy": "grid"}).status_code == 200
    assert caller.get("me", {"at": "9", "policy": "grid"}).status_code == 404
    assert caller.get("me", {"at": "2026-01-01T00:00:00"}).status_code == 400
    assert caller.get("me", {"until": "x"}).status_code == 400


def test_a_token_of_a_subtree_sees_no_levels_above(computed: Site) -> None:
    bound = {"policy_slug": "grid", "subtree_uid": computed.uid("/physics/alice")}
    caller = Caller(token=computed.token("self:read", user=computed.alice, **bound))
    (found,) = caller.get("me/explain").json()["accounts"]
    assert [step["entry"] for step in found["steps"]] == ["/physics/alice"]
    other = {"policy_slug": "grid", "subtree_uid": computed.uid("/biology")}
    caller = Caller(token=computed.token("self:read", user=computed.alice, **other))
    assert [one["error"] for one in caller.get("me").json()["accounts"]] == ["unmapped"]


def test_an_administrator_sees_no_accounts_of_others_as_own(computed: Site) -> None:
    User.objects.filter(pk=computed.admin.pk).update(first_name="Ada", last_name="Min")
    me = Caller(user=User.objects.get(pk=computed.admin.pk)).get("me", {"policy": "grid"}).json()
    assert me["name"] == "Ada Min"
    assert [one["error"] for one in me["accounts"]] == ["unmapped"]
