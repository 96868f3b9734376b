"""Names that Slurm stores and a path can't hold, or that need quotes: read, mapped and written back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from apps.core.errors import Invalid
from apps.mapping.rules.entry_names import entry_name
from apps.mapping.rules.slurm_accounts import account_of_entry, entry_of_account
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.formats.base import LastImport
from apps.policies.formats.registry import get_format, read_file
from apps.policies.formats.slurm_names import entry_of_name, in_dump, loadable, name_of_entry
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import new_uids
from tests.each_case import each_case

DUMP = get_format("sacctmgr")
NAMES = ("ice/core", "deep sea", "uni\\law", "drill/a%b")
SHARED = Path(__file__).resolve().parents[4] / "shared/vectors/field4"


@pytest.fixture
def text(golden_dir: Path) -> str:
    return (golden_dir / "field/b05_names.cfg").read_text(encoding="utf-8")


def tree_of(text: str) -> TreeColumns:
    tree = DUMP.read(text).tree
    return replace(tree, uid=new_uids(len(tree)))


def shares_by_path(tree: TreeColumns) -> dict[str, float]:
    return {tree.path(i): float(tree.shares[i]) for i in range(1, len(tree))}


def test_every_name_of_a_dump_becomes_an_entry(text: str) -> None:
    parsed = DUMP.read(text)
    assert shares_by_path(parsed.tree) == {
        "/root": 1,
        "/ice%2Fcore": 30,
        "/deep sea": 50,
        "/uni\\law": 20,
        "/ice%2Fcore/drill%2Fa%25b": 7,
        "/ice%2Fcore/eve%2Fadmin": 2,
        "/ice%2Fcore/drill%2Fa%25b/dan": 4,
        "/deep sea/ad\\fay": 3,
        "/deep sea/gus": 1,
        "/uni\\law/hal": 1,
    }
    remarks = [remark for remark in parsed.ignored if "/" in remark]
    assert remarks == [
        "3 names have a /, which a path can't hold: drill/a%b is drill%2Fa%25b, eve/admin is eve%2Fadmin, ice/core is "
        "ice%2Fcore; mapping and exports use Slurm's name"
    ]
    assert "line 14: sacctmgr load drops its backslash; to load it, write \\\\" in parsed.ignored


def test_the_mapping_finds_each_account_by_the_name_that_sacct_prints(text: str) -> None:
    tree = tree_of(text)
    for name in NAMES:
        entry = entry_of_account(tree, 0, name)
        assert entry is not None
        assert name_of_entry(tree.name[entry]) == name
        assert account_of_entry(tree, 0, entry) == name
    sea, ice = (entry_of_account(tree, 0, name) for name in ("deep sea", "ice/core"))
    assert sea is not None
    assert ice is not None
    assert tree.child_named(sea, entry_name("ad\\fay")) is not None
    assert tree.child_named(ice, entry_name("eve/admin")) is not None


@pytest.mark.parametrize("name", ["sacctmgr", "sacctmgr-script"])
def test_an_export_keeps_the_names_and_reads_as_the_same_tree(name: str, text: str) -> None:
    tree, policy_format = tree_of(text), get_format(name)
    fitted = policy_format.fit(tree)
    assert list(fitted.name[1:]) == list(tree.name[1:])
    written = "".join(policy_format.write(fitted, PolicySettings()))
    assert shares_by_path(policy_format.read(written).tree) == shares_by_path(tree)
    quoted = "'deep sea'" in written and "'ice/core'" in written
    assert quoted, written


def test_a_stored_dump_is_exported_as_sacctmgr_load_reads_its_names(text: str) -> None:
    tree = tree_of(text)
    assert DUMP.write_remembered is not None
    written = "".join(DUMP.write_remembered(tree, LastImport("tall", text, tree)))
    changed = [(a, b) for a, b in zip(text.split("\n"), written.split("\n"), strict=True) if a != b]
    assert [after for _, after in changed] == [before.replace("\\", "\\\\") for before, _ in changed]
    assert [before.partition(":")[0] for before, _ in changed] == [
        "Account - 'uni\\law'",
        "User - 'ad\\fay'",
        "Parent - 'uni\\law'",
        "User - 'hal'",
    ]
    assert shares_by_path(DUMP.read(written).tree) == shares_by_path(tree)
    again = "".join(DUMP.write_remembered(tree, LastImport("tall", written, tree)))
    assert again == written


def test_a_renamed_account_and_a_new_user_are_written_in_quotes(text: str) -> None:
    tree = tree_of(text)
    assert DUMP.against is not None
    smaller = text.replace("User - 'ad\\fay':DefaultAccount='deep sea':Fairshare=3\n", "")
    pieces = "".join(DUMP.against(tree, smaller).pieces())
    assert "Parent - 'deep sea'\nUser - 'ad\\\\fay':Fairshare=3\n" in pieces
    script = get_format("sacctmgr-script").against
    assert script is not None
    commands = "".join(script(tree, smaller.replace("Fairshare=7", "Fairshare=8")).pieces())
    assert "add user name='ad\\fay' account='deep sea' cluster=tall fairshare=3\n" in commands
    assert "modify account where name='drill/a%b' cluster=tall set fairshare=7\n" in commands


@pytest.mark.parametrize(("name", "entry"), [("a/b", "a%2Fb"), ("5%", "5%"), ("5%/x", "5%25%2Fx"), ("a b", "a b")])
def test_a_name_and_its_entry_are_converted_to_each_other(name: str, entry: str) -> None:
    assert (entry_of_name(name), name_of_entry(entry)) == (entry, name)


@pytest.mark.parametrize(
    ("raw", "load"), [("'a\\b'", "'a\\\\b'"), ("'a\\\\b'", "'a\\\\b'"), ("'a\\#b'", "'a\\#b'"), ("x \\\n", "x \\\n")]
)
def test_only_a_backslash_that_escapes_nothing_is_doubled(raw: str, load: str) -> None:
    assert loadable(raw) == load
    assert loadable(load) == load
    assert in_dump("a\\b") == "'a\\\\b'"


@each_case("name", ["sacctmgr", "csv", "yaml", "sacctmgr-script"])
@each_case(
    "listing",
    [
        "Cluster|Account|ParentName|User|Share|QOS\ntall|root|||1|normal\n",
        "   Cluster    Account       User  Partition     Share   Priority\n---------- ----------\n",
        "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\nroot|||0.0|10|1.0|\n",
        "             Account       User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare \n",
    ],
)
def test_a_listing_that_is_no_tree_is_refused_with_the_command_to_use(name: str, listing: str) -> None:
    with pytest.raises(Invalid, match="sacctmgr dump CLUSTER"):
        read_file(get_format(name), listing.encode())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared field inputs are not beside the repository")
def test_the_shared_field_inputs_are_read_as_their_table_says() -> None:
    def shared(name: str, file: str) -> ParsedDocument:
        return read_file(get_format(name), (SHARED / file).read_bytes())

    names = shared("sacctmgr", "b05_names.cfg").tree
    paths = set(shares_by_path(names))
    assert {"/test@biology/corp\\bob", "/geo%2Fseis/sub%2Fone/dave", "/two words/zed"} <= paths
    table = shared("csv", "b32_thousands.csv").tree
    assert float(table.shares[1]) / float(table.shares[1:].sum()) == pytest.approx(0.6657, abs=1e-4)
    assert shares_by_path(shared("csv", "b32h.csv").tree) == {"/a": 60, "/b": 40}
    for name, file in (("csv", "b32c.csv"), ("sacctmgr", "b36_assoc.txt"), ("sacctmgr", "b36_sshare.txt")):
        with pytest.raises(Invalid):
            shared(name, file)
