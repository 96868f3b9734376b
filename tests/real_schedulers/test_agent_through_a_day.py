"""An agent between a running site and a real Slurm: what it follows, what freezes it, an outage, and the way back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.stack import Stack
from tests.real_schedulers.conftest import Measure
from tests.real_schedulers.slurm_site import running_slurm
from tests.real_schedulers.whole_site import EARLIER_JOBS, GROUPS, TREE, Place

pytestmark = [pytest.mark.schedulers, pytest.mark.deep, pytest.mark.timeout(1200)]
JOBS_EACH = 3


@pytest.fixture
def place(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    (tmp_path / "slurm").mkdir()
    settings = {"PriorityWeightFairshare": "0"}
    with running_slurm(tmp_path / "slurm", users=tuple(GROUPS), settings=settings, release=release) as slurm:
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


def test_an_agent_through_a_publish_a_freeze_a_resume_a_hung_database_and_a_reset(
    place: Place, measure: Measure
) -> None:
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
    assert n_changed > 0
    measure("inversions: publish", place.inversions())
    assert place.inversions() == 0

    print("a new job of everybody")
    for user, group in GROUPS.items():
        place.slurm.submit(user, group, seconds=60)
    assert place.run_pass()["jobs"]["sent"] > 0
    measure("inversions: new jobs", place.inversions())
    assert place.inversions() == 0

    print("new usage")
    place.import_usage({"gus": 900, "ann": 5}, first_job=EARLIER_JOBS + 1_000)
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
    place.import_usage({user: 10 * n for n, user in enumerate(GROUPS, 1)}, first_job=EARLIER_JOBS + 2_000)
    place.recompute()
    place.run_pass()
    place.stop_database(signal.SIGSTOP)
    try:
        new = place.slurm.submit("gus", "bio", seconds=60)
        report = place.run_pass()
        assert (report["frozen"], report["jobs"]["sent"]) == (None, 1)
        assert place.site_factors()[new] > 0
        measure("inversions: outage", place.inversions())
        assert place.inversions() == 0
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
