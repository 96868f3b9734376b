"""docs/first-site.md from its first command to its last, with PostgreSQL and services of its own.

Of a host are replaced: its folders, by ones of the test; packages, by those of this environment; sudo, users and
systemd, by programs that run the same command lines; slurmdbd, by the files of docs/examples/slurm.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from apps.cli.stack.postgres import PostgresServer, find_binaries
from apps.core.code_paths import REPOSITORY
from apps.core.release import __version__
from tests.docsite.consoles import is_answer
from tests.faults.stack import eventually, free_port
from tests.material import missing

PAGE = (REPOSITORY / "docs/first-site.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOST = "fairshare.example.org"
ROLES = ("web", "worker", "beat")
_SUDO = """
while [ $# -gt 0 ]; do
    case "$1" in -u) shift 2;; *=*) export "$1"; shift;; *) break;; esac
done
exec "$@"
"""


def blocks() -> Iterator[tuple[str, str]]:
    """Each block of commands, with what the page shows below it ("": nothing)."""
    parts = [(kind == "sh", text) for kind, text in _BLOCK.findall(PAGE)]
    for number, (is_typed, text) in enumerate(parts):
        if is_typed:
            shown = parts[number + 1] if number + 1 < len(parts) else (True, "")
            yield text, "" if shown[0] else shown[1]


@dataclass
class Machine:
    """The host of the page, in one folder. Services end with the test."""

    root: Path
    database: PostgresServer
    port: int = field(default_factory=free_port)
    services: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def prepare(self) -> None:
        for folder in ("bin", "units", "var", "etc", "opt/bin"):
            (self.root / folder).mkdir(parents=True)
        programs = {
            "sudo": _SUDO,
            "useradd": f'[ "$*" = "--system --create-home --home-dir {self.root}/var fairshare" ]',
            "psql": f'PGHOST={self.database.sockets} exec {find_binaries()}/psql --user=fairshare postgres "$@"',
            "systemctl": f'echo "$@" >> {self.root}/systemctl',
            "sacct": f"exec cat {self.root}/sacct.txt",
            "sacctmgr": '[ "$1 $2" = "dump linux" ] && cp docs/examples/slurm/accounts.cfg "${3#file=}"',
            "curl": f'exec {shutil.which("curl")} --header "Host: {HOST}" --header "X-Forwarded-Proto: https" "$@"',
        }
        for name, text in programs.items():
            self._program(self.root / "bin" / name, text)
        self._program(self.root / "opt/bin/fairshare", f'exec {sys.executable} {REPOSITORY}/manage.py "$@"')
        (self.root / "sacct.txt").write_text(_of_this_week(REPOSITORY / "docs/examples/slurm/sacct.txt"))

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def here(self, commands: str) -> str:
        """Commands of the page with the folders of this machine, and without what an installation needs."""
        sockets = self.database.sockets
        replaced = {
            "/etc/systemd/system": f"{self.root}/units",
            "/var/lib/fairshare": f"{self.root}/var",
            "/etc/fairshare": f"{self.root}/etc",
            "/opt/fairshare": f"{self.root}/opt",
            "/srv/backups": f"{self.root}/backups",
            "/tmp/": f"{self.root}/",
            "--owner=fairshare ": "",
            "ROLE fairshare": "ROLE first_site",
            "DATABASE fairshare OWNER fairshare": "DATABASE first_site OWNER first_site",
            "fairshare:change-me@localhost:5432/fairshare": f"first_site:change-me@/first_site?host={sockets}",
            "FAIRSHARE_PRODUCTION=yes": f"FAIRSHARE_PRODUCTION=yes\nFAIRSHARE_PORT={self.port}",
            f"https://{HOST}/api": f"http://127.0.0.1:{self.port}/api",
        }
        one_of_them = "|".join(map(re.escape, replaced))
        commands = re.sub(one_of_them, lambda shown: replaced[shown[0]], commands)  # at once: real ones hold shown ones
        return re.sub(r"^(?:python3 -m venv|\S+/pip) .*\n", "", commands, flags=re.MULTILINE)

    def type(self, commands: str, before: str) -> str:
        """What a shell prints for one block, in which `before` was typed, too."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        environment = {**kept, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-ec", f"{before}\n{self.here(commands)}"],
            cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def obey_systemd(self) -> str:
        """Start what the page enables as the units say, and print what `systemctl is-active` would."""
        asked = [shlex.split(line) for line in (self.root / "systemctl").read_text().splitlines()]
        assert asked[0] == ["daemon-reload"]
        assert asked[1] == ["enable", "--now", *(f"fairshare@{role}" for role in ROLES)]
        assert asked[2][0] == "is-active"
        self._service("prepare", "fairshare-prepare.service").wait(240)
        assert self.services.pop("prepare").returncode == 0, self._log("prepare")
        for role in ROLES:
            self._service(role, "fairshare@.service")
        eventually(self._is_ready, "the services are ready", describe=lambda: self._log("web") + self._log("worker"))
        states = {name.removeprefix("fairshare@"): "active" for name in asked[2][1:]}
        assert all(self.services[role].poll() is None for role in states)
        return "".join(f"{state}\n" for state in states.values())

    def _service(self, role: str, unit: str) -> subprocess.Popen[bytes]:
        text = self.here((self.root / "units" / unit).read_text(encoding="utf-8"))
        (command,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
        (file,) = re.findall(r"^EnvironmentFile=(.+)$", text, re.MULTILINE)
        settings = dict(line.split("=", 1) for line in Path(file).read_text(encoding="utf-8").splitlines())
        with (self.root / f"{role}.log").open("wb") as log:
            self.services[role] = subprocess.Popen(
                shlex.split(command.replace("%i", role)), env={"PATH": os.environ["PATH"], **settings},
                cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return self.services[role]

    def _log(self, role: str) -> str:
        return (self.root / f"{role}.log").read_text(encoding="utf-8", errors="replace")[-3000:]

    def _is_ready(self) -> bool:
        assert all(service.poll() is None for service in self.services.values()), self._log("web") + self._log("worker")
        try:
            return self.get("/readyz").status_code == 200
        except requests.ConnectionError:
            return False

    def get(self, path: str, session: requests.Session | None = None) -> requests.Response:
        headers = {"Host": HOST, "X-Forwarded-Proto": "https"}
        return (session or requests.Session()).get(f"http://127.0.0.1:{self.port}{path}", headers=headers, timeout=30)

    def stop(self) -> None:
        for service in self.services.values():
            service.send_signal(signal.SIGTERM)
        for service in self.services.values():
            try:
                service.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(service.pid, signal.SIGKILL)
                service.wait()
        self.database.stop()


def _of_this_week(log: Path) -> str:
    """The log with its newest job an hour ago."""
    rows = list(csv.reader(io.StringIO(log.read_text(encoding="utf-8")), delimiter="|"))
    columns = [rows[0].index(name) for name in ("Submit", "Start", "End")]
    shift = int(time.time()) - 3600 - max(int(row[columns[-1]]) for row in rows[1:])
    for row in rows[1:]:
        for column in columns:
            row[column] = str(int(row[column]) + shift)
    return "".join("|".join(row) + "\n" for row in rows)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    if not shutil.which("curl"):
        missing("curl isn't here", "apt-get install curl")
    database = PostgresServer(tmp_path / "server")
    database.start()
    made = Machine(tmp_path / "host", database)
    try:
        made.prepare()
        yield made
    finally:
        made.stop()


@pytest.mark.deep  # a minute of processor time
@pytest.mark.timeout(900)
def test_the_first_site_works_from_its_first_command_to_its_look_up(machine: Machine) -> None:
    wrong, function = [], ""
    for commands, shown in blocks():
        answer = machine.type(commands, function)
        if "systemctl enable" in commands:
            answer = machine.obey_systemd()
        if shown and not is_answer(shown, answer):
            wrong.append(f"$ {commands}\n--- shown\n{shown}\n--- given\n{answer[-3000:]}")
        function = function or "".join(
            machine.here(line) for line in commands.splitlines() if line.startswith("fairshare()")
        )
    assert not wrong, "\n\n".join(wrong)
    name, password = (machine.root / "var/sign-ins").read_text(encoding="utf-8").split()[:2]
    assert name == "admin"
    assert _signs_in(machine, name, password)
    assert not _signs_in(machine, name, f"{password}x")
    backups = {path.suffix for path in (machine.root / "backups").iterdir() if not path.name.startswith(".")}
    assert backups == {".backup"}  # of the command, and of the day


def _signs_in(machine: Machine, name: str, password: str) -> bool:
    """Whether the form of the sign-in page leads on with them."""
    session = requests.Session()
    page = machine.get("/sign-in/", session)
    (token,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text))
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in session.cookies)  # they are for https alone
    headers = {"Host": HOST, "X-Forwarded-Proto": "https", "Referer": f"https://{HOST}/", "Cookie": cookies}
    answer = session.post(
        f"http://127.0.0.1:{machine.port}/sign-in/",
        {"csrfmiddlewaretoken": token, "login": name, "username": name, "password": password},
        headers=headers, allow_redirects=False, timeout=30,
    )  # fmt: skip
    return answer.status_code == 302


def test_the_page_names_the_release_and_the_log_of_the_recipe() -> None:
    """What the test above replaces: a wheel of this version, and the command of `sacct` that the recipe has."""
    assert f"fairshare_web-{__version__}-py3-none-any.whl" in PAGE
    (fields,) = set(re.findall(r"--format=(JobIDRaw\S+)", PAGE))
    assert f"--format={fields} " in (REPOSITORY / "docs/recipe-slurm.md").read_text(encoding="utf-8")
    assert fields.split(",") == (REPOSITORY / "docs/examples/slurm/sacct.txt").read_text().splitlines()[0].split("|")
