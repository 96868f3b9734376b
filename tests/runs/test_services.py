from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import celery
import pytest
from django.db import DatabaseError, OperationalError, connection, connections, transaction

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core.errors import Invalid, NotFound
from apps.runs import bell, selectors, services, tasks
from apps.runs.leases import Lease, LeaseLost, RunCancelled
from apps.runs.models import Run
from apps.runs.services import cancel_run, claim_run, enqueue_run, work_due_runs, work_run_now
from tests.instants import AT

PAST = datetime(2020, 1, 1, tzinfo=UTC)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handle")]

Handle = Callable[[Callable[[Run, Lease], dict[str, Any]]], None]


def ask(subject: str = "thing", **given: Any) -> Run:
    return enqueue_run(kind="test", subject=subject, at=AT, **given)


def claim() -> Lease:
    lease = claim_run(at=AT)
    assert lease is not None
    return lease


def let_lease_expire(lease: Lease) -> None:
    Run.objects.filter(pk=lease.run_id).update(lease_until=PAST)


def test_a_second_request_joins_the_waiting_run_with_its_arguments() -> None:
    first, second = ask(arguments={"as_of": 1}), ask(arguments={"as_of": 2})
    assert first.pk == second.pk
    assert Run.objects.get().arguments == {"as_of": 2}


@pytest.mark.fault("F17")
def test_a_request_during_execution_waits_as_another_run() -> None:
    ask()
    claim()
    assert ask().pk == ask().pk
    assert sorted(Run.objects.values_list("state", flat=True)) == ["queued", "running"]
    assert claim_run(at=AT) is None  # single flight


def test_an_idempotency_key_returns_the_same_run_after_its_end() -> None:
    first = ask(idempotency_key="k")
    work_due_runs(clock=lambda: AT)
    again = ask(idempotency_key="k")
    assert (again.pk, again.state) == (first.pk, "succeeded")


def test_runs_of_one_subject_execute_sequentially() -> None:
    ask(idempotency_key="a")
    ask(idempotency_key="b")
    lease = claim()
    assert claim_run(at=AT) is None
    lease.finish({}, AT)
    assert claim_run(at=AT) is not None


def test_a_run_is_not_claimed_before_it_is_due() -> None:
    ask(due_at=AT + timedelta(hours=1))
    assert claim_run(at=AT) is None
    assert claim_run(at=AT + timedelta(hours=1)) is not None


def test_an_unknown_kind_waits_for_a_capable_worker() -> None:
    enqueue_run(kind="from a newer release", subject="x", at=AT)
    assert claim_run(at=AT) is None


def test_an_expired_lease_is_reclaimed_and_the_late_worker_cannot_commit() -> None:
    run = ask()
    late = claim()
    let_lease_expire(late)
    newer = claim()
    assert (newer.run_id, newer.fence) == (late.run_id, late.fence + 1)
    with pytest.raises(LeaseLost), late.fenced():
        User.objects.create(username="written too late")
    with pytest.raises(LeaseLost):
        late.finish({"by": "late"}, AT)
    with pytest.raises(LeaseLost):
        late.renew(AT)
    with pytest.raises(LeaseLost):
        late.report(done=9)
    services.fail_run(lease=late, error=RuntimeError("late"), at=AT)
    newer.finish({"by": "newer"}, AT)
    run.refresh_from_db()
    assert (run.state, run.result, run.error) == ("succeeded", {"by": "newer"}, "")
    assert not User.objects.filter(username="written too late").exists()


def test_a_renewed_lease_is_not_reclaimed() -> None:
    ask()
    lease = claim()
    let_lease_expire(lease)
    lease.renew(AT)
    assert claim_run(at=AT) is None


def test_a_worker_lost_too_often_fails_the_run_visibly() -> None:
    run = ask(max_attempts=2)
    for _ in range(2):
        let_lease_expire(claim())
    assert claim_run(at=AT) is None
    run.refresh_from_db()
    assert (run.state, run.error_code) == ("failed", "worker_lost")
    assert re.search(r"\b2\b", run.error), "how often it was lost"


