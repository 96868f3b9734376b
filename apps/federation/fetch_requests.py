"""A fetch from a peer: the request, its log, and the time of the next one."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from apps.accounts.actor import Actor
from apps.accounts.sign_in.sealing import seal, unseal
from apps.core import outbound
from apps.core.clock import SKEW
from apps.core.errors import FieldProblem, Invalid, TooOften
from apps.core.signing import Opened, open_document
from apps.federation import staleness
from apps.federation.models import Fetch, Mount, Remote, Subscription
from apps.federation.own_publishers import local_answer
from apps.federation.publishing import given_name

logger = logging.getLogger(__name__)

TOTAL_S = 60.0  # for the whole response, including redirects
MOST_REDIRECTS = 3
LONGEST_FETCH_RETRY_S = 300  # so that a peer that recovers is fetched soon
# names the requesting site, so that the other side can retry its own failed fetches from it
ISSUER_HEADER = "Fairshare-Issuer"
BAD_OUTCOMES = (Fetch.Outcome.REFUSED, Fetch.Outcome.UNREACHABLE)
NOT_FETCHED = (Remote.State.PAUSED, Remote.State.BLOCKED)
# require a manager's decision; an older version doesn't, because it may come from a stale cache
_BLOCKS = ("forked", "unknown_key")
_KEPT = 500  # fetches stored for each timeline
_JITTER = 0.05  # as a part of the interval
_SEALED_FOR = "reading a peer"
MOST_PREVIEWS = 2  # that a person waits for at once
_counting = threading.Lock()
_previews: Counter[int | None] = Counter()  # by person
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


def fetch_for_preview(url: str, token: str, limits: outbound.Limits, actor: Actor) -> Opened:
    """Fetch a document whose key isn't trusted yet, while a person waits. token: issued by the other side for this
    reader.

    Raises:
        Refused, Unreachable, TooLarge, BadDocument: the address or its content, with a message for the manager.
        TooOften: this person already waits for MOST_PREVIEWS documents.
    """
    with _counted_preview(actor):
        answer = FetchRequest(url, token_header(clean_token(token)), limits).ask()
    if answer.status != 200:
        raise outbound.Unreachable(no_document(answer.status))
    return open_document(answer.body, trusted=None)


@contextmanager
def _counted_preview(actor: Actor) -> Iterator[None]:
    """Each preview holds a thread that answers requests, in this process."""
    person = actor.user.pk if actor.user else None
    with _counting:
        if _previews[person] >= MOST_PREVIEWS:
            message = f"{MOST_PREVIEWS} documents that you asked for are being fetched: wait for their answers."
            raise TooOften(message, code="too_many_previews")
        _previews[person] += 1
    try:
        yield
    finally:
        with _counting:
            _previews[person] -= 1


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
        staleness.end_fallback(remote, at)
    elif remote.good_at is not None and remote.good_at > at + SKEW:
        remote.good_at = at  # of a clock that was ahead: its age would count from an instant that is still to come
    if fetched.code in _BLOCKS:
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
    """Seconds until the next fetch: the interval, or after failures twice the last wait, up to LONGEST_FETCH_RETRY_S.

    A small offset by id spreads fetches that were set up together, or failed together.
    """
    wait_s = remote.every_s if is_good else min(remote.every_s * 2 ** min(remote.n_failed, 10), LONGEST_FETCH_RETRY_S)
    spread: float = hashlib.sha256(f"{kind_of(remote)}:{remote.pk}".encode()).digest()[0] / 255
    return wait_s * (1 - _JITTER * spread)
