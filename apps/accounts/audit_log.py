"""Append-only audit log: one row per action, numbered without gaps, each with the hash of the previous row.

Verification compares each row with its hash, the previous row, and the results of earlier checks.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from ipaddress import ip_address
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Max

from apps.accounts.actor import Actor
from apps.accounts.models import AuditCheck, AuditEvent
from apps.core.errors import NotAllowed
from apps.core.postgresql import after_transaction, as_last_step, join_transaction

FIRST_HASH = b"\0" * 32
FIELDS = (
    "id",
    "at",
    "actor_id",
    "actor_name",
    "verb",
    "outcome",
    "policy_slug",
    "entry_uid",
    "subject",
    "reason",
    "details",
    "via",
    "request_id",
    "address",
    "token_prefix",
)
# "fshaudit": one writer at a time, so that no two rows follow the same one. The last row is read once it is locked.
_LOCK_CHAIN = f"""
SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; SELECT pg_advisory_xact_lock({0x66736861_75646974});
SELECT id, hash FROM accounts_auditevent ORDER BY id DESC LIMIT 1
"""  # noqa: S608 - constants only
_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_WRITTEN_OUT = 1e16  # from here on, JSON writes floats with an exponent, and the database all digits
_CHUNK = 5_000
_DETAILS = FIELDS.index("details")
# Formatted by the server as for the hash: formatting a million instants in Python takes longest of all.
_AS_TEXT = {
    "at": """to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00'""",
    "entry_uid": "entry_uid::text",
    "details": "details::text",
    "address": "host(address)",
}
Row = tuple[Any, ...]  # FIELDS, then the previous and own hash

# One row each: the attempted action, the actor, and the reason of the refusal.
P = ParamSpec("P")
T = TypeVar("T")


def record(
    *,
    actor: Actor,
    verb: str,
    at: datetime,
    policy_slug: str = "",
    entry_uid: UUID | None = None,
    subject: str = "",
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    outcome: str = AuditEvent.Outcome.DONE,
) -> AuditEvent:
    """Append an event as the last step of the caller's transaction, so that action and row commit together.

    The event has its number when the outermost transaction ends.
    """
    event = new_event(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=policy_slug,
        entry_uid=entry_uid,
        subject=subject,
        reason=reason,
        details=details,
        outcome=outcome,
    )
    record_events([event])
    return event


def new_event(
    *,
    actor: Actor,
    verb: str,
    at: datetime,
    policy_slug: str = "",
    entry_uid: UUID | None = None,
    subject: str = "",
    reason: str = "",
    details: Mapping[str, Any] | None = None,
    outcome: str = AuditEvent.Outcome.DONE,
) -> AuditEvent:
    """An event that isn't recorded yet, for `record_events`."""
    return AuditEvent(
        at=at,
        actor_id=actor.user.pk if actor.user else None,
        actor_name=actor.name,
        verb=verb,
        outcome=outcome,
        policy_slug=policy_slug,
        entry_uid=entry_uid,
        subject=subject[:512],
        reason=reason,
        details=_as_stored(json.loads(json.dumps(details or {}, default=str))),
        via=actor.via,
        request_id=actor.request_id[:64],
        address=_plain_address(actor.address),
        token_prefix=actor.token.prefix if actor.token else "",
    )


def record_events(events: Sequence[AuditEvent]) -> None:
    """Append many events, such as those of an imported file, as `record` does one: all with a few statements."""
    with join_transaction():
        as_last_step(partial(_append, events))


