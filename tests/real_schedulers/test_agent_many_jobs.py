"""2,000 real held jobs: the agent's own time apart from Slurm's, and nothing is sent when nothing changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent.commands import Commands
from agent.loop import Agent
from agent.state import open_table
from tests.agent.killed_agent import FileSite
from tests.agent.steps import Passes
from tests.real_schedulers.slurm_site import running_slurm

pytestmark = [pytest.mark.schedulers, pytest.mark.deep, pytest.mark.timeout(900)]
N_JOBS = 2_000
USERS = ("alice", "bob", "carol", "dan")
MOST_OWN_S = 10.0 * N_JOBS / 50_000 + 2  # of CPU; the floor is for starting its commands


def test_two_thousand_held_jobs_get_their_values_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slurm").mkdir()
    factors = {f"{user} physics": 0.2 * number for number, user in enumerate(USERS, 1)}
    with running_slurm(tmp_path / "slurm", users=USERS, settings={"PriorityWeightFairshare": "0"}) as slurm:
        slurm.add_tree({"physics": (1, dict.fromkeys(USERS, 1))})
        asked = "--account=physics --hold --output=/dev/null --chdir=/tmp --wrap=true"
        each = "; ".join(f"sbatch --uid={user} {asked}" for user in USERS)
        loop = f"for i in $(seq {N_JOBS // len(USERS)}); do {each}; done"
        slurm.run("sh", "-ec", loop, timeout=600)
        assert len(slurm.queue("%i")) == N_JOBS
        passes = Passes(tmp_path, slurm.bin, factors)
        monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
        table, lines = open_table(str(passes.state)), []
        for _pass in range(2):
            commands = Commands(calls_per_s=1000)
            own_s, began_s = time.process_time(), time.monotonic()
            report = Agent(FileSite(passes.site), commands, table, "head1", print).run_pass()
            own_s, whole_s = time.process_time() - own_s, time.monotonic() - began_s
            assert report["frozen"] is None
            lines.append((report["jobs"]["sent"], commands.n_calls, own_s, commands.spent_s, whole_s))
        with capsys.disabled():
            for sent, calls, own_s, slurm_s, whole_s in lines:
                print(
                    f"\n{sent} sent, {calls} calls: own {own_s:.2f} s CPU, Slurm {slurm_s:.2f} s, whole {whole_s:.2f} s"
                )
        assert [sent for sent, *_ in lines] == [N_JOBS, 0]
        assert lines[0][2] < MOST_OWN_S
