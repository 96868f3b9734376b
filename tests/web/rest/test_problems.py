"""Every refusal below /api/ is a problem document with a stable code."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from apps.web.rest.transport import WriteThrottle
from tests.each_case import each_case
from tests.rest_site import Caller
from tests.small_site import Site


def assert_problem(answer: Any, status: int, code: str) -> None:
    assert answer.status_code == status, answer.content
    assert answer.headers["Content-Type"] == "application/problem+json"
    document = answer.json()
    assert set(document) >= {"type", "title", "status", "code", "detail", "fields", "request_id"}
    assert (document["status"], document["code"]) == (status, code)
    assert document["request_id"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize("path", ["/api/", "/api/v1/", "/api/v2/x", "/api/v1/nowhere", "/api/v1/policies/"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_an_unknown_route_is_a_problem_document(db: None, path: str, method: str) -> None:
    assert_problem(getattr(Client(enforce_csrf_checks=True), method)(path), 404, "not_found")


def test_an_anonymous_request_gets_the_way_to_authenticate(site: Site) -> None:
    answer = Caller().get("policies")
    assert_problem(answer, 401, "not_authenticated")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_an_unsupported_method_is_refused_with_the_allowed_ones(admin: Caller) -> None:
    answer = admin.post("policies/grid/tree", {})
    assert_problem(answer, 405, "method_not_allowed")
    assert "GET" in answer.headers["Allow"]


@pytest.mark.parametrize("method", ["POST", "DELETE", "TRACE"])
def test_an_unknown_method_is_refused_before_scopes(site: Site, method: str) -> None:
    caller = Caller(token=site.token("policies:read"))
    answer = caller.client.generic(method, "/api/v1/policies/grid/tree", headers=caller.headers)
    assert_problem(answer, 405, "method_not_allowed")
    assert "GET" in answer.headers["Allow"]


def test_options_needs_the_scope_of_the_route(site: Site) -> None:
    reader, writer = (Caller(token=site.token(scope)) for scope in ("policies:read", "usage:write"))
    answer = reader.client.options("/api/v1/policies", headers=reader.headers)
    assert (answer.status_code, "GET" in answer.headers["Allow"]) == (200, True)
    answer = writer.client.options("/api/v1/policies", headers=writer.headers)
    assert_problem(answer, 403, "insufficient_scope")


def test_another_media_type_is_refused(admin: Caller) -> None:
    answer = admin.post("policies/grid/changesets", "a: 1", content_type="application/yaml")
    assert_problem(answer, 415, "unsupported_media_type")
    answer = admin.post("tokens", b"x", Content_Encoding="gzip")
    assert_problem(answer, 415, "unsupported_encoding")


def test_a_session_without_csrf_token_cannot_write(site: Site) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(site.admin, backend="django.contrib.auth.backends.ModelBackend")
    answer = client.post("/api/v1/tokens", {"name": "x", "scopes": ["self:read"]}, content_type="application/json")
    assert_problem(answer, 403, "csrf_failed")


def test_a_token_needs_no_csrf_token_and_no_cookie(site: Site) -> None:
    client = Client(enforce_csrf_checks=True)
    text = site.token("policies:write", user=site.pia)
    operation = {"op": "set_shares", "entry": "/physics/bob", "shares": 3}
    answer = client.post(
        "/api/v1/policies/grid/changesets",
        {"base_revision": 2, "operations": [operation]},
        content_type="application/json",
        headers={"authorization": f"Bearer {text}"},
    )
    assert answer.status_code == 201, answer.content
    assert not answer.cookies


@each_case(
    ("body", "code"),
    [
        (b"[" * 900, "too_deep"),
        (b'{"a": NaN}', "not_finite"),
        (b'{"a": 1e999}', "not_finite"),
        (b'{"a": ' + b"9" * 4301 + b"}", "number_too_long"),
        (b'{"a": "\\ud800"}', "bad_text"),
        (b'{"a": 1', "bad_json"),
        (b"\xff\xfe", "bad_json"),
    ],
)
@each_case("path", ["tokens", "policies/grid/changesets", "policies/grid/recompute", "policies/grid/priorities/lookup"])
def test_invalid_json_is_refused_on_every_route(computed: Site, path: str, body: bytes, code: str) -> None:
    answer = Caller(user=computed.admin).post(path, body)
    assert_problem(answer, 400, code)
    assert answer.json()["fields"][0]["where"]


def test_a_body_over_the_limit_is_refused(admin: Caller) -> None:
    answer = admin.post("policies/grid/changesets", b'{"reason": "' + b"x" * (32 * 1024**2) + b'"}')
    assert_problem(answer, 413, "too_large")
    assert "Retry-After" in answer.headers


def test_unknown_fields_and_parameters_are_named(admin: Caller) -> None:
    answer = admin.post("tokens", {"name": "x", "scopes": ["self:read"], "scope": "admin"})
    assert_problem(answer, 400, "unknown_field")
    assert answer.json()["fields"][0]["where"] == "scope"
    assert_problem(admin.get("policies/grid/tree", {"dept": "1"}), 400, "unknown_field")


def test_invalid_fields_are_reported_with_their_location(admin: Caller) -> None:
    answer = admin.post("policies/grid/changesets", {"base_revision": 0, "operations": [1]})
    assert_problem(answer, 400, "invalid")
    assert {field["where"] for field in answer.json()["fields"]} == {"base_revision", "operations.0"}


def test_a_valid_request_id_is_returned_and_an_invalid_one_replaced(db: None) -> None:
    assert Client().get("/healthz", headers={"x-request-id": "job-17.a_b"}).headers["X-Request-Id"] == "job-17.a_b"
    made = Client().get("/healthz", headers={"x-request-id": "a b<script>"}).headers["X-Request-Id"]
    assert re.fullmatch("[0-9a-f]{32}", made)


def test_a_defect_is_a_problem_document_without_details(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError("a secret of the house")

    monkeypatch.setattr("apps.policies.selectors.list_policies", fail)
    client = Client(raise_request_exception=False)
    client.force_login(site.admin, backend="django.contrib.auth.backends.ModelBackend")
    answer = client.get("/api/v1/policies")
    assert_problem(answer, 500, "internal")
    assert b"secret" not in answer.content


def test_a_password_is_not_accepted_as_bearer_token(site: Site) -> None:
    answer = Client().get("/api/v1/policies", headers={"authorization": "Bearer a long pass phrase"})
    assert_problem(answer, 401, "invalid_token")


def test_too_many_writes_get_retry_after(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WriteThrottle, "THROTTLE_RATES", {"writes": "2/min", "usage": "2/min"})
    cache.clear()
    caller = Caller(user=site.ben)
    for n_left in (1, 0):
        answer = caller.post("tokens", {})
        assert answer.status_code == 400
        assert answer.headers["RateLimit-Policy"] == '"writes";q=2;w=60'
        assert re.fullmatch(rf'"writes";r={n_left};t=(60|59)', answer.headers["RateLimit"])
    answer = caller.post("tokens", {})
    assert_problem(answer, 429, "throttled")
    assert answer.headers["RateLimit"].startswith('"writes";r=0;t=')
    assert "RateLimit" not in caller.get("tokens").headers
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert caller.get("tokens").status_code == 200
    assert Caller(user=site.pia).post("tokens", {}).status_code == 400
    cache.clear()
