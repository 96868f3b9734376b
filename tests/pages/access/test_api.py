"""Grants by REST: given, changed under If-Match, ended; and a person's rights, with the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import AuditEvent
from apps.policies.models import Grant
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

PATH = "policies/grid/grants"


@pytest.fixture
def pia(site: Site) -> Caller:
    return Caller(user=site.pia)


def give(caller: Caller, **more: Any) -> Any:
    return caller.post(PATH, {"entry": "/physics/bob", "person": "alice", "role": "lead", "reason": "try", **more})


def test_a_grant_is_created_and_listed_at_its_entry(site: Site, pia: Caller) -> None:
    answer = give(pia)
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert (made["path"], made["person"], made["people"], made["granted_by"]) == ("/physics/bob", "alice", "", "pia")
    assert made["verbs"] == ["view_aggregate", "view_members", "edit_shares", "map_accounts", "publish"]
    assert made["expires_at"] == "2027-11-20T12:00:00Z"
    assert answer.headers["ETag"] == made["etag"]
    listed = pia.get(PATH).json()["results"]
    assert [(line["path"], line["person"]) for line in listed] == [("/physics", "pia"), ("/physics/bob", "alice")]
    assert pia.get(PATH, {"entry": "/physics", "below": "1", "person": "alice"}).json()["results"] == [made]
    assert pia.get(PATH, {"entry": "/physics", "state": "dormant"}).json()["results"] == []
    assert pia.get(f"{PATH}/{made['id']}").json() == made


def test_users_without_grants_see_no_grants_of_others(site: Site, pia: Caller) -> None:
    number = give(pia).json()["id"]
    assert Caller(user=site.ben).get(PATH, {"person": "alice"}).json()["results"] == []
    assert Caller(user=site.ben).get(f"{PATH}/{number}").status_code == 404
    assert [line["id"] for line in Caller(user=site.alice).get(PATH).json()["results"]] == [number]


@pytest.mark.parametrize(
    ("wrong", "status", "where"),
    [
        ({"role": "king"}, 400, "role"),
        ({"person": "nobody-like-that"}, 422, "username"),
        ({"people": "oidc:x"}, 422, "username"),
        ({"verbs": ["fly"]}, 400, "verbs"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, 422, "expires_at"),
        ({"surprise": 1}, 400, "surprise"),
    ],
)
def test_invalid_grant_fields_are_named(
    site: Site, pia: Caller, wrong: dict[str, Any], status: int, where: str
) -> None:
    answer = give(pia, **wrong)
    assert answer.status_code == status, answer.content
    assert where in answer.json()["fields"][0]["where"]
    assert Grant.objects.count() == 2


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ({"role": "admin"}, 403, "more_than_own"),
        ({"person": "pia", "role": "viewer"}, 403, "own_grant"),
        ({"entry": "/"}, 403, "not_allowed"),
        ({"entry": "/biology"}, 404, "not_found"),
        ({"entry": "/nothing"}, 404, "not_found"),
    ],
)
def test_a_forbidden_grant_is_refused_and_audited(
    site: Site, pia: Caller, wrong: dict[str, Any], status: int, code: str
) -> None:
    answer = give(pia, **wrong)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert AuditEvent.objects.filter(verb="grant.given", outcome="refused").count() == (status == 403)


def test_a_grant_change_needs_the_current_version(site: Site, pia: Caller) -> None:
    made = give(pia).json()
    where = f"{PATH}/{made['id']}"
    assert pia.patch(where, {"role": "viewer"}).status_code == 428
    answer = pia.patch(where, {"role": "viewer", "expires_at": None}, if_match=made["etag"])
    assert answer.status_code == 200, answer.content
    assert (answer.json()["verbs"], answer.json()["expires_at"]) == (["view_aggregate"], None)
    assert pia.patch(where, {"role": "lead"}, if_match=made["etag"]).status_code == 412
    assert pia.patch(where, {"verbs": ["publish"]}, if_match=answer.headers["ETag"]).json()["verbs"] == ["publish"]


def test_a_grant_ends_with_its_dependents(site: Site, pia: Caller) -> None:
    made = give(pia, role="manager", entry="/physics").json()
    alice = Caller(user=site.alice)
    assert give(alice, person="nobody").status_code == 201
    where = f"{PATH}/{made['id']}"
    assert delete(pia, where).status_code == 428
    assert delete(pia, where, if_match='"stale"').status_code == 412
    assert delete(pia, f"{where}?reason=over", if_match=made["etag"]).status_code == 204
    assert set(Grant.objects.values_list("user__username", flat=True)) == {"pia", "ben"}
    assert AuditEvent.objects.filter(verb="grant.ended", reason="over").count() == 1


def delete(caller: Caller, path: str, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return caller.client.delete(f"/api/v1/{path}", headers={**caller.headers, **named})


def test_the_origin_of_a_right(site: Site, pia: Caller) -> None:
    give(pia, expires_at=None)
    answer = pia.get("policies/grid/access", {"entry": "/physics/bob", "person": "alice"}).json()
    verbs = {each["verb"]: each for each in answer["verbs"]}
    assert verbs["edit_shares"]["is_held"]
    assert verbs["edit_shares"]["grounds"][0] | {"grant": 0} == {
        "grant": 0,
        "path": "/physics/bob",
        "is_inherited": False,
        "role": "lead",
        "people": "",
        "granted_by": "pia",
        "reason": "try",
        "expires_at": None,
    }
    assert not verbs["delegate"]["is_held"]
    assert (answer["may_divide"], answer["may_change_own"]) == (True, False)
    own = pia.get("policies/grid/access", {"entry": "/physics/bob"}).json()
    assert (own["person"], own["may_change_own"]) == ("pia", True)


def test_a_member_checks_the_own_rights_at_the_own_entry(site: Site) -> None:
    alice = Caller(user=site.alice)
    answer = alice.get("policies/grid/access", {"entry": "/physics/alice"})
    assert answer.status_code == 200, answer.content
    assert (answer.json()["may_see"], answer.json()["may_divide"]) == (True, False)
    assert alice.get("policies/grid/access", {"entry": "/physics", "person": "pia"}).status_code == 403
    assert alice.get("policies/grid/access", {"entry": "/biology"}).status_code == 404


def test_a_read_token_cannot_grant(site: Site) -> None:
    reader = Caller(token=site.token("policies:read", user=site.pia))
    assert [line["person"] for line in reader.get(PATH).json()["results"]] == ["pia"]
    assert refused(give(reader)) == (403, "insufficient_scope", [])
    assert not Grant.objects.filter(user=site.alice).exists()
    writer = Caller(token=site.token("policies:write", user=site.pia, at=AT))
    assert give(writer).json()["granted_by"] == "pia"
    assert Grant.objects.filter(user=site.alice).count() == 1
