"""No page and no route reads a whole large table, or each name of a large tree: on a site that was just filled."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client
from psycopg import sql

from apps.core.strings import Strings
from apps.policies.tree import columns
from apps.policies.tree.stored import tree_cache
from apps.priorities.serving import store
from bench import full_site, site_routes
from tests.instants import AT
from tests.worlds import fresh_process  # noqa: F401 - fixture

N_ENTRIES, N_RECORDS = 10_000, 60_000
LARGE = 5_000  # rows
AS_IF_TIMES_LARGER = 50  # the tables of a site: of two thousand pages, reading all is cheaper than most indexes

# A table that is read as a whole and the beginning of the statement that does it, with the reason.
ALLOWED = {
    ("usage_bucket", "SELECT array_agg(source_id), array_agg(account_id), array_agg(hour_at) FROM ( SELECT"): (
        "the accounts of each source: once a process, later the changed hours alone (test_account_counts)"
    ),
    ("usage_bucket", 'SELECT COUNT(*) AS "__count" FROM "usage_bucket" WHERE "usage_bucket"."source_id"'): (
        "the page that removes a source counts what it would delete"
    ),
    ("accounts_account", "SELECT count(*), (SELECT count(*) FROM accounts_account WHERE id > %(last)s), COALESCE"): (
        "which accounts have changed since they were read: no index has numbers of transactions"
    ),
    ("usage_record", "SELECT wanted FROM unnest(%s::int8[]) AS wanted WHERE EXISTS (SELECT FROM usage_record"): (
        "whether a source has a job that waited in the days of a question of the lab: it ends with the first one"
    ),
    ("usage_record", "WITH counted AS ( SELECT account_id, source_id, COALESCE(NULLIF(usage_record.site, ''),"): (
        "a question of the lab counts exactly the jobs that it would replay; beyond three million, from hourly sums"
    ),
}
# Routes that make a text of each name, with the reason.
NAMES_MADE = {
    "api/v1/policies/<slug:policy>/document": "a file of the whole policy",
    "api/v1/policies/<slug:policy>/priorities/all": "a line for each leaf",
    "api/v1/policies/<slug:policy>/tree": "it refuses more than 20,000 entries",
    "policy/<slug:policy>/files/": "it says what each format leaves out of at most 20,000 entries",
    "policy/<slug:policy>/files/<slug:format>/": "a file of the whole policy",
    "policy/<slug:policy>/tree.csv": "a file of the whole policy",
}

_EXPLAINED = re.compile(r"\s*(SELECT|WITH|UPDATE|DELETE|INSERT|EXECUTE)\b", re.IGNORECASE)
_COPIED = re.compile(r"\s*COPY \((.*)\) TO STDOUT", re.IGNORECASE | re.DOTALL)
_PLAIN_EXECUTE = psycopg.Cursor.execute


def first_columns() -> dict[str, str]:
    """Of each B-tree that is not partial."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexrelid::regclass::text, attname FROM pg_index JOIN pg_attribute"
            " ON attrelid = indrelid AND attnum = indkey[0] JOIN pg_class ON pg_class.oid = indexrelid"
            " JOIN pg_am ON pg_am.oid = relam WHERE indpred IS NULL AND amname = 'btree'"
        )
        return dict(cursor.fetchall())


