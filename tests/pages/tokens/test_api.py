"""My tokens by REST: through a session only, shown once."""

from __future__ import annotations

from apps.accounts.models import Token
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


def test_a_token_is_shown_once_and_works(site: Site) -> None:
    pia = Caller(user=site.pia)
    made = pia.post("tokens", {"name": "laptop", "scopes": ["policies:read"], "days": 30})
    assert made.status_code == 201, made.content
    assert made.headers["Cache-Control"] == "private, no-store"
    text = made.json()["token"]
    assert Caller(token=text).get("policies").status_code == 200
    (listed,) = pia.get("tokens").json()["results"]
    assert "token" not in listed
    assert text.startswith(listed["prefix"])
    secret = text.rpartition("_")[2]
    assert secret not in str(list(Token.objects.values()))


def test_rotation_keeps_the_old_secret_for_a_day(site: Site) -> None:
    pia = Caller(user=site.pia)
    made = pia.post("tokens", {"name": "laptop", "scopes": ["policies:read"]}).json()
    rotated = pia.post(f"tokens/{made['id']}/rotate").json()
    assert rotated["token"] != made["token"]
    for text in (made["token"], rotated["token"]):
        assert Caller(token=text).get("policies").status_code == 200


def test_a_revoked_token_is_refused(site: Site) -> None:
    pia = Caller(user=site.pia)
    made = pia.post("tokens", {"name": "laptop", "scopes": ["policies:read"]}).json()
    assert pia.post(f"tokens/{made['id']}/revoke").status_code == 204
    assert Token.objects.get(pk=made["id"]).revoked_at is not None
    assert refused(Caller(token=made["token"]).get("policies")) == (401, "invalid_token", [])
    assert refused(pia.post(f"tokens/{made['id']}/rotate")) == (409, "token_ended", [])


def test_a_token_cannot_create_tokens(site: Site) -> None:
    for scope in ("admin", "policies:write"):
        answer = Caller(token=site.token(scope)).post("tokens", {"name": "x", "scopes": ["self:read"]})
        assert (answer.status_code, answer.json()["code"]) == (403, "session_only")


def test_a_token_cannot_exceed_the_rights_of_its_owner(site: Site) -> None:
    pia = Caller(user=site.pia)
    for scope in ("admin", "priorities:read", "usage:write"):
        answer = pia.post("tokens", {"name": "x", "scopes": [scope]})
        assert refused(answer) == (403, "not_allowed", [])
        assert scope in answer.json()["detail"]
    unknown = pia.post("tokens", {"name": "x", "scopes": ["everything"]})
    assert refused(unknown) == (400, "invalid", ["scopes.0"])
    lasting = pia.post("tokens", {"name": "x", "scopes": ["self:read"], "days": 366})
    assert refused(lasting) == (400, "invalid", ["days"])
    assert not Token.objects.filter(user=site.pia).exists()


def test_tokens_of_others_are_not_found(site: Site) -> None:
    made = Caller(user=site.pia).post("tokens", {"name": "x", "scopes": ["self:read"]}).json()
    ben = Caller(user=site.ben)
    assert ben.get("tokens").json()["results"] == []
    for step in ("rotate", "revoke"):
        hidden, missing = ben.post(f"tokens/{made['id']}/{step}"), ben.post(f"tokens/999999/{step}")
        assert hidden.status_code == missing.status_code == 404
        assert {**hidden.json(), "request_id": ""} == {**missing.json(), "request_id": ""}
