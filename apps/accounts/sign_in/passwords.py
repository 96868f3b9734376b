"""Local passwords: change by their owner, reset by mail, and setting by an operator."""

from __future__ import annotations

import logging
import secrets
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from axes.utils import reset
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import transaction
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.accounts.clock_watch import believed
from apps.accounts.models import Identity, PasswordReset, User
from apps.accounts.sign_in.sessions import delete_sessions
from apps.core.clock import SKEW
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.core.invisible import visible
from apps.core.mail_server import UNDER_WAY, ServerDown, is_down

logger = logging.getLogger(__name__)

ASKED_EVERY = timedelta(minutes=10)  # at most one mail per user in this time
MOST_ADDRESSED = 5  # accounts with the same address that get a mail
_BACK_OFF = timedelta(minutes=1)
_GIVEN_UP = timedelta(hours=1)
_KEPT = timedelta(days=1)
_MOST_PASSWORD_MAILS_AT_ONCE = 50
_LONGEST_LOCKED = 255  # as in the table of failed attempts


def locked_name(_request: Any, credentials: Mapping[str, Any] | None) -> str:
    """Name under which failed attempts are counted: all spellings that a directory matches alike are one name.

    Directories ignore case, outer and repeated blanks, and characters without a glyph (RFC 4518, 2.2–2.6).
    """
    text = visible(unicodedata.normalize("NFKC", str((credentials or {}).get("username") or "")))
    return " ".join(unicodedata.normalize("NFKC", text.casefold()).split())[:_LONGEST_LOCKED]


def password_source(user: User) -> str:
    """Where a user's password is managed: "" for this service, else oidc, ldap, header or unknown."""
    if user.has_usable_password():
        return ""
    newest = Identity.objects.filter(user=user).order_by("-linked_at", "-pk").first()
    return str(newest.source) if newest is not None else "unknown"


def change_password(*, user: User, password: str, this_key: str, at: datetime, actor: Actor) -> None:
    """Change the password of its owner, who has confirmed the current one; ends all other sessions.

    Raises:
        NotAllowed: the actor is not the owner.
        Conflict: the password is managed elsewhere.
        Invalid: the validators reject it.
    """
    if actor.user is None or actor.user.pk != user.pk or actor.token is not None:
        raise NotAllowed(_("Users can change only their own password."))
    _set(user, password, verb="user.password_changed", but=this_key, at=at, actor=actor)


def reset_password(*, user: User, password: str, at: datetime, actor: Actor) -> None:
    """Set a new password after a link in a mail was opened; ends all sessions and the lock after failed attempts."""
    with transaction.atomic():
        _set(user, password, verb="user.password_reset", at=at, actor=actor)
        reset(username=locked_name(None, {"username": user.username}))


def set_password(*, username: str, password: str | None, at: datetime, actor: Actor) -> str | None:
    """Set a user's password, as an operator; ends all sessions. Without a password one is generated and returned."""
    if not actor.is_system:
        raise NotAllowed("Only an operator can do this, on the server.")
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username[:150]}.")
    made = None if password is not None else secrets.token_urlsafe(15)
    _set(user, password if password is not None else made or "", verb="user.password_set", at=at, actor=actor)
    return made


def unlock(*, username: str, at: datetime, actor: Actor) -> int:
    """Remove failed sign-in attempts under this name, from all addresses; returns the number of addresses."""
    if not actor.is_system:
        raise NotAllowed("Only an operator can do this, on the server.")
    with transaction.atomic():
        n_forgotten = int(reset(username=locked_name(None, {"username": username})))
        if not n_forgotten and not User.objects.filter(username=username).exists():
            raise NotFound(f"There is no user {username[:150]}.")
        if n_forgotten:
            record(actor=actor, verb="user.unlocked", at=at, subject=username, details={"n_addresses": n_forgotten})
    return n_forgotten


