"""Equal rows for equal rights: every format of every route that has several, for every kind of caller."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache
from typing import Any

import pyarrow.parquet
import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client

from apps.accounts import token_cache
from apps.accounts.actor import COMMAND
from apps.accounts.models import Token, User
from apps.accounts.token_cache import tokens
from apps.policies.access.reader_grants import grant_owner_read
from apps.policies.models import Grant, Policy
from apps.priorities.serving import store
from apps.web.middleware.lookup import ANSWER_FROM, AnswerFrom, NeedsWorkerThread
from tests.grants import make_grant
from tests.instants import AT
from tests.plugin_parts import added, parts
from tests.rest_document import rest_document
from tests.rest_site import Caller
from tests.small_site import Site

PERIOD = {"from": "2026-11-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"}
ALL = "policies/grid/priorities/all"
ONE = "policies/grid/priorities"
Rows = list[tuple[Any, ...]]


def lines_of(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines()]


def nested(entry: dict[str, Any], above: str = "") -> list[str]:
    path = entry.get("path") or (f"{above}/{entry['name']}" if above or entry.get("shares") is not None else "")
    return [path or "/", *(one for child in entry.get("children", []) for one in nested(child, path))]


def below(body: bytes) -> Rows:
    root = json.loads(body)["root"]
    paths: list[str] = []
    waiting = [("", child) for child in root["children"]]
    while waiting:
        above, entry = waiting.pop()
        paths.append(f"{above}/{entry['name']}")
        waiting += [(paths[-1], child) for child in entry.get("children", [])]
    return [(path,) for path in ["/", *paths]]


# Parameters without which a format is refused: commands for no cluster would be for every cluster.
NEEDED = {"sacctmgr-script": {"cluster": "c1"}}
# For each route with formats: its query, its rows without a format, and the columns of a table that say the same.
READERS: dict[str, tuple[dict[str, Any], Callable[[bytes], Rows], tuple[str, ...]]] = {
    "policies/{policy}/priorities/all": (
        {},
        lambda body: [(line["account"] or "", line["entry"]) for line in lines_of(body)],
        ("account", "entry"),
    ),
    "policies/{policy}/tree": (
        {"depth": 64},
        lambda body: [(path,) for path in nested(json.loads(body))],
        ("path",),
    ),
    "policies/{policy}/document": ({}, below, ("path",)),
    "usage/buckets": (
        {**PERIOD, "step": "day"},
        lambda body: [(row["account"]["user"], f"{row['cpu_s']:.0f}") for row in json.loads(body)["results"]],
        ("user", "cpu_s"),
    ),
    **{route: reader for part in parts("rest_operations") for route, reader in getattr(part, "FORMATS", {}).items()},
}
FOR_ALL_NUMBERS = set(added("rest_operations", "FOR_ALL_NUMBERS"))


@cache
def routes_with_formats() -> dict[str, list[str]]:
    """From the routes themselves, so that a new one joins: those that take `format`, with what it may be."""
    found = {}
    for path, operations in rest_document()["paths"].items():
        for parameter in operations.get("get", {}).get("parameters", []):
            if parameter["name"] == "format" and path != "/api/v1/schema":
                found[path.removeprefix("/api/v1/")] = parameter["schema"]["enum"]
    return found


def test_each_route_with_formats_is_compared_here() -> None:
    assert set(routes_with_formats()) - FOR_ALL_NUMBERS == set(READERS), (
        "a route with formats needs a reader in READERS"
    )


@pytest.fixture
def people(computed: Site) -> Site:
    """vera sees all users by name, ria the sums, and the scheduler's account is made by the documented commands."""
    for name, verb in (("vera", "view_members"), ("ria", "view_aggregate")):
        make_grant(
            User.objects.create_user(name),
            computed.uid("/"),
            "viewer",
            policy=computed.policy,
            verbs=[verb],
            reason="test",
        )
    User.objects.create_user("slurm")
    return computed


