"""Mail about notices: one message per user and period, stored before it is sent.

A row is unique by user and period. It is reserved, sent, and marked as sent. If a worker dies in between, the next one
sends the same message again with the same Message-ID, which mail programs discard: at least one delivery, shown once.
The text is composed when it is sent, with the permissions of that time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.accounts.clock_watch import believed
from apps.accounts.models import User
from apps.contrib.notices.mail import address, make_message, one_line
from apps.contrib.notices.mail_preferences import preference_of, sends_mail
from apps.contrib.notices.models import Mail, Notice, Preference
from apps.contrib.notices.selectors import NoticeLine, list_open_notices
from apps.contrib.notices.statements import mail as statement_mail
from apps.core.mail_server import UNDER_WAY, ServerDown, is_down
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run

RUN_KIND = "mails"
MOST_MAILS_AT_ONCE = 200  # messages in one run of the task
LONGEST_MAIL_RUN_S = 10.0  # no message is started later in a run, which occupies a worker
MOST_DIGEST_LINES = 50
MOST_MAIL_ATTEMPTS = 6  # immediately, and 5, 15, 35, 75 and 155 minutes later
_BACK_OFF = timedelta(minutes=5)
_REPEAT_AFTER = timedelta(days=1)  # a failed immediate message is repeated after this time
_KEPT = timedelta(days=90)
_AT_ONCE = "at "  # prefix of the period of an immediate message
_LONGEST_SUBJECT = 120  # characters of the first sentence
Interval, State = Preference.Interval, Mail.State


logger = logging.getLogger(__name__)


def plan_mails(*, at: datetime) -> int:
    """Store a message for every user whose sending time has come; returns how many are to be sent."""
    if not sends_mail():
        return 0
    Mail.objects.filter(created_at__lt=believed(at) - _KEPT, listed=[]).delete()
    n_planned = statement_mail.plan_statements(at=at)
    if not Notice.objects.filter(closed_at=None).exists():
        return n_planned
    for n_seen, (user, period) in enumerate(_due(at)):
        if n_seen == MOST_MAILS_AT_ONCE:
            break
        n_planned += _plan(user, period, at)
    return n_planned


def _due(at: datetime) -> Iterator[tuple[User, str]]:
    """Users and the period for which they have no message yet; "" for immediate mail."""
    local = timezone.localtime(at)
    year, week, weekday = local.isocalendar()
    day, week_name = f"{local:%Y-%m-%d}", f"{year}-W{week:02}"
    done = set(Mail.objects.filter(period__in=[day, week_name]).values_list("user_id", "period"))
    people = User.objects.filter(is_active=True).exclude(email="").select_related("notice_preference").order_by("pk")
    for user in people.iterator():
        chosen = getattr(user, "notice_preference", None) or Preference(user=user)
        is_hour = local.hour >= chosen.hour
        if chosen.interval == Interval.AT_ONCE:
            yield user, ""
        elif chosen.interval == Interval.DAILY and is_hour and (user.pk, day) not in done:
            yield user, day
        elif chosen.interval == Interval.WEEKLY and (weekday > 1 or is_hour) and (user.pk, week_name) not in done:
            yield user, week_name


def _plan(user: User, period: str, at: datetime) -> bool:
    with transaction.atomic():
        Preference.objects.select_for_update(no_key=True).filter(user=user).first()  # lock: one plan per user at a time
        news = _news(user, period, at)
        if not news and not period:
            return False
        state = State.WAITING if news else State.EMPTY
        period = period or f"{_AT_ONCE}{at.isoformat()}"
        row = Mail(user=user, period=period[:40], listed=news, state=state, due_at=at, created_at=at)
        Mail.objects.bulk_create([row], ignore_conflicts=True)
    return bool(news)


def _news(user: User, period: str, at: datetime) -> list[str]:
    """Keys of news that no message contained, or only messages that failed.

    An immediate message repeats failed news together with new ones, or a day after the failure.
    """
    sent: set[str] = set()
    lost: dict[str, datetime] = {}
    for state, keys, due_at in Mail.objects.filter(user=user).order_by("pk").values_list("state", "listed", "due_at"):
        if state == State.FAILED:
            lost |= dict.fromkeys(keys, due_at)
        else:
            sent.update(keys)
    unsent = sorted(key for key in map(key_of, _wanted(user, at)) if key not in sent)
    is_due = bool(period) or any(key not in lost or lost[key] <= at for key in unsent)
    return unsent if is_due else []


def _wanted(user: User, at: datetime) -> list[NoticeLine]:
    """The user's open and unread notices of kinds that are chosen for mail."""
    muted = set(preference_of(user).muted)
    lines = list_open_notices(Actor(user=user, via="worker"), at, limit=500)
    return [line for line in lines if line.is_unread and line.kind.name not in muted]