def test_a_failure_is_retried_with_exponential_backoff(handle: Handle) -> None:
    def fail(run: Run, lease: Lease) -> dict[str, Any]:
        raise OSError("the disk is away")

    handle(fail)
    run = ask(max_attempts=3)
    for wait in (timedelta(seconds=2), timedelta(seconds=4)):
        began = datetime.now(UTC)
        assert work_due_runs(clock=lambda: AT) <= 1
        run.refresh_from_db()
        assert run.state == "queued"
        assert began + wait <= run.due_at <= datetime.now(UTC) + wait
        Run.objects.update(due_at=PAST)
    assert work_due_runs(clock=lambda: AT) <= 1
    run.refresh_from_db()
    assert (run.state, run.attempts, run.error) == ("failed", 3, "OSError: the disk is away")


def test_backoff_works_with_a_stopped_clock(handle: Handle) -> None:
    handle(lambda run, lease: {"n": 1 // 0})
    run = ask()
    work_due_runs(clock=lambda: AT)
    Run.objects.update(due_at=datetime.now(UTC) - timedelta(seconds=1))
    handle(lambda run, lease: {"ok": True})
    work_due_runs(clock=lambda: PAST)
    run.refresh_from_db()
    assert run.state == "succeeded"


def test_a_domain_error_is_not_retried(handle: Handle) -> None:
    def refuse(run: Run, lease: Lease) -> dict[str, Any]:
        raise Invalid("This is no log.", code="not_a_log")

    handle(refuse)
    ask()
    work_due_runs(clock=lambda: AT)
    run = Run.objects.get()
    assert (run.state, run.error_code, run.error, run.attempts) == ("failed", "not_a_log", "This is no log.", 1)


def test_a_failed_run_is_superseded_by_a_newer_one(handle: Handle) -> None:
    def fail_while_another_is_asked_for(run: Run, lease: Lease) -> dict[str, Any]:
        ask()
        raise RuntimeError("no")

    handle(fail_while_another_is_asked_for)
    first = ask()
    services.work_lease(claim())
    first.refresh_from_db()
    assert (first.state, first.error) == ("cancelled", "RuntimeError: no")
    assert Run.objects.filter(state="queued").count() == 1


def test_a_waiting_run_is_cancelled_at_once() -> None:
    run = cancel_run(run_id=ask().pk, at=AT, actor=COMMAND)
    assert (run.state, run.finished_at) == ("cancelled", AT)


def test_a_cancelled_run_stops_at_its_next_step_and_keeps_committed_work(handle: Handle) -> None:
    def work(run: Run, lease: Lease) -> dict[str, Any]:
        with lease.fenced() as held:
            held.cursor = {"line": 1}
            held.save(update_fields=["cursor"])
        cancel_run(run_id=run.pk, at=AT, actor=COMMAND)
        with lease.fenced():
            reached.append(run.pk)
        return {}

    reached: list[int] = []
    handle(work)
    ask()
    work_due_runs(clock=lambda: AT)
    run = Run.objects.get()
    assert reached == []
    assert (run.state, run.cursor) == ("cancelled", {"line": 1})


def test_the_heartbeat_signals_cancellation_to_a_worker() -> None:
    ask()
    lease = claim()
    cancel_run(run_id=lease.run_id, at=AT, actor=COMMAND)
    with pytest.raises(RunCancelled):
        lease.renew(AT)


@pytest.mark.fault("F1")
def test_progress_never_decreases() -> None:
    ask()
    lease = claim()
    lease.report(done=10, total=20, message="half", counts={"new": 10})
    lease.report(done=5)
    run = Run.objects.get()
    assert (run.progress_done, run.progress_total, run.message, run.counts) == (10, 20, "half", {"new": 10})


def test_only_owner_and_administrators_see_a_run() -> None:
    owner, other = User.objects.create(username="o"), User.objects.create(username="x")
    run = ask(owner=owner)
    assert selectors.get_run(run_id=run.pk, actor=Actor(user=owner, via="page")) == run
    assert selectors.get_run(run_id=run.pk, actor=COMMAND) == run
    with pytest.raises(NotFound):
        selectors.get_run(run_id=run.pk, actor=Actor(user=other, via="page"))
    with pytest.raises(NotFound):
        cancel_run(run_id=run.pk, at=AT, actor=Actor(user=other, via="page"))


def test_a_command_executes_its_run_without_broker_or_worker() -> None:
    run = work_run_now(ask().pk)
    assert (run.state, run.result) == ("succeeded", {"done": run.pk})


def test_a_dead_broker_loses_only_the_signal(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    rung = []

    def refuse(*args: Any, **kwargs: Any) -> None:
        rung.append(args)
        raise OperationalError("no broker")

    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    monkeypatch.setattr(bell, "_silent_until_s", 0.0)
    monkeypatch.setattr(celery.current_app, "send_task", refuse)
    with django_capture_on_commit_callbacks(execute=True):
        ask()
    assert rung == [(bell.TASK,)]
    assert tasks.work_run(Run.objects.get().pk, "test")


def test_the_sweeper_signals_only_due_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[int] = []
    monkeypatch.setattr(services, "send_runs", lambda runs, **_: rung.extend(id for id, _kind in runs))
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    assert tasks.sweep_runs() is False
    ask()
    assert tasks.sweep_runs() is True
    lease = claim()
    assert tasks.sweep_runs() is False
    let_lease_expire(lease)
    assert tasks.sweep_runs() is True
    assert len(rung) == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("F16")
def test_many_workers_execute_each_run_once_and_one_per_subject(handle: Handle) -> None:
    at_work: dict[str, int] = {}
    overlaps: list[str] = []
    done: list[int] = []
    guard = threading.Lock()

    def work(run: Run, lease: Lease) -> dict[str, Any]:
        with guard:
            if at_work.setdefault(run.subject, 0):
                overlaps.append(run.subject)
            at_work[run.subject] += 1
        with lease.fenced():
            pass
        with guard:
            at_work[run.subject] -= 1
            done.append(run.pk)
        return {}

    handle(work)
    runs = [ask(f"subject {n % 3}", idempotency_key=str(n)).pk for n in range(18)]

    def one_worker() -> None:
        try:
            while Run.objects.filter(state="queued").exists():
                work_due_runs(clock=lambda: AT)
        finally:
            connections.close_all()

    workers = [threading.Thread(target=one_worker) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(done) == runs
    assert overlaps == []
    assert set(Run.objects.values_list("attempts", flat=True)) == {1}


@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("F15")
def test_a_worker_frozen_inside_a_step_loses_its_transaction_and_run(settings: Any) -> None:
    settings.FAIRSHARE_LEASE_S = 0.2
    ask()
    lease = claim()
    with pytest.raises(DatabaseError):
        _write_after_a_freeze(lease)
    connection.close()
    newer = claim()
    assert newer.fence == lease.fence + 1
    assert Run.objects.get().message == ""


@pytest.mark.django_db(transaction=True)
def test_a_step_may_be_idle_for_a_lease_and_what_goes_on_after_it_as_long_as_before() -> None:
    """A test that is rolled back is such a caller: a page that takes a minute between two statements would lose it."""
    ask()
    lease = claim()
    with lease.fenced():
        assert _idle_limit() == "1min"
    assert _idle_limit() == "10min"
    with transaction.atomic():
        with lease.fenced():
            assert _idle_limit() == "10min"
        assert _idle_limit() == "10min"


def _idle_limit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        return str(cursor.fetchone()[0])


def _write_after_a_freeze(lease: Lease) -> None:
    with lease.fenced():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]
        _wait_until_backend_is_gone(pid)  # the server hears nothing from us, as from a stopped process
        Run.objects.update(message="written by a zombie")


def _wait_until_backend_is_gone(pid: int) -> None:
    """From a second connection, which asks the server itself and gives up after ten seconds."""

    def look() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = '10s'")
                cursor.execute(
                    "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE pid = "
                    f"{int(pid)}) LOOP PERFORM pg_sleep(0.02); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$"
                )
        finally:
            connection.close()

    looker = threading.Thread(target=look)
    looker.start()
    looker.join()


@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("F3")
def test_a_run_with_a_lost_connection_is_retried(handle: Handle) -> None:
    def lose_connection(run: Run, lease: Lease) -> dict[str, Any]:
        with lease.fenced(), connection.cursor() as cursor:
            User.objects.create(username="not committed")
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return {}

    handle(lose_connection)
    run = ask()
    services.work_lease(claim())
    run.refresh_from_db()
    assert (run.state, run.attempts) == ("queued", 1)
    assert not User.objects.exists()
    handle(lambda run, lease: {"ok": True})
    Run.objects.update(due_at=PAST)
    assert work_due_runs(clock=lambda: AT) == 1
    run.refresh_from_db()
    assert (run.state, run.result) == ("succeeded", {"ok": True})


def test_a_rolled_back_request_creates_no_run() -> None:
    with transaction.atomic():
        ask()
        transaction.set_rollback(True)
    assert not Run.objects.exists()
