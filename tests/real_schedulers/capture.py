"""Prints of a real Slurm into files. These were written so:

`python -m tests.real_schedulers.capture 22.05 tests/golden/slurm/site` and, for 24.11 and 26.05, with the version's own
folder: what commands print as each parser of that release writes it, slurmrestd's answers, and the nasty site.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.real_schedulers import nasty_site
from tests.real_schedulers.enclosure import HOME, HOST
from tests.real_schedulers.releases import RELEASES
from tests.real_schedulers.slurm_site import REST_DOOR, TREE, WEIGHED_NODES, SlurmSite, UnixConnection, running_slurm

_ACCOUNTING = (
    "JobIDRaw,Cluster,User,Account,Partition,QOS,Submit,Start,End,ElapsedRaw,State,AllocCPUS,AllocTRES,ReqTRES,"
    "Reservation,UID,TimelimitRaw,JobID,Suspended"
)
_QUEUE = "JobID,UserName,Account,Partition,QOS,State,Reason,PriorityLong,Nice"
_EMPTY = {"squeue-empty.json": "squeue --json", "sacct-empty.json": "sacct -a --json -S now-1hours"}
_FULL = {
    "squeue.json": "squeue --json",
    "squeue-O.txt": f"squeue -O {_QUEUE}",
    "sacct.json": "sacct -a --json -S now-1hours",
    "sacct-X-P-duplicates.txt": f"sacct -a -X -P --duplicates -S now-1hours --format={_ACCOUNTING}",
    "sprio-l.txt": "sprio -l",
    "sshare-l-P.txt": "sshare -a -l -P",
    "scontrol-show-config.txt": "scontrol show config",
    "scontrol-show-partition.txt": "scontrol show partition",
    "scontrol-show-job.txt": "scontrol show job",
}
_WITHOUT_SLURMCTLD = {
    "slurmctld-squeue.json": "squeue --json",
    "slurmctld-squeue.txt": "squeue",
    "slurmctld-sshare.txt": "sshare -a -l",
    "slurmctld-sprio.txt": "sprio -l",
    "slurmctld-scontrol-show-config.txt": "scontrol show config",
    "slurmctld-scontrol-update.txt": "scontrol update jobid=1 sitefactor=3",
}
_WITHOUT_SLURMDBD = {
    "slurmdbd-sacct.txt": "sacct -a -X -P",
    "slurmdbd-sacct-json.txt": "sacct -a --json",
    "slurmdbd-sacctmgr-dump.txt": "sacctmgr dump c1 file=/srv/no.cfg",
}
_WITHOUT_DATABASE = {"mariadb-sacct.txt": "sacct -a -X -P", "mariadb-sacct-json.txt": "sacct -a --json"}


def _keep(site: SlurmSite, folder: Path, commands: dict[str, str]) -> None:
    """What goes to standard output, or, where the command fails, all that it prints and its exit status."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, command in commands.items():
        done = site.attempt(*command.split())
        failed = f"{done.stdout}{done.stderr}exit status {done.returncode}\n"
        keep = _one_of_each_state if "-v0.0." in name else _all
        compact = _compact(done.stdout, keep) if name.endswith(".json") and site.release.root else done.stdout
        (folder / name).write_text(failed if done.returncode else compact)


def _run_jobs(site: SlurmSite) -> None:
    """Jobs that ended in every way, that run, are suspended, and wait for every reason."""
    for user, account, cpus in (("ann", "hep", 8), ("ann", "atlas2", 4), ("dan", "bio", 12), ("fay", "lab", 3)):
        site.submit(user, account, cpus=cpus, seconds=3)
    site.run("sbatch", "--uid=bob", "--account=hep", "--chdir=/tmp", "--output=/dev/null", "--wrap=exit 3")
    again = site.submit("gus", "lab", cpus=2, seconds=60)
    _await_running(site, again)
    site.run("scontrol", "requeue", again)  # starts again two minutes later: it waits with the reason BeginTime
    cancelled = site.submit("hal", "idle", "--hold")
    site.run("scancel", cancelled)
    running = site.submit("ann", "hep", "--time=10", cpus=40, seconds=600)
    suspended = site.submit("cat", "atlas2", "--time=10", cpus=16, seconds=600)
    _await_running(site, running, suspended)
    site.run("scontrol", "suspend", suspended)
    first = site.submit("bob", "hep", "--time=30", cpus=64, seconds=60)
    site.submit("dan", "bio", "--time=30", "--nice=100", cpus=60, seconds=60)
    site.submit("eve", "bio", "--hold", seconds=60)
    site.submit("fay", "lab", "--array=0-3%2", "--partition=other", cpus=64, seconds=60)
    site.submit("gus", "lab", f"--dependency=afterok:{running}", seconds=60)
    site.submit("hal", "idle", "--begin=now+1hour", "--job-name=pend|pipe", seconds=60)
    site.run("scontrol", "update", f"jobid={first}", "sitefactor=7000")
    time.sleep(6)


