"""The log of who did what: one row each, numbered without gaps, each carrying the hash of the one before.

Verification reads each row against its hash, the row before, and the earlier checks.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from ipaddress import ip_address
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from django.db import connection, transaction

from apps.accounts.actor import Actor
from apps.accounts.models import AuditCheck, AuditEvent
from apps.core.errors import NotAllowed
from apps.core.postgresql import after_transaction

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
_LOCK = 0x66736861_75646974  # "fshaudit": one writer at a time, or two rows would follow the same one
_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_WRITTEN_OUT = 1e16  # from here on JSON writes a float with an exponent, and the database all its digits


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
    """Append one event in the caller's transaction, so that action and row commit together.

    Call it late in the transaction: the chain is locked from here to the commit.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        last = AuditEvent.objects.order_by("-id").values_list("id", "hash").first() or (0, FIRST_HASH)
        event = AuditEvent(
            id=last[0] + 1,
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
            previous_hash=bytes(last[1]),
        )
        event.hash = hash_of(event)
        event.save(force_insert=True)
    return event


def _as_stored(value: Any) -> Any:
    """As the database will give it back, so that the hash is of that: it keeps 1e20 as a whole number, and no −0.0."""
    if isinstance(value, float):
        return int(value) if abs(value) >= _WRITTEN_OUT else value + 0.0
    if isinstance(value, dict):
        return {key: _as_stored(each) for key, each in value.items()}
    return [_as_stored(each) for each in value] if isinstance(value, list) else value


def _plain_address(address: str | None) -> str | None:
    """In the one form that the database writes too; an IPv4 address in IPv6 clothes is that IPv4 address."""
    if not address:
        return None
    found = ip_address(address)
    return str(getattr(found, "ipv4_mapped", None) or found)


def hash_of(event: AuditEvent) -> bytes:
    """SHA-256 of the previous hash and of every other field, as JSON with sorted keys."""
    fields = {name: getattr(event, name) for name in FIELDS}
    fields["at"] = event.at.astimezone(UTC).isoformat(timespec="microseconds")
    fields["outcome"] = str(event.outcome)
    for name in ("entry_uid", "address"):
        fields[name] = str(fields[name]) if fields[name] else None
    return digest_of(bytes(event.previous_hash), fields)


def digest_of(previous: bytes, fields: dict[str, Any]) -> bytes:
    """The detail as JSON: instants and entries as text."""
    return hashlib.sha256(previous + _JSON.encode(fields).encode()).digest()


# --- Verification -----------------------------------------------------------------------------------------------------
_CHUNK = 5_000
_DETAILS = FIELDS.index("details")
# Formatted by the server as the hash has it: a million instants take Python longer than everything else.
_AS_TEXT = {
    "at": """to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00'""",
    "entry_uid": "entry_uid::text",
    "details": "details::text",
    "address": "host(address)",
}
Row = tuple[Any, ...]  # FIELDS, then the hash before and the own one


@dataclass(frozen=True)
class Verdict:
    """Rows that hold, the hash of the last of them, and the first that doesn't, with what is wrong with it."""

    n_rows: int
    head_hash: bytes
    broken_id: int | None = None
    problem: str = ""
    key: str = ""  # of the problem: missing, unlinked, changed, rewritten or cut_off


def check_chain(*, at: datetime) -> AuditCheck:
    """Check all of it, and store the result, for the page and for later checks."""
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


def last_check() -> AuditCheck | None:
    return AuditCheck.objects.order_by("-pk").first()


def verify(rows: Iterable[Row], earlier: dict[int, tuple[bytes, datetime]]) -> Verdict:
    """Rows in order from the first. earlier: by number of rows, the hash that the last of them had, and when."""
    n, previous = 0, FIRST_HASH
    for row in rows:
        key, problem = _problem(row, n + 1, previous)
        if problem:
            return Verdict(n, previous, n + 1, problem, key)
        n, previous = n + 1, bytes(row[-1])
        seen = earlier.get(n)
        if seen is not None and seen[0] != previous:
            when = seen[1].isoformat(timespec="seconds")
            problem = f"row {n} isn't the one that was there on {when}: the log was rewritten"
            return Verdict(n - 1, bytes(row[-2]), n, problem, "rewritten")
    longest = max(earlier, default=0)
    if longest > n:
        when = earlier[longest][1].isoformat(timespec="seconds")
        problem = f"row {n + 1} is missing: there were {longest:,} rows on {when}"
        return Verdict(n, previous, n + 1, problem, "cut_off")
    return Verdict(n, previous)


