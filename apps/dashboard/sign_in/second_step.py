"""Between the password and the session: somebody whose password held, and who still owes a code."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth import login
from django.contrib.auth.signals import user_login_failed
from django.core import signing
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.accounts.sign_in.second_factor import has_second_factor, needs_second_factor, new_secret
from apps.core import clock

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
