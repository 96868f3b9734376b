"""Cache verified tokens in this process, so that requests need no query while fresh, and work while the database is
down.

A revocation takes effect within `FRESH_S` while the database answers. During an outage, a token that was verified on
this host within a day stays valid, for `priorities:read` only: a process that starts then reads `token_files`.
`DatabaseProbe` limits the wait for a database that accepts queries without answering.
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

from apps.accounts import token_files
from apps.accounts.actor import TokenBounds
from apps.accounts.models import Token, User
from apps.accounts.services import VerifiedToken, look_up_token, prefix_of, states_of
from apps.core.derived_state import in_memory
from apps.core.errors import NotAllowed, Unauthenticated, Unavailable

DERIVED_STATE = (
    in_memory(
        "tokens",
        holds="verified tokens and their bounds",
        key="digest of the token",
        inputs="token, person, and the rights of both",
        range="one token",
        ends="a few seconds, a revocation, or a day without a database",
    ),
)

T = TypeVar("T")


class DatabaseProbe:
    """Runs queries in a thread with its own connection, so that callers can limit how long they wait.

    While a query is unanswered, further ones are rejected at once, so that a hanging server blocks one caller only.
    """

    def __init__(self) -> None:
        self._queries: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._unanswered: Future[Any] | None = None
        self._lock = threading.Lock()
        self._pid = 0

    def run(self, query: Callable[[], T], *, timeout_s: float) -> T:
        """Run a query.

        Raises:
            OperationalError: no answer within the timeout; and any error of the query.
        """
        if self._unanswered is not None and not self._unanswered.done():
            raise OperationalError("The database has not answered an earlier query.")
        self._start()
        answer: Future[T] = Future()
        self._queries.put((answer, query))
        try:
            return answer.result(timeout_s)
        except TimeoutError:
            if not answer.cancel():
                self._unanswered = answer
            raise OperationalError("The database doesn't answer.") from None

    def _start(self) -> None:
        """Start the thread once per process: threads don't survive a fork."""
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid, self._queries, self._unanswered = os.getpid(), SimpleQueue(), None
            threading.Thread(target=self._work, args=(self._queries,), name="database-probe", daemon=True).start()

    def _work(self, queries: SimpleQueue[tuple[Future[Any], Callable[[], Any]]]) -> None:
        while True:
            answer, query = queries.get()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                close_old_connections()
                result = query()
            except (OperationalError, InterfaceError) as error:
                connection.close()
                answer.set_exception(error)
            except BaseException as error:  # for the caller to handle; this thread continues
                answer.set_exception(error)
            else:
                answer.set_result(result)


FRESH_S = 4.0
REFRESH_S = 3.0  # from here on, one request a second queries the database; others use the cache
_MARGIN_S = 0.1  # tokens are verified a moment after they were found fresh
OUTAGE_S = token_files.KEPT_S
_WRITE_AGAIN_S = 600.0  # the file of a token that is in use is at most so much older than its last verification
RETRY_S = 1.0  # during an outage, one attempt a second; other requests don't wait for it
_MOST_KNOWN_TOKENS = 10_000


@dataclass(slots=True)
class _Known:
    """A cached token. refreshed_s: start of the last refresh before it expired. written_s: of its file."""

    verified: VerifiedToken
    checked_s: float
    refreshed_s: float = 0.0
    written_s: float | None = None


