"""Commands with the embedded database up, and what a first start makes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from apps.cli.stack import processes
from apps.cli.stack.logs import LogEcho
from apps.cli.stack.paths import (
    broker_dirs,
    password_for,
    read_or_make_secret,
    sign_ins,
    socket_dir,
    write_once,
)
from apps.cli.stack.supervisor import Child, Process
from apps.cli.stack.var_lock import VarLock
from apps.core.code_paths import REPOSITORY
from apps.core.private_dirs import InsecureDirectory, private_dir
from tests.faults.conftest import FirstStart, first_start  # noqa: F401 - fixture


@pytest.fixture
def var() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="fs-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


WithStack = Callable[..., subprocess.Popen[str]]
# Without compiled modules each command would start two seconds later.
OF_THE_SUITE = ("FAIRSHARE_TESTING", "FAIRSHARE_VAR", "PYTEST_CURRENT_TEST", "DATABASE_URL", "PYTHONDONTWRITEBYTECODE")


def with_stack_in(var: Path) -> WithStack:
    environment = {name: value for name, value in os.environ.items() if name not in OF_THE_SUITE}

    def started(*command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "manage.py", "with_stack", *command],
            cwd=REPOSITORY,
            env={**environment, "FAIRSHARE_VAR": str(var)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


@pytest.fixture
def with_stack(var: Path, first_start: FirstStart) -> WithStack:  # noqa: F811 - the value of the fixture
    """In a copy of a database that has its tables."""
    subprocess.run(["cp", "-a", first_start.var / "pg", var], check=True)
    return with_stack_in(var)


def servers(var: Path) -> list[int]:
    return processes.working_in(var / "pg", "postgres")


@pytest.mark.deep
def test_a_command_in_an_empty_directory_creates_the_database(var: Path) -> None:
    process = with_stack_in(var)("--", sys.executable, "manage.py", "clearsessions")
    _out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert servers(var) == []


def test_the_exit_status_of_a_command_is_returned(var: Path, with_stack: WithStack) -> None:
    odd = with_stack("--", "sh", "-c", "exit 41")
    assert (odd.communicate(), odd.returncode) == (("", ""), 41)
    assert servers(var) == []


def test_a_command_that_is_missing_or_unknown_is_refused_with_a_status(settings: Any) -> None:
    settings.FAIRSHARE_EMBEDDED_DATABASE = False  # another server is up
    for command, status in (([], 2), (["no-such-program"], 127)):
        with pytest.raises(CommandError) as refused:
            call_command("with_stack", "--", *command)
        assert refused.value.returncode == status


@pytest.mark.deep
def test_exit_statuses_of_failing_and_unknown_commands_are_returned(var: Path, with_stack: WithStack) -> None:
    again = with_stack("--", sys.executable, "manage.py", "create_user", "admin")
    assert (again.wait(), "admin" in again.communicate()[1]) == (1, True)
    unknown = with_stack("--", "no-such-program")
    unknown.communicate()
    assert unknown.returncode == 127
    nothing = with_stack("--")
    nothing.communicate()
    assert nothing.returncode == 2
    assert servers(var) == []


@pytest.mark.deep
def test_the_process_that_started_the_database_waits_for_its_users(var: Path, with_stack: WithStack) -> None:
    hold = ("--", "sh", "-c", "echo up; read line")
    owner, borrower = with_stack(*hold), None
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        server = set(servers(var))
        borrower = with_stack(*hold)
        assert borrower.stdout is not None
        assert borrower.stdout.readline() == "up\n"
        assert server <= set(servers(var))
        assert owner.stdin is not None
        owner.stdin.write("\n")
        owner.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            owner.wait(1.5)
        assert server <= set(servers(var))
        borrower.communicate("\n")
        assert (borrower.returncode, owner.wait(60)) == (0, 0)
        assert servers(var) == []
    finally:
        for process in (owner, borrower):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def test_a_signal_reaches_the_command_and_stops_the_database(var: Path, with_stack: WithStack) -> None:
    process = with_stack("--", "sh", "-c", "echo up; exec sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert servers(var) == []


def test_a_password_is_generated_once_with_mode_0600(var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_VAR", str(var))
    made = password_for("anna")
    assert password_for("anna") == made
    assert password_for("berit") != made
    assert sign_ins(var=var) == {"anna": made, "berit": password_for("berit")}
    assert (var / "sign-ins").stat().st_mode & 0o777 == 0o600
    assert len(made.replace("-", "")) == 20


def test_concurrent_requests_get_the_same_secret(var: Path) -> None:
    seen: list[str] = []
    threads = [
        threading.Thread(target=lambda: seen.append(read_or_make_secret("secret_key", var=var))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert len(seen[0]) == 50
    assert sorted(path.name for path in var.iterdir()) == ["secret_key"]


def test_an_existing_file_is_never_overwritten(var: Path) -> None:
    write_once(var / "kept", "first\n")
    write_once(var / "kept", "second\n")
    assert (var / "kept").read_text() == "first\n"


def test_a_foreign_directory_is_refused(var: Path) -> None:
    (var / "elsewhere").mkdir()
    (var / "planted").symlink_to(var / "elsewhere")
    with pytest.raises(InsecureDirectory):
        private_dir(var / "planted")


def test_sockets_are_in_var_unless_the_path_is_too_long() -> None:
    assert socket_dir(Path("/srv/fairshare")) == Path("/srv/fairshare/socket")
    long = Path("/srv") / ("x" * 100)
    assert socket_dir(long) == socket_dir(long)
    assert socket_dir(long) != socket_dir(long / "other")
    assert len(str(socket_dir(long) / ".s.PGSQL.5432.lock")) < 100


def test_every_process_receives_every_message_of_the_file_broker(var: Path) -> None:
    folders = broker_dirs(var)
    assert folders["data_folder_in"] == folders["data_folder_out"]
    assert all(Path(folder).is_dir() for folder in folders.values())


def test_a_lock_is_exclusive_for_its_owner_and_shared_for_users(var: Path) -> None:
    owner, other = VarLock(var, "x.lock"), VarLock(var, "x.lock")
    assert owner.take()
    assert not other.take()
    assert not other.take(shared=True)
    assert owner.holder().isdigit()
    owner.release()
    assert other.take(shared=True)
    assert VarLock(var, "x.lock").take(shared=True)
    assert not owner.take()


def test_only_new_log_lines_are_printed_with_the_process_name(var: Path) -> None:
    log, found = var / "web.log", list[str]()
    log.write_text("of yesterday\n")
    echo = LogEcho(log, "web", found.append)
    with log.open("a") as file:
        file.write("one\nhal")
    echo.pump()
    with log.open("a") as file:
        file.write("f\n")
    echo.pump()
    assert found == ["web      | one", "web      | half"]


def test_a_large_log_is_rotated(var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.cli.stack.logs._LARGEST", 100)
    log, found = var / "web.log", list[str]()
    echo = LogEcho(log, "web", found.append)
    with log.open("ab", buffering=0) as file:
        file.write(b"x" * 150 + b"\n")
        echo.pump()
        file.write(b"after\n")
        echo.pump()
    assert found[-1] == "web      | after"
    assert log.read_text() == "after\n"
    assert (var / "web.log.1").stat().st_size == 151


class Failing:
    """A program that ends at once."""

    name = "failing"

    def __init__(self) -> None:
        self.started_at: list[float] = []

    def launch(self) -> subprocess.Popen[bytes]:
        self.started_at.append(time.monotonic())
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], start_new_session=True)

    def ask_to_stop(self, process: Process) -> None:
        process.terminate()

    def make_stop(self, process: Process) -> None:
        process.kill()

    def clean_up(self, process: Process) -> None:
        pass


def test_a_crashing_process_is_restarted_with_backoff() -> None:
    program, reports = Failing(), list[str]()
    child = Child(program, reports.append)
    deadline = time.monotonic() + 60
    while len(reports) < 4:
        child.update()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.finish()
    assert [re.findall(r"[\d.]+ s\b", report)[-1:] for report in reports] == [
        ["0.1 s"],
        ["0.2 s"],
        ["0.4 s"],
        ["0.8 s"],
    ]
    assert all(re.search(r"(?<![\d.])3(?![\d.])", report) for report in reports), "the exit status"
    pauses = [later - earlier for earlier, later in zip(program.started_at, program.started_at[1:], strict=False)]
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=False))
