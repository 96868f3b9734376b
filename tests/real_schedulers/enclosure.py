"""A place for daemons of a scheduler: own users, ports, host name, /tmp and processes, which end with the test process.

Linux namespaces in place of users in /etc/passwd and free ports: nothing of the machine is changed, several sites run
side by side, all commands print the same names everywhere, and the kernel ends every process of the site when its first
one ends. That one ends when the test process does, however that ended: its stdin closes, and the kernel signals it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HOST = "head1"
ADDRESS = "10.11.12.1"
HOME = "/srv"  # the site's folder, as its processes see it; there on every Debian, open to every user
# The site's own: programs name files there by their PID, which another site's program of the same name has, too. A
# MariaDB that starts removes the temporary tables of every other.
TEMPORARY = "/tmp"
FIRST_UID = 20_001
_PR_SET_PDEATHSIG = 1
_NAMESPACES = ("--mount", "--net", "--uts")  # of commands; daemons are in the PID namespace, too
_libc = ctypes.CDLL(None)


class Enclosure:
    """Runs daemons and commands; `folder` is HOME inside."""

    def __init__(
        self, folder: Path, users: Sequence[str], binds: Mapping[str, str] | None = None, root: Path | None = None
    ) -> None:
        """binds: further folders by where they appear inside. root: of another Debian, in place of the machine's."""
        self.root = root or Path("/")
        self.folder, self.users = folder, {name: FIRST_UID + i for i, name in enumerate(users)}
        folder.chmod(0o755)
        self._process = _first_process()
        temporary = folder / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        further = [(source, target) for target, source in (binds or {}).items()]
        last = [(str(folder), HOME), (str(temporary), TEMPORARY)]  # hides where the others may be
        binding = [*self._names(), *further, *last]
        self._ask({"host": HOST, "address": ADDRESS, "binds": binding, "root": str(root or "")})
        # The first process is the one child of `unshare`.
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        self.pid = int(children.read_text().split()[0])

    def _names(self) -> list[tuple[str, str]]:
        """Files in place of those of /etc: users, groups, hosts, and where to look for them."""
        people = "".join(f"{name}:x:{uid}:{uid}::/tmp:/bin/sh\n" for name, uid in self.users.items())
        groups = "".join(f"{name}:x:{uid}:\n" for name, uid in self.users.items())
        contents = {
            "/etc/passwd": (self.root / "etc/passwd").read_text() + people,
            "/etc/group": (self.root / "etc/group").read_text() + groups,
            "/etc/hosts": f"127.0.0.1 localhost\n{ADDRESS} {HOST}\n",
            "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
        }
        etc = self.folder / "etc"
        etc.mkdir()
        for target, text in contents.items():
            (etc / Path(target).name).write_text(text)
        return [
            (str(etc / Path(target).name), target)
            for target in contents
            if (self.root / target[1:]).exists() or self.root != Path("/")
        ]

    def close(self) -> None:
        """Every process of the site is gone afterwards."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()  # `unshare --kill-child` takes the first process along
            self._process.wait()

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
        """A daemon that stays in the foreground; its output is in `<name>.output`. Returns its PID inside."""
        log, environment = f"{HOME}/{name}.output", {"TMPDIR": TEMPORARY, **(env or {})}
        found = self._ask(
            {"do": "start", "name": name, "argv": list(argv), "env": environment, "log": log, "cwd": HOME}
        )
        return int(found["pid"])

    def signal(self, name: str, number: signal.Signals = signal.SIGTERM) -> int | None:
        """Send it and wait for the end of the daemon; its exit status."""
        found: int | None = self._ask({"do": "signal", "name": name, "number": int(number)})["exit"]
        return found

    def is_running(self, name: str) -> bool:
        return self._ask({"do": "status", "name": name})["exit"] is None

    def _ask(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the site ended: {self._process.wait(10)}"
        body: dict[str, Any] = json.loads(line)
        assert "error" not in body, body["error"]
        return body

    def inside(self, argv: Sequence[str], user: str | None = None) -> list[str]:
        """The argument list that runs a command in the site from outside, as root or as one of its users."""
        uid = () if user is None else ("--setuid", str(self.users[user]), "--setgid", str(self.users[user]))
        place = () if self.root == Path("/") else ("--root", "--wd")
        return ["nsenter", "--target", str(self.pid), *_NAMESPACES, *place, *uid, "--", *argv]

    def find(self, program: str) -> str | None:
        """Path of a program as the site sees it."""
        folders = ("usr/bin", "usr/sbin", "bin", "sbin")
        return next((f"/{one}/{program}" for one in folders if (self.root / one / program).exists()), None)

    def run(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: str = "",
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.inside(argv, user),
            env={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC", "TMPDIR": TEMPORARY, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def write_wrappers(self, folder: Path, commands: Mapping[str, str], env: Mapping[str, str]) -> None:
        """Scripts that run commands in the site, for programs that find them by PATH. commands: path by name."""
        folder.mkdir(exist_ok=True)
        settings = " ".join(f"{name}={value}" for name, value in {"TMPDIR": TEMPORARY, **env}.items())
        for name, path in commands.items():
            script = folder / name
            call = " ".join(self.inside(["env", settings, path]))
            script.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
            script.chmod(0o755)


def _first_process() -> subprocess.Popen[str]:
    unshare = ["unshare", *_NAMESPACES, "--pid", "--fork", "--kill-child", "--mount-proc"]
    warden = Path(__file__).with_name("warden.py")
    return subprocess.Popen(
        [*unshare, "--", sys.executable, "-I", str(warden)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=_die_with_parent,
        start_new_session=True,
    )


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def require_namespaces() -> None:
    """Skip where the kernel or the container grants none; root is needed because jobs run as their users."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("no unshare or nsenter: apt-get install util-linux")
    tried = subprocess.run(
        ["unshare", *_NAMESPACES, "--pid", "--fork", "--mount-proc", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"daemons of schedulers need root and Linux namespaces: {tried.stderr.strip()}")


@contextmanager
def enclosed(
    folder: Path, users: Sequence[str], binds: Mapping[str, str] | None = None, root: Path | None = None
) -> Iterator[Enclosure]:
    made = Enclosure(folder, users, binds, root)
    try:
        yield made
    finally:
        made.close()
