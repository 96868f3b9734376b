"""A real Slurm where every rule of charging matters: each number of `sshare -l` beside ours, minute after minute.

NASTY_MINUTES=20 collects longer.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.core.management import call_command

from apps.core.clock import now
from apps.policies.models import Policy
from apps.policies.selectors import get_revision
from apps.priorities.recompute.pipeline import compute, load_inputs
from apps.usage.models import Source
from tests.real_schedulers import nasty_site
from tests.real_schedulers.slurm_site import CLUSTER, WEIGHED_NODES, SlurmSite, running_slurm

pytestmark = [
    pytest.mark.schedulers,
    pytest.mark.deep,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(3_000),
]
MINUTES = int(os.environ.get("NASTY_MINUTES", "2"))
DIGITS = 1e-6
PROGRAMS = ("scontrol", "sacctmgr", "sshare", "sacct")


@pytest.fixture(scope="module", params=["02:00:00", "7-00:00:00"])
def slurm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmSite]:
    """The site with a half-life; another one would decay usage of before otherwise."""
    folder = tmp_path_factory.mktemp("slurm")
    settings = {**nasty_site.SETTINGS, "PriorityDecayHalfLife": request.param}
    with running_slurm(folder, users=nasty_site.USERS, settings=settings, nodes=WEIGHED_NODES) as site:
        nasty_site.make_qos_and_tree(site)
        yield site


@pytest.fixture(autouse=True)
def local(settings: Any, slurm: SlurmSite) -> None:
    settings.FAIRSHARE_TICK_S = 1
    settings.FAIRSHARE_COLLECT_COMMANDS = [str(slurm.bin / name) for name in PROGRAMS]


def run(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


class Row(NamedTuple):
    """A number of sshare beside ours."""

    path: str
    column: str
    theirs: float
    ours: float

    @property
    def difference(self) -> float:
        """Relative, beyond the digits that sshare prints."""
        if self.theirs == self.ours:
            return 0.0
        cut = 1.0 if self.column == "RawUsage" else DIGITS
        return max(0.0, abs(self.ours - self.theirs) - cut) / max(abs(self.theirs), cut)


def beside_sshare(site: SlurmSite, policy: Policy) -> list[Row]:
    """All numbers at one instant: sshare is asked before and after, so that no tick and no end of a job is between."""
    while True:
        before = site.shares()
        run("collect_usage", "--source", CLUSTER)
        inputs = load_inputs(policy, as_of=now())
        computed = compute(inputs)
        if [row["RawUsage"] for row in site.shares()] == [row["RawUsage"] for row in before]:
            break
        time.sleep(1)
    tree, result = inputs.tree, computed.result
    place = {tree.path(i) or "/": i for i in range(len(tree))}
    ours = {"RawUsage": result.usage, "FairShare": result.factor, "LevelFS": result.columns["level_fs"].values}
    return [
        Row(row["Path"], column, float(row[column]), float(values[place[row["Path"]]]))
        for row in before
        for column, values in ours.items()
        if row[column] and row["Path"] in place and row["Path"] != "/"
    ]


def largest(rows: list[Row]) -> dict[str, float]:
    columns = ("RawUsage", "LevelFS", "FairShare")
    return {name: max(row.difference for row in rows if row.column == name) for name in columns}


def test_every_number_of_sshare_after_the_import_and_while_collecting(slurm: SlurmSite) -> None:
    jobs = nasty_site.submit_jobs(slurm)
    change_jobs(slurm, jobs)
    await_ends(slurm)
    found = json.loads(
        run("scheduler", "setup", CLUSTER, "--here", "--json", "--publish", "--collect", "--reason", "x")
    )
    print(f"{found['equal']} of {found['users']} factors equal, usage {found['usage']}")
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
        assert [row for row in rows if row.difference > tolerated(slurm, policy)] == []
        if minute < MINUTES:
            slurm.submit("bob", "hep", "--qos=low", "--mem=1234", cpus=3, seconds=7)
            slurm.submit("eve", "astro", "--partition=gpu", "--gres=gpu:1", "--mem=700", seconds=11)
    print("\n".join(f"{row.path} {row.column} {row.theirs:g} {row.ours:.6f}" for row in rows))


def await_calculation(policy: Policy) -> None:
    """Until some seconds after the controller's next one: LevelFS and FairShare follow RawUsage only then."""
    window = get_revision(policy=policy).settings["window"]
    time.sleep((window["phase_s"] - time.time()) % window["calc_period_s"] + 3)


def tolerated(site: SlurmSite, policy: Policy) -> float:
    """Relative difference that is allowed: DIGITS, or more if a job ended in the second of a calculation.

    Accounting doesn't say which of the two came first: Slurm decays the last slice of such a job by one period more or
    not.
    """
    window = get_revision(policy=policy).settings["window"]
    period_s, phase_s = window["calc_period_s"], window["phase_s"]
    listed = site.run(
        "env", "SLURM_TIME_FORMAT=%s", *["sacct", "-a", "-X", "-n", "-P", "--duplicates", "--format=End"]
    ).split()
    n = sum(end.isdigit() and int(end) % period_s == phase_s for end in listed)
    if n:
        print(f"{n} of {len(listed)} jobs ended in the second of a calculation")
    return 1 - (1 - 0.693 / window["half_life_s"]) ** period_s if n else DIGITS


def change_jobs(site: SlurmSite, jobs: Mapping[str, str]) -> None:
    time.sleep(20)
    site.run("scontrol", "requeue", jobs["requeued"])
    site.run("scontrol", "update", f"jobid={jobs['resized']}", "NumNodes=1")
    site.run("scontrol", "suspend", jobs["running"])
    time.sleep(5)
    site.run("scontrol", "resume", jobs["running"])


def await_ends(site: SlurmSite) -> None:
    """Until only the two long jobs of each round are left; a requeued job starts again after two minutes."""
    ends = time.monotonic() + 300
    while any(limit != "1:00:00" for limit, *_ in site.queue("%l")):
        assert time.monotonic() < ends, site.run("squeue")
        time.sleep(1)


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
    assert byhand == by_setup
    assert byhand["approach"] == {"local": "active", "global": "active"}
    sources = {source.slug: source.billing_weights for source in Source.objects.all()}
    assert sources["byhand"] == sources[CLUSTER]
    assert sources["byhand"]["partitions"].keys() == {"cpu", "gpu"}


FORMAT = (
    "--format=JobIDRaw,Cluster,User,Account,Partition,QOS,Submit,Start,End,ElapsedRaw,State,AllocCPUS,AllocTRES,ReqTRES,"
    "Reservation,UID,TimelimitRaw,JobID"
)
