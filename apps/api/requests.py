"""What holds for every request: its id in the log, the address it comes from, and the audit row if it is refused."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.audit_log import log_refusal, n_refusals_logged
from apps.accounts.request_cache import cache_for_request
from apps.core import clock

HEADER = "X-Request-Id"
_KEY = "HTTP_X_REQUEST_ID"
_FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestIdMiddleware:
    """Uses the caller's id if it is a escape_formula one, else makes one; `request.headers` has it from here on."""

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


# --- Refused requests -------------------------------------------------------------------------------------------------
SAFE = ("GET", "HEAD", "OPTIONS")
log = logging.getLogger(__name__)


class RefusedRequestMiddleware:
    """Below the sign-in. Of services that log the refusal themselves it writes no second row."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method in SAFE:
            return self.get_response(request)
        n_before = n_refusals_logged()
        response = self.get_response(request)
        # A form from another site is no attempt of the person whose browser sends it.
        is_attempt = response.status_code == 403 and not getattr(response, "is_csrf_failure", False)
        if is_attempt and n_refusals_logged() == n_before and request.user.is_authenticated:
            try:
                _put_on_record(request)
            except DatabaseError:  # the answer doesn't wait for a database that is away
                log.exception("A refused request could not be logged.")
        return response


def _put_on_record(request: HttpRequest) -> None:
    assert request.user.is_authenticated  # noqa: S101 - for mypy: the caller has looked
    bounds = getattr(request, "auth", None)
    actor = Actor(
        user=request.user,
        via="api" if request.path.startswith("/api/") else "page",
        token=bounds if isinstance(bounds, TokenBounds) else None,
        request_id=request_id(request)[:64],
        address=client_address(request),
    )
    match = request.resolver_match
    named = match.kwargs if match else {}
    is_secret = isinstance(named.get("token"), str)  # a link by mail; the token of REST's routes is its number
    log_refusal(
        verb="request.refused",  # a change that no service knows by a verb of its own
        actor=actor,
        at=clock.now(),
        reason=getattr(request, "refused_because", ""),
        policy_slug=str(named.get("policy", ""))[:64],
        subject=f"{request.method} {match.route if match and is_secret else request.path}",
    )
