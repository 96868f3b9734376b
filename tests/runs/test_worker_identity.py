"""Leases of processes that have ended, and leases and due times after a clock was set back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from apps.cli.stack import processes
from apps.runs import services, tasks
from apps.runs import worker_identity as holders
from apps.runs.leases import Lease
from apps.runs.models import BeatLease, Run
from apps.runs.services import claim_run, enqueue_run
from fairshare_web.beat import Scheduler
from fairshare_web.celery import app
from tests.instants import AT

HOUR = timedelta(hours=1)

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("handle"),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are named through /proc; run on Linux"),
]
NAME = "from apps.runs.worker_identity import own_holder; print(own_holder(), flush=True); input()"


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    """A process that says its name as a holder and then waits."""
    process = subprocess.Popen([sys.executable, "-c", NAME], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def name_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def claimed_by(holder: str) -> Lease:
    enqueue_run(kind="test", subject="thing", at=AT)
    lease = claim_run(at=AT)
    assert lease is not None
    Run.objects.filter(pk=lease.run_id).update(holder=holder)
    return lease


def test_a_claim_stores_its_process() -> None:
    enqueue_run(kind="test", subject="thing", at=AT)
    claim_run(at=AT)
    holder = Run.objects.get().holder
    assert holder == holders.own_holder()
    assert f":{os.getpid()}:" in holder
    assert not holders.has_ended(holder)


@pytest.mark.parametrize("is_reaped", [True, False])
def test_the_run_of_a_killed_process_is_reclaimed_at_once(worker: subprocess.Popen[str], is_reaped: bool) -> None:
    late = claimed_by(name_of(worker))
    assert claim_run(at=AT) is None, "it lives, so its lease holds"
    worker.kill()
    if is_reaped:
        worker.wait()
    else:
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    newer = claim_run(at=AT)
    assert newer is not None
    assert (newer.run_id, newer.fence) == (late.run_id, late.fence + 1)


def test_the_sweeper_signals_the_run_of_a_killed_process(
    worker: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[int] = []
    monkeypatch.setattr(services, "send_runs", lambda runs, **_: rung.extend(id for id, _kind in runs))
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    lease = claimed_by(name_of(worker))
    assert tasks.sweep_runs() is False
    worker.kill()
    worker.wait()
    assert tasks.sweep_runs() is True
    assert rung == [lease.run_id]


def test_a_reused_process_id_does_not_identify_the_holder(worker: subprocess.Popen[str]) -> None:
    machine, pid, started = name_of(worker).rsplit(":", 2)
    claimed_by(f"{machine}:{pid}:{int(started) - 1}")
    assert claim_run(at=AT) is not None


@pytest.mark.parametrize("part", ["boot", "namespace"])
def test_a_holder_of_another_machine_keeps_its_lease(worker: subprocess.Popen[str], part: str) -> None:
    boot, namespace, pid, started = name_of(worker).split(":")
    worker.kill()
    worker.wait()
    elsewhere = {"boot": f"x{boot[1:]}:{namespace}", "namespace": f"{boot}:1{namespace}"}[part]
    claimed_by(f"{elsewhere}:{pid}:{started}")
    assert claim_run(at=AT) is None


@pytest.mark.parametrize("holder", ["", "x", ":::", "\u0661:\u0662"])
def test_a_holder_without_a_name_keeps_its_lease(holder: str) -> None:
    claimed_by(holder)
    assert claim_run(at=AT) is None


def test_a_process_of_another_user_is_only_known_to_have_ended(
    worker: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, sig: int) -> None:
        raise PermissionError

    claimed_by(name_of(worker))
    with monkeypatch.context() as hidden:  # as below a /proc with hidepid
        hidden.setattr(os, "kill", refuse)
        hidden.setattr(holders, "_state_and_start", lambda pid: None)
        assert claim_run(at=AT) is None


@pytest.mark.fault("F10")
def test_a_lease_from_before_a_clock_reset_ends_one_lease_length_later(settings: Any) -> None:
    lease = claimed_by("")
    Run.objects.filter(pk=lease.run_id).update(lease_until=datetime.now(UTC) + HOUR)
    assert claim_run(at=AT - HOUR) is None, "its worker may be alive"
    with connection.cursor() as cursor:
        cursor.execute("SELECT lease_until - clock_timestamp() FROM runs_run")
        left = cursor.fetchone()[0]
    assert left <= timedelta(seconds=settings.FAIRSHARE_LEASE_S)


def test_runs_due_before_a_clock_reset_are_due_now(monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue_run(kind="test", subject="at once", at=AT)
    enqueue_run(kind="test", subject="later", due_at=AT + HOUR, at=AT)
    assert services.send_due_runs(at=AT - HOUR)
    assert services.work_due_runs(clock=lambda: AT - HOUR) == 1
    assert list(Run.objects.filter(state="queued").values_list("subject", flat=True)) == ["later"]


def test_a_backoff_from_before_a_clock_reset_has_ended() -> None:
    run = enqueue_run(kind="test", subject="thing", at=AT)
    Run.objects.update(attempts=1, due_at=datetime.now(UTC) + HOUR)
    assert claim_run(at=AT) is not None
    assert Run.objects.get(pk=run.pk).attempts == 2


@pytest.mark.product
def test_beat_has_the_entries_of_plug_ins_and_none_of_a_task_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the handlers are for a process of its own
    monkeypatch.setattr("django_celery_beat.schedulers.close_old_connections", lambda: None)
    every_minute = IntervalSchedule.objects.create(every=60, period="seconds")
    PeriodicTask.objects.create(name="gone", task="apps.contrib.gone.tasks.work", interval=every_minute)
    PeriodicTask.objects.create(name="of the site", task="apps.accounts.tasks.verify_audit", interval=every_minute)
    before = deepcopy(settings.CELERY_BEAT_SCHEDULE)
    Scheduler(app=app, lazy=True).setup_schedule()
    assert before == settings.CELERY_BEAT_SCHEDULE, "the settings stay as they are"
    names = set(PeriodicTask.objects.values_list("name", flat=True))
    assert {"prune-passes", "send-notices", "recompute-stale", "of the site"} <= names
    assert "gone" not in names
    own = PeriodicTask.objects.filter(name__in=app.conf.beat_schedule)
    lives = dict(own.values_list("name", "expire_seconds"))
    assert lives["sweep-runs"] == 600, "messages that nobody took don't pile up, and clocks may differ"
    assert lives["prune-snapshots"] == 3600
    assert None not in lives.values()


def test_a_second_beat_stands_by_until_the_first_is_silent_or_has_ended(
    monkeypatch: pytest.MonkeyPatch, worker: subprocess.Popen[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the handlers are for a process of its own
    monkeypatch.setattr("django_celery_beat.schedulers.close_old_connections", lambda: None)
    rung: list[tuple[str, str]] = []

    def beat(name: str) -> Any:
        made: Any = Scheduler(app=app, lazy=True)
        made.setup_schedule()
        made._holder = name
        monkeypatch.setattr(made, "apply_entry", lambda entry, producer=None: rung.append((name, entry.name)))
        return made

    def tick(ringing: Any) -> set[str]:
        rung.clear()
        PeriodicTask.objects.update(last_run_at=datetime.now(UTC) - timedelta(days=1))
        ringing._schedule, ringing._heap = ringing.all_as_schedule(), None
        assert ringing.tick() <= 5
        return {name for name, _entry in rung}

    first, second = beat("another-host"), beat("this-host")
    assert (tick(first), tick(second), tick(first)) == ({"another-host"}, set(), {"another-host"})
    BeatLease.objects.update(until=datetime.now(UTC) - timedelta(seconds=1))
    assert (tick(second), tick(first)) == ({"this-host"}, set()), "it was silent for as long as its lease"
    assert worker.stdout is not None
    BeatLease.objects.update(holder=worker.stdout.readline().strip())
    assert tick(second) == set()
    worker.kill()
    worker.wait()
    assert tick(second) == {"this-host"}, "at once, where it has certainly ended"
    for each in (first, second):
        each.sync()


def test_beat_continues_after_a_clock_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its recorded time is an hour ahead; every entry comes again within its own interval."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the handlers are for a process of its own
    monkeypatch.setattr("django_celery_beat.schedulers.close_old_connections", lambda: None)
    beat: Any = Scheduler(app=app, lazy=True)
    beat.setup_schedule()
    monkeypatch.setattr(beat, "apply_entry", lambda entry, producer=None: None)
    beat.tick()
    PeriodicTask.objects.update(last_run_at=datetime.now(UTC) + HOUR)  # as it noted by the clock of before
    beat._schedule = beat.all_as_schedule()
    beat._heap = [event._replace(time=event.time + 3600) for event in beat._heap]
    beat.tick()
    every_s = {name: entry["schedule"] for name, entry in app.conf.beat_schedule.items()}
    assert {name for name, most_s in every_s.items() if beat._schedule[name].is_due().next > most_s} == set()
    late = [event.entry.name for event in beat._heap if event.time > time.time() + every_s.get(event.entry.name, 1e9)]
    assert late == []
    beat.sync()
    assert not PeriodicTask.objects.filter(name__in=every_s, last_run_at__gt=datetime.now(UTC)).exists()
