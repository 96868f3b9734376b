"""The API against its own description, with generated requests: what comes back matches it, and is never a defect."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import hypothesis
import orjson
import pytest
import schemathesis
from django.conf import LazySettings
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.test import Client
from django.urls import URLPattern, get_resolver
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from openapi_schema_validator import OAS30Validator
from schemathesis.checks import CHECKS, load_all_checks

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.federation.publishing import make_publication
from apps.federation.usage_feeds.feeds import make_feed
from apps.federation.usage_feeds.subscriptions import subscribe
from apps.mapping.attachments import attach_account
from apps.policies.models import ChangeSet, Grant, Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.runs.models import Run
from apps.usage.models import Source
from apps.web.rest.deprecations import braced_route
from apps.web.rest.examples import ANSWERS, requests
from apps.web.rest.transport import WriteThrottle
from fairshare_web.wsgi import application
from tests.examples import FIXED, examples, show_values
from tests.plugin_parts import added, parts
from tests.small_site import Site

show_values()
load_all_checks()
WANTED = CHECKS.get_by_names(
    [
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
    ]
)
_IS_SHORT = hypothesis.settings.get_current_profile_name() == FIXED
# Requests of each operation. With fixed examples the first one names real things and is as small as can be.
_REQUESTS = {"admin": 2, "pia": 1, "nobody": 1} if _IS_SHORT else dict.fromkeys(("admin", "pia", "nobody"), 10)
_UNCHECKED = examples(25, suppress=HealthCheck)
N_PARTS = 1 if _IS_SHORT else 6  # of the operations: half a minute each, with many examples
FORM_TOKEN = "a" * 32
# What generated data can't succeed with: operations that mean something, versions that were read, tokens that exist.
NEEDS_SENSE = {
    "GET /api/v1/federation/grid",
    "POST /api/v1/policies",
    "DELETE /api/v1/policies/{policy}",
    "PUT /api/v1/policies/{policy}/document",
    "POST /api/v1/policies/{policy}/document/against",
    "POST /api/v1/usage/sources",
    "DELETE /api/v1/usage/sources/{source}",
    "PATCH /api/v1/usage/sources/{source}",
    "POST /api/v1/usage/sources/{source}/collect",
    "GET /api/v1/policies/{policy}/changesets/{change_set}/followup",
    "POST /api/v1/policies/{policy}/changesets",
    "PATCH /api/v1/policies/{policy}/changesets/{change_set}",
    "POST /api/v1/policies/{policy}/changesets/{change_set}/propose",
    "POST /api/v1/policies/{policy}/changesets/{change_set}/publish",
    "POST /api/v1/policies/{policy}/changesets/{change_set}/withdraw",
    "POST /api/v1/policies/{policy}/changesets/{change_set}/revert",
    "POST /api/v1/policies/{policy}/changesets/{change_set}/approve",
    "POST /api/v1/policies/{policy}/changesets/{change_set}/request-changes",
    "POST /api/v1/policies/{policy}/changesets/{change_set}/rebase",
    "POST /api/v1/policies/{policy}/grants",
    "PATCH /api/v1/policies/{policy}/grants/{grant}",
    "DELETE /api/v1/policies/{policy}/grants/{grant}",
    "POST /api/v1/policies/{policy}/mappings",
    "PUT /api/v1/policies/{policy}/mappings/rules",
    "POST /api/v1/policies/{policy}/mappings/rules",
    "PATCH /api/v1/policies/{policy}/mappings/rules/{position}",
    "DELETE /api/v1/policies/{policy}/mappings/rules/{position}",
    "POST /api/v1/policies/{policy}/mappings/trial",
    "POST /api/v1/policies/{policy}/mappings/assignments",
    "POST /api/v1/policies/{policy}/mappings/versions/{version}/restore",
    "DELETE /api/v1/policies/{policy}/mappings/{mapping}",
    "GET /api/v1/policies/{policy}/compare",
    "GET /api/v1/policies/{policy}/convergence",
    "POST /api/v1/federation/publications",
    "DELETE /api/v1/federation/publications/{name}",
    "DELETE /api/v1/federation/feeds/{name}",
    "POST /api/v1/federation/feeds",
    "POST /api/v1/federation/mounts",
    "POST /api/v1/federation/mounts/preview",
    "POST /api/v1/federation/subscriptions",
    "POST /api/v1/federation/subscriptions/preview",
    "POST /api/v1/federation/mounts/{mount}/trust-key",
    "POST /api/v1/federation/mounts/{mount}/unmount",
    "POST /api/v1/federation/mounts/{mount}/fetch",
    "POST /api/v1/federation/mounts/{mount}/pause",
    "POST /api/v1/federation/mounts/{mount}/resume",
    "POST /api/v1/federation/mounts/{mount}/freeze",
    "POST /api/v1/federation/mounts/{mount}/unfreeze",
    "POST /api/v1/federation/mounts/{mount}/reset-history",
    "GET /api/v1/federation/mounts/{mount}/fetches",
    "GET /api/v1/federation/mounts/{mount}",
    "PATCH /api/v1/federation/mounts/{mount}",
    "POST /api/v1/federation/subscriptions/{subscription}/trust-key",
    "POST /api/v1/federation/subscriptions/{subscription}/unsubscribe",
    "POST /api/v1/federation/subscriptions/{subscription}/fetch",
    "POST /api/v1/federation/subscriptions/{subscription}/pause",
    "POST /api/v1/federation/subscriptions/{subscription}/resume",
    "POST /api/v1/federation/subscriptions/{subscription}/freeze",
    "POST /api/v1/federation/subscriptions/{subscription}/unfreeze",
    "POST /api/v1/federation/subscriptions/{subscription}/reset-history",
    "GET /api/v1/federation/subscriptions/{subscription}/fetches",
    "POST /api/v1/federation/subscriptions/{subscription}/agree-capacity",
    "GET /api/v1/federation/subscriptions/{subscription}/held-hours",
    "GET /api/v1/federation/subscriptions/{subscription}",
    "PATCH /api/v1/federation/subscriptions/{subscription}",
    "POST /api/v1/tokens/{token}/rotate",
    "POST /api/v1/tokens/{token}/revoke",
    *added("rest_operations", "NEEDS_SENSE"),
}


@pytest.fixture
def schema(computed: Site, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The real application; like Django's test client it leaves the test's transaction open after a request.

    More is asked here in a minute than a person may write in one.
    """
    settings.FAIRSHARE_ISSUER = "vo-a.example"
    monkeypatch.setattr(WriteThrottle, "THROTTLE_RATES", {"writes": "1000000/min", "usage": "1000000/min"})
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield schemathesis.openapi.from_wsgi("/api/v1/schema", application, headers={"Accept": "application/json"})
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def change_set(computed: Site) -> ChangeSet:
    operations = [{"op": "set_shares", "entry": "/physics/bob", "shares": 3}]
    return make_change_set(
        policy_slug="grid",
        new=NewChangeSet(base_revision=2, operations=operations, reason="try"),
        at=computed.at,
        actor=SYSTEM,
    )


