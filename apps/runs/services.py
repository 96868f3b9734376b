"""Enqueue, claim, execute, retry and cancel runs of background work."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core import clock, log_context
from apps.core.disk_space import disk_full_message
from apps.core.errors import DomainError, NotFound
from apps.runs import leases
from apps.runs.bell import send_runs
from apps.runs.kinds import (
    Handler,
    handler_of,
    kinds,
    kinds_before,
    kinds_in_turn,
    limits_by_key,
    limits_of_threads,
    shorter_kinds,
)
from apps.runs.leases import Heartbeat, Lease, LeaseLost, RunCancelled
from apps.runs.models import Run
from apps.runs.queues import rank_of
from apps.runs.shutdown import WorkerStops, is_stopping
from apps.runs.worker_identity import own_holder
from apps.runs.workers import are_working

logger = logging.getLogger(__name__)
access_log = logging.getLogger("fairshare.access")  # a line for each request and each run

BACK_OFF_S = 2.0  # doubled with every attempt
MOST_BACK_OFF_S = 600.0
_POLL_S = 0.2
_claiming = threading.RLock()  # so that two threads don't both find room for one more run
_threads: Counter[str] = Counter()  # of this process, at work on each kind
_turns: dict[str, int] = {}  # by kind, the number of the run of this process that was its last one
_turn_numbers = itertools.count(1)
_MOST_SENT = 1_000  # messages of a sweep, the oldest runs first

_COALESCE = """
INSERT INTO runs_run (kind, state, owner_id, subject, limit_key, arguments, due_at, fence, attempts, max_attempts,
    cancel_requested, progress_done, message, cursor, counts, result, error_code, error, created_at, request_id)
VALUES (%s, 'queued', %s, %s, %s, %s, %s, 0, 0, %s, false, 0, '', '{}', '{}', '{}', '', '', %s, %s)
ON CONFLICT (kind, subject) WHERE state = 'queued' AND idempotency_key IS NULL
DO UPDATE SET due_at = LEAST(runs_run.due_at, EXCLUDED.due_at), arguments = EXCLUDED.arguments,
    limit_key = EXCLUDED.limit_key, request_id = COALESCE(NULLIF(EXCLUDED.request_id, ''), runs_run.request_id)
RETURNING id
"""

# A lost worker's run is due when its lease expires, a failed one after its back-off, by the database's clock. If the
# clock was set back, a run stays due, and no back-off is longer than the maximum.
_WAITS = """
state = 'queued' AND CASE
    WHEN attempts > 0 THEN due_at <= clock_timestamp()
        OR due_at > clock_timestamp() + make_interval(secs => %(most_back_off_s)s)
    ELSE due_at <= GREATEST(%(at)s, created_at) END
"""
# of_kind …: what a run that ended held back.
_CLAIMABLE = f"""
SELECT id, kind FROM runs_run AS wanted
WHERE kind = ANY(%(kinds)s) AND (%(run_id)s::bigint IS NULL OR id = %(run_id)s)
    AND attempts < max_attempts
    AND ({_WAITS} OR state = 'queued' AND attempts = 0 AND %(is_urgent)s
        OR state = 'running' AND lease_until < clock_timestamp())
    AND NOT EXISTS (
        SELECT FROM runs_run AS other WHERE other.kind = wanted.kind AND other.subject = wanted.subject
            AND other.state = 'running' AND other.id <> wanted.id)
    AND (%(is_urgent)s OR limit_key = '' OR NOT %(most_of_key)s::jsonb ? kind OR (
        SELECT count(*) FROM runs_run AS other WHERE other.kind = wanted.kind
            AND other.limit_key = wanted.limit_key AND other.state = 'running' AND other.id <> wanted.id
        ) < (%(most_of_key)s::jsonb ->> kind)::int)
    AND (%(subject)s::text IS NULL OR subject = %(subject)s OR limit_key = %(limit_key)s AND limit_key <> '')