def _await_running(site: SlurmSite, *jobs: str) -> None:
    ends = time.monotonic() + 60
    while {state for job, state in site.queue("%i", "%T") if job in jobs} != {"RUNNING"}:
        assert time.monotonic() < ends, site.run("squeue")
        time.sleep(0.5)


def _before(folder: Path) -> None:
    """The site of 22.05, and what commands print while a daemon is away."""
    with tempfile.TemporaryDirectory() as place, running_slurm(Path(place)) as site:
        site.load(TREE)
        _keep(site, folder, _EMPTY)
        _run_jobs(site)
        _keep(site, folder, _FULL)
        (folder / "sacctmgr-dump.cfg").write_text(_bare(site.dump()))
        jobs = site.rest("/slurm/v0.0.38/jobs")
        (folder / "slurmrestd-jobs.json").write_text(json.dumps(jobs, indent=1) + "\n")
        down = folder / "down"
        site.stop("slurmctld")
        _keep(site, down, _WITHOUT_SLURMCTLD)
        (down / "slurmctld-slurmrestd-jobs.json").write_text(json.dumps(site.rest("/slurm/v0.0.38/jobs"), indent=1))
        site.start("slurmctld")
        site.stop("slurmdbd")
        _keep(site, down, _WITHOUT_SLURMDBD)
        site.start("slurmdbd")
        site.stop("mariadbd")
        _keep(site, down, _WITHOUT_DATABASE)


def _bare(dump: str) -> str:
    """Without the comment at the top; from 25.05 lines of QOS come before the cluster's."""
    lines = dump.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


# The second node is for jobs on two; the programs hold a job of their user in CONFIGURING or COMPLETING.
_TWO_NODES = f"""
NodeName=node1 NodeHostname={HOST} NodeAddr=127.0.0.1 Port=17001 CPUs=64 RealMemory=1000 State=UNKNOWN
NodeName=node2 NodeHostname={HOST} NodeAddr=127.0.0.1 Port=17002 CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=other Nodes=ALL MaxTime=INFINITE State=UP
"""
_HOLDING = {"PrologFlags": "Alloc", "Prolog": f"{HOME}/prolog", "Epilog": f"{HOME}/epilog"}
_HELD_BY = {"prolog": "fay", "epilog": "hal"}
_JSON = {
    "sacctmgr-show-assoc.json": "sacctmgr show assoc --json",
    "sshare.json": "sshare -a --json",
    "scontrol-show-config.json": "scontrol show config --json",
}
_TEXTS = ("sacct-X-P-duplicates.txt", "sprio-l.txt", "sshare-l-P.txt", "scontrol-show-config.txt")
_REST = {
    "slurm": ("ping", "jobs", "shares", "partitions", "conf"),
    "slurmdb": ("ping", "jobs", "associations", "qos", "users", "accounts", "clusters", "tres", "conf", "config"),
}


def _today(folder: Path, release: str) -> None:
    """A site of a later release: its listings in each of its parsers, and slurmrestd's answers."""
    with (
        tempfile.TemporaryDirectory() as place,
        running_slurm(Path(place), release=release, nodes=_TWO_NODES, settings=_HOLDING) as site,
    ):
        for name, user in _HELD_BY.items():
            path = site.folder / name
            path.write_text(f'#!/bin/sh\n[ "$SLURM_JOB_USER" = {user} ] && exec sleep 600\nexit 0\n')
            path.chmod(0o755)
        site.load(TREE)
        _keep(site, folder, _by_parser(site, _EMPTY))
        _run_more_jobs(site)
        _run_jobs(site)
        texts = {name: _FULL[name] for name in _TEXTS}
        _keep(site, folder, {**texts, **_by_parser(site, _FULL), **_JSON})
        (folder / "sacctmgr-dump.cfg").write_text(_bare(site.dump()))
        _ask_rest(site, folder / "rest")


def _by_parser(site: SlurmSite, commands: dict[str, str]) -> dict[str, str]:
    """The commands that print JSON, in each older parser besides, e.g. squeue-v0.0.40.json."""
    return {
        f"{name.removesuffix('.json')}-{parser}.json": command.replace("--json", f"--json={parser}")
        for name, command in commands.items()
        for parser in site.release.parsers[:-1]
        if name.endswith(".json")
    } | {name: command for name, command in commands.items() if name.endswith(".json")}