def attached(site: Site) -> int:
    """An account placed by hand."""
    account = AccountKey("a", "bob", "physics")
    bob = site.uid("/physics/bob")
    return attach_account(policy_slug="grid", entry_uid=bob, account=account, reason="try", at=site.at, actor=SYSTEM).pk


def published_subtree(site: Site) -> str:
    """A published subtree."""
    whole: Any = {"policy_slug": "grid", "entry": "/physics", "name": "vo-a", "at": site.at, "actor": SYSTEM}
    make_feed(capacity_cores=10, **whole)
    return make_publication(**whole).name


def subscribed(site: Site) -> int:
    """A subscription to its usage at another site; nothing is fetched."""
    return subscribe(
        policy_slug="grid",
        entry="/physics",
        url="https://site-b.example/x",
        issuer="site-b.example",
        feed="x",
        fingerprint="ab" * 32,
        capacity_cores=10,
        reason="try",
        at=site.at,
        actor=SYSTEM,
    ).pk


def session_cookies(user: User) -> dict[str, str]:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return {"sessionid": client.cookies["sessionid"].value, "csrftoken": FORM_TOKEN}


def is_new(case: Any, answer: Any) -> bool:
    """A policy that an operation before has made waits for its first numbers: 503, as described."""
    policy = (case.path_parameters or {}).get("policy", "grid")
    return bool(policy != "grid" and answer.status_code == 503 and answer.json()["code"] == "no_snapshot")


