"""One site of Slurm 24.11 and 26.05, captured four ways: dump, sshare and JSON of both say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.adapters import slurm
from tests.policies.formats.round_trip import read

VERSIONS = ("24.11.5", "26.05.5")
PARENT = 2_147_483_647  # fairshare=parent, in dumps and JSON
Shares = dict[tuple[str, str], float | None]


@pytest.fixture(params=VERSIONS)
def folder(request: pytest.FixtureRequest, golden_dir: Path) -> Path:
    return golden_dir / "slurm" / str(request.param)


def of_json(folder: Path, name: str, *keys: str) -> Any:
    document = json.loads((folder / name).read_text())
    for key in keys:
        document = document[key]
    return document


def of_dump(folder: Path) -> Shares:
    """By account and user, of one partition user:partition; None is fairshare=parent."""
    found = read("sacctmgr", (folder / "sacctmgr-dump.cfg").read_text())
    tree = found.tree
    parents = {tree.path(i).rpartition("/")[0] for i in range(1, len(tree))}
    shares = {}
    for i in range(1, len(tree)):
        above, _, name = tree.path(i).rpartition("/")
        account = tree.path(i) in parents
        shares[(name, "") if account else (above.rpartition("/")[2] or "root", name)] = tree.node(i).shares
    return shares


def of_associations(folder: Path) -> Shares:
    rows = of_json(folder, "sacctmgr-show-assoc.json", "associations")
    return {
        (row["account"], ":".join(filter(None, (row["user"], row["partition"])))): number(row["shares_raw"])
        for row in rows
        if (row["account"], row["user"]) != ("root", "")
    }


def number(raw: int) -> float | None:
    return None if raw == PARENT else float(raw)


def test_wckeys_are_named_and_no_entries(folder: Path) -> None:
    """Slurm's fair share ignores a wckey: its jobs are charged to the association of account and user."""
    text = (folder / "sacctmgr-dump.cfg").read_text()
    keyed = text.replace("User - 'ann':", "User - 'ann':DefaultWCKey='proj':WCKeys='proj,other':")
    n = text.count("User - 'ann':")
    assert n > 1
    plain, found = read("sacctmgr", text), read("sacctmgr", keyed)
    assert [found.tree.path(i) for i in range(len(found.tree))] == [plain.tree.path(i) for i in range(len(plain.tree))]
    assert found.tree.shares.tolist() == plain.tree.shares.tolist()
    assert set(found.ignored) - set(plain.ignored) == {f"defaultwckey ({n} ×)", f"wckeys ({n} ×)"}


def test_dump_and_associations_say_the_same(folder: Path) -> None:
    shares = of_dump(folder)
    assert shares == of_associations(folder)
    assert len(shares) == 17
    assert shares["bio", "cat:other"] == 3
    assert [who for who, one in shares.items() if one is None] == [("lab", ""), ("lab", "dan")]


def test_the_agent_reads_the_shares_of_sshare(folder: Path) -> None:
    """`sshare` has no column of the partition unless it is asked for."""
    rows = slurm.parse_shares((folder / "sshare-l-P.txt").read_text(), "c1")
    there = {(row["group"], row["user"] or ""): row["raw_shares"] for row in rows[1:]}
    ours = {(account, user.partition(":")[0]): one for (account, user), one in of_dump(folder).items()}
    assert there == {who: "parent" if one is None else one for who, one in ours.items()}


def test_sshare_prints_the_same_usage_as_text_and_json(folder: Path) -> None:
    rows = slurm.parse_shares((folder / "sshare-l-P.txt").read_text(), "c1")
    nodes = of_json(folder, "sshare.json", "shares", "shares")
    assert [node["usage"] for node in nodes] == [row["raw_usage"] for row in rows]
    assert sum(node["usage"] for node in nodes if node["name"] in ("ann", "dan")) > 0
    names = [(node["parent"] if "USER" in node["type"] else node["name"], node["name"]) for node in nodes]
    assert [name for _account, name in names] == [row["user"] or row["group"] for row in rows]


def test_a_level_without_usage_is_infinite_as_json_has_it(folder: Path) -> None:
    """24.11 has a flag for it; 26.05 writes the largest whole number of 64 bits and calls it finite."""
    (root,) = (node for node in of_json(folder, "sshare.json", "shares", "shares")[1:] if node["name"] == "root")
    level = root["fairshare"]["level"]
    assert level["infinite"] or level["number"] == float(2**64)
