"""Kill anything: it recovers automatically. Kill the whole: nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
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
from apps.cli.stack.postgres import PostgresServer
from apps.core.code_paths import REPOSITORY
from tests.examples import first
from tests.faults.conftest import FirstStart
from tests.faults.stack import Stack, eventually

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not processes.CAN_SEE, reason="processes are watched through /proc; run on Linux"),
]
NAMESPACE = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]


@pytest.fixture(scope="module")
def running(first_start: FirstStart) -> Iterator[Stack]:
    stack = Stack(like=first_start.var)
    try:
        stack.start()
        yield stack
    finally:
        stack.remove()


@pytest.fixture(scope="module")
def beside(first_start: FirstStart) -> Iterator[Stack]:
    stack = Stack(prefix=NAMESPACE if _can_pose() else (), like=first_start.var)
    yield stack
    stack.remove()


@pytest.fixture
def second(beside: Stack) -> Stack:
    """Runs beside the first, and is an ordinary user's where the suite can pose as one."""
    if beside.supervisor is None or beside.supervisor.poll() is not None:
        beside.start()
    return beside


@pytest.fixture
def stack(first_start: FirstStart) -> Iterator[Stack]:
    """Not started yet."""
    stack = Stack(like=first_start.var)
    yield stack
    stack.remove()


def test_a_first_start_creates_everything_and_the_next_one_reuses_it(first_start: FirstStart, running: Stack) -> None:
    assert first_start.status == 0
    sign_ins = (first_start.var / "sign-ins").read_text()
    name, password = sign_ins.split()
    assert name == "admin"
    assert password in first_start.output_text
    assert (running.var / "sign-ins").read_text() == sign_ins
    assert password not in running.output_text(), "a terminal may be a log that others read"
    assert str(running.var / "sign-ins") in running.output_text()
    eventually(partial(running.was_worked, first_start.run_id), "the work of before is there and done")
    for var in (first_start.var, running.var):
        for secret in ("secret_key", "sign-ins"):
            assert (var / secret).stat().st_mode & 0o777 == 0o600
        assert {
            log.name: log.stat().st_mode & 0o777 for log in (var / "log").iterdir() if log.stat().st_mode & 0o077
        } == {}
        assert var.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "role",
    first(1, ["worker", "outgoing", "postgres", "postgres backend", "postgres child", "web", "web child", "beat"]),
)
@pytest.mark.fault("F4")
def test_any_killed_process_is_restarted(running: Stack, role: str) -> None:
    eventually(lambda: running.is_whole() and bool(running.roles()[role]), f"there is a {role} and all else")
    victim = running.roles()[role][0]
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: victim not in running.pids(), f"{role} is dead")
    running.assert_works()


@pytest.mark.deep
def test_all_processes_killed_at_once_are_restarted(running: Stack) -> None:
    eventually(running.is_whole, "all processes present")
    assert running.supervisor is not None
    victims = [pid for pid in running.pids() if pid != running.supervisor.pid]
    for pid in victims:
        processes.send(pid, signal.SIGKILL)
    eventually(lambda: not set(victims) & set(running.pids()), "all victims are dead")
    running.assert_works()


def test_only_the_loopback_address_is_served(running: Stack) -> None:
    running.assert_works()
    listening = subprocess.run(["ss", "-ltnH"], capture_output=True, text=True) if _has("ss") else None
    if listening is not None:
        addresses = [line.split()[3] for line in listening.stdout.splitlines() if f":{running.port} " in line]
        assert addresses == [f"127.0.0.1:{running.port}"]


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


@pytest.mark.deep
def test_a_port_in_use_is_reported(running: Stack, stack: Stack) -> None:
    stack.port = running.port
    assert stack.launch().wait(60) == 1
    assert f"Port {running.port} is taken" in stack.output_text()
    assert stack.pids() == []


@pytest.mark.deep
def test_a_command_uses_the_running_database_and_returns_its_status(running: Stack) -> None:
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