def key_of(line: NoticeLine) -> str:
    """Identifies one piece of news of one notice."""
    return f"{line.notice.pk} {line.notice.news_at.isoformat()}"


def request_mails(*, at: datetime) -> None:
    """Start a run if a message is due."""
    if sends_mail() and Mail.objects.filter(state=State.WAITING, due_at__lte=at).exists():
        enqueue_run(kind=RUN_KIND, subject="site", at=at)


def run_mails(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `mails`."""
    return {"sent": send_mails(at=lease.clock())}


def send_mails(*, at: datetime) -> int:
    """Send waiting messages and return how many were sent. Each is reserved first, and sent without a transaction."""
    n_sent = n_tried = 0
    began_s = time.monotonic()
    while sends_mail() and n_tried < MOST_MAILS_AT_ONCE and time.monotonic() - began_s < LONGEST_MAIL_RUN_S:
        mail = _reserve_next(at)
        if mail is None:
            break
        n_tried += 1
        try:
            n_sent += _send(mail, at)
        except ServerDown:
            n_tried = MOST_MAILS_AT_ONCE  # the others would time out as well; they are sent in the next run
        mail.save()
    return n_sent


@transaction.atomic
def _reserve_next(at: datetime) -> Mail | None:
    """The next message that is due, which is not due for others while it is being sent."""
    waiting = Mail.objects.select_for_update(skip_locked=True, of=("self",), no_key=True).select_related("user")
    mail = waiting.filter(state=State.WAITING, due_at__lte=at).order_by("due_at", "pk").first()
    if mail is not None:
        Mail.objects.filter(pk=mail.pk).update(due_at=at + UNDER_WAY)
    return mail


def _send(mail: Mail, at: datetime) -> bool:
    """Send one message and set the result on the row, which the caller stores. Raises ServerDown after setting it."""
    compose = statement_mail.compose if mail.is_statement else _compose
    message = compose(mail, at) if mail.user.is_active else None
    if message is None:
        mail.state = State.EMPTY
        return False
    try:
        validate_email(mail.user.email)
        if not mail.user.email.isprintable():  # Django's check accepts Unicode line separators
            raise ValidationError("The address is none.")
        message.send(fail_silently=False)
    except ValidationError:
        mail.state, mail.error, mail.due_at = State.FAILED, "The address is none.", at + _REPEAT_AFTER
        return False
    except Exception as error:  # a failure of one message doesn't stop the others
        logger.warning("Mail %s can't be sent now: %s", mail.pk, type(error).__name__)
        mail.attempts += 1
        mail.error = f"{type(error).__name__}"[:256]
        has_failed = mail.attempts >= MOST_MAIL_ATTEMPTS
        mail.due_at = at + (_REPEAT_AFTER if has_failed else _BACK_OFF * 2 ** (mail.attempts - 1))
        mail.state = State.FAILED if has_failed else State.WAITING
        if is_down(error):
            raise ServerDown from error
        return False
    mail.state, mail.sent_at, mail.error = State.SENT, at, ""
    return True


def _compose(mail: Mail, at: datetime) -> EmailMessage | None:
    """The message with the reader's present permissions; None if nothing is left to report.

    An immediate message contains only the news.
    """
    lines = _wanted(mail.user, at)
    news = [line for line in lines if key_of(line) in set(mail.listed)]
    if not news or preference_of(mail.user).interval == Interval.OFF:
        return None
    known = {line.notice.pk for line in news}
    older = [] if mail.period.startswith(_AT_ONCE) else [line for line in lines if line.notice.pk not in known]
    parts = [_listed(_("New"), news), _listed(_("Still open and unread"), older)]
    parts.append(_("All of them: %(address)s") % {"address": address("/notices/")})
    return make_message(mail, _subject(news), parts)


def _subject(news: list[NoticeLine]) -> str:
    """The worst piece of news, and how many there are."""
    text, n = one_line(news[0].sentence.text), len(news)
    first = text if len(text) <= _LONGEST_SUBJECT else f"{text[:_LONGEST_SUBJECT]}…"
    if n > 1:
        text = ngettext("%(n)s new notice: %(first)s", "%(n)s new notices: %(first)s", n)
        return text % {"n": n, "first": first}
    return first


def _listed(title: str, lines: list[NoticeLine]) -> str:
    if not lines:
        return ""
    items = [
        f"- {one_line(line.sentence.text)}\n  {address(f'/notices/{line.notice.pk}/')}"
        for line in lines[:MOST_DIGEST_LINES]
    ]
    if len(lines) > MOST_DIGEST_LINES:
        items.append(f"- {_('and %(n)s more') % {'n': len(lines) - MOST_DIGEST_LINES}}")
    return "\n".join([f"{title}:", *items])
