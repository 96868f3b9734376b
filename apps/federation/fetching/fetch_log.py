"""What fetches of mounts and usage feeds share: the request, its log, and when the next one is due."""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.accounts.actor import SYSTEM
from apps.accounts.audit.log import record
from apps.accounts.sign_in.sealing import seal, unseal
from apps.core import outbound
from apps.core.errors import FieldProblem, Invalid
from apps.federation import staleness
from apps.federation.fetching import inline
from apps.federation.models import Fetch, Mount, Remote, Subscription

logger = logging.getLogger(__name__)

TOTAL_S = 60.0  # for everything about one answer, whatever the other side does meanwhile
MOST_REDIRECTS = 3
LONGEST_RETRY_S = 3_600
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
        own = inline.answer(self.url)
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
    """After a failure, twice the previous wait. Else the interval minus a small offset of its own, which spreads
    fetches that were set up together.
    """
    if not is_good:
        return float(max(min(remote.every_s * 2 ** min(remote.n_failed, 10), LONGEST_RETRY_S), remote.every_s))
    spread: float = hashlib.sha256(f"{kind_of(remote)}:{remote.pk}".encode()).digest()[0] / 255
    return remote.every_s * (1 - _JITTER * spread)
