"""Monthly statements by mail: one message per subscribed user, policy and month, after the month is closed.

It covers the entries at which the user holds a role and those of their accounts, as the statements page shows them to
the user when the message is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from uuid import UUID

from django.core.mail import EmailMessage
from django.db.models import Max, Min
from django.utils import formats
from django.utils.text import slugify
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.notices.mail import address, make_message, one_line
from apps.contrib.notices.models import Mail, Preference, Statement
from apps.contrib.notices.statements.selectors import StatementLine, get_statements
from apps.core.errors import DomainError
from apps.policies.access.scope import grants_of
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.priorities.selectors.rows import open_view
from apps.priorities.sentences.numbers import UNKNOWN, number
from apps.series.months import Month
from apps.web.shell.presentation import hour_unit

_RECENT = timedelta(days=30)  # after the end of a month; later it isn't sent
_MOST_MAILED_ENTRIES = 50
_HOUR_S = 3600.0


def plan_statements(*, at: datetime) -> int:
    """Store messages for users and policies with a month closed since the subscription; failed ones are retried.

    Returns how many messages are to be sent.
    """
    people = Preference.objects.filter(statements_since__isnull=False, user__is_active=True).exclude(user__email="")
    n_planned = 0
    for policy_id, month, closed_at in _closed(at):
        period = f"{Mail.STATEMENT}{month.text} {policy_id}"
        for user_id in people.filter(statements_since__lt=closed_at).values_list("user_id", flat=True):
            _row, is_new = Mail.objects.get_or_create(
                user_id=user_id, period=period, defaults={"due_at": at, "created_at": at}
            )
            n_planned += is_new
        failed = Mail.objects.filter(period=period, state=Mail.State.FAILED, due_at__lte=at)
        n_planned += failed.update(state=Mail.State.WAITING, attempts=0)
    return n_planned


def _closed(at: datetime) -> Iterator[tuple[int, Month, datetime]]:
    """(policy id, newest closed month, when it was closed) of policies whose month was closed recently."""
    newest = Statement.objects.values_list("policy_id").annotate(month_on=Max("month_on")).order_by()
    for policy_id, month_on in newest:
        rows = Statement.objects.filter(policy_id=policy_id, month_on=month_on)
        closed_at = rows.aggregate(at=Min("closed_at"))["at"]
        if at - closed_at <= _RECENT:
            yield policy_id, Month(month_on), closed_at


def compose(mail: Mail, at: datetime) -> EmailMessage | None:
    """The message; None if the user no longer wants it or sees nothing of the policy."""
    wanted = Preference.objects.filter(user=mail.user, statements_since__isnull=False).exists()
    text, _space, policy_id = mail.period.removeprefix(Mail.STATEMENT).partition(" ")
    policy = Policy.objects.filter(pk=int(policy_id)).first()
    if not wanted or policy is None:
        return None
    month, actor = Month(date.fromisoformat(f"{text}-01")), Actor(user=mail.user, via="worker")
    lines = _lines(policy, month, actor, at)
    if not lines:
        return None
    words = {"month": formats.date_format(month.first_on, "F Y"), "policy": policy.name}
    words["unit"] = hour_unit(settings_of(policy, policy.head_number).metric)
    intro = _("Usage of %(month)s in %(policy)s, amounts in %(unit)s.") % words
    parts = [intro, *(_line_text(policy, line) for line in lines)]
    return make_message(mail, _("Statement for %(month)s: %(policy)s") % words, parts)


def _lines(policy: Policy, month: Month, actor: Actor, at: datetime) -> list[StatementLine]:
    """Statements by path; for a role at the whole policy, of the entries below its root."""
    assert actor.user is not None  # noqa: S101 - says so to the type checker
    line_of_uid: dict[UUID, StatementLine] = {}
    try:
        view = open_view(policy_slug=policy.slug, actor=actor)
        uids = [*grants_of(policy, actor.user, at).values_list("entry_uid", flat=True)]
        for uid in dict.fromkeys([*uids, *map(view.tree.uuid, view.own_entries)]):
            if view.tree.index_of_uid(uid) is None:
                continue
            page = get_statements(policy_slug=policy.slug, uid=uid, month=month.text, actor=actor)
            line_of_uid |= {line.uid: line for line in (page.children if page.is_root else [page.chosen])}
    except DomainError:  # no longer visible
        return []
    return sorted(line_of_uid.values(), key=lambda line: line.path)[:_MOST_MAILED_ENTRIES]


def _line_text(policy: Policy, line: StatementLine) -> str:
    name = slugify(line.name) or "entry"
    link = address(f"/policy/{policy.slug}/n/{line.uid}/{name}/statements/?month={line.month.text}")
    in_units = ", ".join(f"{_hours(each.delivered * _HOUR_S)} {each.unit}" for each in line.in_units)
    amounts = f"{_amounts(line)}\n  {in_units}" if in_units else _amounts(line)
    return f"{one_line(line.path)}\n  {amounts}\n  {link}"


def _amounts(line: StatementLine) -> str:
    if line.suppressed:
        return _("not shown")
    if line.figures is None:
        return UNKNOWN
    figures = line.figures
    amounts = [
        (_("Entitled"), figures.entitled),
        (_("Used"), figures.used),
        (_("Lent"), figures.lent),
        (_("Missed"), figures.missed),
        (_("No data"), figures.unclear),
        (_("Borrowed"), figures.borrowed),
    ]
    return ", ".join(f"{word} {_hours(amount)}" for word, amount in amounts)


def _hours(core_s: float) -> str:
    hours = core_s / _HOUR_S
    return number(hours, 1 if 0 < hours < 10 else 0) if hours >= 0 else UNKNOWN
