"""Fetches from peers: the request, its log, the time of the next one, and concurrent fetches in one worker.

A fast response is waited for. While a slow one is pending, the worker claims other due fetches, starts them
concurrently, settles each response as it arrives, and works on runs of other kinds in between. A thread only sends a
request: it has no database connection, and `outbound` bounds its time and bytes.

Hosts below `.example` are this installation: they are answered without a connection. Such names never resolve (RFC
2606), so no real site loses an address. The response is signed, expires and is checked like any other document.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from apps.accounts.sign_in.sealing import seal, unseal
from apps.core import clock, outbound
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.core.outbound import Answer
from apps.core.signing import Opened, open_document
from apps.federation import staleness
from apps.federation.models import Fetch, Mount, Remote, Subscription
from apps.federation.publishing import given_name
from apps.runs.kinds import kinds, low_priority_kinds
from apps.runs.leases import Heartbeat, Lease
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease

# --- Documents that this installation publishes to itself -------------------------------------------------------------
# Receives URL and instant, returns the signed document; must not use the database.
Publisher = Callable[[str, datetime], bytes]
_RESERVED = ".example"
_publishers: dict[str, Publisher] = {}


def register(host: str, publisher: Publisher) -> None:
    """Publish documents for a host in this process.

    Raises:
        ValueError: the name could be a real host's.
    """
    if not host.endswith(_RESERVED):
        raise ValueError(f"{host} doesn't end in {_RESERVED}.")
    _publishers[host] = publisher


def local_answer(url: str, *, at: datetime | None = None) -> Answer | None:
    """Return the local response; None for a host that isn't registered and has to be fetched over the network.

    at: now by default.
    """
    try:
        publisher = _publishers.get(urlsplit(url).hostname or "")
    except ValueError:
        return None
    if publisher is None:
        return None
    try:
        return Answer(200, {}, url, publisher(url, at or clock.now()))
    except NotFound:
        return Answer(404, {}, url)


# --- One fetch: request, log, next due time ---------------------------------------------------------------------------
logger = logging.getLogger(__name__)

TOTAL_S = 60.0  # for the whole response, including redirects
MOST_REDIRECTS = 3
LONGEST_RETRY_S = 300  # so that a peer that recovers is fetched soon
# names the requesting site, so that the other side can retry its own failed fetches from it
ISSUER_HEADER = "Fairshare-Issuer"
BAD_OUTCOMES = (Fetch.Outcome.REFUSED, Fetch.Outcome.UNREACHABLE)
NOT_FETCHED = (Remote.State.PAUSED, Remote.State.BLOCKED)
# require a manager's decision; an older version doesn't, because it may come from a stale cache
_BLOCKS = ("forked", "unknown_key")
_KEPT = 500  # fetches stored for each timeline
_JITTER = 0.05  # as a part of the interval
_SEALED_FOR = "reading a peer"
_MOST_TOKEN = 512
_MOST_MESSAGE = 2_000
_ETAG = re.compile(r"[\x21-\x7e]{1,256}")

AnyRemote = Mount | Subscription
Kind = Literal["mount", "subscription"]


@dataclass(frozen=True)
class FetchRequest:
    """A prepared request, which a thread without a database connection can send."""

    url: str
    headers: dict[str, str] = field(repr=False)
    limits: outbound.Limits

    def ask(self) -> outbound.Answer:
        own = local_answer(self.url)
        return own or outbound.fetch(self.url, headers=self.headers, limits=self.limits)


def fetch_for_preview(url: str, token: str, limits: outbound.Limits) -> Opened:
    """Fetch a document whose key isn't trusted yet. token: issued by the other side for this reader.

    Raises:
        Refused, Unreachable, TooLarge, BadDocument: the address or its content, with a message for the manager.
    """
    answer = FetchRequest(url, token_header(clean_token(token)), limits).ask()
    if answer.status != 200:
        raise outbound.Unreachable(no_document(answer.status))
    return open_document(answer.body, trusted=None)


@dataclass
class FetchResult:
    """Result of one fetch for the timeline. basis: the trusted state at the request."""

    outcome: str = Fetch.Outcome.SAME
    version: int | None = None
    n_bytes: int = 0
    code: str = ""
    message: str = ""
    etag: str = ""
    accepted: Any = None
    basis: Any = None
    data: bytes = field(default=b"", repr=False)

    def refuse(self, code: str, message: str, *, outcome: str = Fetch.Outcome.REFUSED) -> None:
        """Record a rejection; unprintable characters of the message, which may quote the document, are replaced."""
        self.outcome, self.code, self.message, self.accepted = outcome, code, _readable(message), None


def _readable(message: str) -> str:
    return "".join(each if each.isprintable() else "\ufffd" for each in message[:_MOST_MESSAGE])


def etag_of(answer: outbound.Answer) -> str:
    """The response's ETag; "" if it is missing or invalid."""
    etag = answer.headers.get("etag", "").strip()
    return etag if _ETAG.fullmatch(etag) else ""


