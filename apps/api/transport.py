"""What holds for every request and response, whatever they are about: Host, methods, caches."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import DisallowedHost
from django.core.handlers.exception import response_for_exception
from django.http import HttpRequest, HttpResponseBase
from django.utils.cache import patch_vary_headers

from apps.api import errors

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