@pytest.mark.deep
def test_an_ordinary_user_runs_the_whole_stack(second: Stack) -> None:
    if os.geteuid() != 0:
        pytest.skip("the whole suite runs as an ordinary user here; run as root to pose as one")
    if not _can_pose():
        pytest.skip("user namespaces are not allowed here; sysctl kernel.unprivileged_userns_clone=1")
    second.assert_works()
    assert second.supervisor is not None
    assert not os.path.samefile(f"/proc/{second.supervisor.pid}/ns/user", "/proc/self/ns/user")


@pytest.mark.deep
def test_two_instances_run_side_by_side(running: Stack, second: Stack) -> None:
    second.assert_works()
    running.assert_works()
    assert not set(second.pids()) & set(running.pids())
    assert second.signal(signal.SIGTERM) == 0
    eventually(lambda: second.pids() == [], "the second instance is gone")
    running.assert_works()


@pytest.mark.parametrize("sig", [pytest.param(signal.SIGTERM, marks=pytest.mark.deep), signal.SIGKILL])
def test_a_stop_leaves_nothing_running_and_the_next_start_finds_the_data(running: Stack, sig: signal.Signals) -> None:
    """Ctrl-C ends the first start, and SIGTERM the second instance: the tests above."""
    sign_ins = (running.var / "sign-ins").read_text()
    run_id = running.leave_work()
    assert running.signal(sig) == (-sig if sig == signal.SIGKILL else 0)
    eventually(lambda: running.pids() == [], f"nothing is left after {sig.name}: {running.processes()}", within_s=40)
    running.start()
    eventually(partial(running.was_worked, run_id), "the work of before is there and done")
    assert (running.var / "sign-ins").read_text() == sign_ins


@pytest.mark.deep
def test_a_supervisor_killed_during_start_leaves_nothing_running(stack: Stack) -> None:
    shutil.rmtree(stack.var / "pg")
    stack.launch()
    eventually(lambda: processes.working_in(stack.var / "pg", "postgres") != [], "the database starts")
    stack.signal(signal.SIGKILL)
    eventually(lambda: stack.pids() == [], f"nothing is left: {stack.processes()}", within_s=40)


@pytest.mark.deep
def test_a_given_database_is_used_and_left_running(first_start: FirstStart, stack: Stack) -> None:
    """It lacks a table and an administrator, which the start brings."""
    shutil.rmtree(stack.var / "pg")
    (stack.var / "sign-ins").unlink()
    with tempfile.TemporaryDirectory(prefix="fs-") as elsewhere:
        subprocess.run(["cp", "-a", first_start.var / "pg", elsewhere], check=True)
        server = PostgresServer(Path(elsewhere), options={"fsync": "off"})
        server.start()
        try:
            with server.connect() as session:
                session.execute("DROP TABLE django_session")
                session.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
                session.execute("UPDATE accounts_user SET username = 'former', is_superuser = false")
            stack.settings["DATABASE_URL"] = f"postgresql://fairshare@{quote(str(server.sockets), safe='')}/fairshare"
            stack.start()
            eventually(stack.answers, f"/readyz says 200; {stack.output_text()[-1500:]}")
            assert stack.roles()["postgres"] == []
            assert not (stack.var / "pg").exists()
            with server.connect() as session:
                people = session.execute("SELECT username, is_superuser FROM accounts_user ORDER BY 1").fetchall()
                assert people == [("admin", True), ("former", False)]
                assert session.execute("SELECT count(*) FROM django_session").fetchone() == (0,)
            assert stack.signal(signal.SIGTERM) == 0
            eventually(lambda: stack.pids() == [], "nothing is left")
            assert server.answers()
        finally:
            server.stop()


@pytest.mark.deep
def test_a_set_clock_outside_tests_stops_the_start_with_a_reason(stack: Stack) -> None:
    stack.settings["FAIRSHARE_CLOCK"] = "2026-01-31T12:00:00Z"
    assert stack.launch().wait(60) == 1
    assert "fairshare.E001" in stack.output_text()
    assert stack.pids() == []


def _can_pose() -> bool:
    return os.geteuid() == 0 and _works([*NAMESPACE, "true"])


def _works(command: list[str]) -> bool:
    return _has(command[0]) and subprocess.run(command, capture_output=True).returncode == 0


def _has(program: str) -> bool:
    return any(os.access(os.path.join(place, program), os.X_OK) for place in os.environ["PATH"].split(":"))
