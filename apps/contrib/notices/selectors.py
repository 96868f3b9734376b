"""Notices as one user reads them: open, unread, snoozed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from apps.accounts.actor import Actor
from apps.contrib.notices.kind import Kind, Sentence
from apps.contrib.notices.kinds import is_visible, kind_of
from apps.contrib.notices.models import Mark, Notice
from apps.contrib.notices.visibility import Reader
from apps.core.errors import FieldProblem, Invalid, NotAllowed, NotFound

STATES = ("open", "unread", "snoozed", "closed")
MOST_SEARCHED_NOTICES = 500  # notices searched for one page
LONGEST_SNOOZE = timedelta(days=366)
_FIRST = {"bad": 0, "warn": 1, "info": 2}

# Ids of the newest open notices that a user has neither read nor snoozed, whether they may see them or not.
# As `_open`, `_has_news` and `_is_snoozed` decide it; parameters: user, at.
UNREAD_IDS = f"""
SELECT recent.id FROM (
    SELECT notice.id, notice.news_at FROM notices_notice AS notice
    LEFT JOIN policies_policy AS policy ON policy.id = notice.policy_id
    LEFT JOIN usage_source AS source ON source.id = notice.source_id
    WHERE notice.closed_at IS NULL AND policy.archived_at IS NULL AND source.archived_at IS NULL
    ORDER BY notice.id DESC LIMIT {MOST_SEARCHED_NOTICES}
) AS recent
LEFT JOIN notices_mark AS mark ON mark.notice_id = recent.id AND mark.user_id = %(user)s
WHERE (mark.read_at IS NULL OR mark.read_at < recent.news_at)
    AND (mark.snoozed_until IS NULL OR mark.snoozed_until <= %(at)s)
"""  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class NoticeLine:
    """One notice with its reader's marks."""

    notice: Notice
    kind: Kind
    sentence: Sentence
    is_unread: bool
    snoozed_until: datetime | None


def list_open_notices(actor: Actor, at: datetime, limit: int = 20) -> list[NoticeLine]:
    """Open notices without snoozed ones, the worst and newest first."""
    lines = list(_lines(_open(), Reader(actor, at)))
    return sorted((line for line in lines if line.snoozed_until is None), key=_worst_first)[:limit]


def list_notices(
    *,
    state: str = "open",
    kind: str = "",
    policy: str = "",
    before: int | None = None,
    limit: int = MOST_SEARCHED_NOTICES,
    at: datetime,
    actor: Actor,
) -> list[NoticeLine]:
    """Notices, newest first. state: open ones without snoozed ones, unread, snoozed, or closed."""
    if state not in STATES:
        message = f"is one of {', '.join(STATES)}"
        raise Invalid(f"state {message}.", fields=[FieldProblem("state", message)])
    notices = Notice.objects.exclude(closed_at=None) if state == "closed" else _open()
    if kind:
        notices = notices.filter(kind=kind_of(kind).name)
    if policy:
        notices = notices.filter(policy__slug=policy) if "\0" not in policy else notices.none()
    if before is not None:
        notices = notices.filter(pk__lt=before)
    wanted = []
    for line in _lines(notices, Reader(actor, at)):
        if _is_in(line, state):
            wanted.append(line)
        if len(wanted) >= limit:
            break
    return wanted


def count_unread(*, at: datetime, actor: Actor, ids: Sequence[int] | None = None) -> int:
    """Number of unread notices that the actor may see. Every page calls it: rights are loaded only if any is unread.

    ids: the result of UNREAD_IDS, if the caller has run it as part of another query.
    """
    if actor.user is None:
        return 0
    if ids is None:
        with connection.cursor() as cursor:
            cursor.execute(UNREAD_IDS, {"user": actor.user.pk, "at": at})
            ids = [id for (id,) in cursor.fetchall()]
    if not ids:
        return 0
    reader = Reader(actor, at)
    return sum(is_visible(reader, notice) for notice in _open().filter(pk__in=ids))


