"""Sums of usage as tables: CSV and Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.http import StreamingHttpResponse

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid
from apps.core.tables import Column, Row
from apps.usage import selectors
from apps.web.rest.inputs import field_refusal
from apps.web.rest.shapes import table_response

LONGEST_SPAN_OF_STEP = {"hour": timedelta(days=92), "day": timedelta(days=3_660)}
_TABLE_PAGE = 10_000
_NAMES = ("namespace", "user", "group", "dn", "fqan", "project")
_AMOUNTS = ("cpu_s", "gpu_s", "mem_gb_s", "node_s", "billing", "jobs")
COLUMNS = (
    Column("at", "instant"),
    Column("source"),
    Column("site"),
    *map(Column, _NAMES),
    *(Column(name, "number") for name in _AMOUNTS),
)


def wanted_buckets(query: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `list_buckets`; names in the query are REST's."""
    names = {"source": "source", "account": "account", "site": "site", "from": "from_at", "to": "to_at"}
    return {argument: query.get(parameter) for parameter, argument in names.items()} | {
        "step": query["step"],
        "by": query["by"],
    }


def bucket_table(query: Mapping[str, Any], actor: Actor) -> StreamingHttpResponse:
    """All sums of a period as a table.

    Raises:
        Refusal: `from` or `to` is missing, or there is a cursor.
        Invalid: the period is too long for its step.
    """
    if "cursor" in query:
        raise field_refusal("cursor", "can't be combined with a table, which has all pages")
    for end in ("from", "to"):
        if end not in query:
            raise field_refusal(end, "is required for a table: an instant with UTC offset")
    longest = LONGEST_SPAN_OF_STEP[query["step"]]
    if not timedelta(0) < query["to"] - query["from"] <= longest:
        message = f"must come after from, by {longest.days:,} days at most in steps of one {query['step']}"
        raise Invalid(f"to {message}.", fields=[FieldProblem("to", message)])
    return table_response("usage", COLUMNS, _rows(wanted_buckets(query), actor), query["format"])


def _rows(wanted: dict[str, Any], actor: Actor) -> Iterator[Row]:
    after: list[Any] | None = None
    while True:
        buckets = selectors.list_buckets(selectors.BucketQuery(**wanted, after=after, limit=_TABLE_PAGE), actor=actor)
        for row in buckets:
            names = (getattr(row.account, name, "") for name in _NAMES)
            yield (row.at, row.source, row.site, *names, *(getattr(row, name) for name in _AMOUNTS))
        if len(buckets) < _TABLE_PAGE:
            return
        after = buckets[-1].place
