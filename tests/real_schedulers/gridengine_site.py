"""A real Grid Engine: sge_qmaster and sge_execd of Debian's gridengine 8.1.9, in an enclosure, with a cell of its own.

Classic spooling, so that objects are files below `spool/` that a test may read and, while the daemon is down, write.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.real_schedulers.enclosure import HOME, HOST, Enclosure, enclosed, require_namespaces

CELL = "c1"
QUEUE = "all.q"
USERS = ("gea", "geb", "gec", "ged", "gee")
COMMANDS = ("qacct", "qalter", "qconf", "qdel", "qhold", "qhost", "qmod", "qrls", "qstat", "qsub")
_ROOT = f"{HOME}/sge"
_TOOLS = "/usr/lib/gridengine"
_RESOURCES = "/usr/share/gridengine"
_ENV = {
    "SGE_ROOT": _ROOT,
    "SGE_CELL": CELL,
    "SGE_QMASTER_PORT": "6444",
    "SGE_EXECD_PORT": "6445",
    "SGE_ND": "1",  # daemons stay in the foreground
}
_PATIENCE_S = 60.0
_BOOTSTRAP = f"""Version: 6.2
admin_user              none
default_domain          none
ignore_fqdn             false
spooling_method         classic
spooling_lib            libspoolc
spooling_params         {_ROOT}/{CELL}/common;{HOME}/spool/qmaster
binary_path             {_ROOT}/bin
qmaster_spool_dir       {HOME}/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
"""
SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "0", "reprioritize_interval": "0:0:0"}
_HOSTS = "group_name @allhosts\nhostlist {host}\n"


class GridEngineSite:
    """Daemons that can be stopped, killed and started one by one, and Grid Engine's commands as lists of arguments."""

    def __init__(self, enclosure: Enclosure, slots: int) -> None:
        self.enclosure, self.folder = enclosure, enclosure.folder
        self.bin = self.folder / "bin"
        self._slots = slots

    def begin(self) -> None:
        self._write_files()
        self._make_spool()
        self.enclosure.write_wrappers(self.bin, {name: f"{_TOOLS}/{name}" for name in COMMANDS}, {**_ENV, "TZ": "UTC"})
        self.start("sge_qmaster")
        for option in ("-ah", "-as"):
            self.run("qconf", option, HOST)
        self._load("-Ahgrp", _HOSTS.format(host=HOST))
        self.run("qconf", "-Ap", f"{_RESOURCES}/util/resources/pe/smp")
        self._load("-Aq", self._queue())
        self.configure(**SCHEDULER)
        self.start("sge_execd")

    def start(self, name: str) -> None:
        """Start one daemon and wait until it answers."""
        self.enclosure.start(name, [f"{_TOOLS}/{name}"], _ENV)
        ends = time.monotonic() + _PATIENCE_S
        while not _ANSWERS[name](self):
            if not self.enclosure.is_running(name) or time.monotonic() > ends:
                raise AssertionError(f"{name} doesn't answer: {self.log(name)}")
            time.sleep(0.05)

    def stop(self, name: str) -> None:
        self.enclosure.signal(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        self.enclosure.signal(name, signal.SIGKILL)

    def log(self, name: str) -> str:
        files = [self.folder / f"{name}.output", *self.folder.glob("spool/*/messages")]
        return "\n".join(file.read_text(errors="replace")[-2_000:] for file in files if file.exists())

    def _write_files(self) -> None:
        common = self.folder / "sge" / CELL / "common"
        common.mkdir(parents=True)
        (common / "bootstrap").write_text(_BOOTSTRAP)
        (common / "act_qmaster").write_text(f"{HOST}\n")
        for name in ("qmaster", "execd"):
            (self.folder / "spool" / name).mkdir(parents=True)
        root = self.folder / "sge"
        (root / "util").symlink_to(f"{_RESOURCES}/util")
        for name in ("bin", "lib", "utilbin"):
            (root / name).mkdir()
            (root / name / "lx-amd64").symlink_to(_TOOLS)
        defaults = Path(_RESOURCES, "default-configuration").read_text()
        text = defaults.replace("/var/spool/gridengine/execd", f"{HOME}/spool/execd").replace("00:00:15", "00:00:01")
        (self.folder / "configuration").write_text(text)

    def _make_spool(self) -> None:
        where = f"{_ROOT}/{CELL}/common;{HOME}/spool/qmaster"
        self.run(f"{_TOOLS}/spoolinit", "classic", "libspoolc", where, "init")
        for what, source in (
            ("configuration", f"{HOME}/configuration"),
            ("complexes", f"{_RESOURCES}/util/resources/centry"),
            ("usersets", f"{_RESOURCES}/util/resources/usersets"),
            ("managers", "root"),
        ):
            self.run(f"{_TOOLS}/spooldefaults", what, source)

    def _queue(self) -> str:
        """The default queue, as `qconf -sq` writes it, with every slot on the one host."""
        shown = self.run("qconf", "-sq").replace("\\\n", " ")
        wanted = {"qname": QUEUE, "hostlist": "@allhosts", "slots": str(self._slots), "load_thresholds": "NONE"}
        return _changed(shown, {**wanted, "shell": "/bin/sh", "pe_list": "smp"})

    def run(self, *argv: str, user: str | None = None, stdin: str = "", timeout: float = 60) -> str:
        """What a command of the site prints; its output is part of the error when it fails."""
        done = self.attempt(*argv, user=user, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def attempt(
        self, *argv: str, user: str | None = None, stdin: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """As `run`, but a failure is an answer."""
        program = f"{_TOOLS}/{argv[0]}" if argv[0] in COMMANDS else argv[0]
        return self.enclosure.run(program, *argv[1:], env=_ENV, user=user, stdin=stdin, timeout=timeout)

    def version(self) -> str:
        """As its own commands say it, e.g. 8.1.9."""
        return self.attempt("qconf", "-help").stdout.splitlines()[0].split()[-1]

    def configure(self, **settings: str | int | float) -> None:
        """Other values in the scheduler's configuration, e.g. weight_ticket=0.5."""
        self._load("-Msconf", _changed(self.run("qconf", "-ssconf"), settings))

    def _load(self, option: str, text: str) -> None:
        (self.folder / "object").write_text(text)
        self.run("qconf", option, f"{HOME}/object")

    def add_user(self, name: str, fshare: int = 0, oticket: int = 0) -> None:
        """A user object; users of jobs without one have no share."""
        lines = {"name": name, "oticket": oticket, "fshare": fshare, "delete_time": 0, "default_project": "NONE"}
        self._load("-Auser", "".join(f"{field} {value}\n" for field, value in lines.items()))

    def set_share_tree(self, text: str) -> None:
        """In the format of `qconf -sstree`."""
        self._load("-Astree", text)

    def submit(self, user: str, *options: str, seconds: float = 1, hold_queue: bool = False) -> str:
        """A job that sleeps; its id. hold_queue: nothing is dispatched until `release`."""
        if hold_queue:
            self.run("qmod", "-d", QUEUE)
        asked = ("-terse", "-b", "y", "-o", "/dev/null", "-e", "/dev/null", "-wd", "/tmp", *options)
        return self.run("qsub", *asked, "sleep", str(seconds), user=user).strip()

    def release(self) -> None:
        self.run("qmod", "-e", QUEUE)

    def jobs(self) -> list[dict[str, str]]:
        """Rows of `qstat -xml -ext -urg -pri` of all users in qstat's order, by the names of the elements."""
        found = ElementTree.fromstring(self.run("qstat", "-u", "*", "-xml", "-ext", "-urg", "-pri"))  # noqa: S314 - the site is ours
        return [{cell.tag: cell.text or "" for cell in row} for row in found.iter("job_list")]

    def wait_for_jobs(self, within_s: float = 120) -> None:
        """Until nothing is pending or running."""
        self._wait(lambda: not self.jobs(), within_s)

    def accounting_of(self, job: str, within_s: float = 30) -> list[str]:
        """Fields of a finished job's line in the accounting file, which is written a moment after the job's end."""
        self._wait(lambda: job in self._accounting(), within_s)
        return self._accounting()[job]

    def _accounting(self) -> dict[str, list[str]]:
        file = self.folder / "sge" / CELL / "common" / "accounting"
        lines = file.read_text().splitlines() if file.exists() else []
        fields = (line.split(":") for line in lines if not line.startswith("#"))
        return {one[5]: one for one in fields}

    def _wait(self, holds: Callable[[], bool], within_s: float) -> None:
        ends = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < ends, self.run("qstat", "-u", "*", "-f")
            time.sleep(0.2)


def _changed(text: str, settings: Mapping[str, str | int | float]) -> str:
    """Lines `name value` with other values."""
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()]
    missing = set(settings) - {name for name, *_ in lines}
    assert not missing, f"Grid Engine has no {sorted(missing)}"
    return "".join(f"{name} {settings.get(name, ' '.join(rest))}\n" for name, *rest in lines)


_ANSWERS: dict[str, Callable[[GridEngineSite], bool]] = {
    "sge_qmaster": lambda site: site.attempt("qconf", "-sh").returncode == 0,
    "sge_execd": lambda site: HOST in site.run("qconf", "-sel") and "lx-amd64" in site.run("qhost"),
}


@contextmanager
def running_gridengine(folder: Path, *, users: Sequence[str] = USERS, slots: int = 8) -> Iterator[GridEngineSite]:
    """A site with one queue and no share tree; every process of it is gone afterwards."""
    for program, package in (("sge_qmaster", "master"), ("sge_execd", "exec"), ("qconf", "client")):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} (gridengine-{package} of Debian): make schedulers")
    require_namespaces()
    with enclosed(folder, users) as enclosure:
        site = GridEngineSite(enclosure, slots)
        site.begin()
        yield site
