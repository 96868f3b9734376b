"""What the agent costs a real Slurm in RPCs, by its own statistics: all values that moved, and the fewest of them.

A minute of the measurement is two passes of the agent, a user who moves in the ranking, and new jobs; its clock is the
test's, so nothing waits.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent import plan as planning
from agent.commands import Commands
from agent.loop import Agent
from agent.orders import Orders, read_orders
from agent.records import ServerAway
from agent.source import Source
from agent.state import open_table
from tests.agent.fakes import ORDERS
from tests.real_schedulers.conftest import Measure
from tests.real_schedulers.slurm_site import CLUSTER, SlurmSite, running_slurm

pytestmark = [pytest.mark.schedulers, pytest.mark.deep, pytest.mark.timeout(3600)]

N_USERS, N_ACCOUNTS, N_MINUTES = 50, 5, 5
USERS = tuple(f"u{n:02d}" for n in range(N_USERS))
WEIGHT = ORDERS["weight"]
_COUNT = re.compile(r"^\s*(\w+)\s*\(\s*\d+\)\s*count:(\d+)", re.MULTILINE)


class Ranking(Source):
    """A site whose factors are ranks, as those of Fair Tree, with a new snapshot for each look-up."""

    def __init__(self, seed: int) -> None:
        self.users = list(USERS)
        self.snapshot = 0
        self.is_away = False
        self._random = random.Random(seed)

    def move_one(self) -> None:
        user = self.users.pop(self._random.randrange(N_USERS))
        self.users.insert(self._random.randrange(N_USERS), user)

    def factor(self, user: str) -> float:
        return 1 - self.users.index(user) / N_USERS

    def orders(self) -> Orders:
        if self.is_away:
            raise ServerAway("The site can't be reached.")
        limits = {**ORDERS["limits"], "updates_per_min": 1_000_000}
        return read_orders({**ORDERS, "namespace": None, "limits": limits})

    def look_up(self, policy: str, accounts: Sequence[dict[str, str]]) -> Any:
        self.snapshot += 1
        results = [
            {"account": each["user"], "entry": f"/{each['user']}", "error": None, "factor": self.factor(each["user"])}
            for each in accounts
        ]
        return {"snapshot": self.snapshot, "age_s": 1.0, "results": results}

    def report(self, report: dict[str, Any]) -> int:
        return 1


class MeasuredSite:
    """An agent beside a Slurm whose only node is taken, so that all other jobs wait."""

    def __init__(self, slurm: SlurmSite, folder: Path) -> None:
        self.slurm, self.ranking, self._now = slurm, Ranking(7), 1_800_000_000.0
        table = open_table(str(folder))
        commands = Commands(calls_per_s=1000)
        self._agent = Agent(self.ranking, commands, table, "head1", print, clock=lambda: self._now)

    def run_pass(self) -> dict[str, Any]:
        self._now += 30
        report = self._agent.run_pass()
        assert (report["frozen"] is not None, report["jobs"]["failed"]) == (self.ranking.is_away, 0)
        return report

    def rpcs_a_minute(self) -> dict[str, float]:
        """RPCs by kind, of N_MINUTES with one move in the ranking and ten new jobs each; the order after each pass."""
        self.slurm.run("sdiag", "--reset")
        counts: dict[str, int] = {}
        for minute in range(N_MINUTES):
            self.ranking.move_one()
            self.submit([USERS[(7 * minute + n) % N_USERS] for n in range(10)])
            before = self._rpcs()
            self.run_pass()
            self.run_pass()
            after = self._rpcs()
            for kind, n in after.items():
                counts[kind] = counts.get(kind, 0) + n - before.get(kind, 0)
            assert self.order() == self.wanted_order()
        return {kind: round(n / N_MINUTES, 1) for kind, n in counts.items() if kind in _OF_AGENT and n}

    def _rpcs(self) -> dict[str, int]:
        return {kind: int(n) for kind, n in _COUNT.findall(self.slurm.run("sdiag"))}

    def submit(self, users: Sequence[str]) -> None:
        asked = "--ntasks=64 --output=/dev/null --chdir=/tmp --wrap=true"
        names = " ".join(users)
        self.slurm.run("sh", "-ec", f"for u in {names}; do sbatch --uid=$u {asked} >/dev/null; done", timeout=900)

    def starts(self) -> dict[str, str]:
        """When jobs started, by the accounting: to the second."""
        asked = ("--noheader", "--parsable2", "--allusers", "-X", "--format=JobID,Start", "--starttime=now-1days")
        rows = [row.split("|") for row in self.slurm.run("sacct", *asked).splitlines()]
        return {job: start for job, start in rows if start not in ("Unknown", "None")}

    def order(self) -> list[str]:
        return [job for job, _user, _priority, _site in self._queue()]

    def wanted_order(self) -> list[str]:
        """By priorities with every value as all updates would set it."""
        rows = []
        for job, user, priority, site in self._queue():
            value = round(self.ranking.factor(user) * WEIGHT)
            rows.append((site - priority - value, int(job)))
        return [str(job) for _, job in sorted(rows)]

    def _queue(self) -> list[tuple[str, str, int, int]]:
        """Waiting jobs in Slurm's order: number, user, priority, site factor."""
        sites = {job: int(site) for job, site in self._columns("sprio", "%i|%S")}
        listed = self._columns("squeue", "%i|%u|%Q", "--states=PENDING")
        rows = [(job, user, int(priority), sites[job]) for job, user, priority in listed]
        return sorted(rows, key=lambda row: (-row[2], int(row[0])))

    def _columns(self, command: str, columns: str, *more: str) -> list[list[str]]:
        lines = self.slurm.run(command, "--noheader", f"--format={columns}", *more).splitlines()
        return [[cell.strip() for cell in line.split("|")] for line in lines]


