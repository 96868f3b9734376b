from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from django.core.servers.basehttp import WSGIServer
from django.core.wsgi import get_wsgi_application
from django.db import connections
from django.test.testcases import QuietWSGIRequestHandler

from apps.contrib.notices.tasks import evaluate_notices
from apps.core import clock
from apps.federation.tasks import fetch_due_mounts
from apps.priorities.serving import store
from apps.priorities.tasks import recompute_stale
from apps.runs.services import work_due_runs
from apps.runs.tasks import sweep_runs
from apps.usage.tasks import collect_due_usage
from tests.contrib.notices.sending import send_notices
from tests.federation.conftest import feed, mounted, policy, subscription, vo
from tests.instants import AT
from tests.monitoring.daemons import Watchers, watching
from tests.worlds import fresh_process  # noqa: F401 - fixture

__all__ = ["feed", "mounted", "policy", "subscription", "vo"]


class Service:
    """Its clock, and the tasks that its schedule rings: all of them, unless its workers are stopped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.at = AT
        self.work()

    def go_on(self, duration: timedelta, *, workers: bool = True) -> None:
        self.at += duration
        self.work(workers=workers)

    def work(self, *, workers: bool = True) -> None:
        self.monkeypatch.setenv("FAIRSHARE_CLOCK", self.at.isoformat())
        if workers:
            for ring in (
                recompute_stale,
                collect_due_usage,
                fetch_due_mounts,
                lambda: work_due_runs(clock=clock.now),
                evaluate_notices,
                send_notices,
            ):
                ring()  # type: ignore[no-untyped-call]
            sweep_runs()  # after a possibly long step
        store.poll()


class Web:
    """The web process, on one port whether it runs or not."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """One connection a request, so that none continues after `stop`."""
        self.server = WSGIServer(("127.0.0.1", self.port), QuietWSGIRequestHandler)
        self.port = int(self.server.server_address[1])
        self.server.set_app(get_wsgi_application())
        self.thread = Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        self.server.serve_forever(poll_interval=0.05)
        connections.close_all()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()


@pytest.fixture
def service(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Service]:
    """Called when the world of the test is complete."""
    return lambda: Service(monkeypatch)


@pytest.fixture
def web(transactional_db: None) -> Iterator[Web]:
    found = Web()
    yield found
    found.stop()


@pytest.fixture
def watched(web: Web, tmp_path: Path) -> Callable[[], AbstractContextManager[Watchers]]:
    return lambda: watching(web.target, tmp_path)
