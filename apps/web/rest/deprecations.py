"""What REST v1 will stop to answer: tables, from which headers, the description and old names of fields are made.

`docs/rest.md` promises how long a deprecated route, parameter or field stays. A removed route goes to `removed.py`.
Renamed fields of plug-ins are in their `renamed_fields`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, resolve
from django.utils.http import http_date

from apps.core.plugins import plugins

PREFIX = "api/v1/"
GUIDE = "/help/rest/#versions"


class Deprecated(NamedTuple):
    """A route below `/api/v1/`, as its `path()` has it; of it only a query parameter, or a field of its answers.

    instead: a whole sentence that names what to use. ends_on: the first day on which it may be gone.
    """

    route: str
    since: date
    ends_on: date
    instead: str
    methods: tuple[str, ...] = ()  # empty: all
    parameter: str = ""
    field: str = ""


class Renamed(NamedTuple):
    """Fields of a component of answers that have another name now and are answered under both.

    component: its name in OpenAPI. names: old names to new ones. where: the operations that answer it, each a method
    and a route below `/api/v1/` as its `path()` has it.
    """

    component: str
    names: Mapping[str, str]
    where: tuple[str, ...]
    since: date
    ends_on: date

    def rows(self) -> list[Deprecated]:
        return [
            Deprecated(route, self.since, self.ends_on, f"Use `{name}`.", methods=(method,), field=old)
            for method, route in (place.split(" ", 1) for place in self.where)
            for old, name in self.names.items()
        ]


_POLICY = "policies/<slug:policy>"
_CHARGES = (f"GET {_POLICY}/charges",)
ONE_NAME = (date(2026, 11, 29), date(2027, 12, 1))  # since this day each quantity has one name
_RENAMED = (
    Renamed("Charge", {"counts_local": "usage_local", "counts_global": "usage_global"}, _CHARGES, *ONE_NAME),
    Renamed("ChargedResource", {"weighed": "weighted"}, _CHARGES, *ONE_NAME),
    Renamed("ChargedHour", {"counted": "usage"}, _CHARGES, *ONE_NAME),
    Renamed("Adjustment", {"counted_s": "usage"}, (f"GET {_POLICY}/adjustments",), *ONE_NAME),
    Renamed(
        "Mount",
        {"made_at": "created_at"},
        (
            "GET federation/mounts",
            "GET federation/mounts/<int:mount>",
            "PATCH federation/mounts/<int:mount>",
            "POST federation/mounts",
            "POST federation/mounts/<int:mount>/freeze",
            "POST federation/mounts/<int:mount>/pause",
            "POST federation/mounts/<int:mount>/reset-history",
            "POST federation/mounts/<int:mount>/resume",
            "POST federation/mounts/<int:mount>/trust-key",
            "POST federation/mounts/<int:mount>/unfreeze",
        ),
        *ONE_NAME,
    ),
    Renamed(
        "Subscription",
        {"made_at": "created_at"},
        (
            "GET federation/subscriptions",
            "GET federation/subscriptions/<int:subscription>",
            "PATCH federation/subscriptions/<int:subscription>",
            "POST federation/subscriptions",
            "POST federation/subscriptions/<int:subscription>/agree-capacity",
            "POST federation/subscriptions/<int:subscription>/freeze",
            "POST federation/subscriptions/<int:subscription>/pause",
            "POST federation/subscriptions/<int:subscription>/reset-history",
            "POST federation/subscriptions/<int:subscription>/resume",
            "POST federation/subscriptions/<int:subscription>/trust-key",
            "POST federation/subscriptions/<int:subscription>/unfreeze",
        ),
        *ONE_NAME,
    ),
    Renamed(
        "Feed",
        {"made_at": "created_at"},
        (
            "GET federation/feeds",
            "GET federation/feeds/<str:name>",
            "POST federation/feeds",
        ),
        *ONE_NAME,
    ),
    Renamed(
        "Publication",
        {"made_at": "created_at"},
        (
            "GET federation/publications",
            "GET federation/publications/<str:name>",
            "POST federation/publications",
        ),
        *ONE_NAME,
    ),
    Renamed(
        "Key",
        {"made_at": "created_at"},
        (
            "GET federation/keys",
            "POST federation/keys",
        ),
        *ONE_NAME,
    ),
    Renamed("Peer", {"took_s": "duration_s"}, ("GET federation/peers",), *ONE_NAME),
    Renamed("GridRow", {"uid": "entry"}, ("GET federation/grid",), *ONE_NAME),
    Renamed("Grid", {"uid": "entry"}, ("GET federation/grid",), *ONE_NAME),
    Renamed("MemberSeries", {"uid": "entry"}, (f"GET {_POLICY}/convergence",), *ONE_NAME),
    Renamed("Snapshot", {"ranked": "n_ranked"}, (f"GET {_POLICY}/snapshots",), *ONE_NAME),
    Renamed("AuditCheck", {"rows": "n_rows"}, ("GET audit",), *ONE_NAME),
    Renamed(
        "Followup",
        {"served_snapshot": "snapshot"},
        (f"GET {_POLICY}/changesets/<int:change_set>/followup",),
        *ONE_NAME,
    ),
    Renamed("Token", {"source_slug": "source"}, ("GET tokens",), *ONE_NAME),
    Renamed(
        "MadeToken",
        {"source_slug": "source"},
        (
            "POST tokens",
            "POST tokens/<int:token>/rotate",
        ),
        *ONE_NAME,
    ),
    Renamed("NewToken", {"source_slug": "source"}, ("POST tokens",), *ONE_NAME),
)


@cache
def renamed_fields() -> tuple[Renamed, ...]:
    """Of the core and of plug-ins."""
    return (*_RENAMED, *(row for plugin in plugins() for row in plugin.renamed_fields()))


@cache
def deprecated() -> tuple[Deprecated, ...]:
    """The whole table."""
    return tuple(row for renamed in renamed_fields() for row in renamed.rows())


def old_names(component: str) -> dict[str, str]:
    """Old names of a component's fields to new ones; empty for most."""
    return {old: name for each in renamed_fields() if each.component == component for old, name in each.names.items()}


