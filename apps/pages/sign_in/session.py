"""The session of a user whom an identity provider authenticated, or whose second factor is still due."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.signals import user_login_failed
from django.core import signing
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.accounts.sign_in.second_factor import has_second_factor, needs_second_factor, new_secret
from apps.core import clock
from apps.web.shell.sign_in_state import AT, BY

BACKEND = "apps.accounts.sign_in.backends.ElsewhereBackend"
_KEY = "second_step"
_SALT = "pages.second_factor"
AGE_S = 600  # time to enter a code or to set up an app


def sign_in(request: HttpRequest, user: User, *, by: str) -> None:
    """Start a session for a user whom an identity provider authenticated. by: oidc or header."""
    login(request, user, backend=BACKEND)
    request.session[BY], request.session[AT] = by, clock.now().timestamp()


def url_after_sign_in(request: HttpRequest, wanted: str | None) -> str:
    """The wanted URL if it is on this site, else the start page."""
    hosts = {request.get_host()}
    if wanted and url_has_allowed_host_and_scheme(wanted, allowed_hosts=hosts, require_https=request.is_secure()):
        return wanted
    return resolve_url(settings.LOGIN_REDIRECT_URL)


@dataclass(frozen=True)
class PendingSecondFactor:
    """A user whose password was accepted and whose second factor is due.

    sets_up: the user has none yet, and the site requires one.
    """

    user: User
    next: str
    sets_up: bool
    backend: str


def is_due(user: User) -> bool:
    return has_second_factor(user) or needs_second_factor(user)


def begin(request: HttpRequest, user: User, where: str) -> None:
    """Remember in the session, without signing in, whose password was accepted, and when."""
    request.session.flush()
    request.session[_KEY] = {
        "user": user.pk,
        "backend": getattr(user, "backend", ""),
        "next": where,
        "at": clock.now().timestamp(),
        "password": user.get_session_auth_hash(),
    }


def pending_second_factor(request: HttpRequest) -> PendingSecondFactor | None:
    """The user whose second factor is due; None after AGE_S, for inactive users, and after a change of password."""
    stored = request.session.get(_KEY)
    if not isinstance(stored, dict) or clock.now().timestamp() - stored["at"] > AGE_S:
        return None
    user = User.objects.filter(pk=stored["user"], is_active=True).first()
    if user is None or not constant_time_compare(stored["password"], user.get_session_auth_hash()):
        return None
    return PendingSecondFactor(user, stored["next"], not has_second_factor(user), stored["backend"])


def finish(request: HttpRequest, pending: PendingSecondFactor) -> None:
    """Sign the user in with a new session key."""
    request.session.flush()
    login(request, pending.user, backend=pending.backend)


def failed(request: HttpRequest, user: User) -> None:
    """Report a wrong code to the lockout, like a wrong password."""
    user_login_failed.send(sender=__name__, credentials={"username": user.username}, request=request)


def pending_second_factor_actor(request: HttpRequest, user: User) -> Actor:
    return Actor(
        user=user,
        via="page",
        request_id=request.headers.get("X-Request-ID", "")[:64],
        address=request.META.get("REMOTE_ADDR") or None,
    )


def ticket_with(secret: str, user: User) -> str:
    """A signed secret for the form; nothing is stored before the user has entered a code from it."""
    return signing.dumps([user.pk, secret], salt=_SALT)


def read_ticket(ticket: str, user: User) -> str:
    """The secret in a ticket; a new one if the ticket is invalid, too old, or another user's."""
    try:
        owner, secret = signing.loads(ticket, salt=_SALT, max_age=AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return new_secret()
    return str(secret) if owner == user.pk else new_secret()
