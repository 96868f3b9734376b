"""Sums of usage over a period as a table, read page by page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.http import StreamingHttpResponse

from apps.accounts.actor import Actor
from apps.api.errors import Refusal
from apps.api.tables import table_response
from apps.core.errors import FieldProblem, Invalid
from apps.core.tables import Column, Row
from apps.usage import selectors

LONGEST = {"hour": timedelta(days=92), "day": timedelta(days=3_660)}
_PAGE = 10_000
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
    """What is asked for, by the names of the selector."""
    names = {"source": "source", "account": "account", "site": "site", "from": "from_at", "to": "to_at"}
    return {theirs: given.get(ours) for ours, theirs in names.items()} | {"step": given["step"], "by": given["by"]}


def bucket_table(given: Mapping[str, Any], actor: Actor) -> StreamingHttpResponse:
    """Raises Refusal without both ends of a period, and Invalid for one that is too long for its steps."""
    if "cursor" in given:
        raise _wrong("cursor", "goes not with a table, which has all pages")
    for end in ("from", "to"):
        if end not in given:
            raise _wrong(end, "is needed for a table: a time with its zone")
    longest = LONGEST[given["step"]]
    if not timedelta(0) < given["to"] - given["from"] <= longest:
        message = f"must come after from, by {longest.days:,} days at most in steps of one {given['step']}"
        raise Invalid(f"to {message}.", fields=[FieldProblem("to", message)])
    return table_response("usage", COLUMNS, _rows(wanted_buckets(given), actor), given["format"])


def _rows(wanted: dict[str, Any], actor: Actor) -> Iterator[Row]:
    after: list[Any] | None = None
    while True:
        found = selectors.list_buckets(**wanted, after=after, limit=_PAGE, actor=actor)
        for row in found:
            names = row.account or dict.fromkeys(_NAMES, "")
            amounts = (getattr(row, name) for name in _AMOUNTS)
            yield (row.at, row.source, row.site, *(names[name] for name in _NAMES), *amounts)
        if len(found) < _PAGE:
            return
        after = found[-1].place


def _wrong(where: str, message: str) -> Refusal:
    return Refusal(f"{where} {message}.", code="invalid", fields=[FieldProblem(where, message)])