ORDER BY (%(rank)s::jsonb ->> kind)::int, due_at, id
"""  # noqa: S608 - constants only
_CLAIM = f"""
UPDATE runs_run SET state = 'running', fence = fence + 1, attempts = attempts + 1, heartbeat_at = %(at)s,
    progressed_at = %(at)s, holder = %(holder)s,
    started_at = COALESCE(started_at, %(at)s), lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE id = (SELECT id FROM ({_CLAIMABLE} FOR NO KEY UPDATE SKIP LOCKED LIMIT 1) AS claimed)
RETURNING id, fence, kind
"""  # noqa: S608 - constants only

_FAIL_LOST = """
UPDATE runs_run SET state = 'failed', lease_until = NULL, finished_at = %s, error_code = 'worker_lost',
    error = 'Its worker was lost ' || attempts || ' times; restart it when the cause is fixed.'
WHERE id IN (
    SELECT id FROM runs_run WHERE state = 'running' AND lease_until < clock_timestamp() AND attempts >= max_attempts
    FOR NO KEY UPDATE SKIP LOCKED)
"""


@transaction.atomic
def enqueue_run(
    *,
    kind: str,
    subject: str,
    limit_key: str = "",
    arguments: Mapping[str, Any] | None = None,
    owner: User | None = None,
    idempotency_key: str | None = None,
    due_at: datetime | None = None,
    at: datetime,
    max_attempts: int = 5,
) -> Run:
    """Enqueue a run in the caller's transaction; it is sent to the queue of its kind when that commits.

    Without a key, it joins a queued run of the same kind and subject, and replaces its arguments. With a key, the run
    first created with that key is returned, whatever its state. limit_key: few of one kind and key run at once.
    """
    limit_key, due_at = limit_key[:255], due_at or at
    if idempotency_key is None:
        with connection.cursor() as cursor:
            values = [kind, owner.pk if owner else None, subject, limit_key, json.dumps(dict(arguments or {}))]
            cursor.execute(_COALESCE, [*values, due_at, max_attempts, at, log_context.request_id.get()])
            run = Run.objects.get(pk=cursor.fetchone()[0])
            is_sent = run.due_at < due_at  # when that one was enqueued
    else:
        run, is_new = Run.objects.get_or_create(
            kind=kind,
            idempotency_key=idempotency_key,
            defaults={
                "subject": subject,
                "limit_key": limit_key,
                "arguments": dict(arguments or {}),
                "owner": owner,
                "due_at": due_at,
                "created_at": at,
                "request_id": log_context.request_id.get(),
                "max_attempts": max_attempts,
            },
        )
        is_sent = not is_new
    if not is_sent and due_at <= at:
        transaction.on_commit(partial(send_runs, [(run.pk, kind)]))
    return run


@transaction.atomic
def cancel_run(*, run_id: int, at: datetime, actor: Actor) -> Run:
    """Cancel a run: at once if it is queued, at its next step if it runs. Committed steps stay."""
    run = Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None or not may_see(run, actor):
        raise NotFound(f"There is no run {run_id}.")
    if run.state == Run.State.QUEUED:
        run.state, run.finished_at, run.message = Run.State.CANCELLED, at, "Cancelled before it started."
        run.save(update_fields=["state", "finished_at", "message"])
    elif run.state == Run.State.RUNNING:
        run.cancel_requested = True
        run.save(update_fields=["cancel_requested"])
    return run


def may_see(run: Run, actor: Actor) -> bool:
    """Whether the actor is the owner of the run or an administrator, and the run is within the bounds of a token."""
    kind, _, name = run.subject.partition(":")
    if kind == "source":
        is_reached = actor.reaches_source(name)
    else:
        is_reached = actor.reaches_policy(run.arguments.get("policy", "") if kind != "policy" else name)
    own = actor.user is not None and run.owner_id == actor.user.pk
    return actor.is_admin or (own and (is_reached or not actor.is_bound))


def claim_run(
    *,
    at: datetime,
    run_id: int | None = None,
    is_urgent: bool | None = None,
    clock: Callable[[], datetime] = clock.now,
    of_kinds: Collection[str] | None = None,
) -> Lease | None:
    """Claim the named run, or the next due one; None if there is none. Runs of earlier queues come first.

    A run waits while another of its kind and subject runs, until it is due, and while as many of its `limit_key` run as
    its kind permits; the latter two don't hold for an urgent run, as one that is named is unless `is_urgent` is False.
    Expired leases are taken over with the next fence number.
    """
    fail_lost_runs(at=at)
    wanted: dict[str, Any] = {
        **_asked(at, of_kinds=of_kinds, run_id=run_id),
        "is_urgent": run_id is not None if is_urgent is None else is_urgent,
        "holder": own_holder(),
        "lease_s": settings.FAIRSHARE_LEASE_S,
    }
    for _ in range(3):
        try:
            with _claiming, transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(_CLAIM, wanted)
                row = cursor.fetchone()
        except IntegrityError:
            continue  # another worker claimed one of the same subject at the same moment: try again
        return Lease(row[0], row[1], kind=row[2], clock=clock) if row else None
    return None


def _asked(at: datetime, *, of_kinds: Collection[str] | None = None, run_id: int | None = None) -> dict[str, Any]:
    """Values of `_CLAIMABLE`."""
    return {
        "at": at,
        "most_back_off_s": MOST_BACK_OFF_S,
        "kinds": list(kinds() if of_kinds is None else of_kinds),
        "rank": json.dumps({kind: rank_of(kind) for kind in kinds()}),
        "most_of_key": json.dumps(limits_by_key()),
        "run_id": run_id,
        "is_urgent": False,
        "subject": None,
        "limit_key": "",
    }


def fail_lost_runs(*, at: datetime) -> int:
    """End leases of ended processes, and fail runs whose workers were lost too often; returns the number of failed
    runs.

    Without this, a run that kills its worker would kill one worker after another.
    """
    leases.end_leases_of_ended_processes()
    leases.shorten_leases_of_a_later_clock()
    with connection.cursor() as cursor:
        cursor.execute(_FAIL_LOST, [at])
        return int(cursor.rowcount)


def send_due_runs(*, at: datetime) -> bool:
    """Fail lost runs, and send those that are due and unclaimed: their messages may be lost. Returns whether one is."""
    fail_lost_runs(at=at)
    due = _claimable(_asked(at), _MOST_SENT)
    send_runs(due, only_to_empty_queues=True)
    return bool(due)


def _send_held_back(run: Run, at: datetime) -> None:
    """Send the runs that waited for the end of this one: of its subject, of its limit, or for its thread."""
    values = {**_asked(at, of_kinds=[run.kind]), "subject": run.subject, "limit_key": run.limit_key}
    if run.kind in limits_of_threads():
        values["subject"] = None
    due = _claimable(values, 2)
    transaction.on_commit(partial(send_runs, due))


def _claimable(values: Mapping[str, Any], most: int) -> list[tuple[int, str]]:
    with connection.cursor() as cursor:
        cursor.execute(f"{_CLAIMABLE} LIMIT {most:d}", values)
        return [(id, kind) for id, kind in cursor.fetchall()]


def work_run(run_id: int, kind: str, *, clock: Callable[[], datetime]) -> bool:
    """Work on this run unless it has to wait; returns whether it was worked on.

    Before it come due runs of earlier queues, and one of each kind in turn with it whose last turn was before its own.
    A message that is old, lost its run to another worker or came twice does nothing.
    """
    work_due_runs(clock=clock, of_kinds=kinds_before(kind))
    last = _turns.get(kind, 0)
    for other in kinds_in_turn(kind):
        if _turns.get(other, 0) < last:
            _work_next_run(other, clock=clock)
    with _thread_for(kind) as is_free:
        lease = claim_run(at=clock(), run_id=run_id, is_urgent=False, clock=clock) if is_free else None
        if lease is not None:
            work_lease(lease)
    return lease is not None


def _work_next_run(kind: str, *, clock: Callable[[], datetime]) -> int:
    """Work on the first due run of this kind; returns their number."""
    with _thread_for(kind) as is_free:
        lease = claim_run(at=clock(), clock=clock, of_kinds=[kind]) if is_free else None
        if lease is not None:
            work_lease(lease)
    return int(lease is not None)


@contextmanager
def _thread_for(kind: str) -> Iterator[bool]:
    """Whether this process has a thread left for a run of this kind, which is taken until the end of the block."""
    with _claiming:
        is_free = not is_stopping() and _threads[kind] < limits_of_threads().get(kind, _threads[kind] + 1)
        _threads[kind] += is_free
    try:
        yield is_free
    finally:
        with _claiming:
            _threads[kind] -= is_free


def work_due_runs(*, clock: Callable[[], datetime], of_kinds: Collection[str] | None = None) -> int:
    """Work on due runs until there are none or this worker must stop; returns their number."""
    n_worked = 0
    while of_kinds != [] and not is_stopping():
        lease = claim_run(at=clock(), clock=clock, of_kinds=of_kinds)
        if lease is None:
            break
        work_lease(lease)
        n_worked += 1
    return n_worked


def work_other_runs(lease: Lease) -> int:
    """Between two steps of a long run, work on all due runs of earlier queues; returns the number of runs.

    And on one run of each shorter kind of its own queue. Then the long run has as much time as these took, so that many
    short ones don't keep it waiting.

    Raises:
        WorkerStops: as `Lease.stop_if_requested`.
    """
    lease.stop_if_requested()
    n_worked = work_due_runs(clock=lease.clock, of_kinds=kinds_before(lease.kind))
    began_s = time.monotonic()
    if began_s >= lease.own_until_s:
        n_worked += sum(_work_next_run(kind, clock=lease.clock) for kind in shorter_kinds(lease.kind))
        ended_s = time.monotonic()
        lease.own_until_s = ended_s + (ended_s - began_s)
    return n_worked


def work_lease(lease: Lease, handler: Handler | None = None) -> None:
    """Execute the handler of a claimed run under a heartbeat. Errors are stored in the row and not raised.

    handler: replaces the registered one, if part of the work is already done.
    """
    run = Run.objects.get(pk=lease.run_id)
    _turns[run.kind] = next(_turn_numbers)
    with log_context.within_run(run.pk, run.request_id):
        began_s = time.perf_counter()
        _work(run, lease, handler)
        _log_run(run, began_s)


def _log_run(run: Run, began_s: float) -> None:
    if not access_log.isEnabledFor(logging.INFO):
        return
    with contextlib.suppress(DatabaseError, InterfaceError):
        run.refresh_from_db(fields=["state"])
    duration_ms = round((time.perf_counter() - began_s) * 1000, 3)
    details = {"kind": run.kind, "state": run.state, "duration_ms": duration_ms}
    access_log.info("%(kind)s %(state)s in %(duration_ms).1f ms", details, extra=details)


def _work(run: Run, lease: Lease, handler: Handler | None) -> None:
    try:
        with Heartbeat(lease):
            result = (handler or handler_of(run.kind))(run, lease)
        if not lease.finished:
            lease.finish(result, lease.clock())
    except LeaseLost:
        logger.warning("Run %s was taken over; the rest of this worker's results is dropped.", lease.run_id)
    except WorkerStops:
        _requeue(lease)
    except RunCancelled:
        _end(lease, Run.State.CANCELLED, lease.clock(), message="Cancelled; finished steps stay.")
    except DomainError as refusal:
        fail_run(lease=lease, error=refusal, at=lease.clock())
    except (DatabaseError, InterfaceError) as error:
        logger.warning("Run %s (%s): %s", lease.run_id, run.kind, error)
        if not connection.in_atomic_block:
            connection.close()  # the connection itself may be broken
        # otherwise the lease expires, and the sweep sends the run again
        with contextlib.suppress(DatabaseError, InterfaceError):
            fail_run(lease=lease, error=error, at=lease.clock())
    except Exception as error:
        logger.exception("Run %s (%s) failed.", lease.run_id, run.kind)
        fail_run(lease=lease, error=error, at=lease.clock())
    with contextlib.suppress(DatabaseError, InterfaceError):
        _send_held_back(run, lease.clock())


def fail_run(*, lease: Lease, error: Exception, at: datetime) -> None:
    """Queue a failed run again after a back-off. A DomainError, or the last attempt, fails it for good."""
    code, message = _describe(error)
    with contextlib.suppress(LeaseLost):
        run = Run.objects.get(pk=lease.run_id)
        if isinstance(error, DomainError) or run.attempts >= run.max_attempts:
            _end(lease, Run.State.FAILED, at, error_code=code, error=message)
            return
        wait_s = min(BACK_OFF_S * 2 ** (run.attempts - 1), MOST_BACK_OFF_S)
        try:
            with transaction.atomic():
                _retry_later(lease, wait_s, code, message)
        except IntegrityError:  # a newer queued run of the same kind and subject will do this work
            _end(lease, Run.State.CANCELLED, at, error_code=code, error=message, message="A newer run replaces it.")


def work_run_now(run_id: int) -> Run:
    """Execute this run here, or wait for the worker that holds it, and return it when it has ended.

    It is claimed as by any worker: this needs no broker and no worker, and may run beside them.
    """
    while True:
        lease = claim_run(at=clock.now(), run_id=run_id)
        if lease is not None:
            work_lease(lease)
        run = Run.objects.get(pk=run_id)
        if run.state not in (Run.State.QUEUED, Run.State.RUNNING):
            return run
        time.sleep(_POLL_S)


def wait_for_workers(run_id: int) -> Run:
    """Return this run when workers have ended it; if no worker is alive, execute it here.

    For runs that depend on programs, folders and networks of the worker's machine.
    """
    while are_working(clock.now()):
        run = Run.objects.get(pk=run_id)
        if run.state not in (Run.State.QUEUED, Run.State.RUNNING):
            return run
        time.sleep(_POLL_S)
    return work_run_now(run_id)


def _requeue(lease: Lease) -> None:
    """Queue the run as before it was claimed, without counting the attempt."""
    runs = Run.objects.filter(pk=lease.run_id, fence=lease.fence, state=Run.State.RUNNING)
    try:
        with transaction.atomic():
            runs.update(state=Run.State.QUEUED, lease_until=None, attempts=F("attempts") - 1)
    except IntegrityError:  # another one is queued: this one is taken over first, like after a lost worker
        runs.update(lease_until=Now() - timedelta(seconds=1))


def _retry_later(lease: Lease, wait_s: float, code: str, message: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE runs_run SET state = 'queued', lease_until = NULL, error_code = %s, error = %s,
                due_at = clock_timestamp() + make_interval(secs => %s)
            WHERE id = %s AND fence = %s AND state = 'running'
            """,
            [code, message, wait_s, lease.run_id, lease.fence],
        )
        if not cursor.rowcount:
            raise LeaseLost(f"Run {lease.run_id} was taken over by another worker.")


def _end(lease: Lease, state: str, at: datetime, **fields: str) -> None:
    """End a run, if this lease still holds it."""
    runs = Run.objects.filter(pk=lease.run_id, fence=lease.fence, state=Run.State.RUNNING)
    runs.update(state=state, finished_at=at, lease_until=None, **fields)


def _describe(error: Exception) -> tuple[str, str]:
    if isinstance(error, DomainError):
        return error.code, error.message
    if message := disk_full_message(error):
        return "disk_full", message
    return "failed", f"{type(error).__name__}: {error}"[:2000]