_UPDATE = "REQUEST_UPDATE_JOB"
_OF_AGENT = (
    _UPDATE, "REQUEST_JOB_INFO", "REQUEST_PRIORITY_FACTORS", "REQUEST_PARTITION_INFO",
    "REQUEST_JOB_USER_INFO", "REQUEST_BUILD_INFO", "REQUEST_SHARE_INFO",
)  # fmt: skip


def tree() -> str:
    lines = [f"Cluster - '{CLUSTER}':Fairshare=1:QOS='normal'", "Parent - 'root'"]
    lines.append("User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1")
    lines += [f"Account - 'a{n}':Description='a':Organization='a':Fairshare=1" for n in range(N_ACCOUNTS)]
    for n in range(N_ACCOUNTS):
        lines.append(f"Parent - 'a{n}'")
        lines += [f"User - '{user}':DefaultAccount='a{n}':Fairshare=1" for user in USERS[n::N_ACCOUNTS]]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("n_jobs", [500, 5_000])
def test_the_fewest_updates_give_the_same_order_for_a_part_of_the_rpcs(
    tmp_path: Path, release: str, n_jobs: int, monkeypatch: pytest.MonkeyPatch, measure: Measure
) -> None:
    (tmp_path / "slurm").mkdir()
    settings = {"PriorityWeightFairshare": "0"}
    with running_slurm(tmp_path / "slurm", users=USERS, settings=settings, release=release) as slurm:
        slurm.load(tree())
        slurm.submit(USERS[0], "a0", seconds=9_000, cpus=64)
        monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
        site = MeasuredSite(slurm, tmp_path / "state")
        for begin in range(0, n_jobs, 250):
            site.submit([USERS[n % N_USERS] for n in range(begin, begin + 250)])
        site.run_pass()
        assert site.order() == site.wanted_order()
        fewest = site.rpcs_a_minute()
        with monkeypatch.context() as during:
            during.setattr(planning, "_has_other_settings", lambda *_: True)  # then a pass sends all that moved
            site.run_pass()
            every = site.rpcs_a_minute()
        others = (sum(n for kind, n in rpcs.items() if kind != _UPDATE) for rpcs in (every, fewest))
        measure(
            f"updates a minute, {n_jobs:,} jobs: all that moved, fewest", f"{every[_UPDATE]:g}, {fewest[_UPDATE]:g}"
        )
        measure(f"other RPCs a minute, {n_jobs:,} jobs", ", ".join(f"{n:g}" for n in others))
        assert fewest[_UPDATE] < every[_UPDATE] / 2


def test_jobs_that_come_while_the_site_is_away_start_in_their_order(
    tmp_path: Path, release: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slurm").mkdir()
    settings = {"PriorityWeightFairshare": "0"}
    with running_slurm(tmp_path / "slurm", users=USERS, settings=settings, release=release) as slurm:
        slurm.load(tree())
        blocker = slurm.submit(USERS[0], "a0", seconds=9_000, cpus=64)
        monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
        site = MeasuredSite(slurm, tmp_path / "state")
        site.submit(USERS[:20])
        site.run_pass()
        site.ranking.move_one()
        site.run_pass()
        site.ranking.is_away = True
        site.submit(USERS[:20:3])
        wrong = inversions(site)
        assert site.run_pass()["jobs"]["sent"] == 7
        with capsys.disabled():
            print(f"\n{wrong} inversions before, {inversions(site)} after a pass without the site")
        assert inversions(site) == 0
        wanted = site.order()
        slurm.run("scancel", blocker)
        ends = time.monotonic() + 120
        while slurm.queue("%i") or not set(wanted) <= set(site.starts()):
            assert time.monotonic() < ends, slurm.queue("%i", "%T", "%r")
            time.sleep(0.5)
        starts = site.starts()
        in_order = [starts[job] for job in wanted]
        assert in_order == sorted(in_order)
        assert len(set(in_order)) > 1


def inversions(site: MeasuredSite) -> int:
    """Pairs of waiting jobs whose order isn't the wanted one."""
    place = {job: n for n, job in enumerate(site.wanted_order())}
    order = [place[job] for job in site.order()]
    return sum(order[i] > order[j] for i in range(len(order)) for j in range(i + 1, len(order)))
