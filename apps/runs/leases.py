"""Leases of runs: they expire and are numbered, and only the holder of the newest number can commit."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any

from celery import current_task
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection, connections, transaction

from apps.core import log_context
from apps.runs.models import Run
from apps.runs.queues import FEDERATION, queue_of
from apps.runs.shutdown import WorkerStops, is_stopping
from apps.runs.worker_identity import has_ended, own_machine
from apps.runs.workers import record_contact

logger = logging.getLogger(__name__)

# Leases use the database's clock: it is the same for all workers, and tests that stop our clock don't affect it.
_RENEW = """
UPDATE runs_run SET heartbeat_at = %(at)s, progressed_at = %(at)s - make_interval(secs => %(idle_s)s),
    lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE id = %(id)s AND fence = %(fence)s AND state = 'running' RETURNING cancel_requested
"""
_GIVE_UP = """
UPDATE runs_run SET lease_until = clock_timestamp() - interval '1 second'
WHERE id = %s AND fence = %s AND state = 'running'
"""

# A locked row waits for the next check: its step may still commit, since the server notices a lost client late.
_END = """
UPDATE runs_run SET lease_until = clock_timestamp() - interval '1 second' WHERE id IN (
    SELECT run.id FROM runs_run AS run JOIN unnest(%s::bigint[], %s::int[], %s::text[]) AS ended (id, fence, holder)
        ON run.id = ended.id AND run.fence = ended.fence AND run.holder = ended.holder
    WHERE run.state = 'running' FOR NO KEY UPDATE OF run SKIP LOCKED)
"""

# No lease is longer than this unless the clock was set back: its worker renews it, or it expires.
_SHORTEN = """
UPDATE runs_run SET lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s) WHERE id IN (
    SELECT id FROM runs_run WHERE state = 'running'
        AND lease_until > clock_timestamp() + make_interval(secs => %(lease_s)s) FOR NO KEY UPDATE SKIP LOCKED)