def _append(events: Sequence[AuditEvent]) -> None:
    """Lock the chain after everything that this transaction locks, also by foreign keys, which are checked last.

    The holder of the chain then waits for no other transaction, and no deadlock can include it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_CHAIN)
        while cursor.nextset():  # to the answer of the last statement
            pass
        last_id, last_hash = cursor.fetchone() or (0, FIRST_HASH)
    for event in events:
        event.id, event.previous_hash = last_id + 1, bytes(last_hash)
        event.hash = hash_of(event)
        last_id, last_hash = event.id, event.hash
    if len(events) == 1:
        events[0].save(force_insert=True)
    else:
        AuditEvent.objects.bulk_create(events, batch_size=1_000)


def _as_stored(value: Any) -> Any:
    """A value as the database will return it, so that the hash matches: 1e20 becomes an integer, and −0.0 becomes
    0.0.
    """
    if isinstance(value, float):
        return int(value) if abs(value) >= _WRITTEN_OUT else value + 0.0
    if isinstance(value, dict):
        return {key: _as_stored(each) for key, each in value.items()}
    return [_as_stored(each) for each in value] if isinstance(value, list) else value


def _plain_address(address: str | None) -> str | None:
    """An address in the database's form; an IPv4 address mapped to IPv6 becomes IPv4."""
    if not address:
        return None
    parsed = ip_address(address)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def hash_of(event: AuditEvent) -> bytes:
    """SHA-256 of the previous hash and all other fields as JSON with sorted keys."""
    fields = {name: getattr(event, name) for name in FIELDS}
    fields["at"] = event.at.astimezone(UTC).isoformat(timespec="microseconds")
    fields["outcome"] = str(event.outcome)
    for name in ("entry_uid", "address"):
        fields[name] = str(fields[name]) if fields[name] else None
    return digest_of(bytes(event.previous_hash), fields)


def digest_of(previous: bytes, fields: dict[str, Any]) -> bytes:
    """Hash the previous hash and the fields, in which instants and UUIDs are text."""
    return hashlib.sha256(previous + _JSON.encode(fields).encode()).digest()


@dataclass(frozen=True)
class Verdict:
    """Result of a verification: number of valid rows, hash of the last one, and the first invalid row."""

    n_rows: int
    head_hash: bytes
    broken_id: int | None = None
    problem: str = ""
    key: str = ""  # of the problem: missing, unlinked, changed, rewritten or cut_off


def check_chain(*, at: datetime) -> AuditCheck:
    """Verify the whole log, and store the result for display and for later checks."""
    begun = time.monotonic()
    with transaction.atomic():
        verdict = verify(_rows(), _earlier())
    return AuditCheck.objects.create(
        checked_at=at,
        duration_s=time.monotonic() - begun,
        n_rows=verdict.n_rows,
        head_hash=verdict.head_hash,
        broken_id=verdict.broken_id,
        problem=verdict.problem,
    )


def check_newest(most: int) -> Verdict:
    """Verify the newest rows alone, at most as many, from the hash that the row before them has; nothing is stored.

    n_rows: number of the last valid row.
    """
    with transaction.atomic():
        last_id = AuditEvent.objects.aggregate(last=Max("id"))["last"] or 0
        before = max(0, last_id - most)
        previous = AuditEvent.objects.filter(pk=before).values_list("hash", flat=True).first()
        return verify(_rows(before), _earlier(), after=(before, bytes(previous or FIRST_HASH)))


def last_check() -> AuditCheck | None:
    return AuditCheck.objects.order_by("-pk").first()


def verify(
    rows: Iterable[Row], earlier: dict[int, tuple[bytes, datetime]], after: tuple[int, bytes] = (0, FIRST_HASH)
) -> Verdict:
    """Verify rows in order.

    earlier: hash of the last row and time of earlier checks, by number of rows. after: number and hash of the row
    before the first of them.
    """
    n, previous = after
    for row in rows:
        key, problem = _problem(row, n + 1, previous)
        if problem:
            return Verdict(n, previous, n + 1, problem, key)
        n, previous = n + 1, bytes(row[-1])
        seen = earlier.get(n)
        if seen is not None and seen[0] != previous:
            when = seen[1].isoformat(timespec="seconds")
            problem = f"row {n} differs from the one found on {when}: the log was rewritten"
            return Verdict(n - 1, bytes(row[-2]), n, problem, "rewritten")
    longest = max(earlier, default=0)
    if longest > n:
        when = earlier[longest][1].isoformat(timespec="seconds")
        problem = f"row {n + 1} is missing: there were {longest:,} rows on {when}"
        return Verdict(n, previous, n + 1, problem, "cut_off")
    return Verdict(n, previous)


