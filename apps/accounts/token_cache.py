"""Tokens verified by this process: look-ups skip the database while fresh, and continue while it is away.

Revocation takes effect within `FRESH_S` while the database answers. While it doesn't, a token verified by this process
within a day stays valid for `priorities:read` alone. `Clerk` asks a database that may accept a question and never
answer it.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from queue import SimpleQueue
from typing import Any, TypeVar

from cachetools import FIFOCache
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from apps.accounts.actor import TokenBounds
from apps.accounts.models import Token, User
from apps.accounts.services import VerifiedToken, look_up_token
from apps.core.errors import NotAllowed, Unauthenticated, Unavailable

# --- A database that may not answer -----------------------------------------------------------------------------------
T = TypeVar("T")


class Clerk:
    """A thread with a connection of its own: callers choose how long they wait.

    While a query is unanswered the next ones are refused at once, so that a hanging server blocks one caller.
    """

    def __init__(self) -> None:
        self._questions: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._unanswered: Future[Any] | None = None
        self._lock = threading.Lock()
        self._pid = 0

    def ask(self, question: Callable[[], T], *, patience_s: float) -> T:
        """
        Raises:
            OperationalError: no answer yet; and whatever the question raises.
        """
        if self._unanswered is not None and not self._unanswered.done():
            raise OperationalError("The database has not answered an earlier question.")
        self._start()
        answer: Future[T] = Future()
        self._questions.put((answer, question))
        try:
            return answer.result(patience_s)
        except TimeoutError:
            if not answer.cancel():
                self._unanswered = answer
            raise OperationalError("The database doesn't answer.") from None

    def _start(self) -> None:
        """Once a process: threads don't survive a fork."""
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid, self._questions, self._unanswered = os.getpid(), SimpleQueue(), None
            threading.Thread(target=self._work, args=(self._questions,), name="clerk", daemon=True).start()

    def _work(self, questions: SimpleQueue[tuple[Future[Any], Callable[[], Any]]]) -> None:
        while True:
            answer, question = questions.get()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                close_old_connections()
                found = question()
            except (OperationalError, InterfaceError) as error:
                connection.close()
                answer.set_exception(error)
            except BaseException as error:  # the asker's to handle; this thread goes on
                answer.set_exception(error)
            else:
                answer.set_result(found)


# --- Verified tokens --------------------------------------------------------------------------------------------------
FRESH_S = 4.0
REFRESH_S = 3.0  # from here on one request a second asks the database; the others go on from memory
_MARGIN_S = 0.1  # before `FRESH_S`: a caller verifies a token a moment after it was found fresh
OUTAGE_S = 24 * 3600.0
RETRY_S = 1.0  # during an outage one attempt a second asks the database; the others don't wait for it
_MOST = 10_000


@dataclass(slots=True)
class _Known:
    """refreshed_s: when a refresh was last started, ahead of its expiry."""

    verified: VerifiedToken
    checked_s: float
    refreshed_s: float = 0.0


class TokenCache:
    """Keyed by the hash of the token: the secret itself is not kept."""

    def __init__(self) -> None:
        self._known: FIFOCache[bytes, _Known] = FIFOCache(_MOST)  # reading one needs no lock
        self._lock = threading.Lock()
        self._failed_s = -RETRY_S
        self._clerk = Clerk()

    def verify(self, text: str, *, at: datetime, refresh: bool = False) -> tuple[User, TokenBounds]:
        """As `services.verify_token`, from memory where that is good enough. refresh: ask the database from
        `REFRESH_S` on.

        Raises:
            Unauthenticated: the token doesn't hold.
            Unavailable: the database is away and this process doesn't know the token.
        """
        key = _key(text)
        known, now_s = self._known.get(key), time.monotonic()
        if known is None or now_s - known.checked_s >= (min(REFRESH_S, FRESH_S) if refresh else FRESH_S):
            known = self._ask(key, text, known, now_s, at)
        if at >= known.verified.valid_until:
            self._forget(key)
            raise Unauthenticated("This token has expired: make a new one.", code="invalid_token")
        if now_s - known.checked_s < FRESH_S:
            return known.verified.user, known.verified.bounds
        return known.verified.user, _outage_bounds(known.verified.bounds)

    def is_fresh(self, text: str) -> bool:
        """Whether `verify` would not ask the database now, and the caller isn't the one who shall refresh the token."""
        key = _key(text)
        known, now_s = self._known.get(key), time.monotonic()
        if known is None or now_s - known.checked_s >= FRESH_S - _MARGIN_S:
            return False
        if now_s - max(known.checked_s + REFRESH_S - RETRY_S, known.refreshed_s) < RETRY_S:
            return True
        known.refreshed_s = now_s
        return False

    def clear(self) -> None:
        with self._lock:
            self._known.clear()
            self._failed_s = -RETRY_S

    def _ask(self, key: bytes, text: str, known: _Known | None, now_s: float, at: datetime) -> _Known:
        if now_s - self._failed_s < RETRY_S:
            return _during_outage(known, now_s)
        try:
            fresh = _Known(self._look_up(text, at), now_s)
        except Unauthenticated:
            self._forget(key)
            raise
        except (OperationalError, InterfaceError):
            self._failed_s = time.monotonic()
            connection.close()
            return _during_outage(known, now_s)
        with self._lock:
            self._known[key] = fresh
        return fresh

    def _look_up(self, text: str, at: datetime) -> VerifiedToken:
        patience_s = settings.FAIRSHARE_TOKEN_PATIENCE_S
        if patience_s <= 0:
            return look_up_token(text, at=at)
        return self._clerk.ask(lambda: look_up_token(text, at=at), patience_s=patience_s)

    def _forget(self, key: bytes) -> None:
        with self._lock:
            self._known.pop(key, None)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _during_outage(known: _Known | None, now_s: float) -> _Known:
    if known is None or now_s - known.checked_s > OUTAGE_S:
        raise Unavailable("The database is unavailable, and this token was not used here recently.", code="no_database")
    return known


def _outage_bounds(bounds: TokenBounds) -> TokenBounds:
    if Token.Scope.PRIORITIES_READ not in bounds.scopes and Token.Scope.ADMIN not in bounds.scopes:
        raise NotAllowed("The database is away: only tokens for priorities:read are served.", code="no_database")
    return replace(bounds, scopes=frozenset({Token.Scope.PRIORITIES_READ.value}))


tokens = TokenCache()
