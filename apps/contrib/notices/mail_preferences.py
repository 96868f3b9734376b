"""What a person wants to get by mail: notices at once or together, and statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.notices.kinds import is_kind
from apps.contrib.notices.models import Mail, Preference
from apps.core.errors import FieldProblem, Invalid, NotAllowed


@dataclass(frozen=True, slots=True)
class MailSettings:
    """sends: whether this site sends mail at all. last: the newest message, or None."""

    preference: Preference
    address: str
    sends: bool
    last: Mail | None


def sends_mail() -> bool:
    return str(settings.FAIRSHARE_EMAIL) != "off"


def preference_of(user: User) -> Preference:
    """The user's stored settings, else the defaults."""
    return Preference.objects.filter(user=user).first() or Preference(user=user)


def get_mail_settings(*, actor: Actor) -> MailSettings:
    user = _person(actor)
    last = Mail.objects.filter(user=user).exclude(state=Mail.State.EMPTY).order_by("-pk").first()
    return MailSettings(preference_of(user), user.email, sends_mail(), last)


def set_preference(*, interval: str, hour: int, muted: Sequence[str], actor: Actor) -> Preference:
    user = _person(actor)
    problems = []
    if interval not in Preference.Interval.values:
        problems.append(FieldProblem("interval", f"is one of {', '.join(Preference.Interval.values)}"))
    if isinstance(hour, bool) or not 0 <= hour <= 23:
        problems.append(FieldProblem("hour", "is a whole number from 0 to 23"))
    problems += [FieldProblem("muted", f"{name[:40]!r} is no kind of notice") for name in muted if not is_kind(name)]
    if problems:
        raise Invalid(f"{problems[0].where} {problems[0].message}.", fields=problems)
    values = {"interval": interval, "hour": hour, "muted": sorted(set(muted))}
    return Preference.objects.update_or_create(user=user, defaults=values)[0]


def set_statement_mail(*, wanted: bool, at: datetime, actor: Actor) -> None:
    """Switch monthly statements by mail on, for months closed from now on, or off."""
    user = _person(actor)
    row, _is_new = Preference.objects.get_or_create(user=user)
    if wanted != (row.statements_since is not None):
        row.statements_since = at if wanted else None
        row.save(update_fields=["statements_since"])


def _person(actor: Actor) -> User:
    if actor.user is None or actor.token is not None:
        raise NotAllowed("People choose for themselves how they are written to: sign in.", code="session_only")
    return actor.user
