"""What REST v1 will stop to answer: a table, from which the headers of answers and the description are made.

`docs/rest.md` promises how long a deprecated route, parameter or field stays. A removed route goes to `removed.py`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, resolve
from django.utils.http import http_date

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


DEPRECATED: tuple[Deprecated, ...] = ()


def add_deprecation(request: HttpRequest, response: HttpResponseBase) -> None:
    """Set `Deprecation` (RFC 9745), `Sunset` (RFC 8594) and a `Link` on an answer that something of the table is about.

    Of several the one that ends first.
    """
    about = [each for each in DEPRECATED if _is_about(each, request)]
    if not about:
        return
    first = min(about, key=lambda each: each.ends_on)
    response["Deprecation"] = f"@{_second_of(first.since)}"
    response["Sunset"] = http_date(_second_of(first.ends_on))
    links = [response["Link"]] if "Link" in response else []
    response["Link"] = ", ".join([*links, f'<{GUIDE}>; rel="deprecation"; type="text/html"'])


def _is_about(row: Deprecated, request: HttpRequest) -> bool:
    if row.methods and request.method not in row.methods:
        return False
    if row.parameter and row.parameter not in request.GET:
        return False
    try:  # look-ups are answered before a route is found
        match = request.resolver_match or resolve(request.path_info)
    except Resolver404:
        return False
    return match.route == PREFIX + row.route


def _second_of(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def describe_deprecated(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Mark what is deprecated in the OpenAPI document, with what to use instead."""
    for row in DEPRECATED:
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
