"""Three hosts on one machine: Linux namespaces with a bridge between, which the kernel ends with the test process.

Each has processes, a host name, an address and a clock of its own. Nothing of the machine is changed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY

HUB = "10.77.0.254"
NAMES = ("h1", "h2", "h3")
_NAMESPACES = ("--mount", "--net", "--uts", "--pid")
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
# The first process of a host: the kernel reaps what it inherits, as an init does.
_INIT = (
    "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
)
_RESTART_S = 0.5
DEADLINE_S = 180.0
_LONG_S = 45.0  # from here on it is said what is waited for


def eventually(
    condition: Callable[[], bool], what: str, within_s: float = DEADLINE_S, describe: Callable[[], str] = str
) -> None:
    begun, is_long = time.monotonic(), False
    while not condition():
        waited_s = time.monotonic() - begun
        assert waited_s < within_s, f"not within {within_s:.0f} s: {what}\n{describe()}"
        if waited_s > _LONG_S and not is_long:
            is_long = True
            print(f"  {what}: not after {waited_s:.0f} s\n{describe()}", flush=True)
        time.sleep(0.1)


def address(name: str) -> str:
    return f"10.77.0.{NAMES.index(name) + 1}"


def own_environment() -> dict[str, str]:
    """That of this process without what the suite has set."""
    of_suite = ("FAIRSHARE_", "DJANGO_", "DATABASE_URL", "PYTEST_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(of_suite)}


def require_namespaces() -> None:
    """Fail with the reason where the kernel or the container grants none, or programs are missing."""
    wanted = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "redis-server": "redis-server"}
    wanted |= {"rabbitmq-server": "rabbitmq-server", "pgbouncer": "pgbouncer", "cc": "gcc libc6-dev"}
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = sorted({package for name, package in wanted.items() if shutil.which(name, path=path) is None})
    if missing:
        pytest.fail(f"The cluster needs programs: apt-get install {' '.join(missing)}", pytrace=False)
    tried = subprocess.run(
        ["unshare", *_NAMESPACES, "--fork", "--mount-proc", "ip", "link", "add", "tried", "type", "bridge"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.fail(f"The cluster needs root and Linux namespaces: {tried.stderr.strip()}", pytrace=False)


def _end_with_test() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _first_process(*namespaces: str) -> tuple[subprocess.Popen[str], int]:
    """The process that ends the namespaces, and the id of the first one in them."""
    command = ["unshare", *namespaces, "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-I", "-c"]
    process = subprocess.Popen([*command, _INIT], stdout=subprocess.PIPE, text=True, preexec_fn=_end_with_test)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n", "no namespaces"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return process, int(children.split()[0])


@dataclass
class Service:
    """A process that is started again when it ends, as a service manager does. n_ended: how often it ended alone."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    is_wanted: bool = True
    n_ended: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Host:
    def __init__(self, hub_pid: int, name: str, folder: Path) -> None:
        self.name, self.address, self.folder = name, address(name), folder
        folder.mkdir(mode=0o755)
        self.services: dict[str, Service] = {}
        self._hub_pid = hub_pid
        self._init, self.pid = _first_process("--net", "--uts", "--mount")
        self._offset, self._library = folder / "clock", folder / "clock_offset.so"
        self._offset.write_bytes(bytes(8))
        source = str(Path(__file__).with_name("clock_offset.c"))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(self._library), source], check=True)
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address(each)} {each}\n" for each in NAMES))
        self._in_hub("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        self._in_hub("ip", "link", "set", f"to-{name}", "master", "bridge", "up")
        for command in (
            ("hostname", name),
            ("mount", "--bind", str(hosts), "/etc/hosts"),
            ("ip", "link", "set", "lo", "up"),
            ("ip", "address", "add", f"{self.address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
        ):
            subprocess.run(self.inside(*command), check=True)

    def _in_hub(self, *command: str) -> None:
        subprocess.run(["nsenter", "--target", str(self._hub_pid), "--net", "--", *command], check=True)

    def inside(self, *command: str) -> list[str]:
        return ["nsenter", "--target", str(self.pid), *_NAMESPACES, "--", "env", "-C", str(REPOSITORY), *command]

    def cut(self) -> None:
        """Nothing reaches the host, and nothing leaves it; no connection is closed."""
        self._in_hub("ip", "link", "set", f"to-{self.name}", "down")

    def heal(self) -> None:
        self._in_hub("ip", "link", "set", f"to-{self.name}", "up")

    def set_clock(self, offset_s: int) -> None:
        """How far the clock of processes with the environment `clock` is ahead, from now on."""
        with self._offset.open("r+b") as file:
            file.write(offset_s.to_bytes(8, sys.byteorder, signed=True))

    @property
    def clock(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(self._offset)}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        service = Service(command, {**own_environment(), **(environment or {})}, self.folder / f"{name}.log")
        self.services[name] = service
        self._launch(service)

    def _launch(self, service: Service) -> None:
        settings = [f"{name}={value}" for name, value in service.environment.items() if name == "LD_PRELOAD"]
        outer = {name: value for name, value in service.environment.items() if name != "LD_PRELOAD"}
        with service.log.open("ab") as log:
            service.process = subprocess.Popen(
                self.inside(*settings, *service.command),
                env=outer,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str, *, restart: bool = True, program: str = "") -> None:
        """SIGKILL to the service and its children; program: also to all of the host with this executable."""
        service = self.services[name]
        with service.lock:
            service.is_wanted = False
            if service.process is not None and service.process.poll() is None:
                os.killpg(service.process.pid, signal.SIGKILL)
                service.process.wait()
            for pid in self.pids(program) if program else ():
                with suppress(ProcessLookupError):  # it ended with its parent
                    os.kill(pid, signal.SIGKILL)
        eventually(lambda: not (program and self.pids(program)), f"{program} is gone", 10)
        if restart:
            self.restart(name)

    def restart(self, name: str) -> None:
        service = self.services[name]
        with service.lock:
            service.is_wanted = True
            self._launch(service)

    def keep_running(self) -> None:
        """Start again what ended by itself."""
        for service in self.services.values():
            with service.lock:
                if service.is_wanted and service.process is not None and service.process.poll() is not None:
                    service.n_ended += 1
                    self._launch(service)

    def pids(self, program: str) -> list[int]:
        """Processes of this host with this executable's name, as the test sees them."""
        pids = []
        namespace = os.readlink(f"/proc/{self.pid}/ns/pid")
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(path / "ns/pid") == namespace and Path(os.readlink(path / "exe")).name == program:
                    pids.append(int(path.name))
            except OSError:
                continue
        return pids

    def run(self, *command: str, environment: Mapping[str, str], timeout_s: float = 180) -> str:
        done = subprocess.run(
            self.inside(*command),
            env={**own_environment(), **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    def end(self) -> None:
        self._init.kill()
        self._init.wait()


@contextmanager
def running_hosts(folder: Path) -> Iterator[dict[str, Host]]:
    """The test's own thread, and those that it starts from now on, are at the hub."""
    hub, hub_pid = _first_process("--net", "--mount")
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    stopped = threading.Event()
    hosts: dict[str, Host] = {}
    try:
        _enter(f"/proc/{hub_pid}/ns/net")
        for command in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "link", "add", "bridge", "type", "bridge", "forward_delay", "0"),
            ("ip", "address", "add", f"{HUB}/24", "dev", "bridge"),
            ("ip", "link", "set", "bridge", "up"),
        ):
            subprocess.run(command, check=True)
        for name in NAMES:
            hosts[name] = Host(hub_pid, name, folder / name)

        def keep() -> None:
            while not stopped.wait(_RESTART_S):
                for host in hosts.values():
                    host.keep_running()

        keeper = threading.Thread(target=keep, name="service manager")
        keeper.start()
        try:
            yield hosts
        finally:
            stopped.set()
            keeper.join()
    finally:
        for host in hosts.values():
            host.end()
        hub.kill()
        hub.wait()
        _libc.setns(own, _CLONE_NEWNET)
        os.close(own)


def _enter(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {path}")
    finally:
        os.close(descriptor)
