"""Usage feeds: the usage that this site sends, for which entries and to whom, and the signed documents.

A feed is a series of numbered states. For each hour it stores the digest of what was last sent and the number since
which it is unchanged. A reader who names its last number gets the hours that changed since, completely, and replaces
its own. Usage is computed from the buckets each time; nothing is stored twice.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import OperationalError, connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound, TooLarge, Unavailable
from apps.core.postgresql import may_repeat
from apps.core.signing import sign_document
from apps.federation.documents.trust import load_keys
from apps.federation.documents.wire_usage import (
    MOST_CORES,
    MOST_ENTRIES,
    MOST_RUNNING,
    Enforced,
    UsageDocument,
    UsageHead,
    write_usage,
)
from apps.federation.models import FeedHour, Mount, SiteKey, UsageFeed
from apps.federation.publishing import entry_to_publish, own_name, refuse_name
from apps.federation.usage_feeds.feed_content import (
    View,
    add_marks,
    hour_of,
    load_running,
    load_states,
    load_sums,
    read_view,
    update_feed,
)
from apps.priorities.recompute.pipeline import consistent_read

_LEAST_S, _MOST_S = 3_600, 366 * 86_400
_MOST_DAYS = 3_660
_MOST_TRIES = 50  # wait of a reader while others read the same feed


@dataclass(frozen=True)
class SignedFeed:
    """A signed document as sent. number: the state that it leads to."""

    data: bytes
    etag: str
    number: int


@dataclass(frozen=True)
class _Asked:
    """A reader's request. seen: the newest number that it knows, ≥ since. key: fingerprint of the signing key."""

    since: int
    seen: int
    known_etag: str
    key: str
    at: datetime


@transaction.atomic
def make_feed(
    *,
    policy_slug: str,
    entry: str,
    name: str,
    capacity_cores: float,
    sends_running: bool = True,
    is_open: bool = False,
    keeps_days: int = 400,
    expires_after_s: int = 86_400,
    at: datetime,
    actor: Actor,
) -> UsageFeed:
    """Send the local usage of an entry (a path) and its subtree to others under a name, or change the settings.

    Raises:
        NotAllowed: not an administrator.
        Invalid, NotFound, Conflict: a value, the entry, or the name exists already.
    """
    _require_site(actor)
    _check(name, capacity_cores, keeps_days, expires_after_s)
    policy, uid = entry_to_publish(UsageFeed, "feed", policy_slug, entry, name, actor)
    values = {
        "name": name,
        "capacity_cores": float(capacity_cores),
        "sends_running": sends_running,
        "is_open": is_open,
        "keeps_days": keeps_days,
        "expires_after_s": expires_after_s,
    }
    found, is_new = UsageFeed.objects.update_or_create(
        policy=policy,
        entry_uid=uid,
        defaults=values,
        create_defaults={**values, "made_at": at, "number": _number_before(name)},
    )
    if is_new and found.number:  # the mark differs, so readers of the former feed of this name notice the new lineage
        add_marks(found.pk, after=found.number - 1, upto=found.number)
    verb = "federation.feed_made" if is_new else "federation.feed_changed"
    details = {"entry": entry, **values}
    audit.record(actor=actor, verb=verb, at=at, policy_slug=policy.slug, subject=name, details=details)
    return found


@transaction.atomic
def drop_feed(*, name: str, at: datetime, actor: Actor) -> None:
    """Stop sending; readers keep what they have.

    Raises:
        NotAllowed: not an administrator.
        NotFound: there is no such feed.
    """
    _require_site(actor)
    found = (
        UsageFeed.all_objects.select_for_update(of=("self",), no_key=True)
        .select_related("policy")
        .filter(name=name)
        .first()
    )
    if found is None:
        raise NotFound(f"There is no feed {name[:128]!r}.")
    details = {"number": found.number}
    found.delete()
    audit.record(
        actor=actor, verb="federation.feed_dropped", at=at, policy_slug=found.policy.slug, subject=name, details=details
    )


def _require_site(actor: Actor) -> None:
    if not actor.is_admin:
        raise NotAllowed("Only administrators of the whole site decide about usage feeds.")


def list_feeds(*, actor: Actor) -> list[UsageFeed]:
    _require_site(actor)
    return list(UsageFeed.objects.select_related("policy").order_by("name"))


def issue_usage(
    feed: UsageFeed, *, since: int, seen: int | None = None, known_etag: str = "", at: datetime
) -> SignedFeed | None:
    """Changes since a number, or everything for 0; None if the caller's document is still current.

    seen: the newest number that the reader knows, if it is larger than `since` because there was more to send.

    Raises:
        Invalid, Conflict: invalid numbers, or some that this feed hasn't reached (code since_ahead), or reached too
        long ago to know the changes (code since_forgotten).
        NotFound: the feed or its entry is gone (code entry_gone).
        TooLarge: more entries or running jobs than a document may have.
        Unavailable: too many concurrent readers; retry.
    """
    if type(since) is not int or since < 0:
        raise Invalid("since must be a whole number from 0.", fields=[FieldProblem("since", "must be from 0")])
    seen = since if seen is None else seen
    if type(seen) is not int or seen < since or (seen and not since):
        message = "must be a whole number from since on, and 0 for 0"
        raise Invalid(f"seen {message}.", fields=[FieldProblem("seen", message)])
    key = SiteKey.objects.order_by("-number").values_list("fingerprint", flat=True).first()
    asked = _Asked(since, seen, known_etag, key or load_keys(at=at).key.public.fingerprint, at)
    for _ in range(_MOST_TRIES):
        with consistent_read() as is_outermost:
            view = read_view(feed.pk, at=at, remembers=is_outermost)
            if view.is_current(since):
                found = _answer(view, asked)
                break
        try:
            with _single_snapshot() as is_outermost:
                view = read_view(feed.pk, at=at, remembers=is_outermost, lock=True)
                update_feed(view, since=since)
                found = _answer(view, asked)
            break
        except OperationalError as error:
            if not may_repeat(error):
                raise
            # another process updated the feed first: check again
    else:
        raise Unavailable("Too many ask for this feed at once. Ask again.", code="feed_busy")
    return found and _signed(*found, at)


