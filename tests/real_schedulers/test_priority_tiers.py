"""Partitions of several tiers in a real Slurm: which job starts first, and what the agent's check says of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from agent.adapters.slurm import check_tiers, parse_tiers
from tests.real_schedulers.slurm_site import NODES, SlurmSite, running_slurm

pytestmark = [pytest.mark.schedulers, pytest.mark.deep, pytest.mark.timeout(600)]
ALL_CPUS = 64


@pytest.fixture(scope="module")
def slurm(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    nodes = NODES.replace("PartitionName=other", "PartitionName=other PriorityTier=20")
    with running_slurm(tmp_path_factory.mktemp("slurm"), nodes=nodes, release=release) as site:
        site.add_tree({"hep": (10, {"ann": 5, "bob": 1})})
        yield site


def test_a_job_of_the_higher_tier_starts_before_one_of_higher_priority(slurm: SlurmSite) -> None:
    running = slurm.submit("ann", "hep", cpus=ALL_CPUS, seconds=600)
    ends = time.monotonic() + 60
    while slurm.queue("%i", "%T") != [[running, "RUNNING"]]:
        assert time.monotonic() < ends, slurm.queue("%i", "%T", "%r")
    in_batch, in_other = (
        slurm.submit("bob", "hep", f"--partition={name}", cpus=ALL_CPUS, seconds=1) for name in ("batch", "other")
    )
    for job, priority in ((in_batch, 90_000), (in_other, 10)):
        slurm.run("scontrol", "update", f"jobid={job}", f"priority={priority}")
    slurm.run("scancel", running)
    slurm.wait_for_jobs()
    times = slurm.run("sacct", "-X", "-n", "-P", "-o", "JobIDRaw,Start", "-j", f"{in_batch},{in_other}")
    starts = dict(line.split("|") for line in times.splitlines())
    assert starts[in_other] < starts[in_batch]


def test_the_check_names_the_tiers_as_slurm_lists_them(slurm: SlurmSite) -> None:
    partitions = parse_tiers(slurm.run("scontrol", "--oneliner", "show", "partition"))
    assert sorted(partitions) == [("batch", 1), ("other", 20)]
    finding = check_tiers(partitions)
    assert finding.severity == "warning"
    assert "other (PriorityTier=20); then batch (PriorityTier=1)" in finding.found
