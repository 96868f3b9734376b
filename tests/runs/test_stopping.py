"""A worker that is asked to stop finishes a step, hands a long run back, and claims nothing more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from celery.signals import worker_shutting_down

from apps.runs import shutdown
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, work_due_runs, work_other_runs
from tests.instants import AT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handle")]
N_STEPS = 5
Handle = Callable[[Callable[[Run, Lease], dict[str, Any]]], None]


@pytest.fixture(autouse=True)
def own_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "_stop_requested", bytearray(1))


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next worker was asked for nothing."""
    monkeypatch.setattr(shutdown, "_stop_requested", bytearray(1))


def in_steps(done: list[int], asked_at: int, next_step: Callable[[Lease], object]) -> Callable[..., dict[str, Any]]:
    """A handler of five steps; SIGTERM comes during one of them."""

    def work(run: Run, lease: Lease) -> dict[str, Any]:
        for step in range(int(run.cursor.get("at", 0)), N_STEPS):
            with lease.fenced() as held:
                done.append(step)
                held.cursor = {"at": step + 1}
                held.save(update_fields=["cursor"])
                if step == asked_at:
                    worker_shutting_down.send(sender="worker", sig="SIGTERM", how="Warm", exitcode=0)
            next_step(lease)
        return {"steps": len(done)}

    return work


@pytest.mark.parametrize("next_step", [Lease.stop_if_requested, work_other_runs])
def test_a_long_run_is_released_after_its_step_and_resumed(
    handle: Handle, monkeypatch: pytest.MonkeyPatch, next_step: Callable[[Lease], object]
) -> None:
    done: list[int] = []
    handle(in_steps(done, 2, next_step))
    run = enqueue_run(kind="test", subject="thing", at=AT)
    assert work_due_runs(clock=lambda: AT) == 1
    run.refresh_from_db()
    assert (run.state, run.attempts, run.lease_until, run.cursor) == ("queued", 0, None, {"at": 3})
    assert done == [0, 1, 2]
    restart(monkeypatch)
    assert work_due_runs(clock=lambda: AT) == 1
    run.refresh_from_db()
    assert (run.state, run.attempts, done) == ("succeeded", 1, [0, 1, 2, 3, 4])


@pytest.mark.fault("F30")
def test_stopping_workers_never_fails_a_run(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    """No attempt is counted, so that a long import outlives any number of restarts."""
    done: list[int] = []
    run = enqueue_run(kind="test", subject="thing", at=AT, max_attempts=1)
    for step in range(N_STEPS):
        handle(in_steps(done, step, Lease.stop_if_requested))
        restart(monkeypatch)
        work_due_runs(clock=lambda: AT)
    run.refresh_from_db()
    assert done == [0, 1, 2, 3, 4]
    assert run.state in ("queued", "succeeded")


def test_a_stopping_worker_claims_nothing(handle: Handle) -> None:
    shutdown.request_stop()
    run = enqueue_run(kind="test", subject="thing", at=AT)
    assert work_due_runs(clock=lambda: AT) == 0
    run.refresh_from_db()
    assert (run.state, run.attempts) == ("queued", 0)


def test_a_released_run_resumes_before_a_newer_one(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that wait for the same can't be: it is left as that of a lost worker, without waiting for its lease."""
    done: list[int] = []

    def ask_again(lease: Lease) -> None:
        enqueue_run(kind="test", subject="thing", at=AT)
        lease.stop_if_requested()

    handle(in_steps(done, 0, ask_again))
    first = enqueue_run(kind="test", subject="thing", at=AT)
    work_due_runs(clock=lambda: AT)
    first.refresh_from_db()
    assert first.state == "running"
    assert first.lease_until is not None
    assert first.lease_until < datetime.now(UTC)
    restart(monkeypatch)
    handle(in_steps(done, -1, lambda lease: None))
    assert work_due_runs(clock=lambda: AT) == 2
    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
    assert done[:5] == [0, 1, 2, 3, 4]
