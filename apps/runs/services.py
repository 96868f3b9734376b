"""Background work as rows: registered, asked for, claimed, worked on, finished. The broker only rings."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import celery
from django.conf import settings
from django.db import DatabaseError, IntegrityError, InterfaceError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core import clock
from apps.core.disk_space import no_room_message
from apps.core.errors import DomainError, NotFound
from apps.runs import leases
from apps.runs.holders import own_holder
from apps.runs.leases import Heartbeat, Lease, LeaseLost, RunCancelled, WorkerStops, is_stopping
from apps.runs.models import Run
from apps.runs.workers import are_working

if TYPE_CHECKING:
    from apps.runs.leases import Lease
    from apps.runs.models import Run

__all__ = [
    "Handler",
    "Lease",
    "LeaseLost",
    "RunCancelled",
    "cancel_run",
    "claim_run",
    "enqueue_run",
    "fail_run",
    "finish_run",
    "handler_of",
    "kinds",
    "patient_kinds",
    "register",
]

# --- Kinds of runs ----------------------------------------------------------------------------------------------------
Handler = Callable[["Run", "Lease"], dict[str, Any]]

_handlers: dict[str, Handler] = {}
_patient: set[str] = set()


def register(kind: str, handler: Handler, *, is_patient: bool = False) -> None:
    """A handler works in steps, each inside `lease.fenced()`, goes on from `run.cursor`, and returns the result.

    is_patient: runs of this kind wait until nothing else is due, and let others go first between their steps.
    """
    _handlers[kind] = handler
    if is_patient:
        _patient.add(kind)


def patient_kinds() -> list[str]:
    return sorted(_patient)


def kinds() -> list[str]:
    return sorted(_handlers)


def handler_of(kind: str) -> Handler:
    return _handlers[kind]


# --- Runs -------------------------------------------------------------------------------------------------------------
logger = logging.getLogger(__name__)

TASK = "apps.runs.tasks.work_runs"
BACK_OFF_S = 2.0  # doubled with every attempt
MOST_BACK_OFF_S = 600.0
_POLL_S = 0.2

_COALESCE = """
INSERT INTO runs_run (kind, state, owner_id, subject, arguments, due_at, fence, attempts, max_attempts,
    cancel_requested, progress_done, message, cursor, counts, result, error_code, error, created_at)
VALUES (%s, 'queued', %s, %s, %s, %s, 0, 0, %s, false, 0, '', '{}', '{}', '{}', '', '', %s)
ON CONFLICT (kind, subject) WHERE state = 'queued' AND idempotency_key IS NULL
DO UPDATE SET due_at = LEAST(runs_run.due_at, EXCLUDED.due_at), arguments = EXCLUDED.arguments
RETURNING id
"""

# A lost worker's run is due when its lease is over, a failed one after its back-off: by the database's clock. After a
# clock was set back, a run that was due when it was asked for stays due, and no back-off is longer than the longest.
_WAITS = """
state = 'queued' AND CASE
    WHEN attempts > 0 THEN due_at <= clock_timestamp()
        OR due_at > clock_timestamp() + make_interval(secs => %(most_back_off_s)s)
    ELSE due_at <= GREATEST(%(at)s, created_at) END
"""
_CLAIM = f"""
UPDATE runs_run SET state = 'running', fence = fence + 1, attempts = attempts + 1, heartbeat_at = %(at)s,
    holder = %(holder)s,
    started_at = COALESCE(started_at, %(at)s), lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE id = (
    SELECT id FROM runs_run AS wanted
    WHERE kind = ANY(%(kinds)s) AND (%(run_id)s::bigint IS NULL OR id = %(run_id)s)
        AND attempts < max_attempts
        AND ({_WAITS} OR state = 'queued' AND attempts = 0 AND id = %(run_id)s
            OR state = 'running' AND lease_until < clock_timestamp())
        AND NOT EXISTS (
            SELECT FROM runs_run AS other WHERE other.kind = wanted.kind AND other.subject = wanted.subject
                AND other.state = 'running' AND other.id <> wanted.id)
    ORDER BY kind = ANY(%(patient)s), due_at, id
    FOR NO KEY UPDATE SKIP LOCKED
    LIMIT 1)
RETURNING id, fence
"""  # noqa: S608 - constants only

_GIVE_UP = """
UPDATE runs_run SET state = 'failed', lease_until = NULL, finished_at = %s, error_code = 'worker_lost',
    error = 'Its worker was lost ' || attempts || ' times; start it again when the cause is found.'
WHERE id IN (
    SELECT id FROM runs_run WHERE state = 'running' AND lease_until < clock_timestamp() AND attempts >= max_attempts
    FOR NO KEY UPDATE SKIP LOCKED)
