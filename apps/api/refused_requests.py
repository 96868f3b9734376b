"""Each changing request that is answered 403 has a row in the audit log, of the service or of this middleware."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponseBase

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.audit_log import n_put_on_record, put_on_record
from apps.api.requests import client_address, request_id
from apps.core import clock

SAFE = ("GET", "HEAD", "OPTIONS")
log = logging.getLogger(__name__)


class RefusedRequestMiddleware:
    """Below the sign-in. Of services that log the refusal themselves it writes no second row."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method in SAFE:
            return self.get_response(request)
        n_before = n_put_on_record()
        response = self.get_response(request)
        # A form from another site is no attempt of the person whose browser sends it.
        is_attempt = response.status_code == 403 and not getattr(response, "is_csrf_failure", False)
        if is_attempt and n_put_on_record() == n_before and request.user.is_authenticated:
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
    put_on_record(
        verb="request.refused",  # a change that no service knows by a verb of its own
        actor=actor,
        at=clock.now(),
        reason=getattr(request, "refused_because", ""),
        policy_slug=str(named.get("policy", ""))[:64],
        subject=f"{request.method} {match.route if match and is_secret else request.path}",
    )
