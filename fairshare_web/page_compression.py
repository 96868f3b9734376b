"""Compression of pages and of the numbers of their figures; `docs/security.md` says why it gives no secret away."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

_TYPES = ("text/html", "application/json")


class PageCompressionMiddleware(GZipMiddleware):
    """What answers a GET of a page. What is shown once answers a POST, and is sent as it is.

    REST packs its documents by itself. A strong ETag promises the same bytes, so such an answer is left as it is.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = request.method == "GET" and not request.path.startswith("/api/")
        has_type = response.headers.get("Content-Type", "").startswith(_TYPES)
        if not is_page or not has_type or response.headers.get("ETag", "").startswith('"'):
            return response
        return super().process_response(request, response)
