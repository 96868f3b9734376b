"""Fetches from peers: the request, its log, when the next one is due, and many at once in one worker.

An answer that comes quickly is waited for. Else, while it is out, this worker claims what else is due to be asked, asks
all of it at once, settles each answer as it comes, and works on other kinds of runs in between. A thread does nothing
but ask: it has no connection to the database, and `outbound` bounds its time and bytes.

A host below `.example` is this installation: it is answered without a connection. Nothing resolves such a name
(RFC 2606), so no site loses an address by it. The answer is signed, expires and is checked like any other document.
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
from typing import Any
from urllib.parse import urlsplit

from apps.accounts.actor import SYSTEM
from apps.accounts.audit_log import record
from apps.accounts.sign_in.sealing import seal, unseal
from apps.core import clock, outbound
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.core.outbound import Answer
from apps.federation import staleness
from apps.federation.models import Fetch, Mount, Remote, Subscription
from apps.federation.publishing import given_name
from apps.runs.leases import Heartbeat, Lease
from apps.runs.models import Run
from apps.runs.services import claim_run, kinds, low_priority_kinds, work_lease

# --- Documents that this installation publishes to itself -------------------------------------------------------------
Publisher = Callable[[str, datetime], bytes]  # URL and instant → signed document; it may not need the database
_RESERVED = ".example"
_publishers: dict[str, Publisher] = {}


def register(host: str, publisher: Publisher) -> None:
    """Answer for a host from now on, in this process.

    Raises:
        ValueError: the name could be a real host's.
    """
    if not host.endswith(_RESERVED):
        raise ValueError(f"{host} doesn't end in {_RESERVED}.")
    _publishers[host] = publisher


def own_answer(url: str, *, at: datetime | None = None) -> Answer | None:
    """The answer; None for a host that isn't registered: it is fetched over the network. at: now, if not given."""
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

TOTAL_S = 60.0  # for everything about one answer, whatever the other side does meanwhile
MOST_REDIRECTS = 3
LONGEST_RETRY_S = 300  # a peer that is back is fetched within this
ISSUER_HEADER = "Fairshare-Issuer"  # who asks: that site then asks us at once, if it waits for us
BAD_OUTCOMES = (Fetch.Outcome.REFUSED, Fetch.Outcome.UNREACHABLE)
NOT_FETCHED = (Remote.State.PAUSED, Remote.State.BLOCKED)
_BLOCKS = ("forked", "unknown_key")  # a manager has to check; an old version may come from a stale cache
_KEPT = 500  # fetches shown in a timeline
_JITTER = 0.05  # of the interval
_SEALED_FOR = "reading a peer"
_MOST_TOKEN = 512
_MOST_MESSAGE = 2_000
_ETAG = re.compile(r"[\x21-\x7e]{1,256}")

Other = Mount | Subscription


@dataclass(frozen=True)
class Question:
    """All that a thread without a database needs for asking."""

    url: str
    headers: dict[str, str] = field(repr=False)
    limits: outbound.Limits

    def ask(self) -> outbound.Answer:
        own = own_answer(self.url)
        return own or outbound.fetch(self.url, headers=self.headers, limits=self.limits)


@dataclass
class FetchResult:
    """What one fetch found, as the timeline shows it. basis: the trusted state at the request."""

    outcome: str = Fetch.Outcome.SAME
    version: int | None = None
    n_bytes: int = 0
    code: str = ""
    message: str = ""
    etag: str = ""
    judged: Any = None
    basis: Any = None
    data: bytes = field(default=b"", repr=False)

    def refuse(self, code: str, message: str, *, outcome: str = Fetch.Outcome.REFUSED) -> None:
        """The message may repeat a place of the document: of that, only what can be kept and read."""
        self.outcome, self.code, self.message, self.judged = outcome, code, _readable(message), None


def _readable(message: str) -> str:
    return "".join(each if each.isprintable() else "\ufffd" for each in message[:_MOST_MESSAGE])


def etag_of(answer: outbound.Answer) -> str:
    """As it can be kept and sent again; "" for none, and for one that is no mark."""
    etag = answer.headers.get("etag", "").strip()
    return etag if _ETAG.fullmatch(etag) else ""