def _problem(row: Row, expected_id: int, previous: bytes) -> tuple[str, str]:
    """Key and text of a row's problem; both empty for a valid row."""
    if row[0] != expected_id:
        return "missing", f"row {expected_id} is missing: row {row[0]} comes in its place"
    if bytes(row[-2]) != previous:
        return "unlinked", f"row {expected_id} doesn't follow the previous one: it has another previous hash"
    if bytes(row[-1]) != digest_of(previous, dict(zip(FIELDS, row, strict=False))):
        return "changed", f"row {expected_id} was changed: it doesn't match its hash"
    return "", ""


def _rows(after: int = 0) -> Iterator[Row]:
    """Read rows behind a number in chunks, so that a long log isn't held in memory."""
    columns = ", ".join(_AS_TEXT.get(name, name) for name in FIELDS)
    with connection.chunked_cursor() as cursor:
        cursor.execute(
            f"SELECT {columns}, previous_hash, hash FROM accounts_auditevent WHERE id > %s ORDER BY id",  # noqa: S608 - names of ours
            [after],
        )
        while some := cursor.fetchmany(_CHUNK):
            for row in some:
                details = row[_DETAILS]
                yield *row[:_DETAILS], {} if details == "{}" else json.loads(details), *row[_DETAILS + 1 :]


def _earlier() -> dict[int, tuple[bytes, datetime]]:
    """Earlier successful checks; the first of those with the same number of rows."""
    checks: dict[int, tuple[bytes, datetime]] = {}
    rows = AuditCheck.objects.filter(broken_id=None, n_rows__gt=0).order_by("pk")
    for n_rows, head_hash, checked_at in rows.values_list("n_rows", "head_hash", "checked_at").iterator():
        checks.setdefault(n_rows, (bytes(head_hash), checked_at))
    return checks


_n_written: ContextVar[int] = ContextVar("number of refusals logged by this thread", default=0)
_wanted: ContextVar[dict[str, Any] | None] = ContextVar("event of the outermost block", default=None)


@contextmanager
def log_refusals(verb: str, actor: Actor, at: datetime, **event: Any) -> Iterator[None]:
    """Log a `NotAllowed` raised in the block, and re-raise it. event: further columns of the row.

    Of nested blocks, the outermost describes the action. The row is written once, after the outermost transaction,
    which the refusal may roll back.
    """
    wanted = _wanted.get() or {"verb": verb, "actor": actor, "at": at, **event}
    outer = _wanted.set(wanted)
    try:
        yield
    except NotAllowed as error:
        if not error.is_on_record:
            error.is_on_record = True
            log_refusal(reason=error.message, **wanted)
        raise
    finally:
        _wanted.reset(outer)


def logged_refusals(verb: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a service called with keywords: its refusals are logged with the given policy or change set."""

    def decorate(service: Callable[P, T]) -> Callable[P, T]:
        @wraps(service)
        def logged(*args: P.args, **options: P.kwargs) -> T:
            actor, at = cast(Actor, options["actor"]), cast(datetime, options["at"])
            slug = str(options.get("policy_slug") or options.get("slug") or "")[:64]
            subject = f"change set {options['id']}" if "id" in options else slug
            with log_refusals(verb, actor, at, policy_slug=slug, subject=subject):
                return service(*args, **options)

        return logged

    return decorate


def log_refusal(*, verb: str, actor: Actor, at: datetime, reason: str, **event: Any) -> None:
    _n_written.set(_n_written.get() + 1)
    refused = AuditEvent.Outcome.REFUSED
    after_transaction(partial(record, verb=verb, outcome=refused, reason=reason, actor=actor, at=at, **event))


def n_refusals_logged() -> int:
    """Number of refusals that this thread has logged, for callers to see whether a service logged its own."""
    return _n_written.get()
