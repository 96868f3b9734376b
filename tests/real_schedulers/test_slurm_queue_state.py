"""What the agent lists beside waiting jobs, of a real Slurm: who runs on what, what is free, drained and reserved."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from agent.adapters.slurm import Slurm
from agent.commands import Commands
from agent.records import Queue
from tests.real_schedulers.slurm_site import TREE, WEIGHED_NODES, SlurmSite, running_slurm

pytestmark = pytest.mark.schedulers
_PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def slurm(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    settings = {"AccountingStorageTRES": "gres/gpu"}
    folder = tmp_path_factory.mktemp("slurm")
    with running_slurm(folder, nodes=WEIGHED_NODES, settings=settings, release=release) as site:
        site.load(TREE)
        yield site


@pytest.fixture
def listed(slurm: SlurmSite, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Queue], bool]], Queue]:
    """The agent's listing, once something is so."""
    monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
    adapter = Slurm(Commands(calls_per_s=1000))
    config = adapter.read_config()

    def _listed(is_so: Callable[[Queue], bool]) -> Queue:
        ends = time.monotonic() + _PATIENCE_S
        while True:
            queue = adapter.read_queue_state("sitefactor", 100_000, config)
            assert (queue.skipped, queue.state and queue.state.problem) == ([], "")
            if is_so(queue) or time.monotonic() > ends:
                return queue
            time.sleep(1)

    return _listed


@pytest.mark.deep
def test_the_agent_lists_what_runs_what_is_free_and_what_was_taken_away(
    slurm: SlurmSite, listed: Callable[[Callable[[Queue], bool]], Queue]
) -> None:
    long = slurm.submit("ann", "hep", "--time=30", "--gpus=3", seconds=600, cpus=4)
    tasks = slurm.submit("cat", "atlas2", "--time=10", "--array=0-99%2", seconds=600)
    short = slurm.submit("ann", "hep", "--time=5", seconds=1)
    listed(lambda queue: bool(queue.state and len(queue.state.running) >= 3))
    wide = slurm.submit("dan", "bio", "--time=60", "--nodes=2", "--exclusive", seconds=600, cpus=2)
    late = slurm.submit("ann", "hep", "--time=60", "--begin=now+2hours")
    dropped = slurm.submit("bob", "hep", "--time=60", "--hold")
    slurm.run("scancel", dropped)

    def is_settled(queue: Queue) -> bool:
        state, jobs = queue.state, {job.id: job for job in queue.jobs}
        ended = {job.id for job in state.ended} if state else set()
        size = jobs[wide].size if wide in jobs else None
        is_planned = size is not None and size.planned_at is not None
        return state is not None and {short, dropped} <= ended and len(state.running) == 3 and is_planned

    queue = listed(is_settled)
    assert queue.state is not None
    running = {job.id: job for job in queue.state.running}
    ended = {job.id: job for job in queue.state.ended}
    print(f"\n{slurm.version}: {queue.state}")
    assert (running[long].gpus, running[long].limit_s, running[long].nodes) == ((("gpu", 3),), 1800.0, 1)
    assert [(job.user, job.limit_s) for job in running.values() if job.array == tasks] == [("cat", 600.0)] * 2
    assert (ended[dropped].is_cancelled, ended[dropped].started_at) == (True, None)
    assert ended[short].started_at is not None
    waiting = {job.id: job for job in queue.jobs}
    assert waiting.keys() == {tasks, wide, late}
    assert waiting[tasks].array_task == "2-99%2"
    size = waiting[wide].size
    assert size is not None
    assert size.planned_at is not None
    assert (size.limit_s, size.nodes) == (3600.0, 2)
    ahead_ends_at = (running[long].started_at or 0) + 1800
    assert abs(size.planned_at - ahead_ends_at) <= 120, "when the job before it reaches its limit"
    begins = waiting[late].size
    assert begins is not None
    assert (begins.planned_at, begins.eligible_at) == (None, (waiting[late].submit_at or 0) + 7200)
    cpu = {each.name: each for each in queue.state.partitions or ()}["cpu"]
    assert (cpu.cpus, cpu.cpus_free, cpu.nodes, cpu.gpus, cpu.gpus_free) == (
        *(128, 128 - 4 - 2, 2),
        *((("gpu", 8),), (("gpu", 5),)),
    )

    begins_at = ("starttime=now+1hour", "duration=60")
    slurm.run("scontrol", "create", "reservation", "reservationname=course", *begins_at, "users=ann", "nodes=node2")
    slurm.run("scontrol", "update", "nodename=node2", "state=drain", "reason=a | b")
    after = listed(lambda queue: any(each.nodes_drained for each in (queue.state and queue.state.partitions) or ()))
    assert after.state is not None
    drained = {each.name: each for each in after.state.partitions or ()}["cpu"]
    assert (drained.nodes_drained, drained.nodes_down, drained.nodes) == (1, 0, 2)
    assert drained.cpus_free <= 64
    assert [(each.name, each.nodes, each.end_at - each.begin_at) for each in after.state.reservations or ()] == [
        ("course", 1, 3600.0)
    ]
    for number in (long, tasks, wide, late):
        slurm.run("scancel", number)