def _run_more_jobs(site: SlurmSite) -> None:
    """Resized, held for a requeue, configuring and completing ones; a user in one partition, and a deleted one."""
    resized = site.submit("ann", "hep", "--nodes=2", "--ntasks-per-node=1", seconds=30, cpus=2)
    again = site.submit("gus", "lab", "--nodes=1", seconds=600)
    site.submit("fay", "lab", "--time=10", "--nodelist=node2", seconds=1)
    site.submit("hal", "idle", "--time=10", "--nodelist=node2", seconds=1)
    site.sacctmgr("add", "user", "cat", "account=bio", "partition=other", "fairshare=3", "cluster=c1")
    _await_running(site, again, resized)
    site.run("scontrol", "requeuehold", again)
    nasty_site.shrink_to_one_node(site, resized)
    time.sleep(6)


def _ask_rest(site: SlurmSite, folder: Path) -> None:
    """Answers of every parser; of the specification only its paths, which are what differs from release to release."""
    folder.mkdir(exist_ok=True, parents=True)
    _status, described = _asked(site, "/openapi/v3")
    specification = json.loads(described)
    paths: dict[str, Any] = {path: {} for path in sorted(specification["paths"])}
    specification = {"openapi": specification["openapi"], "info": specification["info"], "paths": paths}
    (folder / "openapi-v3.json").write_text(json.dumps(specification, indent=1) + "\n")
    for parser in site.release.parsers:
        for plugin, endpoints in _REST.items():
            for endpoint in endpoints:
                status, body = _asked(site, f"/{plugin}/{parser}/{endpoint}")
                if status != 404:
                    keep = _one_of_each_state if parser != site.release.parsers[-1] else _all
                    text = _compact(body.decode(), keep)
                    (folder / f"{plugin}-{parser}-{endpoint}.json").write_text(text)


def _asked(site: SlurmSite, path: str) -> tuple[int, bytes]:
    with UnixConnection(site.folder / REST_DOOR) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def _all(rows: list[Any]) -> list[Any]:
    return rows


def _one_of_each_state(jobs: list[Any]) -> list[Any]:
    """The first job of each state: the newest parser has all of them."""
    states = {json.dumps(job.get("job_state") or job["state"]["current"]): job for job in reversed(jobs)}
    return [job for job in jobs if any(job is one for one in states.values())]


def _compact(text: str, keep: Callable[[list[Any]], list[Any]] = _all) -> str:
    """The same document with one row of its lists a line, slashes escaped as they were. keep: of its jobs."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    rows: list[str] = []

    def marked(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {each: marked(each, content) for each, content in value.items()}
        if not isinstance(value, list) or not value:
            return value
        rows.append(",\n".join(json.dumps(row) for row in (keep(value) if name == "jobs" else value)))
        return [f"ROWS {len(rows) - 1}"]

    written = json.dumps(marked("", document), indent=1)
    for number, lines in enumerate(rows):
        written = written.replace(f'"ROWS {number}"', lines)
    return (written.replace("/", r"\/") if r"\/" in text else written) + "\n"


def _numbers(folder: Path, release: str) -> None:
    """The nasty site between two calculations: what `sshare` prints, and what it follows from."""
    folder.mkdir(exist_ok=True, parents=True)
    settings = {**nasty_site.SETTINGS, "PriorityDecayHalfLife": "02:00:00"}
    with (
        tempfile.TemporaryDirectory() as place,
        running_slurm(
            Path(place), release=release, users=nasty_site.USERS, settings=settings, nodes=WEIGHED_NODES
        ) as site,
    ):
        nasty_site.make_qos_and_tree(site)
        jobs = nasty_site.submit_jobs(site)
        nasty_site.change_jobs(site, jobs)
        nasty_site.await_ends(site)
        before = site.shares()
        while (shares := site.shares()) == before:  # until the next calculation
            time.sleep(1)
        time.sleep(20)
        assert shares == site.shares()
        (folder / "taken-at-s.txt").write_text(f"{int(time.time())}\n")
        for name, commands in _NUMBERS.items():
            printed = [site.run("env", "SLURM_TIME_FORMAT=%s", *one.split()) for one in commands]
            (folder / name).write_text("".join(printed))
        (folder / "dump.cfg").write_text(_bare(site.dump()))


_NUMBERS = {
    "sshare.txt": ["sshare -a -P -l"],
    "sacct.txt": [f"sacct -a -X -P --duplicates --format={_ACCOUNTING}"],
    "config.txt": [
        *("scontrol show config", "scontrol show partition"),
        "sacctmgr -P show qos format=Name,UsageFactor",
    ],
}


def main(release: str, folder: Path) -> None:
    if not RELEASES[release].root:
        _before(folder)
        return
    _today(folder, release)
    _numbers(folder / "nasty", release)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
