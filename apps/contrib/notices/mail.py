"""Common parts of all mail: headers, unsubscribe links, and whether messages are being delivered."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMessage
from django.db.models import Count, Max, Q
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.contrib.notices.models import Mail, Preference
from apps.core.errors import NotFound

_SALT = "notices.unsubscribe"
_STATEMENTS = "statements"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\s]+")

# Used by readiness, metrics and notices.
State = Mail.State


def make_message(mail: Mail, subject: str, parts: Sequence[str]) -> EmailMessage:
    """A message without secrets. parts: paragraphs of its text; empty ones are left out."""
    stop = unsubscribe_address(mail.user, is_statement=mail.is_statement)
    closing = [
        _("Mail settings: %(address)s") % {"address": address("/notices/mail/")},
        _("Unsubscribe: %(address)s") % {"address": stop},
    ]
    headers = {"Message-ID": message_id(mail), "Auto-Submitted": "auto-generated"}
    if settings.FAIRSHARE_URL:
        headers["List-Unsubscribe"] = f"<{stop}>"
        headers["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"  # RFC 8058
    return EmailMessage(
        subject=one_line(f"[{settings.FAIRSHARE_SITE}] {subject}"),
        body="\n\n".join([*filter(None, parts), "\n".join(closing)]) + "\n",
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[mail.user.email],
        headers=headers,
    )


def message_id(mail: Mail) -> str:
    """Message-ID, equal for every attempt."""
    key = f"{settings.SECRET_KEY}:{mail.pk}:{mail.user_id}:{mail.period}"
    host = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"
    return f"<notices.{mail.pk}.{hashlib.sha256(key.encode()).hexdigest()[:24]}@{host}>"


def one_line(text: str) -> str:
    """The text without characters that start a line or a header."""
    return _CONTROL.sub(" ", text).strip()[:500]


def address(path: str) -> str:
    return f"{settings.FAIRSHARE_URL.rstrip('/')}{path}" if settings.FAIRSHARE_URL else path


def unsubscribe_address(user: User, *, is_statement: bool) -> str:
    """Signed link that stops this kind of mail without sign-in and does nothing else; it doesn't expire."""
    what = [user.pk, _STATEMENTS] if is_statement else user.pk
    return address(f"/notices/unsubscribe/{signing.dumps(what, salt=_SALT)}/")


def read_unsubscribe(token: str) -> tuple[User, bool]:
    """(user, whether the link is about statements instead of notices). Raises NotFound."""
    try:
        what = signing.loads(token, salt=_SALT)
    except signing.BadSignature:
        what = None
    is_statement = isinstance(what, list)
    number = what[0] if is_statement else what
    user = User.objects.filter(pk=number, is_active=True).first() if isinstance(number, int) else None
    if user is None:
        raise NotFound(_("This link is not valid."))
    return user, is_statement


def unsubscribe(token: str) -> None:
    """Stop this kind of mail; other settings are unchanged. Safe to run twice."""
    user, is_statement = read_unsubscribe(token)
    stopped: dict[str, Any] = {"statements_since": None} if is_statement else {"interval": Preference.Interval.OFF}
    Preference.objects.update_or_create(user=user, defaults=stopped)


@dataclass(frozen=True, slots=True)
class FailingMail:
    """n: messages whose last attempt failed. since_at: when the oldest was stored. error: of the newest."""

    n: int
    since_at: datetime
    error: str


def failing_mail() -> FailingMail | None:
    """Messages that wait for another attempt, and those abandoned after the last message that was sent.

    Messages to invalid addresses were never attempted, and don't count.
    """
    if str(settings.FAIRSHARE_EMAIL) == "off":
        return None
    sent_at = Mail.objects.aggregate(at=Max("sent_at"))["at"]
    abandoned = Q(state=State.FAILED)
    if sent_at is not None:
        abandoned &= Q(created_at__gt=sent_at)
    failing = list(
        Mail.objects.filter(Q(state=State.WAITING) | abandoned, attempts__gt=0)
        .order_by("created_at", "pk")
        .values_list("created_at", "error")
    )
    return FailingMail(len(failing), failing[0][0], failing[-1][1]) if failing else None


def count_mails() -> Mapping[str, int]:
    """Number of stored messages by state."""
    counts = dict(Mail.objects.exclude(state=State.EMPTY).values_list("state").annotate(n=Count("pk")).order_by())
    return {state: counts.get(state, 0) for state in (State.WAITING, State.SENT, State.FAILED)}
