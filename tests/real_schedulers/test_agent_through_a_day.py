"""An agent between a running site and a real Slurm: what it follows, what freezes it, an outage, and the way back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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
from tests.real_schedulers.slurm_site import SlurmSite, running_slurm

pytestmark = [pytest.mark.schedulers, pytest.mark.deep, pytest.mark.timeout(1200)]
TREE: dict[str, Any] = {
    "industry": (30, {"ann": 3, "bob": 1}),
    "hep": (50, {"cat": 2, "dan": 1, "eve": 1}),
    "bio": (20, {"fay": 1, "gus": 5, "hal": 2}),
}
GROUPS = {user: group for group, (_shares, users) in TREE.items() for user in users}
JOBS_EACH = 3
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
    """A stack with a policy that is Slurm's own tree, an agent, and Slurm with 24 waiting jobs of eight users."""

    def __init__(self, stack: Stack, slurm: SlurmSite, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stack, self.slurm, self._folder, self._monkeypatch = stack, slurm, folder, monkeypatch
        self.import_usage({user: 10 * n for n, user in enumerate(GROUPS, 1)}, first_job=1_000)
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
        found = self._agent._source.look_up("day", [{"user": "ann", "group": "industry"}])
        return int(found["snapshot"])

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

    def stop_database(self, sig: signal.Signals) -> None:
        for pid in processes.working_in(self.stack.var / "pg", "postgres"):
            processes.send(pid, sig)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    (tmp_path / "slurm").mkdir()
    settings = {"PriorityWeightFairshare": "0"}
    with running_slurm(tmp_path / "slurm", users=tuple(GROUPS), settings=settings) as slurm:
        slurm.add_tree(TREE)
        slurm.submit("ann", "industry", seconds=3_000, cpus=64)  # nothing else starts
        for user, group in GROUPS.items():
            for _each in range(JOBS_EACH):
                slurm.submit(user, group, seconds=60)
        stack = Stack()
        try:
            stack.start(within_s=300)  # from nothing, beside a Slurm
            yield Place(stack, slurm, tmp_path, monkeypatch)
        finally:
            stack.remove()


def test_an_agent_through_a_publish_a_freeze_a_resume_a_hung_database_and_a_reset(place: Place) -> None:
    first = place.run_pass()
    assert (first["frozen"], first["jobs"]["sent"]) == (None, len(GROUPS) * JOBS_EACH)
    values = place.site_factors()
    assert len(set(values.values())) == len(GROUPS)

    print("one published share: bio 20 to 2000, so that the last become the first")
    place.publish(place.slurm.dump().replace("Fairshare=20", "Fairshare=2000"))
    assert place.run_pass()["frozen"] is None
    moved = place.site_factors()
    n_changed = sum(moved[job] != values[job] for job in values)
    print(f"values that it changed: {n_changed} of {len(values)}")
    assert n_changed > len(values) / 2

    print("new usage")
    place.import_usage({"gus": 900, "ann": 5}, first_job=2_000)
    place.recompute()
    assert place.run_pass()["frozen"] is None
    values = place.site_factors()

    print("both imports undone: nobody has usage any more")
    for number in place.stack.run(IMPORTS).split():
        place.manage("undo_import", number)
    place.recompute()
    for _each in range(2):
        report = place.run_pass()
        assert report["frozen"] is not None
        assert report["frozen"]["code"] == "order_lost"
        assert place.site_factors() == values, "the scheduler keeps its values"
    assert "frozen" in place.manage("scheduler", "list")

    print("paused and resumed, without a pass between")
    place.manage("scheduler", "pause", "c1")
    place.manage("scheduler", "resume", "c1")
    assert place.run_pass()["frozen"] is None
    assert len(set(place.site_factors().values())) < 4

    print("slurm.conf with a weight of its own fair share, then corrected")
    place.slurm.configure(PriorityWeightFairshare="100000")
    place.manage("scheduler", "set", "c1", "mode=shadow")
    place.run_pass()
    refused = place.manage("scheduler", "switch-on", "c1", "--all", status=1)
    assert "double_counting. It checks again at its next pass, within 30 s" in refused
    place.slurm.configure(PriorityWeightFairshare="0")
    place.run_pass()
    assert place.manage("scheduler", "switch-on", "c1", "--all") == "c1 is on: all partitions, /\n"

    print("the database hangs, and a job is submitted")
    place.import_usage({user: 10 * n for n, user in enumerate(GROUPS, 1)}, first_job=3_000)
    place.recompute()
    place.run_pass()
    place.stop_database(signal.SIGSTOP)
    try:
        new = place.slurm.submit("gus", "bio", seconds=60)
        report = place.run_pass()
        assert (report["frozen"], report["jobs"]["sent"]) == (None, 1)
        assert place.site_factors()[new] > 0
    finally:
        place.stop_database(signal.SIGCONT)
    place.stack.assert_works()
    assert place.run_pass()["jobs"]["sent"] == 0

    place.manage("scheduler", "reset-values", "c1")
    report = place.run_pass()
    assert set(place.site_factors().values()) == {0}
    print(f"reset: {report['jobs']['sent']} jobs are at 0")


IMPORTS = """
from apps.usage.models import Import
print(*Import.objects.filter(dry_run=False).order_by("id").values_list("pk", flat=True))
"""
