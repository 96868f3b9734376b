"""`?bom=1`: a CSV with a byte-order mark, without which Excel on Windows reads UTF-8 as another encoding."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable
from itertools import chain

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

PARAMETER = "bom"
PARAMETER_SCHEMA = {
    "in": "query",
    "name": PARAMETER,
    "schema": {"type": "string", "enum": ["1"]},
    "description": "1: a CSV begins with a byte-order mark, for Excel on Windows",
}


class ByteOrderMarkMiddleware:
    """Every CSV, of pages and REST; views don't see the parameter, so that none has to know it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_asked = "bom=" in request.META["QUERY_STRING"] and request.GET.getlist(PARAMETER) == ["1"]
        if not is_asked or request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        given = request.GET.copy()
        del given[PARAMETER]
        request.GET = given  # type: ignore[assignment]  # a QueryDict that may change
        response = self.get_response(request)
        if response.get("Content-Type", "").startswith("text/csv"):
            _put_in_front(response)
        return response


def _put_in_front(response: HttpResponseBase) -> None:
    if isinstance(response, StreamingHttpResponse):
        response.streaming_content = chain([BOM_UTF8], iter(response))
    elif isinstance(response, HttpResponse) and response.content:
        response.content = BOM_UTF8 + response.content
    if "Content-Length" in response and isinstance(response, HttpResponse):
        response["Content-Length"] = str(len(response.content))