"""

_IS_DUE = f"""
SELECT EXISTS (SELECT FROM runs_run WHERE {_WAITS} OR state = 'running' AND lease_until < clock_timestamp())
"""  # noqa: S608 - constants only


@transaction.atomic
def enqueue_run(
    *,
    kind: str,
    subject: str,
    arguments: Mapping[str, Any] | None = None,
    owner: User | None = None,
    idempotency_key: str | None = None,
    due_at: datetime | None = None,
    at: datetime,
    max_attempts: int = 5,
) -> Run:
    """Ask for work, in the caller's transaction; the bell rings when that commits.

    Without a key it joins a run of the same kind and subject that waits already, whose arguments become these.
    With a key the run made first with it is the answer, in whatever state it is.
    """
    if idempotency_key is None:
        with connection.cursor() as cursor:
            values = [kind, owner.pk if owner else None, subject, json.dumps(dict(arguments or {}))]
            cursor.execute(_COALESCE, [*values, due_at or at, max_attempts, at])
            run = Run.objects.get(pk=cursor.fetchone()[0])
    else:
        run, _ = Run.objects.get_or_create(
            kind=kind,
            idempotency_key=idempotency_key,
            defaults={
                "subject": subject,
                "arguments": dict(arguments or {}),
                "owner": owner,
                "due_at": due_at or at,
                "created_at": at,
                "max_attempts": max_attempts,
            },
        )
    transaction.on_commit(ring)
    return run


def ring() -> None:
    """Wake a worker. A broker that doesn't answer costs a sweep, not the work."""
    with contextlib.suppress(Exception):
        celery.current_app.send_task(TASK, retry=False, ignore_result=True)
        return
    logger.warning("The broker doesn't answer: waiting work is found by the next sweep.")


@transaction.atomic
def cancel_run(*, run_id: int, at: datetime, actor: Actor) -> Run:
    """Stop a run: at once while it waits, at its next step while it is at work. What it committed stays."""
    run = Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None or not may_see(run, actor):
        raise NotFound(f"There is no run {run_id}.")
    if run.state == Run.State.QUEUED:
        run.state, run.finished_at, run.message = Run.State.CANCELLED, at, "Cancelled before it began."
        run.save(update_fields=["state", "finished_at", "message"])
    elif run.state == Run.State.RUNNING:
        run.cancel_requested = True
        run.save(update_fields=["cancel_requested"])
    return run


def may_see(run: Run, actor: Actor) -> bool:
    """Its owner and administrators."""
    return actor.is_admin or (actor.user is not None and run.owner_id == actor.user.pk)


def claim_run(
    *,
    at: datetime,
    run_id: int | None = None,
    clock: Callable[[], datetime] = clock.now,
    without: Sequence[str] = (),
) -> Lease | None:
    """The next due, unclaimed run (or the named one), or None; of no kind of `without`, patient ones last.

    It waits while another of its kind and subject runs. Overdue leases are retaken under the next fence.
    """
    find_lost(at=at)
    wanted: dict[str, Any] = {
        "at": at,
        "holder": own_holder(),
        "most_back_off_s": MOST_BACK_OFF_S,
        "kinds": [kind for kind in kinds() if kind not in without],
        "patient": patient_kinds(),
        "run_id": run_id,
        "lease_s": settings.FAIRSHARE_LEASE_S,
    }
    for _ in range(3):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(_CLAIM, wanted)
                row = cursor.fetchone()
        except IntegrityError:
            continue  # another worker took one of the same subject in the same instant: check again
        return Lease(row[0], row[1], clock=clock) if row else None
    return None


def find_lost(*, at: datetime) -> int:
    """End the leases of processes that have ended. A run whose workers were lost too often fails visibly instead of
    killing one worker after another; how many runs that were."""
    leases.end_leases_of_ended_processes()
    leases.shorten_leases_of_a_later_clock()
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_UP, [at])
        return int(cursor.rowcount)


def is_any_due(*, at: datetime) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_IS_DUE, {"at": at, "most_back_off_s": MOST_BACK_OFF_S})
        return bool(cursor.fetchone()[0])


def work_due_runs(*, clock: Callable[[], datetime]) -> int:
    """Claim and work until nothing is due, or this worker was asked to stop."""
    n_worked = 0
    while not is_stopping() and (lease := claim_run(at=clock(), clock=clock)) is not None:
        work_lease(lease)
        n_worked += 1
    return n_worked


