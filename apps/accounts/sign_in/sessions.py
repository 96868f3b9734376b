"""Sessions in the database that know whose they are: the engine of `SESSION_ENGINE`, and people's own list of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db import transaction
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.accounts.models import Session, User
from apps.core.errors import NotAllowed, NotFound

BEGUN = "begun"  # where a session keeps when, from where and with what somebody signed in
_LONGEST_AGENT = 300


class SessionStore(DatabaseStore):
    """Django's, with the person beside the sealed data."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session

    def create_model_instance(self, data: Mapping[str, Any]) -> Session:
        row: Session = super().create_model_instance(data)  # type: ignore[arg-type, assignment]
        row.user_id = int(data[SESSION_KEY]) if data.get(SESSION_KEY) else None
        return row


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One of a person's sessions. `name` stands for its key, which is as good as a password.

    began_at is None, and address and agent are "", where it began without a form of sign-in.
    """

    name: str
    is_this_one: bool
    began_at: datetime | None
    expires_at: datetime
    address: str
    agent: str


def note_beginning(session: Any, *, at: datetime, address: str, agent: str) -> None:
    """Kept in the session itself, so that it goes with it."""
    session[BEGUN] = [at.timestamp(), address, agent[:_LONGEST_AGENT]]


def list_sessions(*, at: datetime, this_key: str, actor: Actor) -> list[SessionLine]:
    """The actor's own that still hold, this one first, then the newest."""
    rows = Session.objects.filter(user=_person(actor), expire_date__gt=at).order_by("-expire_date")
    lines = [line for row in rows if (line := _line(row, this_key, actor)) is not None]
    return sorted(lines, key=lambda line: not line.is_this_one)


def end_session(*, name: str, this_key: str, at: datetime, actor: Actor) -> None:
    """Ends one of the actor's own; the one they are in is ended by signing out. Raises NotFound."""
    with transaction.atomic():
        rows = Session.objects.select_for_update().filter(user=_person(actor)).exclude(session_key=this_key)
        found = next((row for row in rows if constant_time_compare(_name(row.session_key), name)), None)
        if found is None:
            raise NotFound(_("Not found, or not visible to you."))
        found.delete()
        record(actor=actor, verb="user.sessions_ended", at=at, subject=actor.name, details={"n_sessions": 1})


def end_other_sessions(*, this_key: str, at: datetime, actor: Actor) -> int:
    """Ends all of the actor's own but the one they are in; returns how many."""
    with transaction.atomic():
        n_ended = drop_sessions(_person(actor), but=this_key)
        if n_ended:
            record(actor=actor, verb="user.sessions_ended", at=at, subject=actor.name, details={"n_sessions": n_ended})
    return n_ended


def drop_sessions(user: User, *, but: str = "") -> int:
    """For services that end them with something else, in whose transaction and audit row this is."""
    return Session.objects.filter(user=user).exclude(session_key=but).delete()[0]


def _line(row: Session, this_key: str, actor: Actor) -> SessionLine | None:
    """None for one that a changed password has ended already."""
    said = SessionStore().decode(row.session_data)
    if actor.user is None or said.get(SESSION_KEY) != str(actor.user.pk):
        return None
    began_s, address, agent = said.get(BEGUN) or (None, "", "")
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
