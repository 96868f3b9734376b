"""The line of a feed that a subscription follows: whether a document goes on with it, and reading all of it again."""

from __future__ import annotations

import numpy as np

from apps.core.errors import FieldProblem
from apps.core.signing import BadDocument
from apps.federation.documents.wire_usage import State, UsageDocument, UsageHead
from apps.federation.models import HeldHour, Subscription
from apps.usage.buckets.hourly import HOUR_US
from apps.usage.models import SealedHour
from apps.usage.parsers.base import I8


def refuse_other_line(head: UsageHead, known: State | None) -> None:
    """known: the newest known state of the followed lineage, None where everything is read anew.

    Raises:
        BadDocument: the feed reached that number in another way (code forked) or reached an older one (older_version),
        or that can't be checked (other_question).
    """
    if known is None:
        return
    newest = head.newest.number
    if newest < known.number:
        message = f"is {newest}, but the feed was at {known.number} before: this is an old document"
        raise _refused("older_version", "newest.number", message)
    for where, told in (("seen", head.seen), ("newest", head.newest)):
        if told is not None and told.number == known.number:
            if told.mark != known.mark:
                message = f"differs from the one at {known.number}: the feed's history was forked"
                raise _refused(
                    "forked",
                    f"{where}.mark",
                    message,
                    "If the site was restored from a backup, reset the document history.",
                )
            return
    if head.since:  # else it tells all there is, in place of all that was taken
        message = f"is not from {known.number} as requested: continuity can't be verified"
        raise _refused("other_question", "seen.number", message)


def read_from_0(row: Subscription) -> None:
    """The next document sends everything, whatever was ingested before."""
    row.number, row.etag, row.seen_number, row.seen_mark, row.untold = 0, "", 0, "", []


def hours_left_out(row: Subscription, document: UsageDocument) -> I8:
    """Hours (since 1970, ascending) that we have and that a reading from 0 hasn't delivered so far."""
    had = row.untold if document.head.since else _hours_here(row)
    return np.setdiff1d(np.array(had, np.int64), document.hours)


def _hours_here(row: Subscription) -> list[int]:
    """Those with usage of it, and those that are held."""
    hours = set(SealedHour.objects.filter(source_id=row.source_id).values_list("hour_at", flat=True))
    hours.update(HeldHour.objects.filter(subscription=row).values_list("hour_at", flat=True))
    return [round(hour_at.timestamp() * 1e6) // HOUR_US for hour_at in hours]


def _refused(code: str, where: str, message: str, remedy: str = "") -> BadDocument:
    return BadDocument(f"{where} {message}. {remedy}".strip(), code=code, fields=[FieldProblem(where, message)])
