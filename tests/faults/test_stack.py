"""Kill anything: it heals by itself. Kill the whole: nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from apps.cli.stack import processes
from apps.cli.stack.paths import REPOSITORY
from apps.cli.stack.postgres import PostgresServer
from tests.faults.stack import Stack, eventually

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are watched through /proc; run on Linux"),
]
NAMESPACE = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]


@pytest.fixture(scope="module")
def running() -> Iterator[Stack]:
    stack = Stack()
    stack.start()
    yield stack
    stack.remove()


@pytest.fixture
def stack(running: Stack) -> Iterator[Stack]:
    stack = Stack(like=running)
    yield stack
    stack.remove()


@pytest.mark.parametrize(
    "role", ["postgres", "postgres backend", "postgres child", "web", "web child", "worker", "beat"]
)
def test_any_killed_process_heals_by_itself(running: Stack, role: str) -> None:
    eventually(lambda: running.is_whole() and bool(running.roles()[role]), f"there is a {role} and all else")
    victim = running.roles()[role][0]
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: victim not in running.pids(), f"{role} is dead")
    running.assert_works()


def test_all_killed_at_once_heal_by_themselves(running: Stack) -> None:
    eventually(running.is_whole, "all processes present")
    assert running.supervisor is not None
    victims = [pid for pid in running.pids() if pid != running.supervisor.pid]
    for pid in victims:
        processes.send(pid, signal.SIGKILL)
    eventually(lambda: not set(victims) & set(running.pids()), "all victims are dead")
    running.assert_works()


def test_only_the_own_machine_is_served_and_secrets_are_private(running: Stack) -> None:
    running.assert_works()
    listening = subprocess.run(["ss", "-ltnH"], capture_output=True, text=True) if _has("ss") else None
    if listening is not None:
        addresses = [line.split()[3] for line in listening.stdout.splitlines() if f":{running.port} " in line]
        assert addresses == [f"127.0.0.1:{running.port}"]
    for name in ("secret_key", "sign-ins"):
        assert (running.var / name).stat().st_mode & 0o777 == 0o600
    assert running.var.stat().st_mode & 0o077 == 0


def test_a_second_instance_in_the_same_directory_is_refused(running: Stack) -> None:
    second = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=REPOSITORY,
        env=running.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 1
    assert "An instance runs in" in second.stderr
    running.assert_works()


def test_a_taken_port_is_refused_by_number(running: Stack, stack: Stack) -> None:
    stack.port = running.port
    assert stack.launch().wait(60) == 1
    assert f"Port {running.port} is taken" in stack.said()
    assert stack.pids() == []


def test_a_command_borrows_the_running_database_and_returns_its_status(running: Stack) -> None:
    with running.connect() as session:
        row = session.execute("SELECT pg_postmaster_start_time()::text").fetchone()
    asked = (
        "import json, django; django.setup(); from django.db import connection; c = connection.cursor();"
        "c.execute('SELECT pg_postmaster_start_time()::text'); print(json.dumps(c.fetchone())); raise SystemExit(7)"
    )
    done = subprocess.run(
        [sys.executable, "manage.py", "with_stack", "--", sys.executable, "-c", asked],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        env={**running.environment, "DJANGO_SETTINGS_MODULE": "fairshare_web.settings"},
    )
    assert (done.returncode, json.loads(done.stdout)) == (7, list(row or ())), done.stderr
    running.assert_works()


def test_two_instances_run_side_by_side(running: Stack, stack: Stack) -> None:
    stack.start()
    stack.assert_works()
    running.assert_works()
    assert not set(stack.pids()) & set(running.pids())
    assert stack.signal(signal.SIGTERM) == 0
    eventually(lambda: stack.pids() == [], "the second instance is gone")
    running.assert_works()


def test_nothing_is_left_behind_and_the_next_start_finds_the_data(stack: Stack) -> None:
    stack.start()
    sign_ins = (stack.var / "sign-ins").read_text()
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        run_id = stack.leave_work()
        assert stack.signal(sig) == (-sig if sig == signal.SIGKILL else 0)
        eventually(lambda: stack.pids() == [], f"nothing is left after {sig.name}: {stack.processes()}", within_s=40)
        stack.start()
        eventually(partial(stack.was_worked, run_id), "the work of before is there and done")
        assert (stack.var / "sign-ins").read_text() == sign_ins


def test_a_supervisor_killed_while_it_starts_leaves_nothing_behind(stack: Stack) -> None:
    stack.launch()
    eventually(lambda: processes.working_in(stack.var / "pg", "postgres") != [], "the database starts")
    stack.signal(signal.SIGKILL)
    eventually(lambda: stack.pids() == [], f"nothing is left: {stack.processes()}", within_s=40)


def test_a_given_database_is_used_and_left_running(stack: Stack) -> None:
    with tempfile.TemporaryDirectory(prefix="fs-") as elsewhere:
        server = PostgresServer(Path(elsewhere), options={"fsync": "off"})
        server.start()
        try:
            stack.settings["DATABASE_URL"] = f"postgresql://fairshare@{quote(str(server.sockets), safe='')}/fairshare"
            stack.start()
            eventually(stack.answers, f"/readyz says 200; {stack.said()[-1500:]}")
            assert stack.roles()["postgres"] == []
            with server.connect() as session:
                assert session.execute("SELECT count(*) FROM accounts_user").fetchone() == (1,)
            assert stack.signal(signal.SIGTERM) == 0
            eventually(lambda: stack.pids() == [], "nothing is left")
            assert server.answers()
        finally:
            server.stop()


def test_a_set_clock_outside_tests_stops_the_start_with_a_reason(stack: Stack) -> None:
    stack.settings["FAIRSHARE_CLOCK"] = "2026-01-31T12:00:00Z"
    assert stack.launch().wait(60) == 1
    assert "fairshare.E001" in stack.said()
    assert stack.pids() == []


def test_an_ordinary_user_runs_the_whole_stack(running: Stack) -> None:
    if os.geteuid() != 0:
        pytest.skip("the whole suite runs as an ordinary user here; run as root to pose as one")
    if not _works([*NAMESPACE, "true"]):
        pytest.skip("user namespaces are not allowed here; sysctl kernel.unprivileged_userns_clone=1")
    stack = Stack(prefix=NAMESPACE, like=running)
    try:
        stack.start()
        stack.assert_works()
        stack.signal(signal.SIGTERM)
        eventually(lambda: stack.pids() == [], "nothing is left")
    finally:
        stack.remove()


def _works(command: list[str]) -> bool:
    return _has(command[0]) and subprocess.run(command, capture_output=True).returncode == 0


def _has(program: str) -> bool:
    return any(os.access(os.path.join(place, program), os.X_OK) for place in os.environ["PATH"].split(":"))
