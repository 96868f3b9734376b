"""The signed documents of a feed: what changed since the number that a reader names.

A document is put together from what the last build stored, so that reading compares nothing and writes nothing. Its
times are those of the build: two readers of the same number get the same bytes, and a feed that is no longer built
expires. A reader who names its last number gets the hours that changed since, completely, and replaces its own.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import connection

from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound, TooLarge, Unavailable
from apps.core.postgresql import consistent_read
from apps.core.signing import sign_document
from apps.federation.documents.site_keys import load_keys
from apps.federation.documents.wire_usage import (
    MOST_DOCUMENT_ENTRIES,
    MOST_RUNNING,
    Enforced,
    UsageDocument,
    UsageHead,
    write_usage,
)
from apps.federation.models import FeedHour, FeedRunning, Mount, SiteKey, UsageFeed
from apps.federation.publishing import own_name, require_entry
from apps.federation.usage_feeds.feed_build import load_states
from apps.federation.usage_feeds.feed_sums import hour_of
from apps.federation.usage_feeds.stored_rows import unique_uids, unpack_hours, unpack_running

_BY_NUMBER = """
SELECT number, sum(n_rows)::int8 FROM federation_feedhour WHERE feed_id = %s AND number > %s
GROUP BY number ORDER BY number
"""


@dataclass(frozen=True)
class SignedFeed:
    """A signed document as sent. number: the state that it leads to."""

    data: bytes
    etag: str
    number: int


def read_feed(
    feed: UsageFeed, *, since: int, seen: int | None = None, known_etag: str = "", at: datetime
) -> SignedFeed | None:
    """Changes since a number, or everything for 0; None if the caller's document is still current.

    seen: the newest number that the reader knows, if it is larger than `since` because there was more to send.

    Raises:
        Invalid, Conflict: invalid numbers, or some that this feed hasn't reached (code since_ahead), or reached too
        long ago to know the changes (code since_forgotten).
        NotFound: the feed or its entry is gone (code entry_gone).
        TooLarge: more entries or running jobs than a document may have.
        Unavailable: it isn't built yet (code not_built); retry.
    """
    if type(since) is not int or since < 0:
        raise Invalid("since must be a whole number from 0.", fields=[FieldProblem("since", "must be from 0")])
    seen = since if seen is None else seen
    if type(seen) is not int or seen < since or (seen and not since):
        message = "must be a whole number from since on, and 0 for 0"
        raise Invalid(f"seen {message}.", fields=[FieldProblem("seen", message)])
    with consistent_read():
        row = UsageFeed.objects.select_related("policy").filter(pk=feed.pk).first()
        if row is None:
            raise NotFound("There is no such feed any more.")
        require_entry(row)
        if row.built_at is None:
            raise Unavailable(f"The feed {row.name} is being built. Ask again in a moment.", code="not_built")
        head = _head(row, since, seen, row.built_at)
        state = _state_of(head, row)
        known_state, _, known_since = known_etag.rpartition("-")
        if known_state == state and (known_since == str(since) or since == row.number):
            return None
        document = _document(row, head)
    keys = load_keys(at=at)
    return SignedFeed(sign_document(write_usage(document), keys.key, keys.chain), f"{state}-{since}", head.number)


def _head(row: UsageFeed, since: int, seen: int, built_at: datetime) -> UsageHead:
    if seen > row.number:
        message = f"The feed {row.name} is at {row.number}, not at {seen}: it was restored to an older"
        raise Conflict(f"{message} state, or recreated. Read it from 0.", code="since_ahead")
    states = load_states(row.pk, [row.number, seen])
    if seen and seen not in states:
        message = f"The feed {row.name} no longer has its history up to {seen}. Read it from 0."
        raise Conflict(message, code="since_forgotten")
    number = row.number if since == row.number else _last_number_that_fits(row, since, int(row.basis["most_rows"]))
    issued_at = built_at.replace(microsecond=0)
    # The active version of the mount at the feed's entry.
    mount = Mount.objects.filter(policy_id=row.policy_id, entry_uid=row.entry_uid, applied_version__gt=0)
    active = mount.values_list("issuer", "publication", "applied_version").first()
    return UsageHead(
        issuer=own_name(),
        feed=row.name,
        root=row.entry_uid,
        number=number,
        since=since,
        more=number < row.number,
        newest=states[row.number],
        seen=states.get(seen),
        issued_at=issued_at,
        expires_at=issued_at + timedelta(seconds=row.expires_after_s),
        site=settings.FAIRSHARE_SITE,
        capacity_cores=row.capacity_cores,
        enforces=Enforced(*active) if active else None,
    )


def _state_of(head: UsageHead, row: UsageFeed) -> str:
    """Digest of everything that the document depends on but the reader's number."""
    enforces = head.enforces and [head.enforces.issuer, head.enforces.publication, head.enforces.version]
    state = [
        head.issuer,
        head.feed,
        str(head.root),
        head.number,
        row.number,
        head.newest.mark,
        head.more,
        head.site,
        head.capacity_cores,
        enforces,
        SiteKey.objects.order_by("-number").values_list("fingerprint", flat=True).first(),
        row.sends_running,
        row.expires_after_s,
        row.made_at.isoformat(),
        head.issued_at.isoformat(),
    ]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:32]


def _last_number_that_fits(row: UsageFeed, since: int, most_rows: int) -> int:
    """The last number whose changes fit into one document; at least the next one."""
    with connection.cursor() as cursor:
        cursor.execute(_BY_NUMBER, [row.pk, since])
        n_rows, last = 0, None
        for number, n in cursor.fetchall():
            n_rows += n
            if last is not None and n_rows > most_rows:
                return int(last)
            last = number
    return row.number


def _document(row: UsageFeed, head: UsageHead) -> UsageDocument:
    changed = FeedHour.objects.filter(feed=row, number__gt=head.since, number__lte=head.number).order_by("hour_at")
    stored = list(changed.values_list("hour_at", "rows", "n_rows"))
    hours = np.array([hour_of(hour_at) for hour_at, *_ in stored], np.int64)
    sums = unpack_hours([(bytes(rows), n) for _, rows, n in stored])
    running_row = FeedRunning.objects.filter(feed=row).first() if row.sends_running else None
    running = None if running_row is None else unpack_running(bytes(running_row.rows), running_row.n_rows)
    names = sums.uids if running is None else np.concatenate([sums.uids, running.named])
    uids, place = unique_uids(names)
    if len(uids) > MOST_DOCUMENT_ENTRIES or (running is not None and len(running.rows) > MOST_RUNNING):
        message = f"The feed {row.name} would report {len(uids):,} entries or too many running jobs at once: "
        raise TooLarge(message + "publish smaller subtrees, or leave running jobs out.")
    return UsageDocument(
        head,
        [UUID(bytes=uid) for uid in map(bytes, uids)],
        hours,
        np.repeat(hours, [n for *_, n in stored]),
        place[: len(sums)],
        sums.amounts,
        None if running is None else replace(running.rows, entry=place[len(sums) :]),
    )
