"""A running site whose policy is the tree of a real Slurm, an agent between them, and usage that comes in."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent.commands import Commands
from agent.loop import Agent
from agent.rest import Rest
from agent.state import open_table
from apps.cli.stack import processes
from apps.core.code_paths import REPOSITORY
from tests.faults.stack import Stack
from tests.real_schedulers.slurm_site import SlurmSite

TREE: dict[str, Any] = {
    "industry": (30, {"ann": 3, "bob": 1}),
    "hep": (50, {"cat": 2, "dan": 1, "eve": 1}),
    "bio": (20, {"fay": 1, "gus": 5, "hal": 2}),
}
GROUPS = {user: group for group, (_shares, users) in TREE.items() for user in users}
EARLIER_JOBS = 10_000_000  # numbers that the site doesn't reach
_COLUMNS = "JobIDRaw|Cluster|User|Account|Partition|QOS|Submit|Start|End|ElapsedRaw|State|AllocCPUS|AllocTRES"


def sacct_text(hours: dict[str, int], first_job: int) -> str:
    """A log in which each user ran one job of so many core hours, an hour ago."""
    end = int(time.time()) - 3_600
    rows = [
        f"{job}|c1|{user}|{GROUPS[user]}|batch|normal|{end - 7_200}|{end - 3_600}|{end}|3600|COMPLETED|{n}|cpu={n}"
        for job, (user, n) in enumerate(hours.items(), first_job)
    ]
    return "\n".join([_COLUMNS, *rows, ""])


class Place:
    """A stack with a policy that is Slurm's own tree, usage of its eight users, and an agent that sets its order."""

    def __init__(self, stack: Stack, slurm: SlurmSite, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stack, self.slurm, self._folder, self._monkeypatch = stack, slurm, folder, monkeypatch
        self.import_usage({user: 10 * n for n, user in enumerate(GROUPS, 1)}, first_job=EARLIER_JOBS)
        self.publish(slurm.dump())
        self.manage(
            "scheduler", "add", "c1", "--policy", "day", "--kind", "slurm", "--set", "mode=on", "--set", "step=1"
        )
        self.manage("create_user", "adm", "--admin")
        scopes = ("--scope", "schedulers", "--scope", "priorities:read", "--policy", "day")
        token = self.manage("create_token", "--user", "adm", *scopes).split()[-1]
        site = Rest(f"http://127.0.0.1:{stack.port}", "c1", token)
        self._agent = Agent(site, Commands(), open_table(str(folder / "state")), "head1", print)

    def manage(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=REPOSITORY,
            env=self.stack.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    def import_usage(self, hours: dict[str, int], first_job: int) -> None:
        path = self._folder / f"sacct-{first_job}.txt"
        path.write_text(sacct_text(hours, first_job))
        self.manage("import_usage", "--source", "c1", "--format", "sacct", str(path))

    def publish(self, dump: str) -> None:
        path = self._folder / "dump.cfg"
        path.write_text(dump)
        how = ("--policy", "day", "--format", "sacctmgr", "--make", "--publish", "--map", "c1", "--reason", "test")
        self.manage("import_policy", *how, str(path))
        self.recompute()

    def recompute(self) -> None:
        """Until the agent is answered from a snapshot of the present inputs."""
        done = self.manage("recompute", "day", "--wait")
        newest = int(re.findall(r"snapshot (\d+)", done)[-1])
        ends = time.monotonic() + 60
        while int(self._agent_snapshot()) < newest:
            assert time.monotonic() < ends
            time.sleep(0.2)

    def _agent_snapshot(self) -> int:
        if not hasattr(self, "_agent"):
            return 10**9  # not connected yet
        answer = self._agent._source.look_up("day", [{"user": "ann", "group": "industry"}])
        return int(answer["snapshot"])

    def run_pass(self) -> dict[str, Any]:
        with self._monkeypatch.context() as during:
            during.setenv("PATH", f"{self.slurm.bin}:{os.environ['PATH']}")
            began = time.monotonic()
            report = self._agent.run_pass()
        frozen = "" if report["frozen"] is None else f", frozen: {report['frozen']}"
        print(f"pass in {time.monotonic() - began:.1f} s: {report['jobs']['sent']} sent{frozen}")
        return report

    def site_factors(self) -> dict[str, int]:
        """By pending job."""
        rows = self.slurm.attempt("sprio", "--noheader", "--format=%i|%S").stdout.splitlines()
        return {job.strip(): int(value) for job, _, value in (row.partition("|") for row in rows)}

    def inversions(self) -> int:
        """Pairs of waiting jobs that the scheduler orders the other way round than the site's factors do."""
        accounts = [{"user": user, "group": group} for user, group in GROUPS.items()]
        answers = self._agent._source.look_up("day", accounts)["results"]
        factor = {user: float(answer["factor"]) for user, answer in zip(GROUPS, answers, strict=True)}
        rows = self.slurm.run("sprio", "--noheader", "--format=%i|%u|%Y").splitlines()
        jobs = [(factor[user.strip()], int(priority)) for _job, user, priority in (row.split("|") for row in rows)]
        return sum(ours > other and theirs < others for ours, theirs in jobs for other, others in jobs)

    def stop_database(self, sig: signal.Signals) -> None:
        for pid in processes.working_in(self.stack.var / "pg", "postgres"):
            processes.send(pid, sig)
