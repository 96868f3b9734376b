"""A job of several partitions and QOS on a real Slurm: each of its priorities has a name, as far as sprio prints it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest

from agent.adapters.slurm import PRIORITY_COLUMNS, QUEUE_COLUMNS, parse_priorities, parse_queue
from agent.records import Job
from apps.usage.parsers.registry import format_of
from apps.usage.parsers.sacct_header import RECOMMENDED
from tests.real_schedulers.slurm_site import TREE, SlurmSite, running_slurm
from tests.usage.parsers.reading import read

pytestmark = pytest.mark.schedulers


@pytest.fixture(scope="module")
def slurm(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    """Its QOS differ in priority."""
    settings = {"PriorityWeightQOS": "1000"}
    with running_slurm(tmp_path_factory.mktemp("slurm"), settings=settings, release=release) as site:
        site.load(TREE)
        yield site


@pytest.mark.deep
def test_a_job_with_a_wckey_is_usage_of_its_account_and_user(slurm: SlurmSite) -> None:
    job = slurm.submit("ann", "hep", "--wckey=proj", seconds=2)
    slurm.wait_for_jobs()
    columns = ",".join(("WCKey", *RECOMMENDED))
    text = slurm.run("sacct", "-a", "-X", "-P", "--duplicates", "-S", "now-1hours", f"--format={columns}")
    print(f"\n{text}")
    assert [line.split("|")[0] for line in text.splitlines()[1:]] == ["proj"]
    found = read(format_of("auto", text.encode()), text, zone=ZoneInfo("UTC"))
    assert found.rejections == []
    assert [(each.job, each.group, each.user) for each in found.jobs] == [(job, "hep", "ann")]
    assert found.jobs[0].hours * 3600 >= 2


@pytest.mark.deep
def test_each_partition_and_qos_of_a_job_has_a_priority(slurm: SlurmSite, release: str) -> None:
    names_qos = release != "22.05"
    slurm.sacctmgr("add", "qos", "half", "set", "priority=100")
    slurm.sacctmgr("modify", "user", "ann", "where", "account=hep", "set", "qos+=normal,half")
    nodes = ",".join(sorted(set(slurm.run("sinfo", "-hN", "-o", "%N").split())))
    slurm.run("scontrol", "update", f"nodename={nodes}", "state=drain", "reason=test")
    qos = "normal,half" if names_qos else "half"
    job = slurm.submit("ann", "hep", "--partition=batch,other", f"--qos={qos}")
    one = slurm.submit("ann", "hep", "--partition=batch")
    jobs = queued(slurm)
    ends = time.monotonic() + 90  # priorities by QOS follow with a calculation after the submission
    while names_qos and not jobs[job].differing and time.monotonic() < ends:
        time.sleep(1)
        jobs = queued(slurm)
    print(f"\n{jobs[job].priorities}, best {jobs[job].priority}")
    names = {(each.partition, each.qos) for each in jobs[job].priorities}
    wanted = {(partition, each) for partition in ("batch", "other") for each in (qos.split(",") if names_qos else [""])}
    assert names == wanted
    best = max(jobs[job].priorities, key=lambda each: each.priority)
    assert best.qos == ("half" if names_qos else "")
    assert bool(jobs[job].differing) is names_qos
    assert jobs[job].priority == max(each.priority for each in jobs[job].priorities)
    assert jobs[one].priorities == ()
    for number in (job, one):
        slurm.run("scancel", number)
    slurm.run("scontrol", "update", f"nodename={nodes}", "state=resume")


def queued(slurm: SlurmSite) -> dict[str, Job]:
    terms = slurm.run("sprio", "--noheader", "--local", f"--format={PRIORITY_COLUMNS}")
    listing = slurm.run("squeue", "--noheader", "--all", "--local", f"--format={QUEUE_COLUMNS}")
    return {each.id: each for each in parse_queue(listing, parse_priorities(terms), "sitefactor").jobs}