def question_of(remote: Other, *, url: str, etag: str) -> Question:
    """Our token for the other side goes to the first host only, as all own headers do.

    Raises:
        Unavailable: the token was sealed with a SECRET_KEY that is gone.
    """
    headers = {"If-None-Match": etag} if etag else {}
    if name := given_name():
        headers[ISSUER_HEADER] = name
    headers.update(token_header(unseal(_SEALED_FOR, remote.sealed_token) if remote.sealed_token else ""))
    return Question(url, headers, outbound.Limits(n_bytes=remote.most_bytes, total_s=TOTAL_S, redirects=MOST_REDIRECTS))


def no_document(status: int) -> str:
    """What an answer without a document means for a first fetch."""
    said = f"The address answers with status {status}, and no document."
    if status not in (401, 403, 404):
        return said
    return f"{said} The other site may not permit it: ask for a token, or for open access."


def token_header(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def sealed_token(token: str) -> str:
    """What the other side gave us to read it, as it is kept; "" for none."""
    return seal(_SEALED_FOR, clean_token(token)) if token.strip() else ""


def clean_token(token: str) -> str:
    plain = token.strip()
    if len(plain) > _MOST_TOKEN or not all("!" <= character <= "~" for character in plain):
        message = f"must be at most {_MOST_TOKEN} letters, digits and signs without blanks"
        raise Invalid(f"The token {message}.", fields=[FieldProblem("token", message)])
    return plain


def note(remote: Other, fetched: FetchResult, at: datetime, duration_s: float, *, is_behind: bool = False) -> None:
    """Log the fetch and set the next one: sooner or later, never none, unless a manager has to decide."""
    is_good = fetched.outcome not in BAD_OUTCOMES
    if fetched.outcome == Fetch.Outcome.REFUSED and fetched.message != remote.error:  # once, not at every try
        logger.warning("A document of %s is refused (%s): %s", remote, fetched.code, fetched.message)
    remote.fetched_at, remote.error_code, remote.error = at, fetched.code, "" if is_good else fetched.message
    remote.n_failed = 0 if is_good else remote.n_failed + 1
    if is_good:
        remote.good_at = at
        staleness.note_success(remote, at)
    elif fetched.code in _BLOCKS:
        remote.state = Remote.State.BLOCKED
        record(
            actor=SYSTEM,
            verb="federation.blocked",
            at=at,
            policy_slug=remote.policy.slug,
            entry_uid=remote.entry_uid,
            subject=str(remote),
            reason=fetched.message,
            outcome="failed",
        )
    remote.due_at = at if is_behind and is_good else at + timedelta(seconds=wait_s(remote, is_good=is_good))
    kept = set() if fetched.judged is not None else {"document"}  # megabytes that are the same
    remote.save(update_fields=[field.name for field in remote._meta.concrete_fields if field.name not in {"id", *kept}])
    mine = {kind_of(remote): remote}
    Fetch.objects.create(
        **mine,
        at=at,
        outcome=fetched.outcome,
        version=fetched.version,
        n_bytes=fetched.n_bytes,
        duration_s=duration_s,
        code=fetched.code,
        message=fetched.message[:_MOST_MESSAGE],
    )
    old = Fetch.objects.filter(**mine).order_by("-id").values_list("id", flat=True)[_KEPT : _KEPT + 1]
    Fetch.objects.filter(**mine, id__lte=next(iter(old), 0)).delete()


def kind_of(remote: Other) -> str:
    """As its table is called, and the column of the timeline that names it."""
    return "mount" if isinstance(remote, Mount) else "subscription"


def wait_s(remote: Other, *, is_good: bool) -> float:
    """After a failure twice the previous wait, at most LONGEST_RETRY_S; else the interval. Minus a small offset of
    its own, which spreads fetches that were set up together, or failed together.
    """
    wait_s = remote.every_s if is_good else min(remote.every_s * 2 ** min(remote.n_failed, 10), LONGEST_RETRY_S)
    spread: float = hashlib.sha256(f"{kind_of(remote)}:{remote.pk}".encode()).digest()[0] / 255
    return wait_s * (1 - _JITTER * spread)


# --- Many fetches at once ---------------------------------------------------------------------------------------------
PATIENCE_S = 0.5  # for an answer, before other work is claimed
MOST_AT_ONCE = 32
_POLL_AGAIN_S = 0.2

Begin = Callable[[Run], "Asked"]
Settle = Callable[[Run, Lease, "Asked"], dict[str, Any]]


@dataclass(eq=False)
class Asked:
    """A question that is out. remote, basis: what it is about, as it was when it was asked."""

    remote: Any
    question: Question | None
    failure: Exception | None = None  # also before it could be asked
    answer: outbound.Answer | None = None
    began_s: float = field(default_factory=time.monotonic)
    took_s: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    def start(self, bell: threading.Event) -> None:
        if self.question is None:
            self._done.set()
            return
        threading.Thread(target=self._ask, args=(self.question, bell), daemon=True, name="question").start()

    def _ask(self, question: Question, bell: threading.Event) -> None:
        try:
            self.answer = question.ask()
        except Exception as error:
            self.failure = error
        self.took_s = time.monotonic() - self.began_s
        self._done.set()
        bell.set()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, patience_s: float) -> bool:
        return self._done.wait(patience_s)


