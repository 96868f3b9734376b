"""Ingest a peer's usage document: it is checked as a whole, then replaces earlier reports for the same hours."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode, urlsplit, urlunsplit
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import transaction

from apps.accounts.account_ids import account_ids
from apps.accounts.entry_accounts import entry_account
from apps.core import outbound
from apps.core.clock import SKEW
from apps.core.counts import counted
from apps.core.errors import DomainError, FieldProblem
from apps.core.signing import BadDocument, open_document
from apps.federation.documents.wire_usage import RunningRows, State, UsageDocument, UsageHead, read_usage
from apps.federation.fetch_requests import FetchRequest, FetchResult, build_request
from apps.federation.models import Fetch, Mount, Publication, Subscription
from apps.federation.mounts.uid_ownership import owned_by_another_policy
from apps.federation.publishing import given_name
from apps.federation.staleness import record_of
from apps.federation.usage_feeds.lineage import read_from_0, refuse_other_lineage, undelivered_hours
from apps.federation.usage_feeds.quarantine import (
    CheckedHours,
    hour_at,
    load_far,
    separate_quarantined_hours,
    store_quarantined_hours,
)
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import mount_of
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.stored import load_tree
from apps.runs.fault_points import fault_point
from apps.usage.models import SiteDay, Source
from apps.usage.parsers.base import I8
from apps.usage.records.peer_sums import HourSums, RunningJobs, record_contact, replace_running, replace_sums
from apps.usage.records.stored_versions import lock_source

_MB = 1024.0  # bytes in a GB
_MOST_FEED_REQUESTED_S = 31 * 86_400.0  # bound of a job's requested time; the capacity bounds only its cores
MOST_UNKNOWN = 1_000  # stored and shown of one subscription
_MOST_NAMED_ENTRIES = 50
_FORGOTTEN = "history_gone"  # code of a look


@dataclass(frozen=True)
class TrustedFeed:
    """The trusted state of a feed. number 0: everything is read again. root: the entry at the other site.

    seen: the newest known state of the lineage of `number`, None if unknown. is_forgotten: the feed has no history up
    to there any more, so that it is asked for everything.
    """

    issuer: str
    feed: str
    fingerprint: str
    number: int = 0
    root: UUID | None = None
    issued_at: datetime | None = None
    seen: State | None = None
    is_forgotten: bool = False


@dataclass(frozen=True, eq=False)
class AcceptedUsage:
    """A document that may be ingested; `trusted` is the state afterwards, with a newer key if there is one.

    is_restart: everything is read again, because the feed has no history up to what was read before.
    """

    document: UsageDocument
    trusted: TrustedFeed
    is_restart: bool = False


def trusted_state_of(row: Subscription) -> TrustedFeed:
    seen = State(row.seen_number, row.seen_mark) if row.number and row.seen_mark else None
    is_forgotten = row.number > 0 and row.error_code == _FORGOTTEN
    return TrustedFeed(
        row.issuer, row.feed, row.fingerprint, row.number, row.root_uid, row.issued_at, seen, is_forgotten
    )


def request_for(row: Subscription) -> FetchRequest:
    """Build the request from the stored state; unconditional if the document has expired, as a 304 isn't signed."""
    if trusted_state_of(row).is_forgotten:
        return build_request(row, url=address_since(row.url, 0, 0), etag="")
    url = address_since(row.url, row.number, row.seen_number)
    return build_request(row, url=url, etag=row.etag)


def address_since(url: str, number: int, seen: int) -> str:
    """The feed's address with the query parameters; seen: the newest known number, sent if it differs."""
    asked = {"since": number, "seen": seen} if seen > number > 0 else {"since": number}
    try:
        parts = urlsplit(url)
    except ValueError:
        return url  # rejected by the caller's address check
    query = "&".join(part for part in (parts.query, urlencode(asked)) if part)
    return urlunsplit(parts._replace(query=query))


