"""What slurmrestd of each release answers gives the tree, configuration and shares that its commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from agent.adapters.slurm import parse_shares
from apps.contrib.onboarding.slurmrestd_outputs import config_of, dump_of, partitions_of, qos_of, sshare_of
from apps.core.errors import Unavailable
from apps.policies.formats.registry import get_format, read_file
from apps.policies.publishing.direct import tree_of_document
from apps.priorities.slurm_config import read_slurm_config
from apps.priorities.slurm_outputs import split_outputs
from apps.priorities.slurm_qos import read_usage_factors
from apps.usage.sources.slurmrestd import _object_of

PARSERS = [("24.11.5", f"v0.0.{n}") for n in (40, 41, 42)] + [("26.05.5", f"v0.0.{n}") for n in (42, 43, 44, 45)]


def answer(golden_dir: Path, release: str, name: str) -> dict[str, Any]:
    document = _object_of((golden_dir / "slurm" / release / "rest" / f"{name}.json").read_bytes())
    assert document is not None
    return document


def tree_of(text: bytes) -> list[tuple[Any, ...]]:
    sacctmgr = get_format("sacctmgr")
    tree = tree_of_document(read_file(sacctmgr, text), sacctmgr)
    columns = (tree.parent.tolist(), list(tree.name), tree.shares.tolist(), tree.inherit.tolist())
    return list(zip(*columns, tree.is_group.tolist(), strict=True))


@pytest.mark.parametrize(("release", "parser"), PARSERS)
def test_associations_give_the_tree_of_the_dump(release: str, parser: str, golden_dir: Path) -> None:
    captured = (golden_dir / "slurm" / release / "sacctmgr-dump.cfg").read_bytes()
    document = answer(golden_dir, release, f"slurmdb-{parser}-associations")
    assert tree_of(dump_of(document, "c1").encode()) == tree_of(captured)


@pytest.mark.parametrize(("release", "parser"), PARSERS)
def test_shares_are_those_of_sshare(release: str, parser: str, golden_dir: Path) -> None:
    """Usage went on between both, so only what is set is compared, and which values are there."""
    printed = (golden_dir / "slurm" / release / "sshare-l-P.txt").read_text()
    if "Partition" not in printed.splitlines()[0]:
        printed = "\n".join(line.replace("|", "|", 1) for line in printed.splitlines())
    ours = parse_shares(sshare_of(answer(golden_dir, release, f"slurm-{parser}-shares"), "c1"), "c1")
    names = ("group", "parent", "raw_shares")

    def users(row: dict[str, object]) -> str:
        return str(row["user"] or "").partition(":")[0]

    theirs = parse_shares(printed, "c1")
    assert [[*(row[name] for name in names), users(row)] for row in ours] == [
        [*(row[name] for name in names), users(row)] for row in theirs
    ]
    assert [row["norm_shares"] for row in ours] == pytest.approx([row["norm_shares"] for row in theirs], abs=5.1e-7)
    assert [row["fairshare"] is None for row in ours] == [row["fairshare"] is None for row in theirs]
    assert [row["level_fs"] for row in ours] == [row["level_fs"] for row in theirs]


@pytest.mark.parametrize(("release", "parser"), PARSERS)
def test_each_release_has_its_own_infinite_level_and_all_are_read(release: str, parser: str, golden_dir: Path) -> None:
    """v0.0.41 and before: Infinity; 24.11: `infinite`; 26.05: 2**64 without it."""
    document = answer(golden_dir, release, f"slurm-{parser}-shares")
    (level,) = [row["fairshare"]["level"] for row in document["shares"]["shares"] if row["id"] == 2]
    as_captured = {
        ("24.11.5", "v0.0.40"): float("inf"),
        ("24.11.5", "v0.0.41"): float("inf"),
        ("24.11.5", "v0.0.42"): {"set": False, "infinite": True, "number": 0.0},
    }
    assert level == as_captured.get((release, parser), {"set": True, "infinite": False, "number": 2.0**64})
    rows = parse_shares(sshare_of(document, "c1"), "c1")
    assert [(row["group"], row["user"]) for row in rows if row["level_fs"] == "Infinity"] == [("root", "root")]


def test_the_configuration_of_26_05_is_read_as_scontrol_prints_it(golden_dir: Path) -> None:
    folder = golden_dir / "slurm/26.05.5"
    printed = (folder / "scontrol-show-config.txt").read_text() + "PartitionName=batch\n"  # it has no weights
    conf = config_of(answer(golden_dir, "26.05.5", "slurm-v0.0.45-conf"))
    ours = read_slurm_config(conf + partitions_of(answer(golden_dir, "26.05.5", "slurm-v0.0.45-partitions")))
    theirs = read_slurm_config(printed)
    phases = [each.settings["window"].pop("phase_s", None) for each in (ours, theirs)]  # by zoneless BOOT_TIME
    assert phases[0] is not None
    assert (ours.settings, ours.billing_weights) == (theirs.settings, theirs.billing_weights)


@pytest.mark.parametrize(("release", "parser"), PARSERS)
def test_usage_factors_are_read(release: str, parser: str, golden_dir: Path) -> None:
    document = answer(golden_dir, release, f"slurmdb-{parser}-qos")
    factors = read_usage_factors(qos_of(document))
    assert factors == {qos["name"]: 1.0 for qos in document["qos"]}


def test_all_outputs_in_one_text_are_separated(golden_dir: Path) -> None:
    rest = "26.05.5"
    parts = (
        dump_of(answer(golden_dir, rest, "slurmdb-v0.0.45-associations"), "c1"),
        config_of(answer(golden_dir, rest, "slurm-v0.0.45-conf")),
        sshare_of(answer(golden_dir, rest, "slurm-v0.0.45-shares"), "c1"),
        qos_of(answer(golden_dir, rest, "slurmdb-v0.0.45-qos")),
    )
    split = split_outputs("".join(parts))
    assert (split.dump, split.config, split.sshare, split.qos) == parts


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({}, "bad_answer"),
        ({"associations": None}, "bad_answer"),
        ({"associations": [{"cluster": "c1", "account": "a'b", "user": "", "shares_raw": 1}]}, "bad_name"),
        ({"associations": [{"cluster": "c1", "account": "root", "user": "b\nAccount - 'c'"}]}, "bad_name"),
        ({"associations": [{"cluster": "c1", "account": "a", "user": "of an account that is missing"}]}, "cut_off"),
    ],
)
def test_half_an_answer_and_names_that_would_be_lines_are_refused(document: dict[str, Any], code: str) -> None:
    with pytest.raises(Unavailable) as refusal:
        dump_of(orjson.loads(orjson.dumps(document)), "c1")
    assert refusal.value.code == code


def test_qos_of_22_05_are_in_a_list_of_another_name() -> None:
    """As its source writes them (openapi/dbv0.0.38); a live one is read in tests/real_schedulers."""
    assert read_usage_factors(qos_of({"QOS": [{"name": "half", "usage_factor": 0.5}], "errors": []})) == {"half": 0.5}
