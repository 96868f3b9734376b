"""`manage.py demo`: shares come to their targets at both sites, and it ends without a trace, however it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from apps.cli.demo.cleaner import PREFIX
from apps.cli.demo.grid import NAMES, PROJECT_MEMBERS, SITES
from apps.cli.demo.running import SPEED
from apps.cli.demo.site import Site
from apps.cli.stack import processes
from apps.core.code_paths import REPOSITORY
from tests.instants import AT
from tests.ring.instances import free_port

POINTS = 5.0  # between a share and its target
CONVERGED = timedelta(minutes=5 * SPEED)  # "within five minutes", where the machine is fast enough
PATIENCE_S = 600.0
START_S = 180.0
ENDED_S = 60.0


@dataclass
class Demo:
    process: subprocess.Popen[str]
    folder: Path
    first_port: int
    output: Path

    def await_text(self, pattern: str, patience_s: float) -> re.Match[str]:
        deadline = time.monotonic() + patience_s
        while (found := re.search(pattern, self.output.read_text(encoding="utf-8"), re.MULTILINE)) is None:
            assert self.process.poll() is None, self.output.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, self.output.read_text(encoding="utf-8")
            time.sleep(0.2)  # its progress is waited for, no outcome
        return found

    def folders(self) -> list[Path]:
        return list(self.folder.glob(f"{PREFIX}*"))

    def traces(self) -> list[str]:
        """Processes, folders and ports that are left."""
        left = [f"process {pid} {processes.name_of(pid)}" for pid in processes.pids() if self._is_of_demo(pid)]
        return left + [str(path) for path in self.folder.iterdir()] + [f"port {port}" for port in self._taken()]

    def _is_of_demo(self, pid: int) -> bool:
        try:
            return str(self.folder).encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def _taken(self) -> Iterator[int]:
        for port in range(self.first_port, self.first_port + len(NAMES)):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    yield port

    def assert_without_trace(self) -> None:
        assert processes.wait_gone(lambda: [1 for _ in self.traces()], ENDED_S), self.traces()


def clock_of(folder: Path) -> datetime:
    """Simulated time, which is behind its speed where others use the cores as well."""
    return datetime.fromisoformat((folder / SITES[0] / "clock").read_text(encoding="utf-8"))


def free_ports() -> int:
    """The first of as many free ports in a row as the demo needs."""
    while True:
        first = free_port()
        try:
            for port in range(first, first + len(NAMES)):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            continue
        return first


@contextmanager
def running_demo(folder: Path, *arguments: str) -> Iterator[Demo]:
    home, output, first_port = folder / "tmp", folder / "output", free_ports()
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRSHARE_", "PYTEST_"))}
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--port", str(first_port), *arguments],
            cwd=REPOSITORY,
            env={**environment, "TMPDIR": str(home)},
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    demo = Demo(process, home, first_port, output)
    try:
        yield demo
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The database's socket needs a short path."""
    with tempfile.TemporaryDirectory(prefix="fs-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.deep
@pytest.mark.faults
@pytest.mark.timeout(1500)
def test_shares_converge_at_both_sites_and_ctrl_c_leaves_nothing(short_folder: Path) -> None:
    with running_demo(short_folder) as demo:
        demo.await_text("The demo is ready", START_S)
        (folder,) = demo.folders()
        assert folder.stat().st_mode & 0o777 in (0o700, 0o711), "0711: PostgreSQL runs as another user"
        lines = (folder / "tokens").read_text(encoding="ascii").splitlines()
        tokens = dict(line.split() for line in lines)
        ports = dict(zip(NAMES, range(demo.first_port, demo.first_port + len(NAMES)), strict=True))
        sites = [
            Site(name, address=f"http://127.0.0.1:{ports[name]}", token=tokens[name], began_at=AT) for name in SITES
        ]
        before = sites[0].shares()
        assert max(abs(target - actual) for target, actual in before.values()) > 3 * POINTS / 100
        began_at = clock_of(folder)
        while off := [
            (site.name, user, target, actual)
            for site in sites
            for user, (target, actual) in site.shares().items()
            if user in PROJECT_MEMBERS and abs(target - actual) * 100 > POINTS
        ]:
            assert clock_of(folder) - began_at < CONVERGED, off
            time.sleep(2)  # the demo runs at its own pace
        demo.await_text(r"^\d\d:\d\d  anna +\d", PATIENCE_S)
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(ENDED_S) == 0, demo.output.read_text(encoding="utf-8")
        assert "Traceback" not in demo.output.read_text(encoding="utf-8")
        demo.assert_without_trace()


@pytest.mark.deep
@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("sig", "when"), [("SIGTERM", "Preparing"), ("SIGKILL", "The demo is ready")])
def test_it_leaves_nothing_when_it_is_stopped_or_killed(short_folder: Path, sig: str, when: str) -> None:
    with running_demo(short_folder) as demo:
        demo.await_text(when, START_S)
        demo.process.send_signal(signal.Signals[sig])
        demo.process.wait(ENDED_S)
        demo.assert_without_trace()


def test_a_taken_port_is_refused_by_the_name_of_its_instance(short_folder: Path) -> None:
    first = free_ports()
    port = first + NAMES.index("site-a")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with running_demo(short_folder, "--port", str(first)) as demo:
            assert demo.process.wait(60) == 1
            assert f"Port {port} of site-a can't be used" in demo.output.read_text(encoding="utf-8")
            assert list(demo.folder.iterdir()) == []


def test_production_refuses_the_demo(short_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "demo"],
        cwd=REPOSITORY,
        env={**os.environ, "FAIRSHARE_PRODUCTION": "yes", "TMPDIR": str(short_folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "production" in done.stderr
