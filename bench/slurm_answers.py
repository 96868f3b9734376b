"""Slurm's side of `beside_slurm`: a site of real daemons with the users and jobs, waiting jobs, and its answers."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.commands import Commands
from agent.loop import Agent
from agent.orders import Orders, read_orders
from agent.source import Source
from agent.state import open_table
from bench import slurm_tables
from bench.answer_costs import AnswerCost, Cut, await_rest, cost_of, spent_s
from bench.recompute import SLUG

if TYPE_CHECKING:
    from tests.real_schedulers.slurm_site import SlurmSite

CUT_S, LONGEST_S = 120.0, 300.0  # of processor time, and by the clock
N_WAITING, N_WAITING_USERS = 200, 20
QUICK_ROUNDS = 5
SCHEDULER = "c1"
_PATIENCE_S = 900.0  # of a controller that reads 100,000 associations
_PLANNED_WITHIN_S, _BEFORE_IT = 120.0, 10
_POOL = "1G"
_CORES_OF_NODE, _CORES_OF_JOB = 64, 8
# Usage as it was counted, without decay, so that both sides have the same sums at any instant.
SETTINGS = {"PriorityDecayHalfLife": "0", "PriorityUsageResetPeriod": "YEARLY", "PriorityCalcPeriod": "06:00:00"}
_ORDERS: dict[str, Any] = {
    "name": SCHEDULER, "policy": SLUG, "kind": "slurm", "namespace": None, "partitions": None, "subtree": "/",
    "knob": "sitefactor", "weight": 100_000, "step": 100, "mode": "shadow", "canary_partition": None, "every_s": 30,
    "paused": False, "reset_values": False, "revision": 1, "takes_queue_state": True,
    "limits": {"snapshot_age_s": 900, "unmapped_percent": 20, "changed_percent": 50, "calls_per_s": 1000},
}  # fmt: skip


@dataclass(frozen=True)
class Subjects:
    """Whom and what the questions are about."""

    group: str
    user: str
    month: datetime
    month_ends: datetime


@dataclass
class SlurmAnswers:
    """Cost and text by question. report: what an agent read of the queue. job: the one that was asked about."""

    job: str = ""
    report: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    costs: dict[str, AnswerCost] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def ask_slurm(n_entries: int, n_records: int, subjects: Subjects) -> SlurmAnswers:
    """Raises pytest's Skipped where a daemon isn't installed, or the kernel grants no namespaces."""
    from tests.real_schedulers.slurm_site import running_slurm

    people = waiting_users(n_entries)
    with (
        tempfile.TemporaryDirectory(prefix="fairshare-slurm-") as folder,
        running_slurm(Path(folder), users=list(people), settings=SETTINGS, pool=_POOL, patience_s=_PATIENCE_S) as site,
    ):
        slurm_tables.fill(site, n_entries, n_records, subjects.month, subjects.month_ends)
        _submit(site, people)
        answers = SlurmAnswers(versions=_versions(site))
        answers.report = _read_by_agent(site)
        answers.job = _job_behind_others(site)
        await_rest()
        for question, commands, rounds in _commands(subjects, answers.job):
            cost, text = _cost_of(site, commands, rounds)
            answers.costs[question], answers.texts[question] = cost, text
    return answers


def _commands(subjects: Subjects, job: str) -> Iterator[tuple[str, list[str], int]]:
    """By question: the commands that answer it, and how often they are asked."""
    group, user = subjects.group, subjects.user
    month = f"start={subjects.month:%F} end={subjects.month_ends:%F}"
    sums = f"sreport -P -t Seconds cluster AccountUtilizationByUser {month}"
    yield "one user", [f"sshare -P -u {user}"], QUICK_ROUNDS
    yield "one account", [f"sshare -a -P -A {group}"], QUICK_ROUNDS
    yield "why", [f"sprio -l -j {job}", f"squeue --start -j {job}"], QUICK_ROUNDS
    yield "month of one account", [f"{sums} accounts={group}"], 1
    yield "all users", ["sshare -a -P"], 1
    yield "month of all", [sums], 1


def waiting_users(n_entries: int) -> dict[str, str]:
    """Users with waiting jobs, and the account of each; spread over those that have usage."""
    from bench.recompute import IDLE_PART, n_groups

    n, first = n_groups(n_entries), int(n_groups(n_entries) * IDLE_PART) + 1
    groups = range(first, n, max((n - first) // N_WAITING_USERS, 1))
    return {f"u{group}-5": f"g{group}" for group in groups}


def _submit(site: SlurmSite, people: Mapping[str, str]) -> None:
    """Jobs that fill the node for hours, and those that wait."""
    options = f"--ntasks={_CORES_OF_JOB} --output=/dev/null --chdir=/tmp --wrap='sleep 36000'"
    each = [f"sbatch --uid={user} --account={group} {options}" for user, group in people.items()]
    fills = [f"{command} --time=240" for command in each[: _CORES_OF_NODE // _CORES_OF_JOB]]
    waits = [f"{command} --time={20 + number}" for number in range(N_WAITING // len(each)) for command in each]
    site.run("sh", "-ec", "\n".join([*fills, *waits]), timeout=_PATIENCE_S)


def _versions(site: SlurmSite) -> dict[str, str]:
    mariadb = site.run("mariadbd", "--version").split("Ver ")[-1].split("-")[0]
    return {"Slurm": site.version, "MariaDB": mariadb}


class _Kept(Source):
    """A site that keeps the report of an agent, for the one that is asked later."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def orders(self) -> Orders:
        return read_orders(_ORDERS)

    def look_up(self, policy: str, accounts: Sequence[dict[str, str]]) -> Any:
        results = [{"account": each["user"], "entry": "/", "error": None, "factor": 0.5} for each in accounts]
        return {"snapshot": 1, "age_s": 1.0, "results": results}

    def report(self, report: dict[str, Any]) -> int | None:
        self.reports.append(report)
        return 1


