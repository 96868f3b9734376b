"""A real Redis, and workers as a Celery user starts them: `-Q`, `-c`, inspect; wiped and stopped while runs wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import celery
import pytest
from django.db import connection, connections
from kombu import Connection

from apps.core.code_paths import REPOSITORY
from apps.runs import bell, tasks
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from tests.instants import AT
from tests.material import missing

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
PATIENCE_S = 200.0  # on a busy machine
# Kinds that need no site; the one of `recompute` waits until the test lets it go.
_WORKER = """
import sys, time
from pathlib import Path
import django
import fairshare_web.celery
django.setup()
from apps.runs import kinds
from apps.runs.queues import RECOMPUTE, SERIES

def wait(run, lease):
    while not (Path(sys.argv[1]) / run.subject).exists():
        lease.stop_if_requested()
        time.sleep(0.05)
    return {"by": __import__("os").getpid()}

def register(**_):
    kinds.register("waiting", wait, queue=RECOMPUTE)
    kinds.register("quick", lambda run, lease: {}, queue=SERIES)

from celery.signals import worker_init
worker_init.connect(register, weak=False)
fairshare_web.celery.app.worker_main(["--quiet", "--skip-checks", "worker", "--loglevel", "WARNING", *sys.argv[2:]])
"""


def eventually(is_so: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, f"it never happened: {what}"
        time.sleep(0.05)


class Redis:
    def __init__(self, port: int, folder: Path) -> None:
        self.url = f"redis://127.0.0.1:{port}/0"
        self._command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        eventually(self._answers, "Redis answers")

    def _answers(self) -> bool:
        try:
            self.client().ping()
        except OSError:
            return False
        except Exception as error:
            if type(error).__name__ != "ConnectionError":
                raise
            return False
        return True

    def client(self) -> Any:
        with Connection(self.url) as broker:
            channel: Any = broker.default_channel
            return channel.client

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def redis(tmp_path: Path, free_tcp_port: int, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    if which("redis-server") is None:
        missing("no Redis", "apt-get install redis-server")
    server = Redis(free_tcp_port, tmp_path)
    settings.CELERY_BROKER_URL = server.url
    monkeypatch.setenv("CELERY_BROKER_WRITE_URL", server.url)
    monkeypatch.setitem(celery.current_app.conf, "broker_transport_options", {})
    monkeypatch.setattr(bell, "_silent_until_s", 0.0)
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    from apps.runs import kinds, queues

    monkeypatch.setattr(kinds, "_handlers", {**kinds._handlers, "waiting": None, "quick": None})
    monkeypatch.setattr(queues, "_queues", {**queues._queues, "waiting": "recompute", "quick": "series"})
    yield server
    server.stop()


@pytest.fixture
def start_worker(redis: Redis, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    database = connection.settings_dict
    address = f"{database['NAME']}?host={database['HOST']}&port={database['PORT']}"
    environment = {
        **os.environ,
        "DATABASE_URL": f"postgres://{database['USER']}@/{address}",
        "CELERY_BROKER_URL": redis.url,
    }
    environment.pop("CELERY_BROKER_WRITE_URL")
    workers: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> subprocess.Popen[bytes]:
        name = f"worker{len(workers)}@%h"
        command = [sys.executable, "-c", _WORKER, str(tmp_path), *options, "-n", name]
        workers.append(subprocess.Popen(command, cwd=REPOSITORY, env=environment))
        return workers[-1]

    yield start
    for worker in workers:
        worker.terminate()
    for worker in workers:
        try:
            worker.wait(60)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
    connections.close_all()


def states(runs: list[Run]) -> list[str]:
    return list(Run.objects.filter(pk__in=[run.pk for run in runs]).order_by("pk").values_list("state", flat=True))


def ask(kind: str, *subjects: str) -> list[Run]:
    return [enqueue_run(kind=kind, subject=subject, at=AT) for subject in subjects]


@pytest.mark.deep
def test_two_processes_of_one_queue_work_at_once_and_inspect_shows_what_on(
    redis: Redis, start_worker: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    waiting, others = ask("waiting", "a", "b", "c"), ask("quick", "x")
    worker = start_worker("-Q", "recompute", "-c", "2")
    eventually(lambda: states(waiting).count("running") == 2, "a run in each process")
    with Connection(redis.url) as broker:
        active = celery.current_app.control.inspect(timeout=20, limit=1, connection=broker).active()
    (shown,) = (active or {}).values()
    assert sorted(tuple(task["args"]) for task in shown) == [(run.pk, "waiting") for run in waiting[:2]]
    assert {task["name"] for task in shown} == {bell.TASK}
    for subject in "abc":
        (tmp_path / subject).touch()
    eventually(lambda: states(waiting) == ["succeeded"] * 3, "all are done")
    assert len({run.result["by"] for run in Run.objects.filter(kind="waiting")}) == 2
    assert states(others) == ["queued"], "another queue's"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert set(Run.objects.filter(kind="waiting").values_list("attempts", flat=True)) == {1}
    assert redis.client().llen("series") == 1


@pytest.mark.deep
@pytest.mark.fault("F30")
def test_a_pool_that_is_stopped_hands_its_runs_back(
    redis: Redis, start_worker: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Celery tells the first process of a pool alone that it stops."""
    runs = ask("waiting", "a", "b")
    worker = start_worker("-Q", "recompute", "-c", "2")
    eventually(lambda: states(runs) == ["running"] * 2, "a run in each process")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert list(Run.objects.values_list("state", "attempts")) == [("queued", 0)] * 2
    assert redis.client().llen("recompute") == 2, "sent again, to other workers"


@pytest.mark.fault("F14")
def test_a_wiped_and_a_stopped_broker_lose_no_run_and_do_none_twice(
    redis: Redis, start_worker: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    runs = ask("waiting", "a", "b", "c")
    redis.client().flushall()
    start_worker("-Q", "recompute", "--pool", "solo")  # sends what is due when it starts
    eventually(lambda: states(runs)[0] == "running", "the wiped messages are there again")
    redis.client().flushall()
    redis.stop()
    began_s = time.monotonic()
    runs += ask("waiting", "d")
    print(f"enqueued in {time.monotonic() - began_s:.2f} s without a broker")
    for subject in "abcd":
        (tmp_path / subject).touch()
    redis.start()
    bell._silent_until_s = 0.0

    def swept() -> bool:
        bell._silent_until_s = 0.0
        tasks.sweep_runs()
        return states(runs) == ["succeeded"] * 4

    eventually(swept, "each run is done")
    assert set(Run.objects.filter(kind="waiting").values_list("attempts", flat=True)) == {1}
