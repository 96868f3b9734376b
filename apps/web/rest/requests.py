"""Middleware for every request: id, user, client address, query cache, and the audit row of a refused request."""

from __future__ import annotations

import ipaddress
import logging
import re
import uuid
from collections.abc import Callable, MutableMapping
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.middleware import AuthenticationMiddleware as DjangoAuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.functional import SimpleLazyObject

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.audit_log import log_refusal, n_refusals_logged
from apps.accounts.models import User
from apps.accounts.request_cache import cache_for_request
from apps.accounts.sign_in.sessions import SessionStore, user_of
from apps.core import clock, log_context

HEADER = "X-Request-Id"
_KEY = "HTTP_X_REQUEST_ID"
#: Beginnings of the names of headers that proxies, load balancers and content networks add.
_ADDED_BY_PROXIES = (
    *("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_FORWARDED", "HTTP_X_ORIGINAL", "HTTP_X_REAL_IP", "HTTP_REAL_IP"),
    *("HTTP_CLIENT_IP", "HTTP_X_CLIENT", "HTTP_X_CLUSTER_CLIENT", "HTTP_TRUE_CLIENT_IP", "HTTP_X_REMOTE"),
    *("HTTP_X_PROXY", "HTTP_X_HOST", "HTTP_X_SCHEME", "HTTP_FRONT_END_HTTPS", "HTTP_CDN_LOOP", "HTTP_CF_"),
    *("HTTP_X_AMZ", "HTTP_X_AZURE", "HTTP_X_ARR", "HTTP_X_APPENGINE", "HTTP_X_CLOUD_TRACE", "HTTP_X_GOOG"),
    *("HTTP_X_ENVOY", "HTTP_X_B3", "HTTP_X_AKAMAI", "HTTP_AKAMAI", "HTTP_FASTLY", "HTTP_FLY_", "HTTP_X_VARNISH"),
)
_LOOPBACK_HOST = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
SAFE = ("GET", "HEAD", "OPTIONS")


class RequestIdMiddleware:
    """Sets X-Request-Id of request and response: the caller's id if it is valid, else a new one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        name = set_request_id(request.META)
        before = log_context.request_id.set(name)
        try:
            response = self.get_response(request)
        finally:
            log_context.request_id.reset(before)
        response[HEADER] = name
        if isinstance(response, HttpResponse) and response.content and "Content-Length" not in response:
            response["Content-Length"] = str(len(response.content))  # look-ups and health checks skip CommonMiddleware
        return response


class AuthenticationMiddleware(DjangoAuthenticationMiddleware):
    """Sets the user of a request as Django does, without a query where the session was read with its user."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _user_of(request))  # type: ignore[assignment]  # as Django does


def _user_of(request: HttpRequest) -> User | AnonymousUser:
    session = request.session
    user = user_of(session) if isinstance(session, SessionStore) else None
    return user or get_user(request)


class RequestCacheMiddleware:
    """Caches query results during a GET or HEAD request, so that equal queries run once."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        with cache_for_request():
            return self.get_response(request)


def set_request_id(meta: MutableMapping[str, Any]) -> str:
    """The caller's id if it is valid, else a new one, which the request has from now on."""
    if not _ID.fullmatch(meta.get(_KEY, "")):
        meta[_KEY] = uuid.uuid4().hex
    return str(meta[_KEY])


def request_id(request: HttpRequest) -> str:
    return str(request.META.get(_KEY, ""))


def has_uncounted_proxy(request: HttpRequest) -> bool:
    """Whether a proxy forwarded the request although FAIRSHARE_PROXY_COUNT is 0.

    In production that is also one from this machine under another name: of a proxy that adds no header.
    """
    if settings.AXES_IPWARE_PROXY_COUNT:
        return False
    has_foreign_name = settings.PRODUCTION and _is_loopback(request) and not _names_loopback(request)
    return has_foreign_name or _is_forwarded(request)


def is_local(request: HttpRequest) -> bool:
    """Whether a program of this machine asks, without a proxy between."""
    return _is_loopback(request) and _names_loopback(request) and not _is_forwarded(request)


def _is_loopback(request: HttpRequest) -> bool:
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _names_loopback(request: HttpRequest) -> bool:
    return _LOOPBACK_HOST.fullmatch(request.META.get("HTTP_HOST", "localhost")) is not None


def _is_forwarded(request: HttpRequest) -> bool:
    return any(name.startswith(_ADDED_BY_PROXIES) for name in request.META)


def client_address(request: HttpRequest) -> str | None:
    """Client address: the last one in X-Forwarded-For that none of the FAIRSHARE_PROXY_COUNT proxies has added."""
    hops: list[str] = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if part.strip()]
    n_proxies = settings.AXES_IPWARE_PROXY_COUNT or 0
    if n_proxies and len(hops) >= n_proxies:
        return hops[-n_proxies]
    return str(request.META.get("REMOTE_ADDR", "")) or None


log = logging.getLogger(__name__)


class RefusedRequestMiddleware:
    """Writes an audit row for a 403 to a signed-in caller, unless a service has written one. Needs authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method in SAFE:
            return self.get_response(request)
        n_before = n_refusals_logged()
        response = self.get_response(request)
        # A CSRF failure is not an attempt by the user: another site's form caused it.
        is_attempt = response.status_code == 403 and not getattr(response, "is_csrf_failure", False)
        if is_attempt and n_refusals_logged() == n_before and request.user.is_authenticated:
            try:
                _put_on_record(request)
            except DatabaseError:  # the database is down
                log.exception("A refused request could not be logged.")
        return response


def _put_on_record(request: HttpRequest) -> None:
    assert request.user.is_authenticated  # noqa: S101 - for mypy: the caller checks it
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
    is_secret = isinstance(named.get("token"), str)  # secret in a link; REST's routes have a token's number
    log_refusal(
        verb="request.refused",  # no service has logged a verb of its own
        actor=actor,
        at=clock.now(),
        reason=getattr(request, "refused_because", ""),
        policy_slug=str(named.get("policy", ""))[:64],
        subject=f"{request.method} {match.route if match and is_secret else request.path}",
    )
