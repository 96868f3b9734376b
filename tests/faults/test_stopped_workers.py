"""Workers that hang: readiness and Prometheus name them, and are quiet again when they continue."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.cli.stack import processes
from tests.faults.conftest import FirstStart
from tests.faults.stack import Stack, eventually
from tests.monitoring.daemons import watching

pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(420),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are watched through /proc; run on Linux"),
]
ALERT = "FairshareWorkersSilent"


@pytest.fixture
def stack(first_start: FirstStart) -> Iterator[Stack]:
    """Workers are silent after five seconds: a lease, and more than three sweeps."""
    found = Stack(like=first_start.var)
    try:
        found.start()
        yield found
    finally:
        send_to_workers(found, signal.SIGCONT)
        found.remove()


def send_to_workers(stack: Stack, sig: signal.Signals) -> None:
    roles = stack.roles()
    for pid in (*roles["worker"], *roles["worker child"]):
        processes.send(pid, sig)


def degraded(stack: Stack) -> set[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.port}/readyz", timeout=10) as answer:
        return {found["code"] for found in json.load(answer)["degraded"]}


@pytest.mark.fault("F15")
def test_stopped_workers_are_reported_until_they_resume(stack: Stack, tmp_path: Path) -> None:
    with watching(f"127.0.0.1:{stack.port}", tmp_path) as watch:
        eventually(lambda: degraded(stack) == set(), "a healthy start", describe=lambda: str(degraded(stack)))
        watch.expect()

        send_to_workers(stack, signal.SIGSTOP)
        eventually(lambda: "workers_silent" in degraded(stack), "/readyz names the workers", describe=stack.described)
        watch.expect(ALERT)

        send_to_workers(stack, signal.SIGCONT)
        eventually(lambda: degraded(stack) == set(), "/readyz is content again", describe=stack.described)
        watch.expect()
        stack.assert_works()
