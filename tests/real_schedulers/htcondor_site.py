"""A real HTCondor: a personal pool of Debian 13's htcondor 23.9, in an enclosure, with files of its own below /srv.

Its one slot is cut into parts as jobs ask for them; negotiation follows within a second.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.real_schedulers.enclosure import ADDRESS, HOME, HOST, Enclosure, enclosed, require_namespaces
from tests.real_schedulers.roots import find_root

DOMAIN = "example.org"
USERS = ("ann", "bob", "cat", "dan", "eve")
COMMANDS = (
    *("condor_config_val", "condor_history", "condor_hold", "condor_ping", "condor_q", "condor_release", "condor_rm"),
    *("condor_status", "condor_submit", "condor_userprio", "condor_vacate_job", "condor_version", "condor_suspend"),
    *("condor_continue", "condor_reconfig"),
)
_CONFIG = f"{HOME}/condor_config"
_ENV = {"CONDOR_CONFIG": _CONFIG}
_PATIENCE_S = 90.0
_FOLDERS = ("log", "spool", "execute", "lock", "run")
SETTINGS: Mapping[str, str] = {
    "CONDOR_HOST": HOST,
    "NETWORK_INTERFACE": ADDRESS,
    "UID_DOMAIN": DOMAIN,
    "DEFAULT_DOMAIN_NAME": DOMAIN,
    "LOCAL_DIR": HOME,
    "RUN": f"{HOME}/run",
    "LOCK": f"{HOME}/lock",
    "LOG": f"{HOME}/log",
    "SPOOL": f"{HOME}/spool",
    "EXECUTE": f"{HOME}/execute",
    "USE_PROCD": "False",
    "USE_SHARED_PORT": "False",
    "SEC_DEFAULT_AUTHENTICATION": "REQUIRED",
    "SEC_DEFAULT_AUTHENTICATION_METHODS": "FS",
    "ALLOW_ADMINISTRATOR": f"root@{DOMAIN}, condor@{DOMAIN}",
    "ALLOW_DAEMON": f"root@{DOMAIN}, condor@{DOMAIN}",
    "ALLOW_NEGOTIATOR": f"root@{DOMAIN}, condor@{DOMAIN}",
    "ALLOW_READ": "*",
    "ALLOW_WRITE": "*",
    "NEGOTIATOR_INTERVAL": "1",
    "NEGOTIATOR_MIN_INTERVAL": "1",
    "NEGOTIATOR_CYCLE_DELAY": "1",
    "SCHEDD_INTERVAL": "2",
    "SCHEDD_MIN_INTERVAL": "1",
    "UPDATE_INTERVAL": "5",
    "CLAIM_WORKLIFE": "0",  # each job is negotiated for
    "MEMORY": "64000",
    "JOB_DEFAULT_REQUESTMEMORY": "1",
    "JOB_DEFAULT_REQUESTDISK": "1",
    "STARTER_ALLOW_RUNAS_OWNER": "True",
    "PRIORITY_HALFLIFE": "86400",
    "LOCAL_CONFIG_DIR": "",
    "STARTD_USE_HIBERNATION": "False",
}


class HTCondorSite:
    """One pool; its commands as lists of arguments, and as programs in `bin`."""

    def __init__(self, enclosure: Enclosure, cpus: int, settings: Mapping[str, str]) -> None:
        self.enclosure, self.folder = enclosure, enclosure.folder
        self.bin = self.folder / "bin"
        self._settings = {**SETTINGS, "NUM_CPUS": str(cpus), **settings}

    def begin(self) -> None:
        uid, gid = self._daemons_ids()
        for name in _FOLDERS:
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o755)
            os.chown(self.folder / name, uid, gid)
        (self.folder / "execute").chmod(0o1777)
        self._write_config()
        paths = {name: f"/usr/bin/{name}" for name in COMMANDS}
        self.enclosure.write_wrappers(self.bin, paths, {**_ENV, "TZ": "UTC"})
        self.enclosure.start("condor_master", ["/usr/sbin/condor_master", "-f"], _ENV)
        self.wait(lambda: bool(self.attempt("condor_status", "-af", "Name").stdout.strip()))
        self.wait(lambda: self.attempt("condor_q", "-allusers", "-totals").returncode == 0)
        self.wait(lambda: self.attempt("condor_userprio", "-negotiator", "-allusers").returncode == 0)

    def _daemons_ids(self) -> tuple[int, int]:
        """User and group of HTCondor's package in the root."""
        people = (line.split(":") for line in (self.folder / "etc" / "passwd").read_text().splitlines())
        return next((int(fields[2]), int(fields[3])) for fields in people if fields[0] == "condor")

    def _write_config(self) -> None:
        roles = (
            "include : /etc/condor/condor_config\nuse ROLE: CentralManager, Submit, Execute\nuse SECURITY: HOST_BASED\n"
        )
        lines = "".join(f"{name} = {value}\n" for name, value in self._settings.items())
        (self.folder / "condor_config").write_text(f"include : /etc/condor/condor_config\n{roles}{lines}")

    def configure(self, **settings: str) -> None:
        """Other values, which the negotiator reads at once."""
        self._settings = {**self._settings, **settings}
        self._write_config()
        self.run("condor_reconfig")

    def stop(self) -> None:
        self.enclosure.signal("condor_master", signal.SIGTERM)

    def log(self) -> str:
        return "\n".join(
            f"{file.name}: {file.read_text(errors='replace')[-1_500:]}" for file in self.folder.glob("log/*Log")
        )

    def run(self, *argv: str, user: str | None = None, stdin: str = "", timeout: float = 60) -> str:
        """What a command of the pool prints; its output is part of the error when it fails."""
        done = self.attempt(*argv, user=user, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def attempt(
        self, *argv: str, user: str | None = None, stdin: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """As `run`, but a failure is an answer."""
        return self.enclosure.run(*argv, env=_ENV, user=user, stdin=stdin, timeout=timeout)

    def submit(
        self, user: str, *, seconds: float = 1, group: str = "", cpus: int = 1, n: int = 1, priority: int = 0
    ) -> str:
        """Jobs that sleep; the number of their cluster."""
        lines = ["executable = /bin/sleep", f"arguments = {seconds:g}", f"request_cpus = {cpus}", "initialdir = /tmp"]
        lines += [f"accounting_group = {group}"] if group else []
        lines += [f"priority = {priority}"] if priority else []
        text = "\n".join([*lines, f"queue {n}", ""])
        printed = self.run("condor_submit", "-terse", "-", user=user, stdin=text)
        return printed.partition(".")[0].strip()

    def jobs(self) -> list[dict[str, Any]]:
        """Ads of the queue."""
        printed = self.run("condor_q", "-allusers", "-json")
        return json.loads(printed) if printed.strip() else []

    def history(self) -> list[dict[str, Any]]:
        """Ads of jobs that are over."""
        printed = self.run("condor_history", "-json")
        return json.loads(printed) if printed.strip() else []

    def factors(self) -> dict[str, str]:
        """Priority factor of each submitter, as printed."""
        return {name: row["PriorityFactor"] for name, row in self.priorities().items() if "@" in name}

    def priorities(self) -> dict[str, dict[str, str]]:
        """Attributes of each row of condor_userprio, by name."""
        printed = self.run("condor_userprio", "-negotiator", "-allusers", "-long", "-modular")
        rows = [dict(line.split(" = ", 1) for line in part.splitlines()) for part in printed.strip().split("\n\n")]
        return {row["Name"].strip('"'): row for row in rows if "Name" in row}

    def listed_priorities(self) -> str:
        """What condor_userprio prints of every submitter, with the time of the last update."""
        return self.run("condor_userprio", "-negotiator", "-allusers", "-long")

    def release(self) -> None:
        """Let the machine take jobs, in a pool that began with START = False."""
        self.configure(START="True")

    def wait(self, holds: Callable[[], bool], within_s: float = _PATIENCE_S) -> None:
        ends = time.monotonic() + within_s
        while not holds():
            assert self.enclosure.is_running("condor_master"), self.log()
            assert time.monotonic() < ends, self.log()
            time.sleep(0.3)

    def wait_for_jobs(self, within_s: float = 180) -> None:
        """Until the queue is empty and the history has every job."""
        self.wait(lambda: not self.jobs(), within_s)


@contextmanager
def running_htcondor(
    folder: Path, *, users: Sequence[str] = USERS, cpus: int = 1, settings: Mapping[str, str] | None = None
) -> Iterator[HTCondorSite]:
    """A pool with one machine; every process of it is gone afterwards."""
    root = find_root("trixie")
    require_namespaces()
    with enclosed(folder, users, root=root) as enclosure:
        site = HTCondorSite(enclosure, cpus, settings or {})
        site.begin()
        yield site
        site.stop()