@transaction.atomic
def _set(user: User, password: str, *, verb: str, at: datetime, actor: Actor, but: str = "") -> None:
    held = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if password_source(held):
        message = _("%(name)s signs in elsewhere: the password is changed there.") % {"name": held.username}
        raise Conflict(message, code="password_elsewhere")
    try:
        validate_password(password, held)
    except ValidationError as error:
        problems = [FieldProblem("password", message) for message in error.messages]
        raise Invalid(" ".join(error.messages), fields=problems) from error
    user.set_password(password)
    user.save(update_fields=["password"])
    n_ended = delete_sessions(held, except_key=but)
    record(actor=actor, verb=verb, at=at, subject=held.username, details={"n_sessions": n_ended})


def resets_by_mail() -> bool:
    """Whether this site sends password reset mails: requires a mail server and a configured address of the site."""
    return str(settings.FAIRSHARE_EMAIL) != "off" and bool(settings.FAIRSHARE_URL)


def request_reset(*, address: str, at: datetime) -> None:
    """Plan a mail for each user with this address and a local password. Nothing is returned about them."""
    address = address.strip()
    if not resets_by_mail() or not address:
        return
    people = User.objects.filter(email__iexact=address, is_active=True).order_by("pk")[:MOST_ADDRESSED]
    for user in people:
        if user.has_usable_password():
            _plan_reset(user, at)


@transaction.atomic
def _plan_reset(user: User, at: datetime) -> None:
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if not PasswordReset.objects.filter(user=user, asked_at__gt=at - ASKED_EVERY, asked_at__lte=at + SKEW).exists():
        PasswordReset.objects.create(user=user, asked_at=at, due_at=at)


def send_resets(*, at: datetime) -> int:
    """Send planned mails; returns their number. Failures are retried for an hour, the validity of a link."""
    PasswordReset.objects.filter(asked_at__lt=believed(at) - _KEPT).delete()
    n_sent = n_tried = 0
    while n_tried < _MOST_PASSWORD_MAILS_AT_ONCE:
        asked = _reserve_next(at)
        if asked is None:
            break
        n_tried += 1
        try:
            n_sent += _send_reset(asked, at)
        except ServerDown:
            n_tried = _MOST_PASSWORD_MAILS_AT_ONCE  # the others use the same server: retry them at the next run
        asked.save()
    return n_sent


@transaction.atomic
def _reserve_next(at: datetime) -> PasswordReset | None:
    """The next mail that is due, which is not due for others while it is being sent."""
    waiting = PasswordReset.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
    asked = waiting.select_related("user").filter(ended_at=None, due_at__lte=at).order_by("due_at", "pk").first()
    if asked is not None:
        PasswordReset.objects.filter(pk=asked.pk).update(due_at=at + UNDER_WAY)
    return asked


def _send_reset(asked: PasswordReset, at: datetime) -> bool:
    """Send one mail and set the result on the row, which the caller saves.

    Raises:
        ServerDown: the mail server is down; the result is set.
    """
    user = asked.user
    asked.ended_at = at
    if at - asked.asked_at > _GIVEN_UP or not user.is_active or not user.has_usable_password():
        return False
    try:
        validate_email(user.email)
        _reset_mail(user).send(fail_silently=False)
    except ValidationError:
        return False
    except Exception as error:  # whatever happened, the next message is sent
        logger.warning("The mail of password reset %s can't be sent now: %s", asked.pk, type(error).__name__)
        asked.attempts += 1
        asked.ended_at, asked.due_at = None, at + _BACK_OFF * 2 ** (asked.attempts - 1)
        if is_down(error):
            raise ServerDown from error
        return False
    return True


def _reset_mail(user: User) -> EmailMessage:
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    path = reverse("pages:password-reset-confirm", kwargs={"uidb64": uid, "token": token})
    lines = [
        _("A new password was requested for %(name)s on %(site)s.")
        % {"name": user.username, "site": settings.FAIRSHARE_SITE},
        _("Set it here within an hour: %(address)s") % {"address": f"{settings.FAIRSHARE_URL.rstrip('/')}{path}"},
        _("If it wasn’t you, do nothing: your password stays as it is."),
    ]
    return EmailMessage(
        subject=" ".join((_("[%(site)s] New password") % {"site": settings.FAIRSHARE_SITE}).split()),
        body="\n\n".join(lines) + "\n",
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[user.email],
        headers={"Auto-Submitted": "auto-generated"},
    )