def read_answer(row: Subscription, answer: outbound.Answer, fetched: FetchResult, at: datetime) -> None:
    """Run all checks that need no lock.

    Raises:
        DomainError: the problem.
    """
    fetched.version = row.number
    if answer.status == 304 and row.etag:
        fetched.etag = row.etag
        if row.expires_at is None or row.expires_at <= at:
            message = "It confirms expired data: the next fetch requests all of it."
            raise BadDocument(message, code="expired")
        return
    if answer.status == 409 and row.number:
        number = max(row.number, row.seen_number)
        if _code_of(answer) == "since_forgotten":
            message = f"It has no history up to number {number} any more: it was restored, or not read for long."
            raise BadDocument(f"{message} All of it is read again with the next fetch.", code=_FORGOTTEN)
        message = f"It doesn't know its own number {number}: it has not reached it, or lost that history."
        remedy = "If it was restored from a backup, set up again, or not fetched for long, reset the document history."
        raise BadDocument(f"{message} {remedy}", code="older_version")
    if answer.status != 200:
        raise outbound.Unreachable(f"It answers with status {answer.status}, and no document.", code="bad_status")
    fetched.accepted = check_usage_document(answer.body, trusted_state_of(row), at=at)
    fetched.version = fetched.accepted.document.head.number


def check_usage_document(data: bytes, trusted: TrustedFeed, *, at: datetime) -> AcceptedUsage:
    """Check a fetched document against the trusted state.

    Raises:
        BadDocument: codes of signing and of the format, and other_feed, other_root, issued_ahead, expired,
        older_version, forked, other_question, hour_ahead.
    """
    opened = open_document(data, trusted={trusted.fingerprint})
    document = read_usage(opened.document)
    head = document.head
    if (head.issuer, head.feed) != (trusted.issuer, trusted.feed):
        reported, wanted = f"{head.issuer}, {head.feed}", f"{trusted.issuer}, {trusted.feed}"
        raise _refused("other_feed", "feed", f"is {reported}; what is subscribed to is {wanted}")
    if trusted.root is not None and head.root != trusted.root:
        raise _refused("other_root", "root", f"is {head.root}; so far this feed was of {trusted.root}")
    _refuse_times(document, at)
    is_restart = trusted.is_forgotten and not head.since
    if is_restart:
        known = max(trusted.number, trusted.seen.number if trusted.seen else 0)
        if head.newest.number <= known:
            message = f"is {head.newest.number}, but the feed was at {known} before: this is an old document"
            raise _refused("older_version", "newest.number", message)
        trusted = replace(trusted, number=0, seen=None)
    trusted = replace(trusted, is_forgotten=False)
    if head.number < trusted.number:
        message = f"is {head.number}, but {trusted.number} was accepted before: this is an old document"
        raise _refused("older_version", "number", message)
    # A later number is newer, whatever its site's clock says; it may have been ahead, as far as SKEW allows.
    is_later = head.number > trusted.number > 0
    if not is_later and trusted.issued_at is not None and head.issued_at < trusted.issued_at - SKEW:
        message = (
            f"is before that of the one taken last, {trusted.issued_at:%Y-%m-%d %H:%M:%S} UTC: an old one is replayed"
        )
        raise _refused("older_version", "issued_at", message)
    if head.since > trusted.number:
        message = f"is {head.since}, but {trusted.number} was requested: hours between them would be lost"
        raise _refused("other_question", "since", message)
    if head.more and head.number <= trusted.number:
        raise _refused("other_question", "more", "says that there is more, and leads no further")
    refuse_other_lineage(head, trusted.seen)
    now = replace(
        trusted,
        fingerprint=opened.key.fingerprint,
        number=head.number,
        root=head.root,
        issued_at=max(head.issued_at, trusted.issued_at or head.issued_at),
        seen=head.newest,
    )
    return AcceptedUsage(document, now, is_restart)


def _code_of(answer: outbound.Answer) -> str:
    """The code of a problem document; "" of anything else."""
    try:
        problem = json.loads(answer.body)
    except (ValueError, RecursionError):
        return ""
    return str(problem.get("code", "")) if isinstance(problem, dict) else ""


