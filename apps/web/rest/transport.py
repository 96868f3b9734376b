"""Middleware and throttle for all requests: Host, TRACE, caching, write rates, and the byte-order mark of CSV."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING

from django.core.exceptions import DisallowedHost
from django.core.handlers.exception import response_for_exception
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponsePermanentRedirect,
    StreamingHttpResponse,
)
from django.middleware.security import SecurityMiddleware
from django.utils.cache import patch_vary_headers
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from apps.web.rest import deprecations, errors
from apps.web.rest.requests import is_local

if TYPE_CHECKING:
    from rest_framework.views import APIView

_PROBES = ("/healthz", "/readyz")  # probes use the address of the container
_SCRAPE = "/metrics"
_PRIVATE = "private, no-store"
_ALLOWED = "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"  # each route allows some of them
_VARY = "Authorization, Cookie"
POLICY, LIMIT = "RateLimit-Policy", "RateLimit"  # of the IETF's draft of rate limit fields
READS = "reads"  # throttle scope of POST routes that only read
PARAMETER = "bom"
PARAMETER_SCHEMA = {
    "in": "query",
    "name": PARAMETER,
    "schema": {"type": "string", "enum": ["1"]},
    "description": "1: CSV starts with a byte-order mark, for Excel on Windows",
}


class TransportMiddleware:
    """Checks the Host header, rejects TRACE, and sets caching headers, for all answers including static files."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._refuse(request) or self.get_response(request)
        if response.status_code == 304:
            del response["Content-Type"]
        forbid_caching(response)
        rate: Rate | None = getattr(request, "rate", None)
        if rate is not None:
            response[POLICY], response[LIMIT] = rate.headers()
        if request.path_info.startswith("/api/"):
            deprecations.add_deprecation(request, response)
        return response

    def _refuse(self, request: HttpRequest) -> HttpResponseBase | None:
        if request.method == "TRACE":  # its answer would repeat cookies and tokens
            return errors.problem(
                request, 405, "method_not_allowed", "TRACE is not served.", headers={"Allow": _ALLOWED}
            )
        if not asks_for_state(request):
            try:
                request.get_host()
            except DisallowedHost as error:
                return response_for_exception(request, error)
        return None


def asks_for_state(request: HttpRequest) -> bool:
    """Whether a probe or a scrape from this machine asks, by plain HTTP and any name."""
    path = request.path_info
    return path in _PROBES or (path == _SCRAPE and is_local(request))


class HttpsMiddleware(SecurityMiddleware):
    """Leads to https, but for probes and local scrapes: they don't follow it, and have no certificate to check."""

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        return None if asks_for_state(request) else super().process_request(request)


def forbid_caching(response: HttpResponseBase) -> None:
    """Forbid caching of a response unless it is marked as public."""
    if "public" in response.get("Cache-Control", ""):
        return
    response["Cache-Control"] = _PRIVATE
    if response.get("Vary") != _VARY:
        patch_vary_headers(response, ("Authorization", "Cookie"))


@dataclass(frozen=True, slots=True)
class Rate:
    """How much of a limit is used: `n_left` of `most` requests in `window_s`, one more in `next_s` seconds."""

    name: str
    most: int
    window_s: int
    n_left: int
    next_s: int

    def headers(self) -> tuple[str, str]:
        """Values of RateLimit-Policy and RateLimit."""
        return f'"{self.name}";q={self.most};w={self.window_s}', f'"{self.name}";r={self.n_left};t={self.next_s}'


class WriteThrottle(SimpleRateThrottle):
    """Limits the rate of writes of each user, over all tokens. Views may set another scope; usage has a higher rate."""

    scope = "writes"

    def allow_request(self, request: Request, view: APIView) -> bool:
        scope = getattr(view, "throttle_scope", self.scope)
        if request.method in SAFE_METHODS or scope == READS:
            return True
        self.scope = scope
        self.rate = self.get_rate()
        most, window_s = self.num_requests, self.duration = self.parse_rate(self.rate)
        is_allowed = super().allow_request(request, view)
        if most is not None and window_s is not None:  # else there is no limit
            oldest_s = self.history[-1] if self.history else self.now  # the newest is the first
            rate = Rate(
                self.scope, most, window_s, most - len(self.history), max(ceil(oldest_s + window_s - self.now), 0)
            )
            request._request.rate = rate  # type: ignore[attr-defined]  # the outermost middleware writes it
        return is_allowed

    def get_cache_key(self, request: Request, view: APIView) -> str:
        return self.cache_format % {"scope": self.scope, "ident": request.user.pk}


class ByteOrderMarkMiddleware:
    """Handles `bom=1` for all CSV answers of pages and REST; views do not see the parameter."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_asked = "bom=" in request.META["QUERY_STRING"] and request.GET.getlist(PARAMETER) == ["1"]
        if not is_asked or request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        query = request.GET.copy()
        del query[PARAMETER]
        request.GET = query  # type: ignore[assignment]  # a QueryDict that may change
        response = self.get_response(request)
        if response.get("Content-Type", "").startswith("text/csv"):
            if isinstance(response, StreamingHttpResponse):
                response.streaming_content = chain([BOM_UTF8], iter(response))
            elif isinstance(response, HttpResponse) and response.content:
                response.content = BOM_UTF8 + response.content
            if "Content-Length" in response and isinstance(response, HttpResponse):
                response["Content-Length"] = str(len(response.content))
        return response
