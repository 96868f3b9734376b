"""The mapping by REST: rules, trials, accounts without an entry, bulk assignment, versions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.mapping.models import Attachment, MappingVersion
from tests.pages.mapping.api.test_mapping import call as plain_call
from tests.rest_site import refused
from tests.small_site import Site, push, record
from tests.worlds import fresh_process  # noqa: F401 - fixture

RULES = "/mappings/rules"
GUESTS = {"kind": "glob", "user": "guest*", "entry": "/physics/bob"}


@pytest.fixture
def token(site: Site) -> str:
    push(site, [record("8", "guest", "visitors", 2, at=site.at), record("9", "carol@x.org", "nowhere", 3, at=site.at)])
    return site.token("policies:write", "policies:read")


def call(method: str, path: str, token: str, body: Any = None, *, seen: int | str | None = None) -> Any:
    from django.test import Client

    headers = {"Authorization": f"Bearer {token}"}
    if seen is not None:
        headers["If-Match"] = f'"{seen}"'
    more = {} if body is None else {"data": body, "content_type": "application/json"}
    return getattr(Client(), method)(f"/api/v1/policies/grid{path}", headers=headers, **more)


def version(token: str) -> int:
    return int(call("get", RULES, token).json()["version"])


def test_rules_are_listed_with_their_current_matches(site: Site, token: str) -> None:
    answer = call("get", RULES, token)
    body = answer.json()
    assert answer["ETag"] == f'"{body["version"]}"'
    (rule,) = body["results"]
    assert (rule["position"], rule["kind"], rule["group"], rule["path"]) == (1, "glob", "*", "/")
    assert rule["accounts"] > 0
    assert rule["core_s"] > 0


def test_each_rule_change_is_a_version(site: Site, token: str) -> None:
    first = version(token)
    made = call("post", RULES, token, {**GUESTS, "position": 1, "reason": "Guests."}, seen=first)
    assert (made.status_code, made.json(), made["ETag"]) == (201, {"version": first + 1}, f'"{first + 1}"')
    site.recompute()
    found = call("get", "/priorities?account=guest", site.token("priorities:read")).json()["results"]
    assert [one["entry"] for one in found] == ["/physics/bob"]
    moved = call("patch", f"{RULES}/1", token, {"position": 2, "reason": "r"}, seen=first + 1)
    assert moved.status_code == 200
    assert [rule["user"] for rule in call("get", RULES, token).json()["results"]] == ["", "guest*"]
    changed = call(
        "patch", f"{RULES}/2", token, {"rule": {**GUESTS, "entry": "/biology"}, "reason": "r"}, seen=first + 2
    )
    assert changed.status_code == 200
    assert call("get", RULES, token).json()["results"][1]["path"] == "/biology"
    gone = call("delete", f"{RULES}/2?reason=over", token, seen=first + 3)
    assert gone.json() == {"version": first + 4}
    replaced = call("put", RULES, token, {"rules": [GUESTS], "reason": "r"}, seen=first + 4)
    assert replaced.status_code == 200
    assert [rule["user"] for rule in call("get", RULES, token).json()["results"]] == ["guest*"]
    body = call("get", "/mappings/versions", token).json()["results"]
    assert [one["version"] for one in body][:5] == [first + 5, first + 4, first + 3, first + 2, first + 1]
    assert body[3]["reordered"] is True
    assert (body[4]["reason"], [rule["user"] for rule in body[4]["added"]]) == ("Guests.", ["guest*"])
    back = call("post", f"/mappings/versions/{first}/restore", token, {"reason": "No."}, seen=first + 5)
    assert back.status_code == 201
    one = call("get", f"/mappings/versions/{first + 6}", token).json()
    assert [rule["group"] for rule in one["rules"]] == ["*"]
    assert [rule["user"] for rule in one["removed"]] == ["guest*"]


def test_a_rule_change_needs_the_current_version(site: Site, token: str) -> None:
    body = {**GUESTS, "reason": "r"}
    assert call("post", RULES, token, body).status_code == 428
    assert call("post", RULES, token, body, seen=9999).status_code == 412
    assert call("post", RULES, token, body, seen="x").status_code == 412
    assert call("delete", f"{RULES}/1?reason=r", token).status_code == 428
    assert call("put", RULES, token, {"rules": [], "reason": "r"}, seen=9999).status_code == 412
    attach = {
        "account": {"namespace": "a", "user": "guest", "group": "visitors"},
        "entry": "/physics/bob",
        "reason": "r",
    }
    assert call("post", "/mappings", token, attach, seen=9999).status_code == 412
    assert call("post", "/mappings", token, attach, seen=version(token)).status_code == 201
    assert MappingVersion.objects.latest("number").attached


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({**GUESTS, "entry": "/nowhere"}, 404, "not_found"),
        ({**GUESTS, "suffix": "/{x}"}, 422, "bad_rules"),
        ({**GUESTS, "source": "none"}, 422, "bad_rules"),
        ({**GUESTS, "kind": "regex"}, 400, "invalid"),
        ({**GUESTS, "colour": "red"}, 400, "unknown_field"),
        ({**GUESTS, "shares": -1}, 400, "invalid"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_location(
    site: Site, token: str, body: dict[str, Any], status: int, code: str
) -> None:
    answer = call("post", RULES, token, {"reason": "r", **body}, seen=version(token))
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content


def test_a_preview_lists_moved_accounts_and_changes_nothing(site: Site, token: str) -> None:
    before = version(token)
    rules = [{"kind": "glob", "group": "*", "entry": "/", "suffix": "/{group}/{user}"}, GUESTS]
    body = call("post", "/mappings/trial", token, {"rules": rules}).json()
    assert (body["accounts"], body["core_s"], body["refusal"]) == (1, 2 * 3600.0, "")
    assert [(one["account"]["user"], one["before"], one["after"]) for one in body["moves"]] == [
        ("guest", None, "/physics/bob")
    ]
    assert version(token) == before
    with_reason = call("post", "/mappings/trial", token, {"rules": rules, "reason": "the body of PUT"})
    assert with_reason.json() == body
    assert call("post", "/mappings/trial", token, {"reason": "alone"}).status_code == 400
    assert call("post", "/mappings/trial", token, {}).status_code == 400
    assert call("post", "/mappings/trial", token, {"restore": before}).status_code == 422, "nothing would change"


def test_unmapped_accounts_have_suggestions_and_are_mapped_together(site: Site, token: str) -> None:
    data = call("get", "/mappings/unmapped", token).json()["results"]
    assert [(one["account"]["user"], one["core_s"]) for one in data] == [("carol@x.org", 10800.0), ("guest", 7200.0)]
    (guess,) = data[0]["suggestions"]
    assert (guess["path"], guess["why"]) == ("/biology/carol", "without_realm")
    body = {
        "assignments": [
            {"account": data[0]["account"], "entry": guess["entry"]},
            {"account": data[1]["account"], "entry": "/physics/bob"},
        ],
        "reason": "As suggested.",
    }
    before = version(token)
    made = call("post", "/mappings/assignments", token, body, seen=before)
    assert made.json() == {"version": before + 1}
    assert Attachment.objects.count() == 2
    assert call("get", "/mappings/unmapped", token).json()["results"] == []
    unknown = {**body, "assignments": [{"account": {"namespace": "a", "user": "nobody9"}, "entry": "/physics"}]}
    assert call("post", "/mappings/assignments", token, unknown, seen=before + 1).status_code == 422


def test_a_delegate_moves_no_accounts_of_others(site: Site, token: str) -> None:
    pia = site.token("policies:write", "policies:read", user=site.pia)
    seen = version(token)
    assert call("get", RULES, pia).json()["results"] == [], "the rule of the whole is not hers to read"
    pulls = call("post", RULES, pia, {**GUESTS, "user": "carol", "position": 1, "reason": "r"}, seen=seen)
    assert (pulls.status_code, pulls.json()["code"]) == (403, "not_yours")
    away = call("post", RULES, pia, {**GUESTS, "entry": "/biology", "reason": "r"}, seen=seen)
    assert refused(away) == (404, "not_found", [])
    assert call("delete", f"{RULES}/1?reason=r", pia, seen=seen).status_code == 404
    assert call("post", RULES, pia, {**GUESTS, "reason": "Ours."}, seen=seen).status_code == 201
    ben = site.token("policies:write", "policies:read", user=site.ben)
    assert call("delete", f"{RULES}/2?reason=r", ben, seen=seen + 1).status_code == 404
    assert [one["version"] for one in call("get", "/mappings/versions", pia).json()["results"]] == [seen + 1]
    assert call("get", "/mappings/versions", ben).json()["results"] == []
    assert call("get", f"/mappings/versions/{seen + 1}", ben).status_code == 404


def test_the_mapping_version_of_an_instant_is_found(site: Site, token: str) -> None:
    first = MappingVersion.objects.order_by("number").first()
    assert first is not None
    later = (first.at + timedelta(seconds=1)).isoformat().replace("+00:00", "Z")
    body = call("get", f"/mappings/versions?at={later}", token).json()["results"]
    assert body[0]["version"] >= first.number
    long_ago = call("get", "/mappings/versions?at=2001-01-01T00:00:00Z", token)
    assert long_ago.json()["results"] == []
    assert call("get", "/mappings/versions?at=yesterday", token).status_code == 400


def test_a_user_without_a_role_sees_no_mapping(site: Site, token: str) -> None:
    theirs = site.token("policies:write", "policies:read", user=site.nobody)
    for path in (RULES, "/mappings/unmapped", "/mappings/versions", "/mappings/versions/1"):
        assert refused(call("get", path, theirs)) == (404, "not_found", []), path
    assert plain_call("get", "/mappings", theirs).json()["results"] == []