def apply(row: Subscription, fetched: FetchResult, at: datetime) -> bool:
    """Replace earlier reports by the document, completely or not at all, under the lock of the subscription.

    Returns whether there is more to fetch immediately.
    """
    accepted: AcceptedUsage | None = fetched.accepted
    if accepted is None:
        if fetched.code == "expired":
            row.etag = ""
        elif not fetched.code and row.state != Subscription.State.FROZEN:
            record_contact(row.source_id, at=at)
        return row.is_left_behind and not fetched.code
    try:
        with transaction.atomic():
            _ingest_whole(row, accepted, fetched, at)
    except DomainError as error:
        fetched.refuse(error.code, error.message)
        row.refresh_from_db()
        return False
    if accepted.trusted.fingerprint != row.fingerprint:
        details = {"from": row.fingerprint, "to": accepted.trusted.fingerprint}
        record_of(row, verb="federation.key_followed", at=at, details=details)
        row.fingerprint = accepted.trusted.fingerprint
    return row.is_left_behind and fetched.outcome != Fetch.Outcome.FROZEN


def _ingest_whole(row: Subscription, accepted: AcceptedUsage, fetched: FetchResult, at: datetime) -> None:
    document, head = accepted.document, accepted.document.head
    tree = load_tree(row.policy)
    uids, unknown = _uids_here(row, tree, document)
    far_before = load_far(row)
    is_complete = not head.since and not head.more
    sifted = separate_quarantined_hours(document, row.capacity_cores, far_before[:0] if is_complete else far_before)
    row.reported_capacity_cores = head.capacity_cores
    row.enforced_version = _enforced_version(row, tree, head)
    row.issued_at, row.expires_at = accepted.trusted.issued_at, head.expires_at
    # its number stays, so that everything is requested again after unfreezing
    if row.state == Subscription.State.FROZEN:
        fetched.outcome, fetched.message, row.etag = Fetch.Outcome.FROZEN, _summary(document, sifted, unknown), ""
        return
    if accepted.is_restart:
        read_from_0(row)
    if head.number > row.number or row.root_uid is None:
        _apply(row, document, uids, sifted, at)
        row.unknown_uids = _known_as_unknown(row, head, unknown)
        is_held = not sifted.is_all
        fetched.outcome = Fetch.Outcome.HELD if is_held else Fetch.Outcome.APPLIED
        fetched.message = _summary(document, sifted, unknown)
    else:
        record_contact(row.source_id, at=at)
    row.root_uid, row.number, row.is_left_behind, row.etag = head.root, head.number, head.more, fetched.etag
    row.seen_number, row.seen_mark = head.newest.number, head.newest.mark
    if _doubt_has_changed(row, sifted, far_before, head):
        read_from_0(row)


def _doubt_has_changed(row: Subscription, sifted: CheckedHours, far_before: I8, head: UsageHead) -> bool:
    """Whether the set of doubted hours has changed, so that everything has to be read again."""
    before, after = (int(far[0]) if len(far) else None for far in (far_before, load_far(row)))
    return after != sifted.doubted_from or (after != before and head.since > 0)


def _apply(row: Subscription, document: UsageDocument, uids: list[UUID], sifted: CheckedHours, at: datetime) -> None:
    """Store the sums in the caller's transaction, which also updates the subscription's number.

    A held hour counts as empty, not as reported earlier: an earlier report may be half an hour of the same inflated
    sums, and the result would depend on the time of the fetch. A complete reading from 0 replaces everything reported
    before: hours that it omits are empty.
    """
    lock_source(row.source_id)  # before its row, as everywhere
    source = _store_site_name(Source.all_objects.get(pk=row.source_id), document.head.site)
    counted = np.isin(document.row_hour, sifted.hours)
    running = None if sifted.running_is_quarantined else document.running
    account = _accounts(document, uids, counted, running, at)
    rows = HourSums(document.row_hour[counted], account[document.row_entry[counted]], document.amounts[counted])
    untold = undelivered_hours(row, document)
    empty, row.untold = (untold[:0], untold.tolist()) if document.head.more else (untold, [])
    replace_sums(source, hours=np.concatenate([document.hours, empty]), rows=rows, at=at)
    fault_point("federation.taking.after_sums")
    replace_running(source, _running(running, account), at=at)
    fault_point("federation.taking.after_running")
    store_quarantined_hours(row, document, sifted, empty, at)


