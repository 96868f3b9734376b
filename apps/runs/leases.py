"""The right to work on a run: it expires, it is numbered, and only the newest number may commit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any

from celery import current_task
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from apps.runs.holders import has_ended, own_machine
from apps.runs.models import Run
from apps.runs.workers import note_contact

# --- Shutdown of the worker -------------------------------------------------------------------------------------------
_asked = threading.Event()


class WorkerStops(Exception):
    """What was committed stays; another worker, or this one after its restart, goes on from there."""


def ask_to_stop() -> None:
    """Called by a signal handler."""
    _asked.set()


def is_stopping() -> bool:
    return _asked.is_set()


# --- Leases -----------------------------------------------------------------------------------------------------------
logger = logging.getLogger(__name__)

# Leases are measured by the database's clock: one clock for all workers, and a test that stops ours stops no lease.
_EXTEND = "lease_until = clock_timestamp() + make_interval(secs => %s)"
_RENEW = f"""
UPDATE runs_run SET heartbeat_at = %s, {_EXTEND} WHERE id = %s AND fence = %s AND state = 'running'
RETURNING cancel_requested
"""  # noqa: S608 - constants only

# A locked row waits for the next check: its step may still commit, because the server hears late of an end.
_END = """
UPDATE runs_run SET lease_until = clock_timestamp() - interval '1 second' WHERE id IN (
    SELECT run.id FROM runs_run AS run JOIN unnest(%s::bigint[], %s::int[], %s::text[]) AS ended (id, fence, holder)
        ON run.id = ended.id AND run.fence = ended.fence AND run.holder = ended.holder
    WHERE run.state = 'running' FOR NO KEY UPDATE OF run SKIP LOCKED)
"""

# No lease is longer than this, unless the clock was set back since: its worker renews it, or it ends after all.
_SHORTEN = """
UPDATE runs_run SET lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s) WHERE id IN (
    SELECT id FROM runs_run WHERE state = 'running'
        AND lease_until > clock_timestamp() + make_interval(secs => %(lease_s)s) FOR NO KEY UPDATE SKIP LOCKED)
"""


class LeaseLost(Exception):
    """Another worker has taken this run over: this worker's results no longer count."""


class RunCancelled(Exception):
    """The run was cancelled; what its steps committed stays."""


class Lease:
    """What a worker holds while it works on a run."""

    def __init__(self, run_id: int, fence: int, *, clock: Callable[[], datetime]) -> None:
        self.run_id = run_id
        self.fence = fence
        self.clock = clock
        self.finished = False

    def renew(self, at: datetime) -> None:
        """Extend the lease by another length.

        Raises:
            LeaseLost: it expired and was taken over.
            RunCancelled: the run was cancelled.
        """
        with connection.cursor() as cursor:
            cursor.execute(_RENEW, [at, settings.FAIRSHARE_LEASE_S, self.run_id, self.fence])
            row = cursor.fetchone()
        self._check(row)

    def between_steps(self) -> None:
        """For handlers of long runs, where all that was done is committed with its cursor.

        Raises:
            WorkerStops: this worker was asked to stop; the run is handed back.
        """
        if is_stopping():
            raise WorkerStops(f"Run {self.run_id} is handed back: its worker stops.")

    def report(
        self,
        done: int | None = None,
        total: int | None = None,
        message: str | None = None,
        counts: Mapping[str, Any] | None = None,
    ) -> None:
        """Show how far the work is, and hold on. Progress never goes back."""
        changes: dict[str, Any] = {"heartbeat_at": self.clock()}
        if total is not None:
            changes["progress_total"] = total
        if message is not None:
            changes["message"] = message[:512]
        if counts is not None:
            changes["counts"] = dict(counts)
        with transaction.atomic():
            run = self._locked()
            if done is not None:
                changes["progress_done"] = max(done, run.progress_done)
            Run.objects.filter(pk=run.pk).update(**changes)
            self.renew(changes["heartbeat_at"])

    @contextmanager
    def fenced(self) -> Iterator[Run]:
        """A transaction that commits only while this lease is the newest; yields the locked run.

        A worker frozen inside would keep the row locked and the run from being taken over, so the server ends a
        transaction that is idle for a lease's length.

        Raises:
            LeaseLost: the run was taken over; nothing is written.
            RunCancelled: the run was cancelled; nothing is written.
        """
        with transaction.atomic():
            with connection.cursor() as cursor:
                idle_ms = int(settings.FAIRSHARE_LEASE_S * 1000)
                cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [str(idle_ms)])
            yield self._locked()

    def finish(self, result: Mapping[str, Any], at: datetime) -> None:
        """Mark as done: callable inside `fenced()`, in one transaction with the last step."""
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
        if run is None or run.fence != self.fence or run.state != Run.State.RUNNING:
            raise LeaseLost(f"Run {self.run_id} was taken over by another worker.")
        if run.cancel_requested and not even_cancelled:
            raise RunCancelled(f"Run {self.run_id} shall stop.")
        return run

    def _check(self, row: tuple[bool] | None) -> None:
        if row is None:
            raise LeaseLost(f"Run {self.run_id} was taken over by another worker.")
        if row[0]:
            raise RunCancelled(f"Run {self.run_id} shall stop.")


class Heartbeat:
    """Renews a lease from a thread with a connection of its own, as long as the process is alive."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._is_of_worker = bool(current_task)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat of run {lease.run_id}", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _beat(self) -> None:
        try:
            while not self._stop.wait(settings.FAIRSHARE_LEASE_S / 4):
                try:
                    self._lease.renew(self._lease.clock())
                    if self._is_of_worker:
                        note_contact(self._lease.clock())
                except (LeaseLost, RunCancelled):
                    return  # the worker finds out at its next step
                except DatabaseError as error:
                    logger.warning("Run %s: no heartbeat: %s", self._lease.run_id, error)
                    connection.close()
        finally:
            connection.close()


def end_leases_of_ended_processes() -> None:
    """Runs whose process has ended on this machine are due at once; of other machines nothing is known."""
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
    """After the database's clock was set back, leases end a lease's length from now, not when it is later again."""
    with connection.cursor() as cursor:
        cursor.execute(_SHORTEN, {"lease_s": settings.FAIRSHARE_LEASE_S})
