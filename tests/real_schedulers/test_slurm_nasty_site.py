"""A real Slurm where every rule of charging matters: each number of `sshare -l` beside ours, minute after minute.

NASTY_MINUTES=20 collects longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.policies.models import Policy
from apps.policies.selectors import get_revision
from apps.usage.models import Source
from tests.real_schedulers import nasty_site
from tests.real_schedulers.beside_sshare import (
    PROGRAMS,
    await_calculation,
    beside_sshare,
    largest,
    run,
    tolerated,
)
from tests.real_schedulers.conftest import Measure
from tests.real_schedulers.releases import OWN, release_params
from tests.real_schedulers.slurm_site import CLUSTER, WEIGHED_NODES, SlurmSite, running_slurm

pytestmark = [
    pytest.mark.schedulers,
    pytest.mark.deep,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3_000),
]
HALF_LIVES = ("02:00:00", "7-00:00:00")
MINUTES = int(os.environ.get("NASTY_MINUTES", "2"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both half-lives on the machine's own release, the short one on the others."""
    pairs = [
        pytest.param(*param.values, half_life, marks=param.marks, id=f"{param.id}-{half_life}")
        for param in release_params()
        for half_life in HALF_LIVES
        if half_life == HALF_LIVES[0] or param.id == OWN
    ]
    metafunc.parametrize(("release", "half_life"), pairs, indirect=["release"], scope="module")


@pytest.fixture(scope="module")
def release(request: pytest.FixtureRequest) -> str:
    """In place of the one of all tests: with a half-life."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def slurm(release: str, half_life: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    """The site with a half-life; another one would decay usage of before otherwise."""
    folder = tmp_path_factory.mktemp("slurm")
    settings = {**nasty_site.SETTINGS, "PriorityDecayHalfLife": half_life}
    with running_slurm(folder, users=nasty_site.USERS, settings=settings, nodes=WEIGHED_NODES, release=release) as site:
        nasty_site.make_qos_and_tree(site)
        yield site


@pytest.fixture(autouse=True)
def local(settings: Any, slurm: SlurmSite) -> None:
    settings.FAIRSHARE_TICK_S = 1
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(slurm.bin / name) for name in PROGRAMS]


def test_every_number_of_sshare_after_the_import_and_while_collecting(slurm: SlurmSite, measure: Measure) -> None:
    jobs = nasty_site.submit_jobs(slurm)
    nasty_site.change_jobs(slurm, jobs)
    nasty_site.await_ends(slurm)
    found = json.loads(
        run("scheduler", "setup", CLUSTER, "--here", "--json", "--publish", "--collect", "--reason", "x")
    )
    print(f"{found['equal']} of {found['users']} factors equal, usage {found['usage']}")
    measure("FairShare equal", (found["equal"], found["users"]))
    policy = Policy.objects.get(slug=CLUSTER)
    tolerance = tolerated(slurm, policy)
    assert found["equal"] == found["users"]
    different = found["usage"]["differences"]
    assert [one for one in different if abs(one["difference"]) > 1 + tolerance * one["theirs"]] == []
    assert Source.objects.get(slug=CLUSTER).kind == Source.Kind.COMMAND
    for minute in range(MINUTES + 1):
        await_calculation(policy)
        rows = beside_sshare(slurm, policy)
        print(f"minute {minute}: {len(rows)} numbers, largest relative differences {largest(rows)}")
        measure("largest relative difference", max(largest(rows).values()))
        assert [row for row in rows if row.difference > tolerated(slurm, policy)] == []
        if minute < MINUTES:
            slurm.submit("bob", "hep", "--qos=low", "--mem=1234", cpus=3, seconds=7)
            slurm.submit("eve", "astro", "--partition=gpu", "--gres=gpu:1", "--mem=700", seconds=11)
    print("\n".join(f"{row.path} {row.column} {row.theirs:g} {row.ours:.6f}" for row in rows))


def test_the_documented_commands_propose_the_same(slurm: SlurmSite, tmp_path: Path) -> None:
    config, dump, log = tmp_path / "slurm.txt", tmp_path / "accounts.cfg", tmp_path / "sacct.txt"
    outputs = ("scontrol show config", "scontrol show partition", "sacctmgr -P show qos format=Name,UsageFactor")
    config.write_text("".join(slurm.run("env", "SLURM_TIME_FORMAT=%s", *one.split()) for one in outputs))
    dump.write_text(slurm.dump())
    log.write_text(slurm.run("env", "SLURM_TIME_FORMAT=%s", "sacct", "-a", "-X", "-P", "--duplicates", FORMAT))
    run("import_usage", "--source", "byhand", "--slurm-config", config, log)
    asked = ("--policy", "byhand", "--format", "sacctmgr", "--make", "--publish", "--map", "byhand", "--reason", "x")
    run("import_policy", dump, *asked, "--slurm-config", config)
    run("scheduler", "setup", CLUSTER, "--here", "--publish", "--reason", "x")
    byhand, by_setup = (get_revision(policy=Policy.objects.get(slug=slug)).settings for slug in ("byhand", CLUSTER))
    later_s = by_setup["window"].pop("phase_s") - byhand["window"].pop("phase_s")
    assert later_s % 60 in (59, 0, 1, 2, 3, 4, 5), "sshare, which only the set-up reads, says when it was calculated"
    assert byhand == by_setup
    assert byhand["approach"] == {"local": "active", "global": "active"}
    sources = {source.slug: source.billing_weights for source in Source.objects.all()}
    assert sources["byhand"] == sources[CLUSTER]
    assert sources["byhand"]["partitions"].keys() == {"cpu", "gpu"}


FORMAT = (
    "--format=JobIDRaw,Cluster,User,Account,Partition,QOS,Submit,Start,End,ElapsedRaw,State,AllocCPUS,AllocTRES,ReqTRES,"
    "Reservation,UID,TimelimitRaw,JobID"
)
