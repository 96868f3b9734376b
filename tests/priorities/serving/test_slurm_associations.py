"""Look-ups of Slurm's associations: of one partition, and of users whom the policy lacks."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.accounts.actor import COMMAND
from apps.accounts.models import Account
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, Record, Source
from apps.usage.quality.bucket_audit import audit_buckets

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)

# phys: cat hasn't run; shares/10 over usage/850 are ann:gpu 0.3/0.118, ann 0.2/0.471, bob:gpu 0.1/0.294; 100 of bob's
# core-seconds are of a partition without an association, and count for the account alone.
DUMP = """\
Cluster - 'fjord':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'bio':Description='bio':Organization='bio':Fairshare=1
Account - 'closed':Description='closed':Organization='closed':Fairshare=0
Account - 'phys':Description='phys':Organization='phys':Fairshare=1
Parent - 'bio'
User - 'dan':DefaultAccount='bio':Fairshare=1
Parent - 'closed'
User - 'otto':DefaultAccount='closed':Fairshare=1
Parent - 'phys'
User - 'ann':Partition='gpu':DefaultAccount='phys':Fairshare=3
User - 'ann':DefaultAccount='phys':Fairshare=2
User - 'bob':Partition='gpu':DefaultAccount='phys':Fairshare=1
User - 'cat':DefaultAccount='phys':Fairshare=4
"""
CONFIG = """\
Configuration data as of 1795170000
BOOT_TIME               = 1795160000
ClusterName             = fjord
FairShareDampeningFactor = 1
PriorityCalcPeriod      = 00:05:00
PriorityDecayHalfLife   = 00:00:00
PriorityFlags           = (null)
PriorityType            = priority/multifactor
PriorityUsageResetPeriod = NONE
SLURM_VERSION           = 22.05.8

PartitionName=batch
   Default=YES
   TRES=cpu=64,billing=64

PartitionName=gpu
   Default=NO
   TRES=cpu=64,billing=64

"""
HEADER = "JobIDRaw|Cluster|User|Account|Partition|QOS|Submit|Start|End|ElapsedRaw|State|AllocCPUS"
JOBS = [  # user, account, partition, core-seconds
    ("ann", "phys", "batch", 400),
    ("ann", "phys", "GPU,batch", 100),
    ("bob", "phys", "GPU", 250),
    ("bob", "phys", "batch", 100),
    ("dan", "bio", "batch", 425),
    ("otto", "closed", "batch", 10),
]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


def command(*words: object) -> str:
    out = io.StringIO()
    call_command(*map(str, words), stdout=out, stderr=out)
    return out.getvalue()


def log(folder: Path, name: str, first: int) -> Path:
    submit_s = int(AT.timestamp()) - 3_600
    rows = [
        f"{first + i}|fjord|{user}|{group}|{partition}|normal|{submit_s}|{submit_s}|{submit_s + n}|{n}|COMPLETED|1"
        for i, (user, group, partition, n) in enumerate(JOBS)
    ]
    file = folder / name
    file.write_text("\n".join([HEADER, *rows]) + "\n")
    return file


def import_log(file: Path) -> None:
    command("import_usage", "--source", "fjord", "--format", "sacct", file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A site whose log is there before its tree."""
    import_log(log(tmp_path, "before.txt", 1))
    (tmp_path / "dump.cfg").write_text(DUMP)
    (tmp_path / "config.txt").write_text(CONFIG)
    given = (
        "--policy",
        "fjord",
        "--format",
        "sacctmgr",
        tmp_path / "dump.cfg",
        "--slurm-config",
        tmp_path / "config.txt",
    )
    command("import_policy", *given, "--make", "--map", "fjord", "--publish", "--reason", "As Slurm has it")
    return tmp_path


def recomputed() -> ServedSnapshot:
    run = work_run_now(request_recompute(policy_slug="fjord", at=AT, actor=COMMAND).pk)
    assert run.result["snapshot"]
    return store.newest("fjord")


def asked(snapshot: ServedSnapshot, user: str, group: str = "", partition: str = "") -> list[tuple[str | None, Any]]:
    rows = snapshot.lookup([AccountQuery(user, group, "fjord", partition=partition)])
    return [(row["entry"], row["factor"] if "error" not in row else row["error"]) for row in rows]