def _accounts(
    document: UsageDocument, uids: list[UUID], counted: np.ndarray, running: RunningRows | None, at: datetime
) -> I8:
    """The account of each entry with usage that counts, by index in the document; 0 for the others."""
    used = np.zeros(len(uids), dtype=np.bool_)
    used[document.row_entry[counted]] = True
    if running is not None:
        used[running.entry] = True
    places = np.flatnonzero(used).tolist()
    keys = {place: entry_account(uids[place]) for place in places}
    ids = account_ids(list(keys.values()), at=at)
    account = np.zeros(len(uids), dtype=np.int64)
    account[places] = [ids[keys[place]] for place in places]
    return account


def _running(running: RunningRows | None, account: I8) -> RunningJobs:
    if running is None:
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        return RunningJobs(none, none, *[nothing] * 6)
    return RunningJobs(
        account[running.entry],
        running.start_us,
        running.cpus,
        running.gpus,
        running.mem_gb * _MB,
        running.nodes,
        running.billing,
        np.minimum(running.requested_s, _MOST_FEED_REQUESTED_S),
    )


def _uids_here(row: Subscription, tree: TreeColumns, document: UsageDocument) -> tuple[list[UUID], list[UUID]]:
    """The uids of the entries in this policy, and those that are unknown in it.

    A mount has a different uid, all entries below it the same.

    Raises:
        BadDocument: one of them is a local entry outside the subscription. Unknown uids are stored until their entry
        appears.
    """
    root, here = document.head.root, row.entry_uid
    at = tree.index_of_uid(here)
    if at is None:
        raise BadDocument("The entry of this usage is no longer in the policy.", code="entry_gone")
    uids = [here if uid == root else uid for uid in document.entries]
    if len(set(uids)) < len(uids):
        raise _refused("other_root", "entries", "have the entry itself twice, under two names")
    packed = np.frombuffer(b"".join(uid.bytes for uid in [root, *uids]), dtype=np.uint8).reshape(-1, 16)
    place = indexes_of(packed, tree)
    if place[0] >= 0 and place[0] != at:
        raise _refused("other_root", "root", f"is {tree.path(int(place[0]))}, which the subscription isn't for")
    indices = place[1:]
    wrong = np.flatnonzero((indices >= 0) & ~tree.subtree_mask(at)[np.maximum(indices, 0)])
    if len(wrong):
        message = "is an entry that the subscription isn't for"
        fields = [FieldProblem(tree.path(int(indices[i])), message) for i in wrong[:_MOST_NAMED_ENTRIES].tolist()]
        raise BadDocument(f"{fields[0].where} {message}.", code="foreign_uid", fields=fields)
    unknown = [uid for uid, at_here in zip(uids, indices.tolist(), strict=True) if at_here < 0]
    _refuse_other_policies(row, tree, at, unknown)
    return uids, unknown


def _known_as_unknown(row: Subscription, head: UsageHead, unknown: list[UUID]) -> list[str]:
    """The uids, ascending, that this and the earlier documents of its reading name and the policy doesn't have."""
    earlier = unknown_entries(row) if head.since else []
    return sorted({*map(str, earlier), *map(str, unknown)})[:MOST_UNKNOWN]


def unknown_entries(row: Subscription) -> list[UUID]:
    """The uids, ascending and at most MOST_UNKNOWN, of reported entries that the policy doesn't have now.

    Their usage is stored, and counts once an entry below that of the subscription has the uid.
    """
    if not row.unknown_uids:
        return []
    tree = load_tree(row.policy)
    return [uid for uid in map(UUID, row.unknown_uids) if tree.index_of_uid(uid) is None]


def _refuse_other_policies(row: Subscription, tree: TreeColumns, at: int, unknown: list[UUID]) -> None:
    """Reject uids that another policy of this site knows, because an entry's account is the same in every policy."""
    mount = mount_of(tree, at)
    owned = owned_by_another_policy(row.policy, None if mount is None else tree.mount[mount], unknown)
    if owned:
        message = "is an entry of another policy of this site, which the subscription isn't for"
        fields = [FieldProblem(str(uid), message) for uid in sorted(owned, key=str)[:_MOST_NAMED_ENTRIES]]
        raise BadDocument(f"{fields[0].where} {message}.", code="foreign_uid", fields=fields)


