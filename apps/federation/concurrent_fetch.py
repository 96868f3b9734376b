"""Many fetches at once: a worker starts further fetches while it waits for a slow response.

A fast response is waited for. While a slow one is pending, the worker claims other due fetches, starts them
concurrently, settles each response as it arrives. A worker that consumes earlier queues, too, works on their runs in
between. A thread only sends a request: it has no database connection, and `outbound` bounds its time and bytes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apps.core import outbound
from apps.federation.fetch_requests import FetchRequest
from apps.runs.kinds import kinds_before
from apps.runs.leases import Heartbeat, Lease
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease
from apps.runs.shutdown import is_stopping

PATIENCE_S = 0.5  # for the response, before other work is claimed
MOST_FETCHES_AT_ONCE = 32
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
        self._kind = kind
        self._others = kinds_before(kind)
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
            if not self._is_over(result, failure) or not self._others:
                self._claim_more(lease)
            done = [joined for joined in self._joined if joined.asked.is_done]
            for joined in done:
                self._joined.remove(joined)
                joined.beat.__exit__(None, None, None)
                work_lease(joined.lease, self._handler(joined.asked))
            n_settled = len(done)
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
        while len(self._joined) < MOST_FETCHES_AT_ONCE and not is_stopping():
            other = claim_run(at=lease.clock(), clock=lease.clock, of_kinds=[self._kind])
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

    def _handler(self, asked: PendingFetch) -> Callable[[Run, Lease], dict[str, Any]]:
        def handle(run: Run, lease: Lease) -> dict[str, Any]:
            if asked.remote is None and asked.failure is not None:
                raise asked.failure
            return self._settle(run, lease, asked)

        return handle

    def _work_on_others(self, lease: Lease) -> bool:
        """Work on one run of an earlier queue, so that for example a recompute doesn't wait for a slow peer."""
        if not self._others:
            return False
        other = claim_run(at=lease.clock(), clock=lease.clock, of_kinds=self._others)
        if other is not None:
            work_lease(other)
        return other is not None
