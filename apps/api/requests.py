"""What is asked of every request, whatever it is for: an id to find it in the log, and where it comes from."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from apps.accounts.request_cache import cache_for_request

HEADER = "X-Request-Id"
_KEY = "HTTP_X_REQUEST_ID"
_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestIdMiddleware:
    """Uses the caller's id if it is a harmless one, else makes one; `request.headers` has it from here on."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not _ID.fullmatch(request.META.get(_KEY, "")):
            request.META[_KEY] = uuid.uuid4().hex
        response = self.get_response(request)
        response[HEADER] = request.META[_KEY]
        if isinstance(response, HttpResponse) and response.content and "Content-Length" not in response:
            response["Content-Length"] = str(len(response.content))  # look-ups and health skip CommonMiddleware
        return response


class RequestCacheMiddleware:
    """A GET or HEAD request runs the same query once."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        with cache_for_request():
            return self.get_response(request)


def request_id(request: HttpRequest) -> str:
    return str(request.META.get(_KEY, ""))


def has_uncounted_proxy(request: HttpRequest) -> bool:
    """Whether a proxy forwarded the request although the site counts none (FAIRSHARE_PROXY_COUNT)."""
    return not settings.AXES_IPWARE_PROXY_COUNT and any(name in request.META for name in _FORWARDED)


def client_address(request: HttpRequest) -> str | None:
    """The nearest address we don't run ourselves: proxies count from the right, as far as the site says it has some."""
    hops: list[str] = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    n_proxies = settings.AXES_IPWARE_PROXY_COUNT or 0
    if n_proxies and len(hops) >= n_proxies:
        return hops[-n_proxies]
    return str(request.META.get("REMOTE_ADDR", "")) or None