def _signed(document: UsageDocument, etag: str, at: datetime) -> SignedFeed:
    keys = load_keys(at=at)
    return SignedFeed(sign_document(write_usage(document), keys.key, keys.chain), etag, document.head.number)


def _answer(view: View, asked: _Asked) -> tuple[UsageDocument, str] | None:
    """The signed document of an up-to-date feed and its ETag; None if the reader already has this ETag."""
    row, since, at = view.row, asked.since, asked.at
    if asked.seen > row.number:
        message = f"The feed {row.name} is at {row.number}, not at {asked.seen}: it was restored to an older"
        raise Conflict(f"{message} state, or recreated. Read it from 0.", code="since_ahead")
    states = load_states(row.pk, [row.number, asked.seen])
    if asked.seen and asked.seen not in states:
        message = f"The feed {row.name} no longer has its history up to {asked.seen}. Read it from 0."
        raise Conflict(message, code="since_forgotten")
    number = row.number if since == row.number else _last_number_that_fits(row, since, int(row.basis["most_rows"]))
    head = UsageHead(
        issuer=own_name(),
        feed=row.name,
        root=row.entry_uid,
        number=number,
        since=since,
        more=number < row.number or not view.is_complete,
        newest=states[row.number],
        seen=states.get(asked.seen),
        issued_at=at.replace(microsecond=0),
        expires_at=at.replace(microsecond=0) + timedelta(seconds=row.expires_after_s),
        site=settings.FAIRSHARE_SITE,
        capacity_cores=row.capacity_cores,
        enforces=_enforced(row),
    )
    state = _state_of(head, row, asked)
    known_state, _, known_since = asked.known_etag.rpartition("-")
    if known_state == state and (known_since == str(since) or since == row.number):
        return None
    return _document(view, head), f"{state}-{since}"


def _state_of(head: UsageHead, row: UsageFeed, asked: _Asked) -> str:
    """ETag of everything that the document depends on; it changes when half of the document's lifetime is over."""
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
        asked.key,
        row.sends_running,
        row.expires_after_s,
        row.made_at.isoformat(),
        int(asked.at.timestamp()) // (row.expires_after_s // 2),
    ]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:32]


_BY_NUMBER = """
SELECT number, sum(n_rows)::int8 FROM federation_feedhour WHERE feed_id = %s AND number > %s
GROUP BY number ORDER BY number
"""


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


def _document(view: View, head: UsageHead) -> UsageDocument:
    row = view.row
    rows = FeedHour.objects.filter(feed=row, number__gt=head.since, number__lte=head.number).order_by("hour_at")
    hours = np.array([hour_of(hour_at) for hour_at in rows.values_list("hour_at", flat=True)], np.int64)
    accounts = view.accounts
    first, last = (int(hours[0]), int(hours[-1])) if len(hours) else (0, -1)
    sums = load_sums(view.sources if len(hours) else [], accounts, from_hour=first, to_hour=last + 1, only=hours)
    running = load_running(view.sources, accounts) if row.sends_running else None
    named = [sums.entry] if running is None else [sums.entry, running.entry]
    used = np.unique(np.concatenate(named))
    if len(used) > MOST_ENTRIES or (running is not None and len(running) > MOST_RUNNING):
        message = f"The feed {row.name} would report {len(used):,} entries or too many running jobs at once: "
        raise TooLarge(message + "publish smaller subtrees, or leave running jobs out.")
    entries = [UUID(bytes=one) for one in map(bytes, accounts.uids[used])]
    if running is not None:
        running = replace(running, entry=np.searchsorted(used, running.entry))
    return UsageDocument(head, entries, hours, sums.hour, np.searchsorted(used, sums.entry), sums.amounts, running)


def _enforced(row: UsageFeed) -> Enforced | None:
    """The active version of the mount at the feed's entry."""
    mount = Mount.objects.filter(policy_id=row.policy_id, entry_uid=row.entry_uid, applied_version__gt=0)
    found = mount.values_list("issuer", "publication", "applied_version").first()
    return Enforced(*found) if found else None


@contextmanager
def _single_snapshot() -> Iterator[bool]:
    """A writable transaction with one snapshot, which fails if a concurrent one was faster.

    Yields False if it is nested in another transaction.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield is_outermost


def _number_before(name: str) -> int:
    """The last number of a deleted feed of this name; a new feed continues from it, in another lineage."""
    dropped = AuditEvent.objects.filter(verb="federation.feed_dropped", subject=name).order_by("-id")
    return int((dropped.values_list("details", flat=True).first() or {}).get("number", 0))


def _check(name: str, capacity_cores: float, keeps_days: int, expires_after_s: int) -> None:
    refuse_name(name)
    for where, value, least, most in (
        ("capacity_cores", capacity_cores, 0.001, MOST_CORES),
        ("keeps_days", keeps_days, 1, _MOST_DAYS),
        ("expires_after_s", expires_after_s, _LEAST_S, _MOST_S),
    ):
        if not (math.isfinite(value) and least <= value <= most):
            message = f"must be from {least:,} to {most:,.0f}"
            raise Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
