"""Scripts of sacctmgr commands; the counts are those of a real site's script."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from apps.core.errors import Invalid
from tests.policies.formats.round_trip import read

ACCOUNT = "add account physics Fairshare=60\n"


def shares_of(text: str) -> dict[str, float | None]:
    tree = read("sacctmgr-script", text).tree
    return {tree.path(i): tree.node(i).shares for i in range(1, len(tree))}


def problems(text: str) -> dict[str, str]:
    with pytest.raises(Invalid) as refusal:
        read("sacctmgr-script", text)
    return {field.where: field.message for field in refusal.value.fields}


@pytest.mark.parametrize("name", ["sacctmgr", "sacctmgr-script"])
def test_the_script_of_a_real_site_is_read(traces_dir: Path, name: str) -> None:
    found = read(name, (traces_dir / "ubhpc-accounts.sacctmgr-script.gz").read_bytes())
    tree = found.tree
    users = [i for i in range(1, len(tree)) if not tree.is_group[i]]
    assert (len(tree), len(users)) == (159, 96)
    assert int(tree.inherit.sum()) == 94
    assert Counter(float(tree.shares[i]) for i in range(1, len(tree)) if tree.is_group[i]) == {100.0: 62}
    assert tree.index_of_path("/account0/admin") is not None
    assert "add qos (5 ×)" in found.ignored


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("create user name=alice account=physics fairshare=2", {"/physics/alice": 2}),
        ("sacctmgr -i add user alice Account=physics Shares=parent", {"/physics/alice": None}),
        ("add user alice,bob DefaultAccount=physics", {"/physics/alice": 1, "/physics/bob": 1}),
        ("ADD USERS Names='alice' Accounts=\"physics,root\"", {"/physics/alice": 1, "/alice": 1}),
        ("add account name=hep parent=physics fairshare=3 Description='high energy'", {"/physics/hep": 3}),
        ("add account hep Parent=PHYSICS", {"/physics/hep": 1}),
        ("modify account name=physics set fairshare=7 qos=debug", {"/physics": 7}),
        ("modify account where physics set fairshare=parent", {"/physics": None}),
        ("add user u account=physics\nmodify user name=u set fairshare=9", {"/physics/u": 9}),
        (
            "add user u account=physics\nadd user u account=root\nmodify user u account=root set fairshare=9",
            {"/physics/u": 1, "/u": 9},
        ),
        ("# comment\n\nlist associations", {}),
        ("remove qos where name=normal", {}),
    ],
)
def test_commands_are_applied(line: str, expected: dict[str, float | None]) -> None:
    assert shares_of(ACCOUNT + line + "\n") == {"/physics": 60} | expected


@pytest.mark.parametrize(
    ("line", "place", "message"),
    [
        ("add user u account=bio", "line 2: u", "'bio' isn't declared before it"),
        ("add user u", "line 2: u", "without an account"),
        ("add account physics", "line 2, /: physics", "is an account already, /physics"),
        ("add account hep parent=bio", "line 2: hep", "isn't declared before it"),
        ("add user u account=physics fairshare=-1", "line 2: Fairshare of u", "neither a whole number"),
        ("add user account=physics", "line 2: add user", "has no names"),
        ("delete user u", "line 2: delete user", "remove it, and what it deletes"),
        ("modify user nobody set fairshare=3", "line 2: modify user", "isn't declared before it"),
        ("launch rockets", "line 2", "isn't a command"),
    ],
)
def test_wrong_commands_are_refused_with_line_and_name(line: str, place: str, message: str) -> None:
    found = problems(ACCOUNT + line + "\n")
    assert message in found[place], found


def test_a_file_that_is_not_a_script_is_rejected() -> None:
    with pytest.raises(Invalid, match="line 1"):
        read("sacctmgr-script", "hello world\n")


@pytest.mark.parametrize(
    ("text", "line"), [("# only a comment\n", 1), ("\n\n", 1), (f"# shares\nlaunch rockets\n{ACCOUNT}", 2)]
)
def test_a_script_begins_with_a_command(text: str, line: int) -> None:
    with pytest.raises(Invalid, match=f"line {line}"):
        read("sacctmgr-script", text)


def test_associations_of_one_partition_give_no_shares() -> None:
    lines = ["add user u,v account=physics partition=gpu fairshare=9", "add user w partition=gpu,cpu"]
    found = read("sacctmgr-script", ACCOUNT + "add user u account=physics fairshare=2\n" + "\n".join(lines) + "\n")
    tree = found.tree
    assert {tree.path(i): tree.node(i).shares for i in range(1, len(tree))} == {"/physics": 60, "/physics/u": 2}
    assert [line for line in found.ignored if line.startswith(("4 associations", "no entry"))] == [
        "4 associations of one partition: u in physics, v in physics, w in root",
        "no entry, as they have associations of one partition alone: v in physics, w in root",
    ]