def _refuse_times(document: UsageDocument, at: datetime) -> None:
    head = document.head
    if head.issued_at > at + SKEW:
        ahead_s = (head.issued_at - at).total_seconds()
        message = f"is {ahead_s:.0f} s ahead of our clock: one of the two clocks is wrong"
        raise _refused("issued_ahead", "issued_at", message)
    if head.expires_at <= at:
        raise _refused(
            "expired", "expires_at", f"was {head.expires_at:%Y-%m-%d %H:%M} UTC, and no newer one was published"
        )
    if len(document.hours) and hour_at(int(document.hours.max())) > at + SKEW:
        raise _refused("hour_ahead", "hours", "begin ahead of our clock: one of the two clocks is wrong")
    running = document.running
    if running is not None and len(running) and int(running.start_us.max()) > (at + SKEW).timestamp() * 1e6:
        raise _refused("hour_ahead", "running.start", "is ahead of our clock: one of the two clocks is wrong")


def _store_site_name(source: Source, site: str) -> Source:
    """Store the site's name from the first document; it can't change, and no other source may have the same.

    Two sources that report hours of one site would replace each other's. Raises: BadDocument: the name differs from the
    stored one, or another source has it.
    """
    if source.last_received_at is not None:
        if site != source.site:
            raise _refused("other_site", "site", f"is {site}; so far this feed was of {source.site}")
        return source
    others = Source.all_objects.exclude(origin=source.origin)
    tells = SiteDay.objects.filter(site__iexact=site, source__in=others).exists()
    known = {settings.FAIRSHARE_SITE, *others.values_list("site", flat=True)}
    if tells or _folded(site) in map(_folded, known):
        raise _refused(
            "other_site", "site", f"is {site}, which other sources here report: each site needs its own name"
        )
    source.site = site
    source.save(update_fields=["site"])
    return source


def _folded(site: str) -> str:
    """Normalise names that look alike."""
    return unicodedata.normalize("NFKC", site).casefold()


def _enforced_version(row: Subscription, tree: TreeColumns, head: UsageHead) -> int | None:
    """The enforced version of our publication or of the same mount; None for anything else."""
    enforces = head.enforces
    if enforces is None:
        return None
    reported = (enforces.issuer, enforces.publication)
    mount = Mount.objects.filter(policy_id=row.policy_id, entry_uid=row.entry_uid).first()
    if mount is not None and reported == (mount.issuer, mount.publication):
        return enforces.version
    ours = Publication.objects.filter(policy_id=row.policy_id, name=enforces.publication)
    return enforces.version if enforces.issuer == given_name() and ours.exists() else None


def _summary(document: UsageDocument, sifted: CheckedHours, unknown: list[UUID]) -> str:
    n_running = 0 if document.running is None else len(document.running)
    text = f"{counted(len(document.hours), 'hour')} reported, {counted(n_running, 'job')} running"
    if sifted.quarantined_cpu_s:
        text += f"; {counted(len(sifted.quarantined_cpu_s), 'hour')} held: above the approved capacity"
    if sifted.running_is_quarantined:
        text += "; running jobs held" + (": above the approved capacity" if sifted.doubted_from is None else "")
    if sifted.doubted_from is not None:
        since = f"{hour_at(sifted.doubted_from):%Y-%m-%d %H:%M}"
        text += f"; usage from {since} UTC on is not counted: far above the approved capacity"
    if unknown:
        some = ", ".join(str(uid) for uid in unknown[:_MOST_NAMED_ENTRIES]) + (
            " …" if len(unknown) > _MOST_NAMED_ENTRIES else ""
        )
        text += f"; {counted(len(unknown), 'entry', 'entries')} unknown here, whose usage counts nowhere: {some}"
    return text


def _refused(code: str, where: str, message: str) -> BadDocument:
    return BadDocument(f"{where} {message}.", code=code, fields=[FieldProblem(where, message)])