def build_request(remote: AnyRemote, *, url: str, etag: str) -> FetchRequest:
    """Build the request for a mount or subscription. Own headers, such as the token, are sent to the first host only.

    Raises:
        Unavailable: the token was sealed with a SECRET_KEY that no longer exists.
    """
    headers = {"If-None-Match": etag} if etag else {}
    if name := given_name():
        headers[ISSUER_HEADER] = name
    headers.update(token_header(unseal(_SEALED_FOR, remote.sealed_token) if remote.sealed_token else ""))
    return FetchRequest(
        url, headers, outbound.Limits(n_bytes=remote.most_bytes, total_s=TOTAL_S, redirects=MOST_REDIRECTS)
    )


def no_document(status: int) -> str:
    """Message for a first fetch whose response has no document."""
    message = f"The address answers with status {status}, and no document."
    if status not in (401, 403, 404):
        return message
    return f"{message} The other site may not permit it: ask for a token, or for open access."


def token_header(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def sealed_token(token: str) -> str:
    """The token issued by the other side, sealed for storage; "" for none."""
    return seal(_SEALED_FOR, clean_token(token)) if token.strip() else ""


def clean_token(token: str) -> str:
    plain = token.strip()
    if len(plain) > _MOST_TOKEN or not all("!" <= character <= "~" for character in plain):
        message = f"must be at most {_MOST_TOKEN} letters, digits and signs without blanks"
        raise Invalid(f"The token {message}.", fields=[FieldProblem("token", message)])
    return plain


def record_fetch(remote: AnyRemote, fetched: FetchResult, at: datetime, duration_s: float, *, is_behind: bool) -> None:
    """Record the fetch and schedule the next one."""
    is_good = fetched.outcome not in BAD_OUTCOMES
    # logged at the first of equal failures only
    if fetched.outcome == Fetch.Outcome.REFUSED and fetched.message != remote.error:
        logger.warning("A document of %s is refused (%s): %s", remote, fetched.code, fetched.message)
    remote.fetched_at, remote.error_code, remote.error = at, fetched.code, "" if is_good else fetched.message
    remote.n_failed = 0 if is_good else remote.n_failed + 1
    if is_good:
        remote.good_at = at
        staleness.end_fallback_after_success(remote, at)
    elif fetched.code in _BLOCKS:
        remote.state = Remote.State.BLOCKED
        staleness.record_of(remote, verb="federation.blocked", at=at, reason=fetched.message, outcome="failed")
    remote.due_at = at if is_behind and is_good else at + timedelta(seconds=wait_s(remote, is_good=is_good))
    kept = set() if fetched.accepted is not None else {"document"}  # unchanged, and may have megabytes
    remote.save(update_fields=[field.name for field in remote._meta.concrete_fields if field.name not in {"id", *kept}])
    owner: dict[str, Any] = {kind_of(remote): remote}
    Fetch.objects.create(
        **owner,
        at=at,
        outcome=fetched.outcome,
        version=fetched.version,
        n_bytes=fetched.n_bytes,
        duration_s=duration_s,
        code=fetched.code,
        message=fetched.message[:_MOST_MESSAGE],
    )
    old = Fetch.objects.filter(**owner).order_by("-id").values_list("id", flat=True)[_KEPT : _KEPT + 1]
    Fetch.objects.filter(**owner, id__lte=next(iter(old), 0)).delete()


def kind_of(remote: AnyRemote) -> Kind:
    """Name of its table, which is also the column of the fetch log."""
    return "mount" if isinstance(remote, Mount) else "subscription"


def wait_s(remote: AnyRemote, *, is_good: bool) -> float:
    """Seconds until the next fetch: the interval, or after failures twice the previous wait, up to LONGEST_RETRY_S.

    A small offset by id spreads fetches that were set up together, or failed together.
    """
    wait_s = remote.every_s if is_good else min(remote.every_s * 2 ** min(remote.n_failed, 10), LONGEST_RETRY_S)
    spread: float = hashlib.sha256(f"{kind_of(remote)}:{remote.pk}".encode()).digest()[0] / 255
    return wait_s * (1 - _JITTER * spread)


# --- Many fetches at once ---------------------------------------------------------------------------------------------
PATIENCE_S = 0.5  # for the response, before other work is claimed
MOST_AT_ONCE = 32
_POLL_AGAIN_S = 0.2

Begin = Callable[[Run], "PendingFetch"]
Settle = Callable[[Run, Lease, "PendingFetch"], dict[str, Any]]


@dataclass(eq=False)
class PendingFetch:
    """A started fetch. remote, basis: the mount or subscription when the request was built."""

    remote: Any
    question: FetchRequest | None
    failure: Exception | None = None  # including failures before the request was sent
    answer: outbound.Answer | None = None
    began_s: float = field(default_factory=time.monotonic)
    took_s: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def start(self, wakeup: threading.Event) -> None:
        if self.question is None:
            self._done.set()
            return
        threading.Thread(target=self._ask, args=(self.question, wakeup), daemon=True, name="question").start()

    def _ask(self, question: FetchRequest, wakeup: threading.Event) -> None:
        try:
            self.answer = question.ask()
        except Exception as error:
            self.failure = error
        self.took_s = time.monotonic() - self.began_s
        self._done.set()
        wakeup.set()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, patience_s: float) -> bool:
        return self._done.wait(patience_s)


