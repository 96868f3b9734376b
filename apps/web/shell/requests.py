"""Helpers for views: the acting user, fragments of pages, redirects and CSV downloads."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django_htmx.middleware import HtmxDetails

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core.tables import escape_formula

__all__ = ["SeeOther", "View", "actor_of", "csv_response", "escape_formula", "fragment", "is_htmx", "private"]


def actor_of(request: HttpRequest) -> Actor:
    """The signed-in user, acting through a page. Views require sign-in, so there is always one."""
    return Actor(
        user=cast(User, request.user),
        via="page",
        request_id=request.headers.get("X-Request-ID", "")[:64],
        address=request.META.get("REMOTE_ADDR") or None,
    )


View = Callable[..., HttpResponse]
Response = TypeVar("Response", bound=HttpResponseBase)


def private(response: Response) -> Response:
    """Forbid caches to store a response with personal data."""
    response["Cache-Control"] = "private, no-store"
    return response


class SeeOther(HttpResponseRedirect):
    """303: redirect to a GET after any method."""

    status_code = 303


def is_htmx(request: HttpRequest) -> bool:
    return bool(cast("HtmxDetails | None", getattr(request, "htmx", None)))


def fragment(page: Callable[..., str]) -> Callable[[View], View]:
    """Decorator for views that return a part of a page: without htmx they redirect to the page, `page(**kwargs)`."""

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            if request.method in {"GET", "HEAD"} and not is_htmx(request):
                return SeeOther(page(**kwargs))
            return view(request, **kwargs)

        return answer

    return decorate


def csv_response(file_name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingHttpResponse:
    """A streamed CSV file, so that a million rows need no memory. Numbers stay numbers; formulas are escaped."""
    response = StreamingHttpResponse(_lines([header], rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return private(response)


class _Echo:
    """File object for csv that returns each line instead of storing it."""

    def write(self, line: str) -> str:
        return line


def _lines(first: Iterable[Sequence[Any]], rest: Iterable[Sequence[Any]]) -> Iterator[str]:
    writer = csv.writer(_Echo(), quoting=csv.QUOTE_NONNUMERIC)
    for rows in (first, rest):
        for row in rows:
            cells = [escape_formula(cell) if isinstance(cell, str) else cell for cell in row]
            yield str(writer.writerow(cells))