def _last_word(route: str) -> str:
    """The last part of a route that is no parameter: /charges of policies/<slug:policy>/charges; /x/ of x/<int:n>."""
    parts = route.split("/")
    last = max(at for at, part in enumerate(parts) if "<" not in part)
    return f"/{parts[last]}" + ("/" if last + 1 < len(parts) else "")


def _end(row: Deprecated) -> date:
    return row.ends_on


def by_word(rows: Sequence[Deprecated]) -> dict[str, list[Deprecated]]:
    """Rows of a table by the last word of their route."""
    words = dict.fromkeys(_last_word(row.route) for row in rows)
    return {word: [row for row in rows if _last_word(row.route) == word] for word in words}


@cache
def _deprecated_by_word() -> dict[str, list[Deprecated]]:
    return by_word(deprecated())


def add_deprecation(request: HttpRequest, response: HttpResponseBase) -> None:
    """Set `Deprecation` (RFC 9745), `Sunset` (RFC 8594) and a `Link` on an answer that something of the table is about.

    Of several the one that ends first.
    """
    path, first = request.path_info, None
    for word, rows in _deprecated_by_word().items():
        # A look-up is answered before a route is resolved: the words of its address are compared first.
        if path.endswith(word) or (word[-1] == "/" and word in path):
            first = min((row for row in (first, *rows) if row and _is_about(row, request)), key=_end, default=None)
    if first is None:
        return
    response["Deprecation"] = f"@{_second_of(first.since)}"
    response["Sunset"] = http_date(_second_of(first.ends_on))
    links = [response["Link"]] if "Link" in response else []
    response["Link"] = ", ".join([*links, f'<{GUIDE}>; rel="deprecation"; type="text/html"'])


def _is_about(row: Deprecated, request: HttpRequest) -> bool:
    if row.methods and request.method not in row.methods:
        return False
    if row.parameter and row.parameter not in request.GET:
        return False
    try:
        match = request.resolver_match or resolve(request.path_info)
    except Resolver404:
        return False
    return match.route == PREFIX + row.route


def _second_of(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def describe_deprecated(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Mark what is deprecated in the OpenAPI document, with what to use instead."""
    for row in deprecated():
        operations = result["paths"].get(f"/{PREFIX}{braced_route(row.route)}", {})
        for method, operation in operations.items():
            if row.methods and method.upper() not in row.methods:
                continue
            until = f"until {row.ends_on:%Y-%m-%d} at least. {row.instead}"
            if row.field:
                text = f"The field `{row.field}` is deprecated and stays {until}"
            elif row.parameter:
                text = f"The parameter `{row.parameter}` is deprecated and stays {until}"
                for parameter in operation.get("parameters", []):
                    if parameter["name"] == row.parameter:
                        parameter["deprecated"] = True
            else:
                text, operation["deprecated"] = f"Deprecated: it stays {until}", True
            operation["description"] = "\n\n".join(filter(None, [operation.get("description"), text]))
    return result


def braced_route(route: str) -> str:
    return "".join(
        f"{{{part.partition(':')[2] or part}" if i else part
        for i, part in enumerate(route.replace(">", "}").split("<"))
    )
