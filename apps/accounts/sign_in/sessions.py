"""Database sessions with a user column (the engine of `SESSION_ENGINE`), and services for listing and ending own
sessions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db import transaction
from django.db.models.functions import Now
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.accounts.clock_watch import believed
from apps.accounts.models import Session, User
from apps.core.errors import NotAllowed, NotFound

BEGUN = "begun"  # key of the session data with time, address and browser of the sign-in
_LONGEST_AGENT = 300


class SessionStore(DatabaseStore):
    """Django's session store, with the user in a column of its own, which is read with the session."""

    user: User | None = None  # of the session in the database, once it is loaded

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: Mapping[str, Any]) -> Session:
        row: Session = super().create_model_instance(data)  # type: ignore[arg-type, assignment]
        row.user_id = int(data[SESSION_KEY]) if data.get(SESSION_KEY) else None
        return row

    def _get_session_from_db(self) -> Session | None:
        rows = Session.objects.select_related("user").filter(session_key=self.session_key)
        row = rows.filter(expire_date__gt=Now()).first() if self.session_key else None
        if row is None:
            self._session_key = None
        else:
            self.user = row.user
        return row


def user_of(session: SessionStore) -> User | None:
    """The signed-in user of a session without a query of its own; None where Django's `get_user` has to decide."""
    session.get(SESSION_KEY)  # loads it
    return session.user if session.user is not None and is_signed_in(session, session.user) else None


def is_signed_in(session: SessionStore | Mapping[str, Any], user: User) -> bool:
    """As `django.contrib.auth.get_user` decides; False for a session that was signed with an older secret key."""
    return bool(
        session.get(SESSION_KEY) == str(user.pk)
        and session.get(BACKEND_SESSION_KEY) in settings.AUTHENTICATION_BACKENDS
        and constant_time_compare(session.get(HASH_SESSION_KEY, ""), _hash_of(user.password))
        and user.is_active
    )


@lru_cache(1024)
def _hash_of(password: str) -> str:
    """password: as stored, which is a hash."""
    return User(password=password).get_session_auth_hash()


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session of the actor. `name` is derived from its key, which must not be displayed.

    began_at is None, and address and agent are empty, for a session that didn't begin with the sign-in form.
    """

    name: str
    is_this_one: bool
    began_at: datetime | None
    expires_at: datetime
    address: str
    agent: str


def store_sign_in_details(session: Any, *, at: datetime, address: str, agent: str) -> None:
    """Store time, address and browser of the sign-in in the session, to be deleted with it."""
    session[BEGUN] = [at.timestamp(), address, agent[:_LONGEST_AGENT]]


def list_sessions(*, at: datetime, this_key: str, actor: Actor) -> list[SessionLine]:
    """The actor's valid sessions, the current one first, then the newest."""
    rows = Session.objects.filter(user=_person(actor), expire_date__gt=at).order_by("-expire_date")
    lines = [line for row in rows if (line := _describe(row, this_key, actor)) is not None]
    return sorted(lines, key=lambda line: not line.is_this_one)


def end_session(*, name: str, this_key: str, at: datetime, actor: Actor) -> None:
    """End a session of the actor other than the current one.

    Raises:
        NotFound: there is no such session of the actor.
    """
    with transaction.atomic():
        rows = Session.objects.select_for_update(no_key=True).filter(user=_person(actor)).exclude(session_key=this_key)
        session = next((row for row in rows if constant_time_compare(_name(row.session_key), name)), None)
        if session is None:
            raise NotFound(_("Not found, or not visible to you."))
        session.delete()
        record(actor=actor, verb="user.sessions_ended", at=at, subject=actor.name, details={"n_sessions": 1})


def end_other_sessions(*, this_key: str, at: datetime, actor: Actor) -> int:
    """End all sessions of the actor but the current one; returns their number."""
    with transaction.atomic():
        n_ended = delete_sessions(_person(actor), except_key=this_key)
        if n_ended:
            record(actor=actor, verb="user.sessions_ended", at=at, subject=actor.name, details={"n_sessions": n_ended})
    return n_ended


def delete_sessions(user: User, *, except_key: str) -> int:
    """Delete a user's sessions in the caller's transaction; the caller writes the audit row. Returns their number."""
    return Session.objects.filter(user=user).exclude(session_key=except_key).delete()[0]


def delete_expired(*, at: datetime) -> int:
    """Delete sessions that have expired; returns their number."""
    return Session.objects.filter(expire_date__lt=believed(at)).delete()[0]


def _describe(row: Session, this_key: str, actor: Actor) -> SessionLine | None:
    """Describe a session; None if a changed password has ended it."""
    data = SessionStore().decode(row.session_data)
    if actor.user is None or data.get(SESSION_KEY) != str(actor.user.pk):
        return None
    began_s, address, agent = data.get(BEGUN) or (None, "", "")
    began_at = None if began_s is None else datetime.fromtimestamp(began_s, UTC)
    return SessionLine(
        _name(row.session_key), row.session_key == this_key, began_at, row.expire_date, str(address), str(agent)
    )


def _name(key: str) -> str:
    return salted_hmac("accounts.session", key, algorithm="sha256").hexdigest()[:32]


def _person(actor: Actor) -> User:
    if actor.user is None or actor.token is not None:
        raise NotAllowed(_("Sign in to see your own sessions."), code="session_only")
    return actor.user
