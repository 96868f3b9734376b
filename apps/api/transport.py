"""What holds for requests whatever they are about: Host, methods, caches, and how often one may write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.core.exceptions import DisallowedHost
from django.core.handlers.exception import response_for_exception
from django.http import HttpRequest, HttpResponseBase
from django.utils.cache import patch_vary_headers
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from apps.api import errors

if TYPE_CHECKING:
    from rest_framework.views import APIView

_PROBES = ("/healthz", "/readyz")  # they reach a container by its address
_PRIVATE = "private, no-store"
_ALLOWED = "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"  # of them each address has its own
_VARY = "Authorization, Cookie"


class TransportMiddleware:
    """Outermost but for the request's id: its rules apply to files, look-ups and refusals, too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._answer(request)
        if response.status_code == 304:
            del response["Content-Type"]
        keep_private(response)
        return response

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        if request.method == "TRACE":  # it would repeat cookies and tokens
            return errors.problem(
                request, 405, "method_not_allowed", "TRACE is not served.", headers={"Allow": _ALLOWED}
            )
        if request.path_info not in _PROBES:
            try:
                request.get_host()
            except DisallowedHost as error:
                return response_for_exception(request, error)
        return self.get_response(request)


def keep_private(response: HttpResponseBase) -> None:
    """No cache keeps a response, unless it says itself that it is public: files, and descriptions of the product."""
    if "public" in response.get("Cache-Control", ""):
        return
    response["Cache-Control"] = _PRIVATE
    if response.get("Vary") != _VARY:
        patch_vary_headers(response, ("Authorization", "Cookie"))


READS = "reads"  # what is asked for by POST because it is long


class WriteThrottle(SimpleRateThrottle):
    """One bucket for each person, whichever of their tokens they use; usage has a wider one of its own."""

    scope = "writes"

    def allow_request(self, request: Request, view: APIView) -> bool:
        scope = getattr(view, "throttle_scope", self.scope)
        if request.method in SAFE_METHODS or scope == READS:
            return True
        self.scope = scope
        self.rate = self.get_rate()
        self.num_requests, self.duration = self.parse_rate(self.rate)
        return super().allow_request(request, view)

    def get_cache_key(self, request: Request, view: APIView) -> str:
        return self.cache_format % {"scope": self.scope, "ident": request.user.pk}
