"""Many questions at once in one worker: who answers slowly, or not at all, holds up neither the others nor other work.

An answer that comes quickly is waited for. Else, while it is out, this worker claims what else is due to be asked, asks
all of it at once, settles each answer as it comes, and works on other kinds of runs in between. A thread does nothing
but ask: it has no connection to the database, and `outbound` bounds its time and bytes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apps.core import outbound
from apps.federation.fetching.fetch_log import Question
from apps.runs.leases import Heartbeat, Lease
from apps.runs.models import Run
from apps.runs.registry import kinds, patient_kinds
from apps.runs.services import claim_run, work_lease

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
        self._not_now = [kind, *patient_kinds()]
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