def let_others_go_first(lease: Lease) -> int:
    """Between two steps of a patient run: work on all that is due and isn't patient, here; how many it was.

    Raises:
        WorkerStops: as `Lease.between_steps`.
    """
    lease.between_steps()
    n_worked = 0
    while (other := claim_run(at=lease.clock(), clock=lease.clock, without=patient_kinds())) is not None:
        work_lease(other)
        n_worked += 1
    return n_worked


def work_lease(lease: Lease, handler: Handler | None = None) -> None:
    """Run the handler under a heartbeat; whatever it raises ends in the row, never in the worker.

    handler: in place of the one of its kind, where part of the work is done already.
    """
    run = Run.objects.get(pk=lease.run_id)
    try:
        with Heartbeat(lease):
            result = (handler or handler_of(run.kind))(run, lease)
        if not lease.finished:
            finish_run(lease=lease, result=result, at=lease.clock())
    except LeaseLost:
        logger.warning("Run %s was taken over; this worker's rest is dropped.", lease.run_id)
    except WorkerStops:
        _hand_back(lease)
    except RunCancelled:
        _end(lease, Run.State.CANCELLED, lease.clock(), message="Cancelled; what was done until then stays.")
    except DomainError as refusal:
        fail_run(lease=lease, error=refusal, at=lease.clock())
    except (DatabaseError, InterfaceError) as error:
        logger.warning("Run %s (%s): %s", lease.run_id, run.kind, error)
        if not connection.in_atomic_block:
            connection.close()  # it may be the connection itself that broke
        with contextlib.suppress(DatabaseError, InterfaceError):  # else the lease runs out, and the sweeper rings
            fail_run(lease=lease, error=error, at=lease.clock())
    except Exception as error:
        logger.exception("Run %s (%s) failed.", lease.run_id, run.kind)
        fail_run(lease=lease, error=error, at=lease.clock())


def finish_run(*, lease: Lease, result: Mapping[str, Any], at: datetime) -> None:
    lease.finish(result, at)


def fail_run(*, lease: Lease, error: Exception, at: datetime) -> None:
    """Try again later, with back-off; a refusal and the last attempt are final, and visible."""
    code, message = _described(error)
    with contextlib.suppress(LeaseLost):
        run = Run.objects.get(pk=lease.run_id)
        if isinstance(error, DomainError) or run.attempts >= run.max_attempts:
            _end(lease, Run.State.FAILED, at, error_code=code, error=message)
            return
        wait_s = min(BACK_OFF_S * 2 ** (run.attempts - 1), MOST_BACK_OFF_S)
        try:
            with transaction.atomic():
                _queue_again(lease, wait_s, code, message)
        except IntegrityError:  # a newer request for the same waits already and will do this one's work
            _end(lease, Run.State.CANCELLED, at, error_code=code, error=message, message="A newer run replaces it.")


def work_run_now(run_id: int) -> Run:
    """Execute this run here, or wait for its holder, and return it when it has ended.

    Claims it like any worker: needs neither broker nor worker, and may run beside them.
    """
    while True:
        lease = claim_run(at=clock.now(), run_id=run_id)
        if lease is not None:
            work_lease(lease)
        run = Run.objects.get(pk=run_id)
        if run.state not in (Run.State.QUEUED, Run.State.RUNNING):
            return run
        time.sleep(_POLL_S)


def leave_to_workers(run_id: int) -> Run:
    """Return this run when workers have ended it; when none works, execute it here.

    For what depends on where it runs: programs, folders and networks that the workers of the instance reach.
    """
    while are_working(clock.now()):
        run = Run.objects.get(pk=run_id)
        if run.state not in (Run.State.QUEUED, Run.State.RUNNING):
            return run
        time.sleep(_POLL_S)
    return work_run_now(run_id)


def _hand_back(lease: Lease) -> None:
    """The run waits as before it was claimed, and no attempt is counted."""
    mine = Run.objects.filter(pk=lease.run_id, fence=lease.fence, state=Run.State.RUNNING)
    try:
        with transaction.atomic():
            mine.update(state=Run.State.QUEUED, lease_until=None, attempts=F("attempts") - 1)
    except IntegrityError:  # one for the same waits already: this one goes on before it, as after a lost worker
        mine.update(lease_until=Now() - timedelta(seconds=1))
    ring()


def _queue_again(lease: Lease, wait_s: float, code: str, message: str) -> None:
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
    """The last word on a run, if it is still ours to speak."""
    mine = Run.objects.filter(pk=lease.run_id, fence=lease.fence, state=Run.State.RUNNING)
    mine.update(state=state, finished_at=at, lease_until=None, **fields)


def _described(error: Exception) -> tuple[str, str]:
    if isinstance(error, DomainError):
        return error.code, error.message
    if message := no_room_message(error):
        return "disk_full", message
    return "failed", f"{type(error).__name__}: {error}"[:2000]