def _real_names(computed: Site, change_set: ChangeSet) -> dict[str, Any]:
    """What path parameters name, by their names."""
    real: dict[str, Any] = {"policy": "grid", "change_set": change_set.pk, "source": "cluster-a", "token": 1}
    real["run"] = Run.objects.latest("id").pk
    real["grant"] = Grant.objects.latest("id").pk
    real |= {"entry": str(computed.uid("/physics/bob")), "revision": 2}
    real["mapping"] = attached(computed)
    real |= {"position": 1, "version": 1}
    real |= {"name": published_subtree(computed), "subscription": subscribed(computed), "mount": 1}
    for part in parts("rest_operations"):
        if hasattr(part, "real_names"):
            real |= part.real_names(computed)
    return real


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(N_PARTS))
@pytest.mark.parametrize("who", ["admin", "nobody", "pia"])
@pytest.mark.fault("F29")
def test_generated_requests_get_the_described_responses(
    computed: Site, change_set: ChangeSet, schema: Any, who: str, part: int
) -> None:
    cookies = session_cookies(getattr(computed, who))
    real = _real_names(computed, change_set)
    succeeded: dict[str, set[bool]] = defaultdict(set)
    for found in list(schema.get_all_operations())[part::N_PARTS]:
        operation = found.ok()
        for archived in (Policy, Source):  # by an operation before
            archived.all_objects.update(archived_at=None)
        if operation.label.startswith("GET") and "{name}" in operation.label:
            published_subtree(computed)  # again, where it was dropped

        @hypothesis.settings(_UNCHECKED, max_examples=_REQUESTS[who])
        @given(case=operation.as_strategy(), is_real=st.integers(0, 3).map(lambda n: n < 3))
        def check(case: Any, is_real: bool) -> None:
            if is_real:
                case.path_parameters = {name: real.get(name, it) for name, it in (case.path_parameters or {}).items()}
                for name in {"source", "policy"} & set(case.query or {}):
                    case.query[name] = real[name]
            case.headers = {name: value for name, value in (case.headers or {}).items() if name != "Authorization"}
            answer = case.call_and_validate(cookies=cookies, headers={"X-CSRFToken": FORM_TOKEN}, checks=WANTED)
            assert answer.status_code < 500 or is_new(case, answer), answer.text
            succeeded[operation.label].add(answer.status_code < 300)  # noqa: B023 - called at once

        check()
    assert who != "admin" or {label for label, seen in succeeded.items() if True not in seen} <= NEEDS_SENSE


@pytest.mark.deep
def test_each_operation_accepts_its_own_defaults(computed: Site, change_set: ChangeSet, schema: Any) -> None:
    """Alone and together; an operation may refuse the request for another field, never for a default."""
    client = Client()
    client.force_login(computed.admin, backend="django.contrib.auth.backends.ModelBackend")
    real = _real_names(computed, change_set)
    refused, n_defaults = [], 0
    for path, operations in schema.raw_schema["paths"].items():
        for method, operation in operations.items():
            query, body = _defaults(schema.raw_schema, operation)
            n_defaults += len(query) + len(body)
            for one_query, one_body in _each_and_all(query, body):
                address = f"{path.format_map(defaultdict(str, real))}?{urlencode(one_query)}"
                with transaction.atomic():
                    answer = client.generic(method.upper(), address, orjson.dumps(one_body), "application/json")
                    transaction.set_rollback(True)
                if answer.status_code not in (400, 422):
                    continue
                named = {each["where"] for each in answer.json()["fields"]} & {*one_query, *one_body}
                refused += [f"{method} {path}: {name}" for name in named]
    assert refused == []
    assert n_defaults


