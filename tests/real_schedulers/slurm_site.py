"""A real Slurm: MariaDB, munged, slurmdbd, slurmctld, slurmd and slurmrestd of Debian's packages, in an enclosure.

Of the machine, or of the root of a newer Debian (`releases`).
Paths inside are below /srv (`enclosure.HOME`), ports are Slurm's own. `bin/` holds the commands for programs outside.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.real_schedulers.enclosure import HOME, HOST, Enclosure, enclosed, require_namespaces
from tests.real_schedulers.releases import OWN, RELEASES, Release

CLUSTER = "c1"
USERS = ("ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal")
DAEMONS = ("mariadbd", "munged", "slurmdbd", "slurmctld", "slurmd", "slurmrestd", "rest_gate")
COMMANDS = ("sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue", "sshare")
SMALL_POOL = "64M"  # memory of MariaDB for its tables
REST_USER = "slurmrest"  # slurmrestd refuses to run as root
REST_SOCKET, REST_DOOR = "rest/slurmrestd.socket", "rest/door.socket"
_AS_REST_USER = ("setpriv", f"--reuid={REST_USER}", f"--regid={REST_USER}", "--clear-groups")
_ENV = {"SLURM_CONF": f"{HOME}/slurm.conf"}
TOKEN_KEY = "jwt.key"
_TOKENS = {"AuthAltTypes": "auth/jwt", "AuthAltParameters": f"jwt_key={HOME}/{TOKEN_KEY}"}
_PATIENCE_S = 60.0
_NO_SYNC = "--debug-no-sync"  # of MariaDB: a site need not survive a power cut; a cluster is ten tables
# Not --skip-grant-tables: clients of MariaDB 11.8 refuse a server that can't prove itself by the account.
_NO_PASSWORD = "--auth-root-authentication-method=normal"

# Shares are Slurm's to reckon; usage counts as soon as a job ends (`limits`), so short jobs are enough.
SETTINGS: Mapping[str, str] = {
    "PriorityType": "priority/multifactor",
    "PriorityDecayHalfLife": "7-00:00:00",
    "PriorityCalcPeriod": "00:01:00",
    "PriorityWeightFairshare": "100000",
    "PriorityWeightAge": "1000",
    "PriorityWeightJobSize": "100",
    "PriorityWeightPartition": "500",
    "AccountingStorageEnforce": "associations,limits,qos",
}
# Three levels, users in several accounts, shares=parent, an account without usage, a description with a colon.
TREE = f"""\
Cluster - '{CLUSTER}':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'hep':Description='high: energy':Organization='science':Fairshare=60:GrpTRES=cpu=600
Account - 'bio':Description='biology':Organization='science':Fairshare=20
Account - 'idle':Description='idle':Organization='science':Fairshare=15
Parent - 'hep'
Account - 'atlas2':Description='atlas':Organization='science':Fairshare=10:MaxJobs=50
User - 'ann':DefaultAccount='hep':Coordinator='hep':Fairshare=5
User - 'bob':DefaultAccount='hep':Fairshare=3
Parent - 'atlas2'
User - 'ann':DefaultAccount='hep':Fairshare=2
User - 'cat':DefaultAccount='atlas2':Fairshare=1
Parent - 'bio'
Account - 'lab':Description='lab':Organization='science':Fairshare=parent
User - 'dan':DefaultAccount='bio':Fairshare=4
User - 'eve':DefaultAccount='bio':Fairshare=2
Parent - 'lab'
User - 'fay':DefaultAccount='lab':Fairshare=3
User - 'gus':DefaultAccount='lab':Fairshare=1
User - 'dan':DefaultAccount='bio':Fairshare=parent
Parent - 'idle'
User - 'hal':DefaultAccount='idle':Fairshare=1
"""
_SLURM_CONF = f"""
ClusterName={CLUSTER}
SlurmctldHost={HOST}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={HOME}/munge.socket
CredType=cred/munge
StateSaveLocation={HOME}/state
SlurmdSpoolDir={HOME}/spool/%n
SlurmctldPidFile={HOME}/slurmctld.pid
SlurmdPidFile={HOME}/slurmd.%n.pid
SlurmctldLogFile={HOME}/slurmctld.log
SlurmdLogFile={HOME}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=300
MaxJobCount=60000
MaxArraySize=60000
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=5
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePass={HOME}/munge.socket
"""
NODES = f"""
NodeName=node1 NodeHostname={HOST} NodeAddr=127.0.0.1 CPUs=64 RealMemory=1000 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP
"""
# Two nodes with four GPUs each, and two partitions that charge the same resources differently.
WEIGHED_NODES = f"""
GresTypes=gpu
NodeName=node1 NodeHostname={HOST} NodeAddr=127.0.0.1 Port=17001 CPUs=64 RealMemory=64000 Gres=gpu:4 State=UNKNOWN
NodeName=node2 NodeHostname={HOST} NodeAddr=127.0.0.1 Port=17002 CPUs=64 RealMemory=64000 Gres=gpu:4 State=UNKNOWN
PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP TRESBillingWeights=CPU=1.0,Mem=0.25G
PartitionName=gpu Nodes=ALL MaxTime=INFINITE State=UP TRESBillingWeights=CPU=0.5,Mem=0.125G,GRES/gpu=8.5
"""
_SECOND_NODE = "slurmd2"
_N_GPUS = 4
ACCOUNTING = "slurm_acct"
# Not left to slurmdbd: with the client library of MariaDB 11.8.9 it can't go on after it has made one.
_CREATE = f"CREATE DATABASE {ACCOUNTING}"
_SLURMDBD_CONF = f"""
DbdHost=localhost
AuthType=auth/munge
AuthInfo=socket={HOME}/munge.socket
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=root
StorageLoc={ACCOUNTING}
LogFile={HOME}/slurmdbd.log
PidFile={HOME}/slurmdbd.pid
CommitDelay=1
"""


class SlurmSite:
    """Daemons that can be stopped, killed and started one by one, and Slurm's commands as lists of arguments."""

    def __init__(
        self,
        enclosure: Enclosure,
        settings: Mapping[str, str],
        nodes: str = NODES,
        release: Release = RELEASES[OWN],
        *,
        pool: str = SMALL_POOL,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """nodes: lines of slurm.conf about nodes and partitions. patience_s: within which a daemon has to answer."""
        self.release, self._pool, self._patience_s = release, pool, patience_s
        self.enclosure, self.folder, self._nodes = enclosure, enclosure.folder, nodes
        self.bin = self.folder / "bin"
        self._settings = dict(settings)
        self._submitted: set[str] = set()
        self._takes_tokens = False
        self.zone = "UTC"  # of daemons, as in the variable TZ; what commands print is in UTC

    def begin(self) -> None:
        self._write_files()
        commands = {name: path for name in COMMANDS if (path := self.enclosure.find(name))}
        self.enclosure.write_wrappers(self.bin, commands, {**_ENV, "TZ": "UTC"})
        self.version = self.run("slurmctld", "-V").split()[-1]  # e.g. 24.11.5
        self._make_database()
        for name in DAEMONS:
            self.start(name)
            if name == "mariadbd":
                self.sql(_CREATE)
        if "NodeName=node2" in self._nodes:
            self.start(_SECOND_NODE)

    def start(self, name: str) -> None:
        """Start one daemon and wait until it answers."""
        env = {**_ENV, "TZ": self.zone}
        argv = _argv(name, self._pool)
        if name == "slurmrestd" and self._takes_tokens:
            argv = [word.replace("rest_auth/local", "rest_auth/jwt") for word in argv]
            env["SLURM_JWT"] = "daemon"
        self.enclosure.start(name, argv, env)
        self._await(name, _ANSWERS[name])

    def stop(self, name: str) -> None:
        self.enclosure.signal(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        self.enclosure.signal(name, signal.SIGKILL)

    def restart(self, name: str) -> None:
        self.stop(name)
        self.start(name)

    def empty_accounting(self) -> None:
        """slurmdbd as after its first start: accounts of deleted clusters would be found again, and change commands."""
        self.stop("slurmdbd")
        self.sql(f"DROP DATABASE {ACCOUNTING}; {_CREATE}")
        self.start("slurmdbd")

    def configure(self, **settings: str) -> None:
        """Other values in slurm.conf; the controller starts again with them. An empty value removes a line."""
        self._settings.update(settings)
        self._write_files()
        self.restart("slurmctld")

    def take_tokens(self) -> None:
        """Let slurmrestd take JSON Web Tokens alone, as it does over TCP. The packages of 22.05 can't."""
        key = self.folder / TOKEN_KEY
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        self._takes_tokens = True
        self._settings.update(_TOKENS)
        self._write_files()
        for name in ("slurmdbd", "slurmctld"):
            self.restart(name)
        self.stop("slurmrestd")
        (self.folder / REST_SOCKET).unlink(missing_ok=True)
        self.start("slurmrestd")

    def token(self, user: str, lifespan_s: int) -> str:
        """As printed: SLURM_JWT=…"""
        return self.run("scontrol", "token", f"username={user}", f"lifespan={lifespan_s}").strip()

    def _await(self, name: str, answers: Callable[[SlurmSite], bool]) -> None:
        ends = time.monotonic() + self._patience_s
        while not answers(self):
            if not self.enclosure.is_running(name) or time.monotonic() > ends:
                raise AssertionError(f"{name} doesn't answer: {self.log(name)}")
            time.sleep(0.05)

    def log(self, name: str) -> str:
        files = [self.folder / f"{name}.output", self.folder / f"{name}.log"]
        return "\n".join(file.read_text(errors="replace")[-2_000:] for file in files if file.exists())

    def _write_files(self) -> None:
        lines = "".join(f"{name}={value}\n" for name, value in self._settings.items() if value)
        (self.folder / "slurm.conf").write_text(_SLURM_CONF + self._nodes + lines)
        if "GresTypes=gpu" in self._nodes:
            for n in range(_N_GPUS):  # Slurm wants a file for each device
                (self.folder / f"gpu{n}").touch()
            (self.folder / "gres.conf").write_text(f"Name=gpu File={HOME}/gpu[0-{_N_GPUS - 1}]\n")
        if self.release.root:
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        dbd = self.folder / "slurmdbd.conf"
        further = _TOKENS if self._takes_tokens else {}
        dbd.write_text(_SLURMDBD_CONF + "".join(f"{name}={value}\n" for name, value in further.items()))
        dbd.chmod(0o600)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(exist_ok=True)
        rest = self.folder / "rest"
        rest.mkdir(exist_ok=True)
        shutil.copy(Path(__file__).with_name("rest_gate.py"), rest)
        os.chown(rest, self.enclosure.users[REST_USER], -1)
        key = self.folder / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(128))
            key.chmod(0o400)

    def _make_database(self) -> None:
        asked = (
            f"--datadir={HOME}/mariadb",
            "--user=root",
            "--skip-test-db",
            "--skip-name-resolve",
            _NO_SYNC,
            _NO_PASSWORD,
        )
        self.run("mariadb-install-db", "--no-defaults", *asked)

    def sql(self, text: str, timeout: float = 120) -> str:
        """What MariaDB answers: a line of names, and a line for each row, with tabs between cells."""
        socket = f"--socket={HOME}/mariadb.socket"
        return self.run("mariadb", "--no-defaults", socket, f"--execute={text}", timeout=timeout)

    def run(self, *argv: str, user: str | None = None, stdin: str = "", timeout: float = 120) -> str:
        """What a command of the site prints; its output is part of the error when it fails."""
        done = self.attempt(*argv, user=user, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def attempt(
        self, *argv: str, user: str | None = None, stdin: str = "", timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """As `run`, but a failure is an answer."""
        return self.enclosure.run(*argv, env=_ENV, user=user, stdin=stdin, timeout=timeout)

    def sacctmgr(self, *argv: str) -> str:
        return self.run("sacctmgr", "--immediate", *argv)

    def has_cluster(self) -> bool:
        """Whether slurmdbd lists the cluster; adds it if not. Until slurmdbd has made its tables, adding fails."""
        listed = self.attempt("sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster")
        if listed.returncode == 0 and CLUSTER not in listed.stdout.split():
            self.attempt("sacctmgr", "--immediate", "add", "cluster", CLUSTER)
        return listed.returncode == 0 and CLUSTER in listed.stdout.split()

    def add_account(self, name: str, parent: str = "root", shares: int | str = 1) -> None:
        self.sacctmgr("add", "account", name, f"parent={parent}", f"fairshare={shares}", f"cluster={CLUSTER}")

    def add_user(self, name: str, account: str, shares: int | str = 1) -> None:
        self.sacctmgr("add", "user", name, f"account={account}", f"fairshare={shares}", f"cluster={CLUSTER}")

    def add_tree(self, tree: Mapping[str, Any], parent: str = "root") -> None:
        """{"physics": (30, {"hep": (10, {...}), "ann": 5})}: an account has a pair, a user a number or "parent"."""
        for name, node in tree.items():
            if isinstance(node, tuple):
                self.add_account(name, parent, node[0])
                self.add_tree(node[1], name)
            else:
                self.add_user(name, parent, node)

    def load(self, dump: str) -> str:
        """`sacctmgr load`, which changes and adds but removes nothing; what it prints."""
        (self.folder / "load.cfg").write_text(dump)
        return self.sacctmgr("load", f"file={HOME}/load.cfg")

    def dump(self) -> str:
        """`sacctmgr dump` of the cluster."""
        self.run("sacctmgr", "dump", CLUSTER, f"file={HOME}/dump.cfg")
        return (self.folder / "dump.cfg").read_text()

    def submit(self, user: str, account: str, *options: str, seconds: float = 1, cpus: int = 1) -> str:
        """A job that sleeps; its id."""
        asked = ["--parsable", f"--uid={user}", f"--account={account}", f"--ntasks={cpus}", "--output=/dev/null"]
        job = self.run("sbatch", *asked, "--chdir=/tmp", *options, f"--wrap=sleep {seconds}").strip()
        self._submitted.add(job)
        return job

    def queue(self, *columns: str) -> list[list[str]]:
        """Rows of `squeue` without a header, e.g. queue("%i", "%T", "%r")."""
        lines = self.run("squeue", "--noheader", "--array", f"--format={'|'.join(columns)}").splitlines()
        return [line.split("|") for line in lines]

    def wait_for_jobs(self, within_s: float = 120) -> None:
        """Until nothing is pending or running, and the database knows the end of every job that `submit` made."""
        ends = time.monotonic() + within_s
        while self.queue("%i") or not self._are_accounted():
            assert time.monotonic() < ends, self.run("squeue")
            time.sleep(0.5)

    def _are_accounted(self) -> bool:
        asked = ("--noheader", "--parsable2", "--format=JobID,End", "--starttime=now-1days")
        rows = [row.split("|") for row in self.run("sacct", "--allusers", "-X", *asked).splitlines()]
        ended = {job.partition("_")[0] for job, end in rows if end != "Unknown"}
        return self._submitted <= ended and all(end != "Unknown" for _, end in rows)

    def shares(self) -> list[dict[str, str]]:
        """Rows of `sshare -l` by the names of the columns, and "Path", e.g. /physics/hep/ann, "/" of the root.

        EffectvUsage and FairShare are those of the last PriorityCalcPeriod, or of the controller's start.
        """
        rows, accounts = [], [""]
        for row in table(self.run("sshare", "--all", "--long", "--parsable2")):
            depth = len(row["Account"]) - len(row["Account"].lstrip())  # as many blanks as accounts above
            name = row["Account"] = row["Account"].strip()
            if not row["User"]:
                accounts[max(depth, 1) :] = [f"{accounts[depth - 1]}/{name}" if depth else ""]
            row["Path"] = f"{accounts[-1]}/{row['User']}" if row["User"] else accounts[-1] or "/"
            rows.append(row)
        return rows

    def associations(self) -> dict[tuple[str, str], int]:
        """Their ids by (account, user); an account's own has the user ""."""
        asked = ("show", "assoc", f"cluster={CLUSTER}", "format=ID,Account,User,Partition")
        rows = self.run("sacctmgr", "--noheader", "--parsable2", *asked).splitlines()
        cells = [row.split("|") for row in rows]
        return {(account, user): int(number) for number, account, user, partition in cells if not partition}

    def set_usage(self, usage: Mapping[tuple[str, str], float]) -> None:
        """Raw usage (core-seconds) by (account, user), written into the controller's state while it is down.

        The controller adds it up for the accounts; who is left out has none.
        """
        ids = self.associations()
        self.stop("slurmctld")
        self.write_usage({ids[who]: seconds for who, seconds in usage.items()})
        self.start("slurmctld")

    def write_usage(self, by_id: Mapping[int, float]) -> None:
        """The controller's state, which it reads when it starts: raw usage by id of the association."""
        state = packed_usage(by_id, at_s=int(time.time()), version=self.release.usage_version)
        for name in ("assoc_usage", "assoc_usage.old"):
            (self.folder / "state" / name).write_bytes(state)

    def rest(self, path: str) -> Any:
        """A GET of slurmrestd by its socket, as REST_USER: those of 22.05 can't do JWT, which TCP would need."""
        with UnixConnection(self.folder / REST_DOOR) as connection:
            connection.request("GET", path)
            return json.load(connection.getresponse())


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def __enter__(self) -> UnixConnection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def table(text: str) -> list[dict[str, str]]:
    """Rows of a command with `--parsable2`, by column."""
    header, *rows = (line.split("|") for line in text.splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


def packed_usage(usage: Mapping[int, float], *, at_s: int, version: int) -> bytes:
    """The state file `assoc_usage`: version, time, then id, usage as text, TRES as text, wall for each."""

    def text(value: str) -> bytes:
        raw = value.encode() + b"\0"
        return struct.pack(">I", len(raw)) + raw

    parts = [struct.pack(">HQ", version, at_s)]
    for number, seconds in usage.items():
        parts.append(struct.pack(">I", number) + text(f"{seconds:f}") + text("") + struct.pack(">I", 0))
    return b"".join(parts)


def _argv(name: str, pool: str) -> list[str]:
    return {
        "mariadbd": [
            *("mariadbd", "--no-defaults", f"--datadir={HOME}/mariadb", "--user=root", "--bind-address=127.0.0.1"),
            *(f"--socket={HOME}/mariadb.socket", f"--pid-file={HOME}/mariadb.pid"),
            *("--innodb-flush-log-at-trx-commit=0", f"--innodb-buffer-pool-size={pool}", "--performance-schema=OFF"),
            _NO_SYNC,
        ],
        "munged": [
            *("munged", "--foreground", "--force", f"--key-file={HOME}/munge.key", f"--socket={HOME}/munge.socket"),
            *(f"--pid-file={HOME}/munged.pid", f"--seed-file={HOME}/munge.seed", f"--log-file={HOME}/munged.log"),
            "--num-threads=4",
        ],
        "slurmdbd": ["slurmdbd", "-D"],
        "slurmctld": ["slurmctld", "-D", "-i"],
        "slurmd": ["slurmd", "-D", "-N", "node1"],
        _SECOND_NODE: ["slurmd", "-D", "-N", "node2"],
        "slurmrestd": [*_AS_REST_USER, "slurmrestd", "-a", "rest_auth/local", f"unix:{HOME}/{REST_SOCKET}"],
        "rest_gate": [
            *(*_AS_REST_USER, "/usr/bin/python3", "-I", f"{HOME}/rest/rest_gate.py"),
            *(f"{HOME}/{REST_DOOR}", f"{HOME}/{REST_SOCKET}"),
        ],
    }[name]


_ANSWERS: dict[str, Callable[[SlurmSite], bool]] = {
    "mariadbd": lambda site: site.attempt("mariadb-admin", f"--socket={HOME}/mariadb.socket", "ping").returncode == 0,
    "munged": lambda site: site.attempt("munge", "-n", f"--socket={HOME}/munge.socket").returncode == 0,
    "slurmdbd": lambda site: site.has_cluster(),
    "slurmctld": lambda site: site.attempt("scontrol", "show", "config").returncode == 0,
    "slurmd": lambda site: "idle" in site.run("sinfo", "--noheader", "--format=%T"),
    _SECOND_NODE: lambda site: "idle" in site.run("sinfo", "--noheader", "--nodes=node2", "--format=%T"),
    "slurmrestd": lambda site: (site.folder / REST_SOCKET).exists(),
    "rest_gate": lambda site: (site.folder / REST_DOOR).exists(),
}


@contextmanager
def running_slurm(
    folder: Path,
    *,
    users: Sequence[str] = USERS,
    settings: Mapping[str, str] | None = None,
    nodes: str = NODES,
    release: str = OWN,
    pool: str = SMALL_POOL,
    patience_s: float = _PATIENCE_S,
) -> Iterator[SlurmSite]:
    """A site without accounts but `root`; every process of it is gone afterwards. release: of `releases`, by name."""
    chosen = RELEASES[release]
    root = chosen.find_root()
    if root is None:
        _require_packages()
    require_namespaces()
    with enclosed(folder, [REST_USER, *users], root=root) as enclosure:
        site = SlurmSite(enclosure, {**SETTINGS, **(settings or {})}, nodes, chosen, pool=pool, patience_s=patience_s)
        site.begin()
        yield site


def _require_packages() -> None:
    needed = {
        **{name: name for name in DAEMONS if name != "rest_gate"},
        "munged": "munge",
        "mariadbd": "mariadb-server",
    }
    for program, package in needed.items():
        if shutil.which(program) is None:
            pytest.skip(f"no {program} ({package} of Debian): make schedulers")