class TokenCache:
    """Verified tokens by the hash of their text: secrets are not stored."""

    def __init__(self) -> None:
        self._known: FIFOCache[bytes, _Known] = FIFOCache(_MOST_KNOWN_TOKENS)  # reading needs no lock
        self._lock = threading.Lock()
        self._failed_s = -RETRY_S
        self._probe = DatabaseProbe()

    def verify(self, text: str, *, at: datetime, refresh: bool = False) -> tuple[User, TokenBounds]:
        """Verify a token like `services.verify_token`, from the cache if it is recent enough.

        refresh: query the database from `REFRESH_S` on.

        Raises:
            Unauthenticated: the token is not valid.
            Unavailable: the database is down, and the token is not in the cache.
        """
        key = _key(text)
        known, now_s = self._known.get(key), time.monotonic()
        if known is None or now_s - known.checked_s >= (min(REFRESH_S, FRESH_S) if refresh else FRESH_S):
            known = self._load(key, text, known, now_s, at)
        if at >= known.verified.valid_until:
            self._remove(key)
            raise Unauthenticated("This token has expired: create a new one.", code="invalid_token")
        if now_s - known.checked_s < FRESH_S:
            return known.verified.user, known.verified.bounds
        return known.verified.user, _outage_bounds(known.verified.bounds)

    def is_fresh(self, text: str) -> bool:
        """Whether `verify` needs no query now, and the caller is not the one that refreshes the token."""
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

    def _load(self, key: bytes, text: str, known: _Known | None, now_s: float, at: datetime) -> _Known:
        if now_s - self._failed_s < RETRY_S:
            return self._during_outage(key, text, known, now_s, at)
        try:
            fresh = _Known(self._look_up(text, at), now_s)
        except Unauthenticated:
            self._remove(key)
            if prefix := prefix_of(text):
                token_files.remove(prefix, token_files.VERIFIED, token_files.secret_name(text))
            raise
        except (OperationalError, InterfaceError):
            self._failed_s = time.monotonic()
            connection.close()
            return self._during_outage(key, text, known, now_s, at)
        is_written = known is not None and known.verified.state == fresh.verified.state and known.written_s is not None
        if known is not None and is_written and now_s - (known.written_s or 0.0) < _WRITE_AGAIN_S:
            fresh.written_s = known.written_s
        else:
            _write(text, fresh.verified, at)
            fresh.written_s = now_s
        with self._lock:
            self._known[key] = fresh
        return fresh

    def _during_outage(self, key: bytes, text: str, known: _Known | None, now_s: float, at: datetime) -> _Known:
        if known is None:
            known = _read(text, now_s, at)
            if known is not None:
                with self._lock:
                    self._known[key] = known
        if known is None or now_s - known.checked_s > OUTAGE_S:
            raise Unavailable(
                "The database is unavailable, and this token was not used here recently.", code="no_database"
            )
        return known

    def forget_changed(self, *, at: datetime) -> None:
        """Forget tokens, in memory and in files, whose rows have changed.

        Raises:
            OperationalError: there is no database.
        """
        files = [(path, file) for path, file in token_files.list_files(at=at) if file.kind != token_files.READABLE]
        with self._lock:
            cached = [(key, known.verified) for key, known in self._known.items()]
        prefixes = {file.prefix for _path, file in files} | {verified.bounds.prefix for _key, verified in cached}
        states = states_of(prefixes) if prefixes else {}
        for path, file in files:
            if states.get(file.prefix) != file.state:
                path.unlink(missing_ok=True)
        for key, verified in cached:
            if states.get(verified.bounds.prefix) != verified.state:
                self._remove(key)
        for prefix in prefixes - set(states):
            token_files.forget(prefix)

    def _look_up(self, text: str, at: datetime) -> VerifiedToken:
        timeout_s = settings.FAIRSHARE_TOKEN_PATIENCE_S
        if timeout_s <= 0:
            return look_up_token(text, at=at)
        return self._probe.run(lambda: look_up_token(text, at=at), timeout_s=timeout_s)

    def _remove(self, key: bytes) -> None:
        with self._lock:
            self._known.pop(key, None)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _write(text: str, verified: VerifiedToken, at: datetime) -> None:
    name, content = token_files.secret_name(text), verified.to_json()
    token_files.write(
        token_files.TokenFile(verified.bounds.prefix, token_files.VERIFIED, name, verified.state, at, content)
    )


def _read(text: str, now_s: float, at: datetime) -> _Known | None:
    """What another process verified, with the age that it has now."""
    prefix = prefix_of(text)
    file = (
        None if prefix is None else token_files.read(prefix, token_files.VERIFIED, token_files.secret_name(text), at=at)
    )
    if prefix is None or file is None:
        return None
    age_s = max((at - file.checked_at).total_seconds(), FRESH_S)
    return _Known(VerifiedToken.of_json(file.content, prefix=prefix, state=file.state), now_s - age_s)


def _outage_bounds(bounds: TokenBounds) -> TokenBounds:
    if Token.Scope.PRIORITIES_READ not in bounds.scopes and Token.Scope.ADMIN not in bounds.scopes:
        raise NotAllowed("The database is unavailable: only tokens for priorities:read are served.", code="no_database")
    return replace(bounds, scopes=frozenset({Token.Scope.PRIORITIES_READ.value}))


tokens = TokenCache()