def documented_token(*more: str) -> str:
    out = io.StringIO()
    arguments = ("--user", "slurm", "--scope", "priorities:read", "--policy", "grid", *more)
    call_command("create_token", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue().strip()


def callers(site: Site) -> dict[str, Caller]:
    everything = ("priorities:read", "policies:read", "self:read")
    physics: dict[str, Any] = {"policy_slug": "grid", "subtree_uid": site.uid("/physics")}
    found = {"slurm, as documented": Caller(token=documented_token())}
    for name in ("admin", "pia", "ben", "alice", "nobody", "vera", "ria"):
        user = User.objects.get(username=name)
        found[f"{name} signed in"] = Caller(user=user)
        found[f"{name} by scheduler’s token"] = Caller(token=site.token("priorities:read", user=user))
        found[f"{name} by token for all reading"] = Caller(token=site.token(*everything, user=user))
        found[f"{name} by token below /physics"] = Caller(token=site.token(*everything, user=user, **physics))
        found[f"{name} by self:read"] = Caller(token=site.token("self:read", user=user))
    return found


def body(answer: Any) -> bytes:
    return bytes(answer.getvalue())


def tabled(format: str, data: bytes, columns: Iterable[str]) -> Rows:
    if format == "csv":
        rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    else:
        rows = pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    return [
        tuple(f"{float(row[name]):.0f}" if name == "cpu_s" else row[name] or "" for name in columns) for row in rows
    ]


@pytest.mark.parametrize("route", READERS)
def test_every_format_has_the_rows_of_the_others(people: Site, route: str) -> None:
    query, plain, columns = READERS[route]
    path = route.format(policy="grid")
    n_seen = set()
    for name, caller in callers(people).items():
        answer = caller.get(path, query)
        rows = sorted(plain(body(answer))) if answer.status_code == 200 else None
        n_seen.add(None if rows is None else len(rows))
        for format in routes_with_formats()[route]:
            other = caller.get(path, {**query, **NEEDED.get(format, {}), "format": format})
            assert other.status_code == answer.status_code, (name, format)
            if rows is not None and format in ("csv", "parquet"):
                assert sorted(tabled(format, body(other), columns)) == rows, (name, format)
    assert len(n_seen) > 1, "somebody sees other rows than somebody else"


def test_a_look_up_by_name_finds_exactly_the_listed_users(people: Site) -> None:
    for name, caller in callers(people).items():
        listed = {line["account"] for line in lines_of(body(caller.get(ALL)))}
        found = caller.get(ONE, {"account": ["alice", "bob", "carol"]}).json()["results"]
        assert {one["account"] for one in found if one["entry"]} == listed, name
        by_body = caller.post(f"{ONE}/lookup", {"accounts": ["alice", "bob", "carol"]}).json()["results"]
        assert by_body == found, name
    assert {line["account"] for line in lines_of(body(Caller(token=documented_token()).get(ALL)))} == {
        "alice",
        "bob",
        "carol",
    }


def test_the_right_of_the_documented_token_ends_with_its_grant(people: Site) -> None:
    text = documented_token("--days", "7")
    grant = Grant.objects.get(user__username="slurm")
    assert (grant.verbs, grant.entry_uid) == (["view_members"], people.uid("/"))
    assert grant.expires_at == Token.objects.latest("id").expires_at == AT + timedelta(days=7)
    documented_token("--days", "3")
    documented_token("--days", "30")
    assert Grant.objects.get(user__username="slurm").expires_at == AT + timedelta(days=30), "the longest one"
    bound = Token.objects.get(pk=Token.objects.earliest("id").pk)
    Grant.objects.all().delete()
    bound.subtree_uid, bound.policy_slug = people.uid("/physics"), "grid"
    assert [one.slug for one in grant_owner_read(bound, at=AT, actor=COMMAND)] == ["grid"]
    assert [one.entry_uid for one in Grant.objects.filter(user=bound.user)] == [people.uid("/physics")]
    assert lines_of(body(Caller(token=text).get(ALL))) != []


def test_a_token_loses_what_its_owner_can_no_longer_see(people: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour ago the right ended; a verified token is asked for again within seconds."""
    caller = Caller(token=documented_token())
    admin = Caller(token=people.token("priorities:read"))
    for each in (caller, admin):
        assert len(lines_of(body(each.get(ALL)))) == 3
    Grant.objects.filter(user__username="slurm").update(expires_at=AT - timedelta(hours=1))
    User.objects.filter(username="admin").update(is_superuser=False)
    assert token_cache.FRESH_S < 5
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)  # as if so long had passed
    for each in (caller, admin):
        assert body(each.get(ALL)) == b""
        assert tabled("csv", body(each.get(ALL, {"format": "csv"})), ("entry",)) == []
        (found,) = each.get(ONE, {"account": "alice"}).json()["results"]
        assert (found["entry"], found["error"], found["factor"]) == (None, "unmapped", 0.5)


def test_without_a_database_a_token_keeps_its_visibility(people: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(token=documented_token())
    before = caller.get(ONE, {"account": ["alice", "carol"]}).json()["results"]
    assert [one["entry"] for one in before] == ["/physics/alice", "/biology/carol"]

    def refuse(**_: Any) -> None:
        raise OperationalError("no server")

    monkeypatch.setattr("apps.web.rest.token_visibility.readable_now", refuse)
    assert caller.get(ONE, {"account": ["alice", "carol"]}).json()["results"] == before, "remembered"
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)
    assert caller.get(ONE, {"account": ["alice", "carol"]}).json()["results"] == before, "and not asked for anew"
    other = Caller(token=people.token("priorities:read", user=people.pia)).get(ONE, {"account": "alice"})
    assert other.status_code == 503, "never asked before"


def test_a_look_up_never_queries_the_visibility_of_its_token(
    people: Site, monkeypatch: pytest.MonkeyPatch, settings: LazySettings
) -> None:
    """The event loop answers it: waiting there would hold up every other request."""
    header = f"Bearer {documented_token()}"

    def look_up(answer_from: AnswerFrom) -> Any:
        environ: dict[str, Any] = {"HTTP_AUTHORIZATION": header, ANSWER_FROM: answer_from}
        return Client().get(f"/api/v1/{ONE}", {"account": "alice"}, **environ)

    store.newest("grid")
    settings.FAIRSHARE_SNAPSHOT_POLL_S = 60.0
    monkeypatch.setattr(store._process, "start", lambda: None)  # a thread of its own would outlive this test
    tokens.verify(header.split()[1], at=AT)
    assert isinstance(look_up(AnswerFrom.MEMORY), NeedsWorkerThread), "not asked yet"
    found = look_up(AnswerFrom.SNAPSHOTS).json()["results"]
    monkeypatch.setattr("apps.web.rest.token_visibility.readable_now", lambda **_: pytest.fail("asked the database"))
    assert look_up(AnswerFrom.MEMORY).json()["results"] == found


def test_an_open_policy_needs_no_grant(people: Site) -> None:
    Policy.objects.filter(slug="grid").update(visibility="tree")
    text = documented_token()
    assert not Grant.objects.filter(user__username="slurm").exists()
    assert len(lines_of(body(Caller(token=text).get(ALL)))) == 3
