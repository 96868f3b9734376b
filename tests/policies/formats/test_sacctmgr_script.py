"""Scripts of sacctmgr commands; the counts are those of a real site's script."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from apps.core.errors import Invalid, TooLarge
from tests.each_case import each_case
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


@each_case(
    ("line", "place", "message"),
    [
        ("add user u account=bio", "line 2: u", "'bio' isn't declared before it"),
        ("add user u", "line 2: u", "without an account"),
        ("add account hep parent=bio", "line 2: hep", "isn't declared before it"),
        ("add user u account=physics fairshare=1.5", "line 2: Fairshare of u", "neither a whole number"),
        ("add user account=physics", "line 2: add user", "has no names"),
        ("delete user u", "line 2: delete user", "'u' isn't declared before it"),
        ("modify account bio set parent=physics", "line 2: modify account", "'bio' isn't declared before it"),
        ("modify account physics set parent=bio", "line 2: physics", "its new parent 'bio' isn't declared"),
        ("modify account physics set parent=physics", "line 2: physics", "can't be moved below 'physics'"),
        ("modify account physics set fairshare=3 cluster=tux", "line 2: cluster=tux", "Slurm would do nothing"),
        ("modify account where physics set shares", "line 2: shares", "Slurm would do nothing"),
        ("modify account where descr=x set fairshare=3", "line 2: modify account", "which accounts have this descr"),
        (
            "modify user where adminlevel=admin set fairshare=3",
            "line 2: modify user",
            "have this adminlevel: name them",
        ),
        ("add user u account=physics farshare=3", "line 2: farshare=3", "isn't a word of this command"),
        ("add user u acc=physics fairshare='3", "line 2", "a quote that isn't closed"),
        ("add user $U account=physics", "line 2", "'$U' is filled in by the shell"),
        ("add user u{1,2} account=physics", "line 2", "is filled in by the shell"),
        ("for u in a b; do", "line 2", "isn't a command of sacctmgr"),
        ("sacctmgr -i < users.txt", "line 2", "reads its commands from < users.txt"),
        ("echo 'add account x' | sacctmgr -i", "line 2", "reads its commands from |"),
        ("load file=tux.cfg", "line 2: load", "import that instead"),
        ("delete cluster tux", "line 2: delete cluster", "removes its whole tree"),
        ("add account a cluster=c1\nadd account b cluster=c2", "line 3: add account", "different clusters, c1 and c2"),
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


def test_associations_of_one_partition_are_entries_with_shares_of_their_own() -> None:
    lines = ["add user u account=physics fairshare=2", "add user u,v account=physics partition=GPU,cpu fairshare=9"]
    found = shares_of(ACCOUNT + "\n".join(lines) + "\n")
    of_partitions = {f"/physics/{user}:{partition}": 9 for user in "uv" for partition in ("gpu", "cpu")}
    assert found == {"/physics": 60, "/physics/u": 2} | of_partitions


# Commands after `add account physics Fairshare=60`, and the shares by path: below /physics, or below the root with ^.
APPLIED: list[tuple[str, dict[str, float | None] | None]] = [
    # modify moves, in any order of where and set, and repeated
    ("add account hep\nmodify account where name=hep cluster=tux set Parent=physics FairShare=35", {"hep": 35}),
    ("add account hep\nmodify account set parent=PHYSICS where name=hep set fa=4", {"hep": 4}),
    ("add account hep\nupd acct hep set par='physics'", {"hep": 1}),
    # a new parent from below takes the place of the account first
    ("add account hep parent=physics\nmodify account physics set parent=hep", {"^hep": 1, "^hep/physics": 60}),
    # add, create, modify, update, delete and remove, cut short
    ("cre acc hep par=physics f=3\nupd a hep set sha=4", {"hep": 4}),
    ("add u alice acc=physics fa=3\nm u alice set fa=4", {"alice": 4}),
    ("add user alice,bob account=physics\ndel user where name=alice account=physics", {"bob": 1}),
    ("add user alice,bob account=physics,root\nrem user bob", {"alice": 1, "^alice": 1}),
    ("add account hep parent=physics\nadd user u account=hep\ndelete account hep", {}),
    # lists, names without a key, brackets
    ("add user u[1-3,07] account=physics fairshare=2", {"u1": 2, "u2": 2, "u3": 2, "u07": 2}),
    ("add user u[08-10] , account=physics", {"u08": 1, "u09": 1, "u10": 1}),
    ("add account a , b, parent=physics", {"a": 1, "b": 1}),
    # shares: parent, default, the number of parent, an empty value (0 in Slurm 22.05)
    ("add user u account=physics fairshare=PARENT", {"u": None}),
    ("add user u account=physics fairshare=2147483647", {"u": None}),
    ("add user u account=physics fairshare=5\nmodify user u set fairshare=-1", {"u": 1}),
    ("add user u account=physics fairshare=", {"u": 0}),
    # all are changed without a condition
    ("add user u,v account=physics\nmodify user set fairshare=9", {"u": 9, "v": 9}),
    ("add user u,v account=physics\nmodify user where account=physics set fa=3 where name=v", {"u": 1, "v": 3}),
    (
        "add user u account=physics\nadd user u account=root\nmodify user u set fa=5 where account=root",
        {"u": 1, "^u": 5},
    ),
    ("modify account set fairshare=8", {"^physics": 8}),
    ("add user u account=physics\nmodify user u set newname=w fairshare=3", {"w": 3}),
    # without a partition, all associations of the user change
    (
        "add user u account=physics\nadd user u account=physics partition=gpu\n"
        "modify user u set fairshare=9 where partition=gpu",
        {"u": 1, "u:gpu": 9},
    ),
    (
        "add user u account=physics\nadd user u account=physics partition=gpu\nmodify user u set fairshare=9",
        {"u": 9, "u:gpu": 9},
    ),
    ("add user u account=physics partition=gpu,cpu\ndelete user u where partition=cpu", {"u:gpu": 1}),
    ("add user u account=physics partition=gpu\nmodify user u set newname=w", {"w:gpu": 1}),
    ("add user u account=physics\nmodify user u where partition='' set fairshare=9", {"u": 9}),
    # names are stored in lower case, unless the site tells them apart
    ("add account HEP parent=Physics\nadd user JDoe account=Hep", {"hep": 1, "hep/jdoe": 1}),
    ("add user JDoe account=physics\nadd user jdoe account=physics", {"JDoe": 1, "jdoe": 1}),
    ("# PreserveCaseUser is set\nadd user JDoe account=physics", {"JDoe": 1}),
    # what is there already stays
    ("add account physics fairshare=7", {}),
    ("add user u account=physics fairshare=2\nadd user u account=physics fairshare=7", {"u": 2}),
    # a shell script
    ("sacctmgr -i add user u \\\n  account=physics \\\n  fairshare=3 # a comment", {"u": 3}),
    ("set -e\nsudo -u slurm /usr/bin/sacctmgr -iQ add user u account=physics >/dev/null 2>&1 || true", {"u": 1}),
    ("sacctmgr add user u account=physics -i && sacctmgr -i mod user u set fa=2; echo done", {"u": 2}),
    ('SLURM_CONF=/etc/slurm.conf sacctmgr -i add user u account=physics Description="it\'s a user" ', None),
    ("sacctmgr -i <<EOF\nadd user u account=physics\nEOF\necho ready", {"u": 1}),
    ("yes | sacctmgr add user u account=physics", {"u": 1}),
    ("sacctmgr: add user u account=physics", {"u": 1}),
    ("-> sacctmgr create user name=u account=physics", {"u": 1}),
    # the manual's own examples
    (
        "sacctmgr create cluster tux\nsacctmgr create account name=science fairshare=50\n"
        "sacctmgr create account name=chemistry parent=science fairshare=30",
        {"^science": 50, "^science/chemistry": 30},
    ),
    (
        "create user name=adam cluster=tux account=physics fairshare=10\n"
        "delete user name=adam cluster=tux account=physics",
        {},
    ),
    ("add user adam account=physics\nmodify user name=adam cluster=tux set fairshare=10", {"adam": 10}),
    ("add user adam account=physics\nmodify user set fairshare=10 where name=adam cluster=tux", {"adam": 10}),
    (
        "add user adam account=physics\n"
        "modify user where name=adam cluster=tux account=physics set maxjobs=2 maxwall=30:00 qos+=expedite",
        {"adam": 1},
    ),
    ('list transactions Action="Add Users" Start=11/03-10:30:00 format=Where,Time', {}),
    ("list associations cluster=tux format=Account,Cluster,User,Fairshare tree withd\ndump cluster=tux file=t", {}),
    ("add coordinator account=physics names=u\nadd qos normal\nadd resource name=matlab count=50", {}),
]


@each_case(("lines", "expected"), APPLIED)
def test_commands_are_applied_as_slurm_applies_them(lines: str, expected: dict[str, float | None] | None) -> None:
    if expected is None:
        with pytest.raises(Invalid, match="Description"):  # add user knows no such word
            shares_of(ACCOUNT + lines + "\n")
        return
    wanted = {f"/{path[1:]}" if path[0] == "^" else f"/physics/{path}": shares for path, shares in expected.items()}
    wanted = wanted if "/hep/physics" in wanted else {"/physics": 60} | wanted
    assert shares_of(ACCOUNT + lines + "\n") == wanted


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("add account physics fairshare=7", "line 2: account physics is there already, and stays as it is"),
        (
            "add user u account=physics fairshare+=7",
            "line 2: fairshare+= is read as =; Slurm 25.11 and later refuse it",
        ),
        ("add user u account=physics\ndelete account physics", "removed with account physics: user u"),
        ("add user u account=physics maxjobs=3 qos+=long", "maxjobs (1 ×)"),
        ("add coordinator account=physics names=u", "add coordinator (1 ×)"),
    ],
)
def test_what_a_policy_lacks_and_what_stays_is_named(lines: str, note: str) -> None:
    assert note in read("sacctmgr-script", ACCOUNT + lines + "\n").ignored


@pytest.mark.parametrize(
    ("lines", "cluster"),
    [
        ("add cluster Tux\n", "tux"),
        ("add account hep cluster=tux\nmodify account hep cluster=TUX set fa=2\n", "tux"),
        ("add cluster a\nadd cluster b\n", ""),
        ("add account hep cluster=a,b\nadd account lab cluster=b,a\n", ""),
        ("", ""),
    ],
)
def test_the_cluster_is_known_if_the_commands_name_one_only(lines: str, cluster: str) -> None:
    assert read("sacctmgr-script", ACCOUNT + lines).policy == cluster


def test_brackets_that_stand_for_more_names_than_a_policy_has_are_refused() -> None:
    with pytest.raises(TooLarge, match="too many names"):
        read("sacctmgr-script", ACCOUNT + "add user u[1-999999999] account=physics\n")
    with pytest.raises(TooLarge, match="at most"):
        read("sacctmgr-script", ACCOUNT + f"add user u[1-9999] account={','.join(f'a{n}' for n in range(999))}\n")
