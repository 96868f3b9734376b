"""A Slurm site where every rule of charging matters: QOS factors, weights of memory and GPUs, and unusual jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.real_schedulers.slurm_site import CLUSTER, SlurmSite

USERS = ("ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal", "ivy", "jon", "kim", "max")
USAGE_FACTORS = {"normal": 1.0, "low": 0.5, "high": 2.0, "free": 0.0}
SETTINGS: Mapping[str, str] = {
    "PriorityDecayHalfLife": "7-00:00:00",
    "PriorityCalcPeriod": "00:01:00",
    "AccountingStorageTRES": "gres/gpu",
    "SelectTypeParameters": "CR_CPU_Memory",
}
_QOS = ",".join(sorted(USAGE_FACTORS))
# Four levels of accounts; ann, bob and ivy in two; three users and an account with shares=parent; kim without shares,
# max and hal without jobs.
TREE = f"""\
Cluster - '{CLUSTER}':Fairshare=1:QOS='{_QOS}'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'science':Description='science':Organization='site':Fairshare=60
Account - 'industry':Description='industry':Organization='site':Fairshare=30
Account - 'idle':Description='idle':Organization='site':Fairshare=10
Parent - 'science'
Account - 'phys':Description='phys':Organization='site':Fairshare=50
Account - 'bio':Description='bio':Organization='site':Fairshare=20
User - 'dan':DefaultAccount='science':Fairshare=parent
Parent - 'phys'
Account - 'hep':Description='hep':Organization='site':Fairshare=7
Account - 'astro':Description='astro':Organization='site':Fairshare=3
Parent - 'hep'
Account - 'atlas':Description='atlas':Organization='site':Fairshare=5
User - 'ann':DefaultAccount='hep':Fairshare=5
User - 'bob':DefaultAccount='hep':Fairshare=3
User - 'cat':DefaultAccount='hep':Fairshare=parent
Parent - 'atlas'
User - 'ann':DefaultAccount='hep':Fairshare=2
User - 'ivy':DefaultAccount='atlas':Fairshare=1
Parent - 'astro'
User - 'eve':DefaultAccount='astro':Fairshare=4
User - 'max':DefaultAccount='astro':Fairshare=1
Parent - 'bio'
Account - 'lab':Description='lab':Organization='site':Fairshare=parent
User - 'fay':DefaultAccount='bio':Fairshare=4
User - 'kim':DefaultAccount='bio':Fairshare=0
Parent - 'lab'
User - 'gus':DefaultAccount='lab':Fairshare=1
User - 'ivy':DefaultAccount='atlas':Fairshare=parent
Parent - 'industry'
User - 'jon':DefaultAccount='industry':Fairshare=1
User - 'bob':DefaultAccount='hep':Fairshare=2
Parent - 'idle'
User - 'hal':DefaultAccount='idle':Fairshare=1
"""


def make_qos_and_tree(site: SlurmSite) -> None:
    for name, factor in USAGE_FACTORS.items():
        if name != "normal":
            site.sacctmgr("add", "qos", name, f"usagefactor={factor}")
    site.load(TREE)
    site.sacctmgr("modify", "cluster", CLUSTER, "set", f"qos={_QOS}")  # loading leaves those of a known cluster
    if site.release.root:
        site.restart("slurmctld")  # 24.11 and later: the running one has lost the QOS that they had before


def submit_jobs(site: SlurmSite) -> dict[str, str]:
    """Submit jobs that end within two minutes, and some that go on; returns those that go on, by what they are."""
    for user, account, qos, cpus, mem, seconds in (
        ("ann", "hep", "low", 4, 2000, 40),
        ("ann", "atlas", "normal", 1, 2000, 23),
        ("bob", "hep", "normal", 8, 900, 31),
        ("cat", "hep", "high", 2, 3100, 17),
        ("dan", "science", "free", 4, 4000, 20),
        ("dan", "science", "high", 1, 700, 29),
        ("ivy", "atlas", "low", 3, 1300, 37),
        ("ivy", "lab", "normal", 1, 500, 53),
        ("fay", "bio", "high", 2, 250, 44),
        ("kim", "bio", "normal", 1, 100, 12),
        ("gus", "lab", "low", 1, 1777, 61),
    ):
        site.submit(user, account, f"--qos={qos}", f"--mem={mem}", cpus=cpus, seconds=seconds)
    site.submit("eve", "astro", "--partition=gpu", "--gres=gpu:1", "--mem=1500", "--qos=high", cpus=2, seconds=35)
    site.submit("bob", "industry", "--partition=gpu", "--gres=gpu:2", "--mem=3000", seconds=48, cpus=3)
    site.submit("eve", "astro", "--array=0-4%2", "--mem=333", seconds=9)
    requeued = site.submit("fay", "bio", "--requeue", "--mem=650", seconds=50, cpus=2)
    two_nodes = ("--nodes=2", "--ntasks-per-node=2")
    resized = site.submit("gus", "lab", *two_nodes, "--mem=800", "--qos=high", seconds=95, cpus=4)
    long = ("--time=60", "--no-requeue")
    running = site.submit("jon", "industry", *long, "--mem=2500", "--qos=low", cpus=8, seconds=3600)
    gpus = ("--partition=gpu", "--gres=gpu:1")
    on_gpu = site.submit("ann", "atlas", *long, *gpus, "--mem=999", cpus=1, seconds=3600)
    return {"requeued": requeued, "resized": resized, "running": running, "on_gpu": on_gpu}


def change_jobs(site: SlurmSite, jobs: Mapping[str, str]) -> None:
    time.sleep(20)
    site.run("scontrol", "requeue", jobs["requeued"])
    shrink_to_one_node(site, jobs["resized"])
    site.run("scontrol", "suspend", jobs["running"])
    time.sleep(5)
    site.run("scontrol", "resume", jobs["running"])


def await_ends(site: SlurmSite) -> None:
    """Until only the two long jobs of each round are left; a requeued job starts again after two minutes."""
    ends = time.monotonic() + 300
    while any(limit != "1:00:00" for limit, *_ in site.queue("%l")):
        assert time.monotonic() < ends, site.run("squeue")
        time.sleep(1)


def shrink_to_one_node(site: SlurmSite, job: str) -> None:
    """A running job; later releases refuse the number of nodes that 22.05 takes, and take their names."""
    site.run("scontrol", "update", f"jobid={job}", "NodeList=node1" if site.release.root else "NumNodes=1")