@dataclass(eq=False)
class _Rider:
    lease: Lease
    asked: Asked
    beat: Heartbeat


class ConcurrentFetch:
    """One run's question, and all that join it while it is out."""

    def __init__(self, kind: str, begin: Begin, settle: Settle) -> None:
        self._begin, self._settle = begin, settle
        self._only_kind = [each for each in kinds() if each != kind]
        self._not_now = [kind, *low_priority_kinds()]
        self._bell = threading.Event()
        self._riders: list[_Rider] = []

    def work(self, run: Run, lease: Lease) -> dict[str, Any]:
        """What settling the run's own answer comes to; whatever joined has ended by then."""
        asked = self._begin(run)
        asked.start(self._bell)
        if asked.wait(PATIENCE_S):
            return self._settle(run, lease, asked)
        return self._ride(run, lease, asked)

    def _ride(self, run: Run, lease: Lease, asked: Asked) -> dict[str, Any]:
        result: dict[str, Any] | None = None
        failure: BaseException | None = None
        while not self._is_over(result, failure) or self._riders:
            self._bell.clear()
            if not self._is_over(result, failure):
                self._let_join(lease)
            n_settled = self._settle_riders()
            if asked.is_done and not self._is_over(result, failure):
                try:
                    result = self._settle(run, lease, asked)
                except Exception as error:
                    failure = error
                continue
            if not n_settled and not self._work_on_others(lease):
                self._bell.wait(_POLL_AGAIN_S)
        if failure is not None:
            raise failure
        return result or {}

    @staticmethod
    def _is_over(result: dict[str, Any] | None, failure: BaseException | None) -> bool:
        return result is not None or failure is not None

    def _let_join(self, lease: Lease) -> None:
        while len(self._riders) < MOST_AT_ONCE:
            other = claim_run(at=lease.clock(), clock=lease.clock, without=self._only_kind)
            if other is None:
                return
            try:
                asked = self._begin(Run.objects.get(pk=other.run_id))
            except Exception as error:
                asked = Asked(None, None, failure=error)
            beat = Heartbeat(other)
            beat.__enter__()
            self._riders.append(_Rider(other, asked, beat))
            asked.start(self._bell)

    def _settle_riders(self) -> int:
        done = [rider for rider in self._riders if rider.asked.is_done]
        for rider in done:
            self._riders.remove(rider)
            rider.beat.__exit__(None, None, None)
            work_lease(rider.lease, self._handler(rider.asked))
        return len(done)

    def _handler(self, asked: Asked) -> Callable[[Run, Lease], dict[str, Any]]:
        def handle(run: Run, lease: Lease) -> dict[str, Any]:
            if asked.remote is None and asked.failure is not None:
                raise asked.failure
            return self._settle(run, lease, asked)

        return handle

    def _work_on_others(self, lease: Lease) -> bool:
        """Work on one run of another, impatient kind: a recompute doesn't wait for a peer's slow server."""
        other = claim_run(at=lease.clock(), clock=lease.clock, without=self._not_now)
        if other is not None:
            work_lease(other)
        return other is not None
