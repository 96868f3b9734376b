"""How and when somebody signed in: kept in the session, asked again before something delicate."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.utils.http import url_has_allowed_host_and_scheme

from apps.accounts.models import User
from apps.core import clock

BY, AT, HEADER_NAME = "signed_in_by", "signed_in_at", "signed_in_as"
FRESH_S = 600
BACKEND = "apps.accounts.sign_in.backends.ElsewhereBackend"


def sign_in(request: HttpRequest, user: User, *, by: str) -> None:
    """A new session for somebody whom another system vouches for."""
    login(request, user, backend=BACKEND)
    request.session[BY], request.session[AT] = by, clock.now().timestamp()


def signed_in_by(request: HttpRequest) -> str:
    """oidc or header; "" for a password, of the site or of its directory."""
    return str(request.session.get(BY, ""))


def asks_password(request: HttpRequest) -> bool:
    """Whoever came in by another door may have none here."""
    return not signed_in_by(request)


def is_fresh(request: HttpRequest) -> bool:
    """Whether somebody without a password here came in through their own door within ten minutes."""
    if signed_in_by(request) == "header":
        return True  # the proxy vouches for each request
    return bool(clock.now().timestamp() - float(request.session.get(AT, 0)) <= FRESH_S)


def where_next(request: HttpRequest, wanted: str | None) -> str:
    """An address of ours, or the start."""
    hosts = {request.get_host()}
    if wanted and url_has_allowed_host_and_scheme(wanted, allowed_hosts=hosts, require_https=request.is_secure()):
        return wanted
    return resolve_url(settings.LOGIN_REDIRECT_URL)