"""


class LeaseLost(Exception):
    """Another worker has taken over this run: results of this worker are dropped."""


class RunCancelled(Exception):
    """The run was cancelled; committed steps stay."""


class Lease:
    """The right of a worker to work on a run.

    It makes progress with each report and each committed step, also of a run that is worked on between two of its own
    steps. Without any for FAIRSHARE_STALL_S it isn't renewed.
    """

    def __init__(self, run_id: int, fence: int, *, kind: str = "", clock: Callable[[], datetime]) -> None:
        self.run_id = run_id
        self.fence = fence
        self.kind = kind
        self.clock = clock
        self.finished = False
        self.own_until_s = 0.0  # monotonic; until then, shorter runs of its queue wait
        self._progressed_s = time.monotonic()

    def idle_s(self) -> float:
        """Seconds since the last progress."""
        return max(time.monotonic() - self._progressed_s, 0.0)

    def note_progress(self, *, then_s: float = 0.0) -> None:
        """Note progress. then_s: what follows has a time limit of its own, and none before."""
        for lease in [self, *_held.leases]:
            lease._progressed_s = time.monotonic() + then_s

    def renew(self, at: datetime) -> None:
        """Extend the lease.

        Raises:
            LeaseLost: it expired and another worker took over.
            RunCancelled: the run was cancelled.
        """
        values: dict[str, Any] = {"at": at, "idle_s": self.idle_s(), "lease_s": settings.FAIRSHARE_LEASE_S}
        with connection.cursor() as cursor:
            cursor.execute(_RENEW, {**values, "id": self.run_id, "fence": self.fence})
            row = cursor.fetchone()
        self._check(row)

    def give_up(self) -> None:
        """Let another worker take over at once."""
        with connection.cursor() as cursor:
            cursor.execute(_GIVE_UP, [self.run_id, self.fence])

    def stop_if_requested(self) -> None:
        """Stop here if the worker is shutting down. Handlers of long runs call it after each committed step.

        Raises:
            WorkerStops: the worker is shutting down; the run is queued again.
        """
        if is_stopping():
            raise WorkerStops(f"Run {self.run_id} is queued again: its worker stops.")

    def report(
        self,
        done: int | None = None,
        total: int | None = None,
        message: str | None = None,
        counts: Mapping[str, Any] | None = None,
    ) -> None:
        """Store progress, which never decreases, and renew the lease."""
        changes: dict[str, Any] = {"heartbeat_at": self.clock()}
        if total is not None:
            changes["progress_total"] = total
        if message is not None:
            changes["message"] = message[:512]
        if counts is not None:
            changes["counts"] = dict(counts)
        self.note_progress()
        with transaction.atomic():
            run = self._locked()
            if done is not None:
                changes["progress_done"] = max(done, run.progress_done)
            Run.objects.filter(pk=run.pk).update(**changes)
            self.renew(changes["heartbeat_at"])

    @contextmanager
    def fenced(self) -> Iterator[Run]:
        """Open a transaction that commits only while this lease is the newest; yields the run.

        The run's row is locked at the end, so that heartbeats and takeovers never wait for what the step does. Change
        it by `save(update_fields=…)`, late. A worker frozen inside would keep other rows locked, so the server ends the
        transaction after being idle for a lease's length; one of the caller, which ends later, keeps its limit.

        Raises:
            LeaseLost: another worker took over; nothing is written.
            RunCancelled: the run was cancelled before this step; nothing is written.
        """
        is_within_another = connection.in_atomic_block
        with transaction.atomic():
            if not is_within_another:
                with connection.cursor() as cursor:
                    idle_ms = int(settings.FAIRSHARE_LEASE_S * 1000)
                    cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [str(idle_ms)])
            yield self._checked(Run.objects.filter(pk=self.run_id).first())
            if not self.finished:
                self._locked(even_cancelled=True)
        self.note_progress()

    def finish(self, result: Mapping[str, Any], at: datetime) -> None:
        """Mark the run as succeeded; inside `fenced()`, in one transaction with the last step."""
        with transaction.atomic():
            run = self._locked(even_cancelled=True)
            run.state = Run.State.SUCCEEDED
            run.result = dict(result)
            run.finished_at = run.heartbeat_at = at
            run.lease_until = None
            run.error = run.error_code = ""
            if run.progress_total is not None:
                run.progress_done = run.progress_total
            run.save()
        self.finished = True

    def _locked(self, *, even_cancelled: bool = False) -> Run:
        run = Run.objects.select_for_update(no_key=True).filter(pk=self.run_id).first()
        return self._checked(run, even_cancelled=even_cancelled)

    def _checked(self, run: Run | None, *, even_cancelled: bool = False) -> Run:
        if run is None or run.fence != self.fence or run.state != Run.State.RUNNING:
            raise LeaseLost(f"Run {self.run_id} was taken over by another worker.")
        if run.cancel_requested and not even_cancelled:
            raise RunCancelled(f"Run {self.run_id} was cancelled.")
        return run

    def _check(self, row: tuple[bool] | None) -> None:
        if row is None:
            raise LeaseLost(f"Run {self.run_id} was taken over by another worker.")
        if row[0]:
            raise RunCancelled(f"Run {self.run_id} was cancelled.")


class _Held(threading.local):
    """Leases of this thread: of a run, and of those that are worked on between its steps."""

    def __init__(self) -> None:
        self.leases: list[Lease] = []


_held = _Held()


class Heartbeat:
    """Renews a lease from a thread with its own connection, as long as the process lives and the run progresses."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._is_of_worker = bool(current_task)
        self._worked_by = connections[DEFAULT_DB_ALIAS]  # of the thread that works, whose statement can be cancelled
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat of run {lease.run_id}", daemon=True)

    def __enter__(self) -> Heartbeat:
        _held.leases.append(self._lease)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _held.leases.remove(self._lease)
        self._stop.set()
        self._thread.join(timeout=5)

    def _beat(self) -> None:
        log_context.run_id.set(self._lease.run_id)  # of this thread
        try:
            while not self._stop.wait(settings.FAIRSHARE_LEASE_S / 4):
                try:
                    if self._lease.idle_s() > settings.FAIRSHARE_STALL_S:
                        self._give_up()
                        return
                    self._lease.renew(self._lease.clock())
                    if self._is_of_worker and queue_of(self._lease.kind) != FEDERATION:
                        record_contact(self._lease.clock())
                except (LeaseLost, RunCancelled):
                    return  # the worker notices at its next step
                except DatabaseError as error:
                    logger.warning("Run %s: no heartbeat: %s", self._lease.run_id, error)
                    connection.close()
        finally:
            connection.close()

    def _give_up(self) -> None:
        """Hand the run to another worker, and end what this one does: its statement, and if that isn't it, itself."""
        run_id, patience_s = self._lease.run_id, settings.FAIRSHARE_STALL_S
        logger.error("Run %s made no progress for %s s: another worker takes it over.", run_id, patience_s)
        self._lease.give_up()
        at_work = self._worked_by.connection
        if at_work is not None:
            at_work.cancel()
        if self._is_of_worker and not self._stop.wait(settings.FAIRSHARE_LEASE_S):
            logger.critical("Run %s still holds this worker, which ends: it has to be started again.", run_id)
            os.kill(os.getpid(), signal.SIGKILL)


def end_leases_of_ended_processes() -> None:
    """Make runs whose process has ended on this machine due at once; other machines are unknown."""
    machine = own_machine()
    if not machine:
        return
    held = Run.objects.filter(state=Run.State.RUNNING, holder__startswith=machine)
    ended = [row for row in held.values_list("pk", "fence", "holder") if has_ended(row[2])]
    if ended:
        logger.warning("Runs %s have lost their worker.", ", ".join(str(row[0]) for row in ended))
        with connection.cursor() as cursor:
            cursor.execute(_END, [list(column) for column in zip(*ended, strict=True)])


def shorten_leases_of_a_later_clock() -> None:
    """After the database's clock was set back, limit all leases to a lease's length from now."""
    with connection.cursor() as cursor:
        cursor.execute(_SHORTEN, {"lease_s": settings.FAIRSHARE_LEASE_S})
