"""Tables: the numbers of the JSON answers, for the readers of those, and nothing that a spreadsheet executes."""

from __future__ import annotations

import csv
import io
import json
import sys
from datetime import UTC, datetime, timedelta
from math import inf, nan
from typing import Any

import pyarrow.parquet
import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.core.tables import Column, pieces
from apps.pages.sources.api import bucket_tables
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.usage.models import Bucket
from tests.grants import make_grant
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site, push, record
from tests.worlds import fresh_process  # noqa: F401 - fixture

CSV, PARQUET = "csv", "parquet"
TREE, ALL, BUCKETS = "policies/grid/tree", "policies/grid/priorities/all", "usage/buckets"
PERIOD = {"from": "2026-11-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"}


def body(answer: Any) -> bytes:
    assert answer.status_code == 200, answer.content
    return b"".join(answer.streaming_content)


def from_csv(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def from_parquet(data: bytes) -> list[dict[str, Any]]:
    return list(pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist())


def both(caller: Caller, where: str, /, **query: Any) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    read = {CSV: from_csv, PARQUET: from_parquet}
    texts, values = (read[format](body(caller.get(where, {**query, "format": format}))) for format in (CSV, PARQUET))
    return texts, values


def same(text: str, value: Any) -> bool:
    """Whether a cell of CSV and one of Parquet say the same."""
    if value is None:
        return text == ""
    if isinstance(value, bool):
        return text == ("yes" if value else "no")
    if isinstance(value, float):
        return float(text) == value
    if isinstance(value, datetime):
        return datetime.fromisoformat(text) == value
    return text == str(value)


def flat(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry, *(one for child in entry["children"] for one in flat(child))]


def test_a_tree_as_a_table_has_the_numbers_of_the_nested_answer(computed: Site, admin: Caller) -> None:
    texts, values = both(admin, TREE)
    wanted = {entry["path"]: entry for entry in flat(admin.get(TREE, {"depth": 9}).json())}
    assert [row["path"] for row in values] == [
        "/",
        "/biology",
        "/physics",
        "/biology/carol",
        "/physics/alice",
        "/physics/bob",
    ]
    for row in values:
        entry = wanted[row["path"]]
        shared = set(row) & set(entry)
        assert {"uid", "target", "actual", "rank", "factor", "usage_core_s", "state", "suppressed"} <= shared
        assert {name: row[name] for name in shared} == {name: entry[name] for name in shared}
    for text, row in zip(texts, values, strict=True):
        assert [name for name in row if not same(text[name], row[name])] == []


def test_subtree_and_depth_limit_the_table(computed: Site, admin: Caller) -> None:
    paths = [row["path"] for row in both(admin, TREE, path="/physics")[1]]
    assert paths == ["/physics", "/physics/alice", "/physics/bob"]
    assert [row["path"] for row in both(admin, TREE, depth=0)[1]] == ["/"]
    assert admin.get(TREE, {"format": CSV, "path": "/nothing"}).status_code == 404


def test_past_instants_are_available_as_a_table(computed: Site, admin: Caller) -> None:
    publish_more(computed, "/physics/bob", 7)
    now = {row["path"]: row["shares"] for row in both(admin, TREE)[1]}
    then = {row["path"]: row["shares"] for row in both(admin, TREE, at=2)[1]}
    assert (now["/physics/bob"], then["/physics/bob"]) == (7.0, 1.0)


def publish_more(site: Site, path: str, shares: float) -> None:
    actor = Actor(user=site.admin, via="api")
    made = make_change_set(
        policy_slug="grid",
        new=NewChangeSet(operations=[{"op": "set_shares", "entry": path, "shares": shares}]),
        at=AT,
        actor=actor,
    )
    publish_change_set(id=made.pk, version=1, reason="more", at=AT, actor=actor)


def test_a_table_contains_only_visible_data(computed: Site) -> None:
    alice = Caller(user=computed.alice)
    texts, values = both(alice, TREE)
    assert [row["path"] for row in values] == ["/", "/physics", "/physics/alice"]
    assert "bob" not in str(texts)
    assert Caller(user=computed.nobody).get(TREE, {"format": CSV}).status_code == 404
    assert Caller().get(TREE, {"format": CSV}).status_code == 401
    bound = Caller(token=computed.token("policies:read", policy_slug="grid", subtree_uid=computed.uid("/biology")))
    assert [row["path"] for row in both(bound, TREE)[1]] == ["/biology", "/biology/carol"]


def test_hidden_values_are_empty_and_marked(computed: Site) -> None:
    make_grant(
        computed.nobody, computed.uid("/"), "viewer", policy=computed.policy, verbs=["view_aggregate"], reason="sums"
    )
    texts, values = both(Caller(user=computed.nobody), TREE)
    assert [row["path"] for row in values] == ["/", "/biology", "/physics"]
    for text, row in zip(texts, values, strict=True):
        if row["path"] != "/":
            assert row["target"] in (0.4, 0.6), "targets are shown wherever an entry is"
            assert (row["usage_core_s"], row["actual"], row["deviation_points"]) == (None, None, None)
            assert text["usage_core_s"] == "", "never 0"


def test_table_and_lines_of_priorities_agree(computed: Site, scheduler: Caller) -> None:
    texts, values = both(scheduler, ALL)
    lines = [json.loads(line) for line in body(scheduler.get(ALL)).splitlines()]
    names = ("account", "entry", "factor", "rank", "of", "key")
    assert [[row[name] for name in names] for row in values] == [[line[name] for name in names] for line in lines]
    for text, row in zip(texts, values, strict=True):
        assert [name for name in row if not same(text[name], row[name])] == []
    alice = Caller(user=computed.alice)
    assert [row["entry"] for row in both(alice, ALL)[1]] == ["/physics/alice"]
    assert Caller(token=computed.token("policies:read")).get(ALL, {"format": CSV}).status_code == 403
    narrow = Caller(token=computed.token("priorities:read", policy_slug="other"))
    assert narrow.get(ALL, {"format": CSV}).status_code == 404
    part = computed.token("priorities:read", policy_slug="grid", subtree_uid=computed.uid("/biology"))
    assert [row["entry"] for row in both(Caller(token=part), ALL)[1]] == ["/biology/carol"]


def test_usage_as_a_table_has_every_page(computed: Site, admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_tables, "_TABLE_PAGE", 3)
    texts, values = both(admin, BUCKETS, **PERIOD)
    assert sum(row["cpu_s"] for row in values) == 10 * 3600 == sum(Bucket.objects.values_list("cpu_s", flat=True))
    rows = admin.get(BUCKETS, PERIOD).json()["results"]
    assert [(row["user"], row["cpu_s"]) for row in values] == [(row["account"]["user"], row["cpu_s"]) for row in rows]
    assert values[0]["at"].tzinfo is not None
    for text, row in zip(texts, values, strict=True):
        assert [name for name in row if not same(text[name], row[name])] == []
    by_site = both(admin, BUCKETS, **PERIOD, by="site", step="day")[1]
    assert {row["user"] for row in by_site} == {""}
    assert both(Caller(user=computed.alice), BUCKETS, **PERIOD) == ([], []), "the name alone ties no account to her"
    Account.objects.filter(user_name="alice").update(person=computed.alice)
    own = both(Caller(token=computed.token("self:read", user=computed.alice)), BUCKETS, **PERIOD)[1]
    assert {row["user"] for row in own} == {"alice"}


@pytest.mark.parametrize(
    ("query", "status", "where"),
    [
        ({}, 400, "from"),
        ({"from": PERIOD["from"]}, 400, "to"),
        ({"from": PERIOD["to"], "to": PERIOD["from"]}, 422, "to"),
        ({"from": PERIOD["from"], "to": PERIOD["from"]}, 422, "to"),
        ({"from": "1026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z", "step": "day"}, 422, "to"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"}, 422, "to"),
        ({**PERIOD, "cursor": "x"}, 400, "cursor"),
        ({**PERIOD, "format": "xlsx"}, 400, "format"),
    ],
)
def test_unbounded_periods_are_refused_with_the_limits(
    site: Site, admin: Caller, query: dict[str, Any], status: int, where: str
) -> None:
    assert refused(admin.get(BUCKETS, {"format": CSV, **query})) == (status, "invalid", [where])


def test_tables_are_downloads_without_caching(computed: Site, admin: Caller) -> None:
    for path, query in ((TREE, {}), (ALL, {}), (BUCKETS, PERIOD)):
        for format, kind in ((CSV, "text/csv; charset=utf-8"), (PARQUET, "application/vnd.apache.parquet")):
            answer = admin.get(path, {**query, "format": format})
            assert answer.headers["Content-Type"] == kind
            assert answer.headers["Content-Disposition"].startswith('attachment; filename="')
            assert answer.headers["Content-Disposition"].endswith(f'.{format}"')
            assert answer.headers["Cache-Control"].startswith("private")
            assert answer.streaming
            body(answer)


def test_without_the_library_parquet_is_refused_with_the_remedy_and_csv_works(
    computed: Site, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for path, query in ((TREE, {}), (ALL, {}), (BUCKETS, PERIOD)):
        answer = admin.get(path, {**query, "format": PARQUET})
        assert (answer.status_code, answer.json()["code"]) == (422, "no_parquet")
        assert "csv" in answer.json()["detail"]
        assert "[parquet]" in answer.json()["detail"]
        assert body(admin.get(path, {**query, "format": CSV}))


def test_names_that_look_like_formulas_are_escaped(site: Site, admin: Caller) -> None:
    push(site, [record("9", "=cmd|'/c calc'!A1", "@physics", 1, at=AT), record("8", "-1", "＝x", 1, at=AT)])
    texts, values = both(admin, BUCKETS, **PERIOD)
    users = {row["user"] for row in values}
    assert {"=cmd|'/c calc'!A1", "-1"} <= users, "Parquet isn't run by anything"
    assert {"'=cmd|'/c calc'!A1", "'-1"} <= {row["user"] for row in texts}
    assert not any(cell.startswith(("=", "+", "-", "@", "＝")) for row in texts for cell in row.values())
    raw = body(admin.get(BUCKETS, {**PERIOD, "format": CSV})).decode()
    assert '"\'-1"' in raw


COLUMNS = (Column("t"), Column("n", "number"), Column("w", "whole"), Column("f", "flag"), Column("at", "instant"))
WHEN = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_every_cell_type_in_both_formats() -> None:
    rows = [
        ("a", 1.5, 2, True, WHEN),
        (None,) * 5,
        ('b"\n,', -inf, -3, False, WHEN - timedelta(hours=1)),
        ("", inf, 0, True, WHEN),
        ("é", nan, 2**53, False, WHEN),
        ("-", -2.5, -1, True, WHEN),
    ]
    text = b"".join(pieces(COLUMNS, rows, CSV)).decode()
    assert text.splitlines()[0] == '"t","n","w","f","at"'
    assert text.splitlines()[1] == '"a",1.5,2,"yes","2026-11-20T12:00:00Z"'
    assert [row["n"] for row in from_csv(text.encode())] == ["1.5", "", "-Infinity", "Infinity", "", "-2.5"]
    assert [row["t"] for row in from_csv(text.encode())] == ["a", "", 'b"\n,', "", "é", "'-"]
    assert "-2.5" in text, "a number stays a number, its sign with it"
    assert '"-2.5"' not in text
    found = from_parquet(b"".join(pieces(COLUMNS, rows, PARQUET)))
    assert [tuple(row.values())[:1] + tuple(row.values())[2:] for row in found] == [row[:1] + row[2:] for row in rows]
    assert [row["n"] for row in found[:4]] == [1.5, None, -inf, inf]


@pytest.mark.parametrize("format", [CSV, PARQUET])
@pytest.mark.parametrize("n", [0, 1, 999, 1_000, 1_001, 120_000])
def test_long_tables_are_streamed(format: str, n: int) -> None:
    drawn = []

    def rows() -> Any:
        for i in range(n):
            drawn.append(i)
            yield (str(i), float(i), i, True, WHEN)

    made = pieces(COLUMNS, rows(), format)
    first = next(made)
    assert len(drawn) <= 50_000
    data = first + b"".join(made)
    found = from_csv(data) if format == CSV else from_parquet(data)
    assert [str(row["w"]) for row in found] == [str(i) for i in range(n)]
