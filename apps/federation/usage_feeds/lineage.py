"""Whether a feed is the one that was read before, and which hours it hasn't delivered."""

from __future__ import annotations

import numpy as np

from apps.core.errors import FieldProblem
from apps.core.signing import BadDocument
from apps.federation.documents.wire_usage import State, UsageDocument, UsageHead
from apps.federation.models import HeldHour, Subscription
from apps.usage.bucket_deltas import HOUR_US
from apps.usage.models import SealedHour
from apps.usage.parsers.base import I8


def refuse_other_lineage(head: UsageHead, known: State | None) -> None:
    """Reject a document that doesn't continue the known lineage.

    known: the newest known state of the followed lineage, None if everything is read again.

    Raises:
        BadDocument: the feed has another mark at that number (code forked), is at an earlier number (older_version), or
        continuity can't be verified (other_question).
    """
    if known is None:
        return
    newest = head.newest.number
    if newest < known.number:
        message = f"is {newest}, but the feed was at {known.number} before: this is an old document"
        raise _refused("older_version", "newest.number", message)
    for where, reported in (("seen", head.seen), ("newest", head.newest)):
        if reported is not None and reported.number == known.number:
            if reported.mark != known.mark:
                message = f"differs from the one at {known.number}: the feed's history was forked"
                raise _refused(
                    "forked",
                    f"{where}.mark",
                    message,
                    "If the site was restored from a backup, reset the document history.",
                )
            return
    if head.since:  # a reading from 0 contains everything, and replaces what was ingested
        message = f"is not from {known.number} as requested: continuity can't be verified"
        raise _refused("other_question", "seen.number", message)


def read_from_0(row: Subscription) -> None:
    """Read everything again with the next document, whatever was ingested before."""
    row.number, row.etag, row.seen_number, row.seen_mark, row.untold = 0, "", 0, "", []


def undelivered_hours(row: Subscription, document: UsageDocument) -> I8:
    """Stored hours (since 1970, ascending) that a reading from 0 hasn't delivered so far."""
    had = row.untold if document.head.since else _hours_here(row)
    return np.setdiff1d(np.array(had, np.int64), document.hours)


def _hours_here(row: Subscription) -> list[int]:
    """Hours with ingested usage, and held hours."""
    hours = set(SealedHour.objects.filter(source_id=row.source_id).values_list("hour_at", flat=True))
    hours.update(HeldHour.objects.filter(subscription=row).values_list("hour_at", flat=True))
    return [round(hour_at.timestamp() * 1e6) // HOUR_US for hour_at in hours]


def _refused(code: str, where: str, message: str, remedy: str = "") -> BadDocument:
    return BadDocument(f"{where} {message}. {remedy}".strip(), code=code, fields=[FieldProblem(where, message)])
