"""Health checks (/healthz, /readyz) and Prometheus metrics (/metrics), answered before sessions."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from apps.accounts.actor import TokenBounds
from apps.accounts.token_cache import tokens
from apps.core import clock
from apps.core.errors import DomainError, NotAllowed, Unauthenticated
from apps.core.pending_migrations import label_of, pending_migrations
from apps.pages.monitoring.degradations import degradations, disks_without_room
from apps.pages.monitoring.exposition import exposition
from apps.web.middleware.early_answers import EarlyAnswer
from apps.web.rest import errors
from apps.web.rest.authentication import PRIORITIES_READ, bearer_text, require_scope
from apps.web.rest.rendering import dumps
from apps.web.rest.requests import client_address, has_uncounted_proxy


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    """200 if the process can answer."""
    return _json({"status": "ok"})


@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:
    """503 if the site can't work at all: no database, or pending migrations. Lesser problems are listed as degraded."""
    try:
        pending = pending_migrations()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if pending:
            return _json(
                {"status": "unavailable", "reasons": [f"migration pending: {label_of(each)}" for each in pending]}, 503
            )
        degraded = list(degradations(clock.now()))
    except (DatabaseError, InterfaceError):
        connection.close()
        full = [f"{disk['subject']} {disk['message']}" for disk in disks_without_room()]
        return _json({"status": "unavailable", "reasons": ["the database is not available", *full]}, 503)
    return _json({"status": "degraded" if degraded else "ok", "degraded": degraded})


@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Metrics for Prometheus: for addresses in FAIRSHARE_METRICS_ADDRESSES, or with a token for priorities:read."""
    try:
        text = bearer_text(request)
        if text is not None:
            _require_whole_site(tokens.verify(text, at=clock.now())[1])
        elif not _is_allowed(request):
            raise Unauthenticated(_address_refusal(request))
    except DomainError as error:
        return errors.domain_problem(request, error)
    return HttpResponse(exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")


def _address_refusal(request: HttpRequest) -> str:
    if has_uncounted_proxy(request):
        return "A proxy forwarded the request, and FAIRSHARE_PROXY_COUNT is 0: send a token for priorities:read."
    return "Send a token for priorities:read, or have your address added to FAIRSHARE_METRICS_ADDRESSES."


def _require_whole_site(bounds: TokenBounds) -> None:
    """Reject tokens that are limited to a policy, entry or source: metrics are of the whole site."""
    require_scope(bounds, frozenset({PRIORITIES_READ}))
    if bounds.is_bound:
        message = "Metrics cover the whole site, but the token is limited: make one without bounds."
        raise NotAllowed(message, code="token_bound")


def _json(data: dict[str, Any], status: int = 200) -> HttpResponse:
    response = HttpResponse(dumps(data), status=status, content_type="application/json")
    if status == 503:
        response["Retry-After"] = str(errors.RETRY_AFTER_S)
    return response


def _is_allowed(request: HttpRequest) -> bool:
    """Whether the client address is on the list. False behind a proxy that FAIRSHARE_PROXY_COUNT does not count."""
    if has_uncounted_proxy(request):
        return False
    try:
        address = ipaddress.ip_address(client_address(request) or "")
        return any(address in ipaddress.ip_network(net, strict=False) for net in settings.FAIRSHARE_METRICS_ADDRESSES)
    except ValueError:
        return False


_VIEWS: dict[str, Callable[[HttpRequest], HttpResponse]] = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


def early_answer() -> EarlyAnswer:
    """Probes and scrapes."""
    return EarlyAnswer(re.compile("|".join(map(re.escape, _VIEWS))), _answer)


def _answer(request: HttpRequest, match: re.Match[str]) -> HttpResponseBase:
    if request.method not in ("GET", "HEAD"):
        return errors.problem(
            request, 405, "method_not_allowed", "Only GET is allowed.", headers={"Allow": "GET, HEAD"}
        )
    return _VIEWS[match[0]](request)