@dataclass
class Plans:
    """Plans of statements that read large tables. route: that is asked at present."""

    large: set[str]
    route: str = ""
    scans: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # statement, node → routes
    n: int = 0
    first_columns: dict[str, str] = field(default_factory=first_columns)

    def follow(self, routes: Iterator[str]) -> Iterator[str]:
        for self.route in routes:
            yield self.route

    def explain(self, cursor: Any, query: Any, params: Any) -> None:
        text = query.decode() if isinstance(query, bytes) else query if isinstance(query, str) else query.as_string()
        copied = _COPIED.match(text)
        text = copied[1] if copied else text
        names_large = text.lstrip().startswith("EXECUTE") or any(table in text for table in self.large)
        if not (_EXPLAINED.match(text) and names_large):
            return
        _PLAIN_EXECUTE(cursor, f"EXPLAIN (FORMAT JSON) {text}", params)  # with the parameters' own encoders
        plan = (cursor.fetchone() or [None])[0]
        self.n += 1
        for table in whole_scans((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"], self.first_columns):
            if table in self.large:
                self.scans.setdefault((" ".join(text.split()), table), set()).add(self.route)


def whole_scans(plan: dict[str, Any], first_columns: dict[str, str], *, is_limited: bool = False) -> Iterator[str]:
    """Tables that are read from beginning to end, or through an index of which the first column is not asked for.

    Below a limit, they are read in part. Partial indexes are small.
    """
    kind, name = plan["Node Type"], plan.get("Index Name", "")
    if kind == "Seq Scan" and not is_limited:
        yield plan["Relation Name"]
    if name in first_columns and not is_limited and first_columns[name] not in plan.get("Index Cond", ""):
        yield plan.get("Relation Name") or name
    is_streaming = kind not in ("Sort", "Hash") and plan.get("Strategy", "Sorted") == "Sorted"
    is_limited = is_streaming and (is_limited or kind == "Limit")
    for below in plan.get("Plans", ()):
        yield from whole_scans(below, first_columns, is_limited=is_limited)


def large_tables() -> set[str]:
    """And partitions of large tables, however few rows are in each."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, (SELECT parent.relname FROM pg_inherits JOIN pg_class AS parent ON parent.oid = inhparent"
            " WHERE inhrelid = pg_class.oid) FROM pg_class"
            " WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
        )
        parents = dict(cursor.fetchall())
        large = set()
        for name in parents:
            cursor.execute(sql.SQL("SELECT FROM {} OFFSET {} LIMIT 1").format(sql.Identifier(name), LARGE - 1))
            large |= {name} if cursor.rowcount else set()
    return {name for name, parent in parents.items() if name in large or parent in large}


def ask(addresses: list[site_routes.Address], readers: site_routes.Readers) -> Iterator[str]:
    """Ask each address; yields its route before."""
    client, n_answered = Client(), 0
    for address in addresses:
        yield address.route
        answer: Any = client.get(address.path, headers=readers.headers(address))
        if answer.streaming:
            b"".join(answer.streaming_content)
        n_answered += answer.status_code == 200
    assert n_answered > 0.8 * len(addresses)


@pytest.mark.deep
@pytest.mark.product
@pytest.mark.django_db(transaction=True)  # what isn't committed is never cached
def test_no_page_and_no_route_reads_a_whole_large_table_or_makes_a_text_of_each_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Statements are watched while a process is asked first. Routes that make many names then are asked once more: what
    they keep is made once.

    A million names take a second: they are compared and searched in columns.
    """
    full_site.build(N_ENTRIES, N_RECORDS, AT)
    objects, readers = site_routes.make_objects()
    monkeypatch.setattr(columns, "_MOST_OBJECTS", 0)  # as of a large tree
    tree_cache.clear()
    store.poll()
    plans = Plans(large_tables())
    assert plans.large >= {"accounts_account", "policies_entry", "usage_bucket", "usage_record"}
    with connection.cursor() as cursor:
        cursor.execute(f"SET seq_page_cost = {AS_IF_TIMES_LARGER}")
    with monkeypatch.context() as watched:
        watch(watched, plans)
        addresses = site_routes.addresses(objects)[0]
        first = count_names(watched, plans.follow(ask(addresses, readers)))
    assert plans.n > 300
    assert len({address.route for address in addresses}) > 250
    assert len(addresses) > 300
    many = [address for address in addresses if first[address.route] > N_ENTRIES // 2]
    with monkeypatch.context() as watched:
        again = count_names(watched, ask(many, readers))
    assert whole_reads(plans) == set()
    assert {route for route, n in again.items() if n > N_ENTRIES // 2} == set(NAMES_MADE)


def whole_reads(plans: Plans) -> set[tuple[str, ...]]:
    """Tables that are read as a whole and may not be, with the statement and its routes."""
    return {
        (table, text[:400], *sorted(routes))
        for (text, table), routes in plans.scans.items()
        if not any(table.startswith(name) and text.startswith(begin) for name, begin in ALLOWED)  # or a partition of it
    }


def count_names(monkeypatch: pytest.MonkeyPatch, asked: Iterator[str]) -> Counter[str]:
    """How many names of columns each route makes texts of."""
    made: Counter[str] = Counter()
    route = ""
    plain_item, plain_iter = Strings.__getitem__, Strings.__iter__

    def item(strings: Strings, at: Any) -> Any:
        made[route] += len(range(*at.indices(len(strings)))) if isinstance(at, slice) else 1
        return plain_item(strings, at)

    def every(strings: Strings) -> Iterator[str]:
        made[route] += len(strings)
        return plain_iter(strings)

    monkeypatch.setattr(Strings, "__getitem__", item)
    monkeypatch.setattr(Strings, "__iter__", every)
    for route in asked:  # noqa: B007 - read by the counters
        pass
    return made


def watch(monkeypatch: pytest.MonkeyPatch, plans: Plans) -> None:
    """Explain each statement before it is executed, also those of COPY and of binary cursors."""
    plain_copy = psycopg.Cursor.copy

    def execute(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
        plans.explain(cursor, query, params)
        return _PLAIN_EXECUTE(cursor, query, params, **options)

    def copy(cursor: Any, statement: Any, params: Any = None, **options: Any) -> Any:
        plans.explain(cursor, statement, params)
        return plain_copy(cursor, statement, params, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", execute)
    monkeypatch.setattr(psycopg.Cursor, "copy", copy)