def _problem(row: Row, expected_id: int, previous: bytes) -> tuple[str, str]:
    """Its key and a sentence; both empty for a row that holds."""
    if row[0] != expected_id:
        return "missing", f"row {expected_id} is missing: row {row[0]} comes in its place"
    if bytes(row[-2]) != previous:
        return "unlinked", f"row {expected_id} doesn't follow the one before: it names another hash"
    if bytes(row[-1]) != digest_of(previous, dict(zip(FIELDS, row, strict=False))):
        return "changed", f"row {expected_id} was changed: it doesn't say what its hash was made of"
    return "", ""


def _rows() -> Iterator[Row]:
    """From the server in chunks: a long log isn't held in memory."""
    columns = ", ".join(_AS_TEXT.get(name, name) for name in FIELDS)
    with connection.chunked_cursor() as cursor:
        cursor.execute(f"SELECT {columns}, previous_hash, hash FROM accounts_auditevent ORDER BY id")  # noqa: S608 - names of ours
        while some := cursor.fetchmany(_CHUNK):
            for row in some:
                details = row[_DETAILS]
                yield *row[:_DETAILS], {} if details == "{}" else json.loads(details), *row[_DETAILS + 1 :]


def _earlier() -> dict[int, tuple[bytes, datetime]]:
    """Checks that passed; of many on as many rows the first."""
    found: dict[int, tuple[bytes, datetime]] = {}
    rows = AuditCheck.objects.filter(broken_id=None, n_rows__gt=0).order_by("pk")
    for n_rows, head_hash, checked_at in rows.values_list("n_rows", "head_hash", "checked_at").iterator():
        found.setdefault(n_rows, (bytes(head_hash), checked_at))
    return found


# --- Refused changes --------------------------------------------------------------------------------------------------
# One row each: who wanted what, and why it was refused.
P = ParamSpec("P")
T = TypeVar("T")
_n_written: ContextVar[int] = ContextVar("rows of refusals that this thread has asked for", default=0)
_wanted: ContextVar[dict[str, Any] | None] = ContextVar("what the outermost block wants", default=None)


@contextmanager
def refusals_on_record(verb: str, actor: Actor, at: datetime, **event: Any) -> Iterator[None]:
    """Log a `NotAllowed` and let it pass. event: further columns of the row.

    Of blocks inside each other the outermost says what was wanted. The row is written once, after the outermost
    transaction, which the refusal may roll back.
    """
    wanted = _wanted.get() or {"verb": verb, "actor": actor, "at": at, **event}
    outer = _wanted.set(wanted)
    try:
        yield
    except NotAllowed as error:
        if not error.is_on_record:
            error.is_on_record = True
            put_on_record(reason=error.message, **wanted)
        raise
    finally:
        _wanted.reset(outer)


def logs_refusals(verb: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A service, called by keywords, whose refusals are logged with the policy or change set that it is called for."""

    def decorate(service: Callable[P, T]) -> Callable[P, T]:
        @wraps(service)
        def logged(*args: P.args, **given: P.kwargs) -> T:
            actor, at = cast(Actor, given["actor"]), cast(datetime, given["at"])
            slug = str(given.get("policy_slug") or given.get("slug") or "")[:64]
            subject = f"change set {given['id']}" if "id" in given else slug
            with refusals_on_record(verb, actor, at, policy_slug=slug, subject=subject):
                return service(*args, **given)

        return logged

    return decorate


def put_on_record(*, verb: str, actor: Actor, at: datetime, reason: str, **event: Any) -> None:
    _n_written.set(_n_written.get() + 1)
    refused = AuditEvent.Outcome.REFUSED
    after_transaction(partial(record, verb=verb, outcome=refused, reason=reason, actor=actor, at=at, **event))


def n_put_on_record() -> int:
    """By this thread so far, so that a caller sees whether a service has done it."""
    return _n_written.get()