def get_notice(*, id: int, at: datetime, actor: Actor) -> NoticeLine:
    notices = Notice.objects.filter(pk=id) if 0 < id < 2**63 else Notice.objects.none()
    line = next(_lines(notices, Reader(actor, at)), None)
    if line is None:
        raise NotFound(f"There is no notice {id}.")
    return line


def mark_read(*, ids: Sequence[int], at: datetime, actor: Actor) -> int:
    """Returns how many were marked. Raises NotFound for notices that the actor can't see."""
    return _mark([get_notice(id=id, at=at, actor=actor).notice for id in ids], actor, read_at=at)


def mark_all_read(*, up_to: int, at: datetime, actor: Actor) -> int:
    """Mark all open notices up to this id, the newest that the reader saw, so that later ones stay unread."""
    lines = list_notices(state="unread", at=at, actor=actor)
    return _mark([line.notice for line in lines if line.notice.pk <= up_to], actor, read_at=at)


def mark_unread(*, id: int, at: datetime, actor: Actor) -> int:
    return _mark([get_notice(id=id, at=at, actor=actor).notice], actor, read_at=None)


def snooze(*, id: int, until: datetime | None, at: datetime, actor: Actor) -> int:
    """Hide a notice until an instant; None shows it again. If it is still open then, it is reported once more."""
    if until is not None and not at < until <= at + LONGEST_SNOOZE:
        message = "must be in the future, at most a year ahead"
        raise Invalid(f"until {message}.", fields=[FieldProblem("until", message)])
    return _mark([get_notice(id=id, at=at, actor=actor).notice], actor, snoozed_until=until)


def _mark(notices: Sequence[Notice], actor: Actor, **values: Any) -> int:
    if actor.user is None:
        raise NotAllowed("Only people read notices.")
    with transaction.atomic():
        for notice in sorted(notices, key=lambda notice: notice.pk):
            Mark.objects.update_or_create(user=actor.user, notice=notice, defaults=values)
    return len(notices)


def _open() -> QuerySet[Notice]:
    notices = Notice.objects.filter(closed_at=None, policy__archived_at=None, source__archived_at=None)
    return notices.select_related("policy", "source").order_by("-pk")


def _lines(notices: QuerySet[Notice], reader: Reader) -> Iterator[NoticeLine]:
    newest = list(notices.select_related("policy", "source").order_by("-pk")[: 4 * MOST_SEARCHED_NOTICES])
    marks = _marks_of(reader, newest)
    for notice in newest:
        if is_visible(reader, notice):
            mark, kind = marks.get(notice.pk), kind_of(notice.kind)
            until = mark.snoozed_until if mark and _is_snoozed(mark, reader.at) else None
            yield NoticeLine(notice, kind, kind.describe(notice.facts), _is_unread(notice, mark), until)


def _marks_of(reader: Reader, notices: Iterable[Notice]) -> dict[int, Mark]:
    if reader.user_id is None:
        return {}
    marks = Mark.objects.filter(user_id=reader.user_id, notice__in=[notice.pk for notice in notices])
    return {mark.notice_id: mark for mark in marks}


def _is_unread(notice: Notice, mark: Mark | None) -> bool:
    return notice.closed_at is None and (mark is None or mark.read_at is None or mark.read_at < notice.news_at)


def _is_snoozed(mark: Mark | None, at: datetime) -> bool:
    return mark is not None and mark.snoozed_until is not None and mark.snoozed_until > at


def _is_in(line: NoticeLine, state: str) -> bool:
    if state == "closed":
        return True
    if state == "snoozed":
        return line.snoozed_until is not None
    return line.snoozed_until is None and (state == "open" or line.is_unread)


def _worst_first(line: NoticeLine) -> tuple[int, float]:
    return _FIRST[line.notice.level], -line.notice.news_at.timestamp()