def _read_by_agent(site: SlurmSite) -> dict[str, Any]:
    kept = _Kept()
    with _path(site.bin), tempfile.TemporaryDirectory() as state:
        Agent(kept, Commands(calls_per_s=1000), open_table(state), "head1", lambda text: None).run_pass()
    (report,) = kept.reports
    assert report["frozen"] is None, report["frozen"]
    return report


@contextmanager
def _path(first: Path) -> Iterator[None]:
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{first}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _job_behind_others(site: SlurmSite) -> str:
    """A waiting job with some before it, once the controller has planned its start.

    Those of a few hours are planned: a plan keeps the whole node for each job.
    """
    lines = site.run("sprio", "--noheader", "--format=%Y %i").splitlines()
    by_priority = sorted(lines, key=lambda line: -float(line.split()[0]))
    job = by_priority[_BEFORE_IT].split()[1]
    ends = time.monotonic() + _PLANNED_WITHIN_S
    while "N/A" in site.run("squeue", "--noheader", "--start", f"--jobs={job}", "--format=%S"):
        assert time.monotonic() < ends, site.run("squeue", "--start")[:2_000]
        time.sleep(1)
    return job


def _cost_of(site: SlurmSite, commands: Sequence[str], rounds: int) -> tuple[AnswerCost, str]:
    """rounds: 1 for a command that may be cut; queries of one that was are ended, too."""

    def ask() -> str:
        return "".join(_printed(site, command.split()) for command in commands)

    cost, text = cost_of("; ".join(commands), ask, rounds)
    if cost.is_cut:
        _end_queries(site)
    return cost, text


def _end_queries(site: SlurmSite) -> None:
    """What a command asked of the database goes on after its end, and would slow down the next one."""
    listed = "SELECT id FROM information_schema.processlist WHERE command = 'Query' AND id <> connection_id()"
    for number in site.sql(listed).split()[1:]:
        site.sql(f"KILL {number}")
    site.restart("slurmdbd")
    await_rest()


def _printed(site: SlurmSite, argv: Sequence[str]) -> str:
    """Raises Cut once all processes have spent too much on it: load of others moves the clock, and doesn't count."""
    from tests.real_schedulers.enclosure import HOME

    environment = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_CONF": f"{HOME}/slurm.conf"}
    inside = site.enclosure.inside(argv)
    before_s, ends = spent_s(), time.monotonic() + LONGEST_S
    with (
        tempfile.TemporaryFile("w+") as printed,
        subprocess.Popen(inside, env=environment, stdout=printed, stderr=subprocess.STDOUT) as asked,
    ):
        is_cut = False
        while not is_cut and not _has_ended(asked):
            is_cut = spent_s() - before_s > CUT_S or time.monotonic() > ends
        if is_cut:
            asked.kill()
            asked.wait()
        printed.seek(0)
        text = printed.read()
    if is_cut:
        raise Cut(text)
    assert asked.returncode == 0, (argv, text[:500])
    return text


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """After a second at most: what is asked more often would be a cost of its own."""
    try:
        process.wait(1)
    except subprocess.TimeoutExpired:
        return False
    return True
