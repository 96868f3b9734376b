"""A broker that is away, refuses or says nothing costs whoever starts a run next to nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from apps.runs import bell, workers
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from tests.instants import AT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("handle")]

JUST_ONE_S = 2.0  # a busy machine's 0.3 s; without bounds it is 6 s for each run


class BlackHole:
    """Accepts connections and says nothing."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.kept: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    def _accept(self) -> None:
        try:
            while True:
                self.kept.append(self.listening.accept()[0])
        except OSError:
            return

    def close(self) -> None:
        self.listening.close()
        for sock in self.kept:
            sock.close()


@pytest.fixture
def hole() -> Iterator[BlackHole]:
    found = BlackHole()
    yield found
    found.close()


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
@pytest.mark.parametrize("is_closed", [True, False], ids=["refuses", "says nothing"])
def test_runs_are_queued_at_once_while_the_broker_is_away(
    monkeypatch: pytest.MonkeyPatch, settings: object, hole: BlackHole, scheme: str, is_closed: bool
) -> None:
    if is_closed:
        hole.listening.close()
        port = 1
    else:
        port = hole.port
    url = f"{scheme}://127.0.0.1:{port}//"
    monkeypatch.setenv("CELERY_BROKER_WRITE_URL", url)
    monkeypatch.setattr("apps.runs.bell.settings.CELERY_BROKER_URL", url)
    monkeypatch.setattr(bell, "_silent_until_s", 0.0)
    began_s = time.monotonic()
    for n in range(10):
        with transaction.atomic():
            enqueue_run(kind="test", subject=f"thing {n}", at=AT)
    took_s = time.monotonic() - began_s
    print(f"{scheme}: ten runs queued in {took_s:.2f} s")
    assert took_s < JUST_ONE_S
    assert Run.objects.filter(state="queued").count() == 10
    assert len(hole.kept) == (0 if is_closed else 1), "after a failure it is left alone"


def test_a_broker_that_is_back_is_rung_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []
    monkeypatch.setattr("celery.current_app.send_task", lambda name, **_: rung.append(name))
    monkeypatch.setattr(bell, "_silent_until_s", time.monotonic() + 60)
    bell.wake_workers()
    assert rung == []
    monkeypatch.setattr(bell, "_silent_until_s", 0.0)
    bell.wake_workers()
    assert rung == [bell.TASK]


def test_workers_for_other_hosts_are_rung_only_while_they_live(monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[tuple[str, str]] = []
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    monkeypatch.setattr("celery.current_app.send_task", lambda name, **o: rung.append((name, o.get("queue", ""))))
    monkeypatch.setattr(bell, "_silent_until_s", 0.0)
    bell.wake_workers(is_outgoing=True)
    workers.record_contact(AT, is_outgoing=True)
    bell.wake_workers(is_outgoing=True)
    bell.wake_workers()
    connection.close()
    assert rung == [(bell.TASK, ""), (workers.OUTGOING_TASK, workers.OUTGOING_QUEUE), (bell.TASK, "")]
