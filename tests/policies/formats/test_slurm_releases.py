"""Dumps of each release of Slurm are read alike, and come back unchanged."""

from __future__ import annotations

from functools import reduce

import pytest

from apps.policies.formats.registry import get_format, guess_format
from tests.policies.formats.round_trip import read
from tests.policies.formats.slurm_dumps import RELEASES, SHARES, dump
from tests.policies.formats.test_sacctmgr_against import changed, written
from tests.policies.formats.test_sacctmgr_stored_dump import exported

every_release = pytest.mark.parametrize("release", RELEASES)


@every_release
def test_a_dump_of_each_release_is_the_same_tree(release: str) -> None:
    text = dump(release)
    found = guess_format(text)
    assert found is not None
    assert found.name == "sacctmgr"
    declared = read("sacctmgr", text)
    tree = declared.tree
    assert {tree.path(i): tree.node(i).shares for i in range(1, len(tree))} == SHARES
    assert declared.policy == "fram"
    assert not [line for line in declared.ignored if line.startswith("line ")]


@every_release
def test_a_dump_of_each_release_comes_back_line_by_line(release: str) -> None:
    text = dump(release)
    assert exported(text) == text.splitlines()
    assert [line for line in written("sacctmgr", changed(text), text) if not line.startswith("# load")] == (
        text.splitlines()
    )
    assert written("sacctmgr-script", changed(text), text)[1:] == []


@every_release
def test_one_share_is_one_value_of_one_line(release: str) -> None:
    text = dump(release)
    new = written("sacctmgr", changed(text, bio=41), text)
    assert [(a, b) for a, b in zip(text.splitlines(), new, strict=False) if a != b] == [
        (line, line.replace("Fairshare=40", "Fairshare=41")) for line in text.splitlines() if "Fairshare=40" in line
    ]


def test_what_slurm_itself_cannot_load_is_noted() -> None:
    against = get_format("sacctmgr").against
    assert against is not None
    text = dump("25.11")
    (note,) = against(changed(text), text).notes
    assert note.endswith("(2 lines)")
    assert "put them in quotes" in note
    values = ("cpu=512,mem=10G,gres/gpu:a100=4,gres/gpu:v100=8", "gres/gpu:a100=2", "cpu=5,gres/gpu:a100=1")
    quoted = reduce(lambda text, value: text.replace(f"={value}", f"='{value}'"), values, text)
    assert against(changed(quoted), quoted).notes == ()


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("Account - 'bio' # of biology", "Account - 'bio':Fairshare=5 # of biology"),
        ("Account - 'bio':", "Account - 'bio':Fairshare=5:"),
        ("account - bio:fa=40:", "account - bio:fa=5:"),
        ("Account - 'bio': \\\n  Fairshare=40 : \\\n MaxJobs=3", "Account - 'bio': \\\n  Fairshare=5 : \\\n MaxJobs=3"),
        ("Account - 'bio':Description='PI #1':Shares=40", "Account - 'bio':Description='PI #1':Shares=5"),
        ("Account - 'Bio':GrpTRES=gres/gpu:a100=4", "Account - 'Bio':GrpTRES=gres/gpu:a100=4:Fairshare=5"),
    ],
)
def test_shares_are_set_where_slurm_reads_them(line: str, after: str) -> None:
    text = f"Cluster - 'fram'\nParent - 'root'\n{line}\nUser - 'root'\n"
    new = written("sacctmgr", changed(text, bio=5), text)
    assert "\n".join(new) + "\n" == f"Cluster - 'fram'\nParent - 'root'\n{after}\nUser - 'root'\n"
    assert read("sacctmgr", "\n".join(new) + "\n").tree.node(1).shares == 5
