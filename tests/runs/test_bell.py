"""A broker that is away, refuses or says nothing costs whoever starts a run next to nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from django.db import transaction

from apps.runs import bell
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from tests.instants import AT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("handle")]

MOST_S = 0.3  # for one enqueue; without bounds it is 6 s


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


def enqueued_within_s(subject: str) -> float:
    began_s = time.monotonic()
    with transaction.atomic():
        enqueue_run(kind="test", subject=subject, at=AT)
    return time.monotonic() - began_s


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
@pytest.mark.parametrize("is_closed", [True, False], ids=["refuses", "says nothing"])
@pytest.mark.fault("F14")
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
    first_s, later_s = [], []
    for n in range(5):
        monkeypatch.setattr(bell, "_silent_until_s", 0.0)
        first_s.append(enqueued_within_s(f"first {n}"))
        later_s += [enqueued_within_s(f"later {n} {m}") for m in range(9)]
    print(f"{scheme}: first {min(first_s):.3f} s, at most {max(first_s):.3f} s, later ones {min(later_s):.4f} s")
    assert min(first_s) <= MOST_S, "more on a busy machine, but not each time"
    assert min(later_s) <= MOST_S / 3
    assert Run.objects.filter(state="queued").count() == 50
    assert len(hole.kept) == (0 if is_closed else 5), "after a failure it is left alone"


def test_a_broker_that_is_back_is_sent_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, str]] = []
    monkeypatch.setattr("celery.current_app.send_task", lambda name, *, args, **_: sent.append(args))
    monkeypatch.setattr(bell, "_silent_until_s", time.monotonic() + 60)
    bell.send_runs([(1, "test")])
    assert sent == []
    monkeypatch.setattr(bell, "_silent_until_s", 0.0)
    bell.send_runs([(1, "test")])
    assert sent == [(1, "test")]
