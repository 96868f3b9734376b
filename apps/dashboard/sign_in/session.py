"""How and when somebody signed in, kept in the session; and who still owes a code before they get one."""

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


_KEY = "second_step"
_SALT = "dashboard.second_factor"
AGE_S = 600  # for the code, and for setting an app up


@dataclass(frozen=True)
class Owing:
    """sets_up: the site asks a second factor of them, and they have none yet."""

    user: User
    next: str
    sets_up: bool
    backend: str


def is_due(user: User) -> bool:
    return has_second_factor(user) or needs_second_factor(user)


def begin(request: HttpRequest, user: User, where: str) -> None:
    """Nobody is signed in yet: the session only remembers whose password held, and when."""
    request.session.flush()
    request.session[_KEY] = {
        "user": user.pk,
        "backend": getattr(user, "backend", ""),
        "next": where,
        "at": clock.now().timestamp(),
        "password": user.get_session_auth_hash(),
    }


def owing(request: HttpRequest) -> Owing | None:
    """Who it is, if that was just now, they are still let in, and the password is still the one that held."""
    kept = request.session.get(_KEY)
    if not isinstance(kept, dict) or clock.now().timestamp() - kept["at"] > AGE_S:
        return None
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    if user is None or not constant_time_compare(kept["password"], user.get_session_auth_hash()):
        return None
    return Owing(user, kept["next"], not has_second_factor(user), kept["backend"])


def finish(request: HttpRequest, found: Owing) -> None:
    """Signed in, in a session that nobody knew before."""
    request.session.flush()
    login(request, found.user, backend=found.backend)


def failed(request: HttpRequest, user: User) -> None:
    """Counts like a wrong password, for name and address together."""
    user_login_failed.send(sender=__name__, credentials={"username": user.username}, request=request)


def actor_owing(request: HttpRequest, user: User) -> Actor:
    return Actor(
        user=user,
        via="page",
        request_id=request.headers.get("X-Request-ID", "")[:64],
        address=request.META.get("REMOTE_ADDR") or None,
    )


def ticket_with(secret: str, user: User) -> str:
    """The secret that the page shows, for its form: nothing is stored before a code of it came back."""
    return signing.dumps([user.pk, secret], salt=_SALT)


def read_ticket(ticket: str, user: User) -> str:
    """The secret again; a new one where the ticket is too old, or somebody else's."""
    try:
        owner, secret = signing.loads(ticket, salt=_SALT, max_age=AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return new_secret()
    return str(secret) if owner == user.pk else new_secret()