def _defaults(raw: dict[str, Any], operation: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Defaults of the query and of the body's own fields."""
    query = {
        each["name"]: each["schema"]["default"]
        for each in operation.get("parameters", [])
        if each["in"] == "query" and "default" in each["schema"]
    }
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = content.get("schema", {}).get("$ref", "")
    fields = raw["components"]["schemas"].get(reference.rpartition("/")[2], {}).get("properties", {})
    return query, {name: field["default"] for name, field in fields.items() if "default" in field}


def _each_and_all(query: dict[str, Any], body: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for name, value in query.items():
        yield {name: value}, body
    for name, value in body.items():
        yield query, {name: value}
    if query or body:
        yield query, body


@pytest.mark.product
def test_components_have_unique_names_and_choices_names_of_words_that_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of choices are those of classes in clients: one with a hash, or another name, breaks what uses them."""
    printed = io.StringIO()
    call_command("spectacular", format="openapi-json", stdout=printed)
    done = capsys.readouterr().err.splitlines()
    assert [line for line in done if "identical names" in line or "enum naming" in line] == []
    components = orjson.loads(printed.getvalue())["components"]["schemas"]
    choices = sorted(name for name, each in components.items() if "enum" in each)
    assert [name for name in choices if re.search(r"\d|[A-Z][a-f0-9]{2}Enum$", name)] == []
    kept = (Path(__file__).parent / "choice_names.txt").read_text(encoding="ascii").split()
    assert [name for name in kept if name not in choices] == [], "name them in ENUM_NAME_OVERRIDES as they were"


def test_every_route_is_described(schema: Any) -> None:
    described = {path for path in schema.raw_schema["paths"]}
    apart = {
        "/api/v1/schema",
        "/api/v1/^docs/?$",
        "/api/v1/docs/{name}",
        "/api/v1/",
    }  # the description, its pages, and what matches nothing
    assert described == set(_paths()) - apart


def _paths() -> Iterator[str]:
    (api,) = [part for part in get_resolver().url_patterns if getattr(part, "namespace", None) == "api"]
    for pattern in api.url_patterns:  # type: ignore[union-attr]
        assert isinstance(pattern, URLPattern)
        route = str(pattern.pattern).replace("^.*$", "")
        yield "/api/v1/" + braced_route(route)


def test_the_schema_has_its_server_and_component_descriptions(schema: Any) -> None:
    raw = schema.raw_schema
    assert [one["url"] for one in raw["servers"]] == ["/"]
    used = {tag for path in raw["paths"].values() for one in path.values() for tag in one.get("tags", [])}
    assert used == {tag["name"] for tag in raw["tags"] if tag["description"]}


def test_each_operation_has_a_summary_of_its_own(schema: Any) -> None:
    operations = [one for path in schema.raw_schema["paths"].values() for one in path.values()]
    summaries = [one["summary"] for one in operations]
    assert all(summary[:1].isupper() and "_" not in summary for summary in summaries)
    assert len(set(summaries)) == len(summaries) >= 100  # without plug-ins


def test_lists_are_paged_in_one_way(schema: Any) -> None:
    """`results` and `next`; the parameter is `cursor`, with `limit` where the length of a page can be chosen."""
    n_lists = 0
    for path, operations in schema.raw_schema["paths"].items():
        operation = operations.get("get")
        content = operation["responses"].get("200", {}).get("content", {}) if operation else {}
        if "application/json" not in content:
            continue
        answer = content["application/json"]["schema"]
        while "$ref" in answer:
            answer = schema.raw_schema["components"]["schemas"][answer["$ref"].rpartition("/")[2]]
        parameters = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
        fields = answer.get("properties", {})
        assert answer.get("type") != "array", f"{path}: nothing can be added to a bare list"
        assert not parameters & {"offset", "page", "page_size", "per_page", "start", "after"}, path
        if operation["operationId"].startswith("list_") and operation["operationId"] not in _WHOLE:
            n_lists += 1
            assert {"results", "next"} <= set(fields), path
        if "cursor" in parameters:
            assert fields["next"]["nullable"] is True, path
        assert "limit" not in parameters or "cursor" in parameters, path
    assert n_lists > 30


def test_every_body_has_an_example_that_is_valid(schema: Any) -> None:
    raw, without = schema.raw_schema, []
    checked: dict[str, set[str]] = {"request": set(), "answer": set()}
    for operation in (one for path in raw["paths"].values() for one in path.values()):
        for role, message in (
            ("request", operation.get("requestBody", {})),
            ("answer", operation["responses"].get("200", {})),
        ):
            content = message.get("content", {}).get("application/json", {})
            if "example" in content:
                inlined = {**content["schema"], "components": raw["components"]}
                OAS30Validator(inlined).validate(content["example"])
                checked[role].add(operation["operationId"])
            elif role == "request" and content:
                without.append(operation["operationId"])
    assert without == []
    assert set(requests()) <= checked["request"]
    assert set(ANSWERS) <= checked["answer"]


_WHOLE = {"list_my_waiting_jobs"}  # one figure with all of the caller's jobs


@pytest.mark.parametrize("address", ["/api/v1/docs", "/api/v1/docs/"])
def test_the_schema_page_has_two_addresses(client: Client, address: str) -> None:
    assert client.get(address).status_code == 200
