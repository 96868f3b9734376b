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

LONGEST = {"hour": timedelta(days=92), "day": timedelta(days=3_660)}
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


def wanted_buckets(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `list_buckets`; names in the query are REST's."""
    names = {"source": "source", "account": "account", "site": "site", "from": "from_at", "to": "to_at"}
    return {theirs: given.get(ours) for ours, theirs in names.items()} | {"step": given["step"], "by": given["by"]}


def bucket_table(given: Mapping[str, Any], actor: Actor) -> StreamingHttpResponse:
    """All sums of a period as a table.

    Raises:
        Refusal: `from` or `to` is missing, or there is a cursor.
        Invalid: the period is too long for its step.
    """
    if "cursor" in given:
        raise field_refusal("cursor", "can't be combined with a table, which has all pages")
    for end in ("from", "to"):
        if end not in given:
            raise field_refusal(end, "is required for a table: an instant with UTC offset")
    longest = LONGEST[given["step"]]
    if not timedelta(0) < given["to"] - given["from"] <= longest:
        message = f"must come after from, by {longest.days:,} days at most in steps of one {given['step']}"
        raise Invalid(f"to {message}.", fields=[FieldProblem("to", message)])
    return table_response("usage", COLUMNS, _rows(wanted_buckets(given), actor), given["format"])


def _rows(wanted: dict[str, Any], actor: Actor) -> Iterator[Row]:
    after: list[Any] | None = None
    while True:
        found = selectors.list_buckets(selectors.BucketQuery(**wanted, after=after, limit=_TABLE_PAGE), actor=actor)
        for row in found:
            names = (getattr(row.account, name, "") for name in _NAMES)
            yield (row.at, row.source, row.site, *names, *(getattr(row, name) for name in _AMOUNTS))
        if len(found) < _TABLE_PAGE:
            return
        after = found[-1].place
