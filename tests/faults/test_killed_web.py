"""SIGKILL of all web processes while pushes arrive: each is stored whole or not at all, and a repeated one once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from apps.cli.stack import processes
from tests.faults.conftest import FirstStart
from tests.faults.stack import eventually
from tests.security.conftest import start_instance
from tests.security.test_stopping import N_RECORDS, push, stored
from tests.security.wire import ask, dribbling, status

N_PUSHES = 6
pytestmark = [pytest.mark.timeout(300), pytest.mark.deep]


@pytest.mark.fault("F2")
def test_a_killed_web_process_stores_a_push_whole_or_not_at_all(
    first_start: FirstStart, figure: Callable[[str, float, str], None]
) -> None:
    instance = start_instance(first_start)
    stack = instance.stack
    try:
        requests = {f"push{n}": push(instance, f"push{n}") for n in range(N_PUSHES)}
        half = push(instance, "half")[:100_000]
        with ThreadPoolExecutor(N_PUSHES) as pool, dribbling(instance.port, [half] * 4):
            answers = {name: pool.submit(ask, instance.port, request, 60.0) for name, request in requests.items()}
            eventually(lambda: any(stored(instance, name) for name in requests), "a push is stored")
            roles = stack.roles()
            killed = [pid for role, pids in roles.items() if role.startswith("web") for pid in pids]
            assert killed, roles
            for pid in killed:
                processes.send(pid, signal.SIGKILL)
            began = time.monotonic()
            acknowledged = {name for name, answer in answers.items() if _is_acknowledged(answer)}
        eventually(lambda: stack.answers("readyz"), "a new web process answers", describe=stack.described)
        figure("web answers again after", time.monotonic() - began, "s")
        for name in requests:
            n_stored = stored(instance, name)
            assert n_stored == N_RECORDS if name in acknowledged else n_stored in (0, N_RECORDS), name
        assert stored(instance, "half") == 0
        for name, request in {**requests, "half": push(instance, "half")}.items():
            assert status(ask(instance.port, request, 60.0)) == 200
            assert stored(instance, name) == N_RECORDS
        stack.assert_works()
    finally:
        stack.remove()


def _is_acknowledged(answer: Future[bytes]) -> bool:
    try:
        return answer.result(60).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
