"""Runs whose worker hangs in a step: their leases stay renewable, others take over, and only one of both commits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.db import OperationalError, connection, connections
from django.test import Client

from apps.accounts.models import User
from apps.core.postgresql import bound_statements
from apps.pages.monitoring.gauges import run_families
from apps.runs import leases, services
from apps.runs.leases import Lease, LeaseLost
from apps.runs.models import Run
from apps.runs.services import claim_run, enqueue_run
from apps.runs.workers import silent_workers
from tests.instants import AT

PAST = datetime(2020, 1, 1, tzinfo=UTC)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("handle")]


def claim() -> Lease:
    enqueue_run(kind="test", subject="thing", at=AT)
    lease = claim_run(at=AT)
    assert lease is not None
    return lease


@pytest.fixture
def worker_in_its_step() -> Iterator[Callable[[Lease], Callable[[], list[BaseException]]]]:
    """Starts a worker that stands inside a step with rows of its own; the returned call lets it go on to its end."""
    let_go = threading.Event()
    threads: list[threading.Thread] = []
    problems: list[BaseException] = []

    def start(lease: Lease) -> Callable[[], list[BaseException]]:
        stands = threading.Event()

        def work() -> None:
            try:
                with lease.fenced():
                    User.objects.create(username="of the first worker")
                    stands.set()
                    let_go.wait(60)
            except BaseException as error:
                problems.append(error)
            finally:
                connections.close_all()

        threads.append(threading.Thread(target=work))
        threads[0].start()
        assert stands.wait(30)

        def go_on() -> list[BaseException]:
            let_go.set()
            threads[0].join(60)
            return problems

        return go_on

    yield start
    let_go.set()
    for thread in threads:
        thread.join(60)


def test_a_worker_stopped_inside_its_transaction_is_replaced_at_once(worker_in_its_step: Any) -> None:
    lease = claim()
    go_on = worker_in_its_step(lease)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '5s'")
    lease.renew(AT)  # the heartbeat waits for nothing that the step holds
    Run.objects.update(lease_until=PAST)
    newer = claim_run(at=AT)
    assert newer is not None
    assert newer.fence == lease.fence + 1
    with newer.fenced():
        User.objects.create(username="of the second worker")
        newer.finish({"by": "second"}, AT)
    assert [type(error) for error in go_on()] == [LeaseLost]
    assert list(User.objects.values_list("username", flat=True)) == ["of the second worker"]
    assert Run.objects.get().result == {"by": "second"}


@pytest.mark.fault("F28")
def test_a_statement_that_never_ends_is_given_up_and_its_run_retaken(
    settings: Any, handle: Callable[[Callable[..., dict[str, Any]]], None]
) -> None:
    """A hang inside the database, while the heartbeat is alive: as a join without statistics."""
    settings.FAIRSHARE_LEASE_S, settings.FAIRSHARE_STALL_S = 0.4, 0.5

    def hang_at_first(run: Run, lease: Lease) -> dict[str, Any]:
        with lease.fenced(), connection.cursor() as cursor:
            if run.attempts == 1:
                cursor.execute("SELECT pg_sleep(100)")
        return {"attempts": run.attempts}

    handle(hang_at_first)
    services.work_lease(claim())
    Run.objects.update(due_at=PAST)  # after its back-off
    again = claim_run(at=AT)
    assert again is not None
    services.work_lease(again)
    assert (Run.objects.get().state, Run.objects.get().result) == ("succeeded", {"attempts": 2})


def test_each_statement_of_a_worker_is_bounded_by_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    options = dict(connections.settings["default"]["OPTIONS"])
    monkeypatch.setitem(connections.settings["default"], "OPTIONS", options)
    connection.close()
    try:
        bound_statements(0.2)
        with connection.cursor() as cursor, pytest.raises(OperationalError, match="statement timeout"):
            cursor.execute("SELECT pg_sleep(100)")
    finally:
        connection.close()


def test_progress_of_a_run_between_its_steps_counts_for_the_outer_one(settings: Any) -> None:
    outer = claim()
    with leases.Heartbeat(outer):
        outer._progressed_s -= 1000
        inner = Lease(outer.run_id, outer.fence, clock=lambda: AT)
        inner.note_progress()
        assert outer.idle_s() < 500
        outer.note_progress(then_s=3600)
        outer._progressed_s -= 3000
        assert outer.idle_s() == 0.0


def test_readiness_metrics_and_notices_name_a_run_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = claim()
    long_s = site_settings.FAIRSHARE_STALL_S / 2 + 1
    lease._progressed_s -= long_s
    lease.renew(AT)
    Run.objects.update(lease_until=AT + timedelta(minutes=1))
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    found = silent_workers(AT)
    assert found is not None
    assert (found.n_waiting, found.n_lost, found.n_stalled) == (0, 0, 1)
    degraded = Client().get("/readyz").json()["degraded"]
    assert "1 makes no progress" in next(one["message"] for one in degraded if one["code"] == "workers_silent")
    (stalled,) = (family for family in run_families() if family.name == "fairshare_runs_stalled")
    assert [(sample.labels["kind"], sample.value) for sample in stalled.samples] == [("test", 1)]
    lease.note_progress()
    lease.renew(AT)
    assert silent_workers(AT) is None