@dataclass(eq=False)
class _JoinedFetch:
    lease: Lease
    asked: PendingFetch
    beat: Heartbeat


class ConcurrentFetch:
    """Fetches of one worker: that of its run, and further ones that it starts while waiting for the response."""

    def __init__(self, kind: str, begin: Begin, settle: Settle) -> None:
        self._begin, self._settle = begin, settle
        self._other_kinds = [each for each in kinds() if each != kind]
        self._excluded_kinds = [kind, *low_priority_kinds()]
        self._wakeup = threading.Event()
        self._joined: list[_JoinedFetch] = []

    def work(self, run: Run, lease: Lease) -> dict[str, Any]:
        """Work on the run and return its result; further fetches are settled by then."""
        asked = self._begin(run)
        asked.start(self._wakeup)
        if asked.wait(PATIENCE_S):
            return self._settle(run, lease, asked)
        return self._wait_and_work(run, lease, asked)

    def _wait_and_work(self, run: Run, lease: Lease, asked: PendingFetch) -> dict[str, Any]:
        result: dict[str, Any] | None = None
        failure: BaseException | None = None
        while not self._is_over(result, failure) or self._joined:
            self._wakeup.clear()
            if not self._is_over(result, failure):
                self._claim_more(lease)
            n_settled = self._settle_joined()
            if asked.is_done and not self._is_over(result, failure):
                try:
                    result = self._settle(run, lease, asked)
                except Exception as error:
                    failure = error
                continue
            if not n_settled and not self._work_on_others(lease):
                self._wakeup.wait(_POLL_AGAIN_S)
        if failure is not None:
            raise failure
        return result or {}

    @staticmethod
    def _is_over(result: dict[str, Any] | None, failure: BaseException | None) -> bool:
        return result is not None or failure is not None

    def _claim_more(self, lease: Lease) -> None:
        while len(self._joined) < MOST_AT_ONCE:
            other = claim_run(at=lease.clock(), clock=lease.clock, without=self._other_kinds)
            if other is None:
                return
            try:
                asked = self._begin(Run.objects.get(pk=other.run_id))
            except Exception as error:
                asked = PendingFetch(None, None, failure=error)
            beat = Heartbeat(other)
            beat.__enter__()
            self._joined.append(_JoinedFetch(other, asked, beat))
            asked.start(self._wakeup)

    def _settle_joined(self) -> int:
        done = [joined for joined in self._joined if joined.asked.is_done]
        for joined in done:
            self._joined.remove(joined)
            joined.beat.__exit__(None, None, None)
            work_lease(joined.lease, self._handler(joined.asked))
        return len(done)

    def _handler(self, asked: PendingFetch) -> Callable[[Run, Lease], dict[str, Any]]:
        def handle(run: Run, lease: Lease) -> dict[str, Any]:
            if asked.remote is None and asked.failure is not None:
                raise asked.failure
            return self._settle(run, lease, asked)

        return handle

    def _work_on_others(self, lease: Lease) -> bool:
        """Work on one run of another, impatient kind, so that for example a recompute doesn't wait for a slow peer."""
        other = claim_run(at=lease.clock(), clock=lease.clock, without=self._excluded_kinds)
        if other is not None:
            work_lease(other)
        return other is not None