@pytest.mark.usefixtures("folder")
def test_a_job_has_the_place_of_its_partitions_association_else_that_of_all_others() -> None:
    snapshot = recomputed()
    tree = snapshot.tree
    ranks = {tree.path(i): int(snapshot.values.rank[i]) for i in range(1, len(tree)) if snapshot.values.is_ranked[i]}
    phys = ["/phys/cat", "/phys/ann:gpu", "/phys/ann", "/phys/bob:gpu"]
    assert sorted(ranks, key=ranks.__getitem__) == ["/bio/dan", *phys, "/closed/otto"]
    usage = {path: float(snapshot.values.usage[tree.index_of_path(path) or 0]) for path in ["/phys", *phys]}
    assert usage == {"/phys": 850, "/phys/cat": 0, "/phys/ann:gpu": 100, "/phys/ann": 400, "/phys/bob:gpu": 250}
    factors = {path: float(snapshot.values.factor[tree.index_of_path(path) or 0]) for path in phys}
    assert asked(snapshot, "ann", "phys", "gpu") == [("/phys/ann:gpu", factors["/phys/ann:gpu"])]
    assert asked(snapshot, "ann", "phys", "GPU,batch") == [("/phys/ann:gpu", factors["/phys/ann:gpu"])]
    assert asked(snapshot, "ann", "", "gpu") == [("/phys/ann:gpu", factors["/phys/ann:gpu"])]
    for partition in ("batch", "long", ""):
        assert asked(snapshot, "ann", "phys", partition) == [("/phys/ann", factors["/phys/ann"])]
        assert asked(snapshot, "ann", "", partition) == [("/phys/ann", factors["/phys/ann"])]
    assert asked(snapshot, "cat", "phys", "gpu") == [("/phys/cat", factors["/phys/cat"])]
    for partition in ("gpu", ""):
        assert asked(snapshot, "bob", "phys", partition) == [("/phys/bob:gpu", factors["/phys/bob:gpu"])]
    assert asked(snapshot, "bob", "phys", "batch") == [("/phys", "no_own_entry")]
    rows = [row for row in every_leaf(snapshot) if row["entry"] == "/phys/bob:gpu"]
    assert [row["identities"] for row in rows] == [
        [{"namespace": "fjord", "user": "bob", "group": "phys", "project": "gpu"}]
    ]


def test_usage_from_before_and_after_the_tree_counts_for_the_partitions_association(folder: Path) -> None:
    recomputed()
    import_log(log(folder, "after.txt", 101))
    again = command("import_usage", "--source", "fjord", "--format", "sacct", folder / "before.txt")
    assert "6 duplicate" in again
    source = Source.objects.get()
    of_gpu = Account.objects.get(user_name="ann", project="gpu")
    assert set(Record.objects.filter(account_id=of_gpu.pk).values_list("job", flat=True)) == {"2", "102"}
    assert [bucket.cpu_s for bucket in Bucket.objects.filter(account_id=of_gpu.pk)] == [200]
    plain = Account.objects.get(user_name="ann", project="")
    assert sum(bucket.cpu_s for bucket in Bucket.objects.filter(account_id=plain.pk)) == 800
    before = source.watermark
    recomputed()
    source.refresh_from_db()
    assert source.watermark == before, "what is registered isn't moved again"
    assert audit_buckets(source).n_different == 0


@pytest.mark.usefixtures("folder")
def test_a_user_whom_only_slurm_knows_is_last_in_a_closed_account_and_first_in_an_open_one() -> None:
    snapshot = recomputed()
    rows = {group: asked_row(snapshot, "paul", group) for group in ("closed", "phys", "bio")}
    assert {group: (row["entry"], row["rank"], row["of"]) for group, row in rows.items()} == {
        "bio": ("/bio", 1, 7),  # ahead of dan, who ran
        "phys": ("/phys", 2, 7),  # level with cat: neither ran
        "closed": ("/closed", 6, 7),  # the account has no shares: only otto, who ran, is behind
    }
    assert [row["factor"] for row in rows.values()] == pytest.approx([2 / 7, 6 / 7, 1])
    assert {row["error"] for row in rows.values()} == {"no_own_entry"}
    assert "no entry of its own in /closed" in rows["closed"]["hint"]
    bio = asked_row(snapshot, "bio", "bio")
    assert (bio["error"], bio["rank"]) == ("no_own_entry", 1), "a user may be named like the account"
    _accounts, factors, ranks = snapshot.lookup_columns([AccountQuery("paul", "closed", "fjord")])
    assert factors == pytest.approx([2 / 7])
    assert ranks == [6]


def asked_row(snapshot: ServedSnapshot, user: str, group: str) -> dict[str, Any]:
    (row,) = snapshot.lookup([AccountQuery(user, group, "fjord", partition="batch")])
    return row
