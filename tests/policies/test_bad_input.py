"""Bad input by every way in: the answer names line and path, and the policy with all that belongs to it stays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import DomainError, Invalid
from apps.policies import services
from apps.policies.changesets import drafts
from apps.policies.files.document import read_document
from apps.policies.files.exports import export_policy
from apps.policies.files.import_export import FileImport, import_policy, plan_paste
from apps.policies.formats.registry import FORMATS
from apps.policies.models import ChangeSet, Entry, Policy, ProposedTree, Revision
from apps.policies.publishing.direct import publish_tree
from apps.policies.records import NewChangeSet, NewTree
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import merge_document
from apps.policies.tree.names import MAX_DEPTH
from apps.policies.tree.stored import load_tree
from tests.each_case import each_case
from tests.instants import AT

# Written in a file as they are; none of them may become a name.
NAMES = {
    "control": ("bo\x07b", "U+0007"),
    "line separator": ("bo\u2028b", "U+2028"),
    "bidi": ("bo\u202eb", "U+202E"),
    "markup": ("<b>bob", "<"),
    "end of markup": ("bob>", ">"),
    "zero width": ("bo\u200bb", "U+200B"),
    "byte order mark": ("bo\ufeffb", "U+FEFF"),
    "folder above": ("..", "folder"),
}
HEAD = "Cluster - 'demo':Fairshare=1\nParent - 'root'\nAccount - 'physics':Fairshare=1\nParent - 'physics'\n"
NODE = "id={}\nname={}\ntype=0\nshares=1\nchildnodes={}\n"


def stored() -> dict[str, object]:
    """All that an import could have touched."""
    revisions = Revision.objects.order_by("policy_id", "number").values_list("number", "tree_digest")
    rows = Entry.objects.order_by("pk").values_list("uid", "name", "parent_uid", "shares", "since", "until")
    return {
        "revisions": list(revisions),
        "entries": hashlib.sha256(repr(list(rows)).encode()).hexdigest(),
        "change sets": list(ChangeSet.objects.order_by("pk").values_list("pk", "version", "state", "operations")),
        "whole trees": ProposedTree.objects.count(),
    }


@pytest.fixture
def untouched(policy: Policy) -> Iterator[None]:
    before = stored()
    yield
    assert stored() == before


def take(format: str, content: str | bytes, **more: Any) -> None:
    import_policy(
        file=FileImport(
            policy_slug="grid",
            format=format,
            content=content if isinstance(content, bytes) else content.encode("utf-8"),
            **more,
        ),
        publish=True,
        reason="x",
        at=AT,
        actor=COMMAND,
    )


def refused(work: Callable[[], object]) -> str:
    """Everything that the answer says: the message, and each place with its own."""
    with pytest.raises(DomainError) as refusal:
        work()
    fields = [f"{field.where} {field.message}" for field in getattr(refusal.value, "fields", ())]
    return "\n".join([refusal.value.message, *fields])


def named(format: str, name: str) -> tuple[str, str]:
    """A file in which an entry below /physics is called so, and the place that the answer has to name."""
    quoted = '"' + "".join(f"\\u{ord(one):04x}" if ord(one) < 32 or ord(one) > 126 else one for one in name) + '"'
    json = (
        f'{{"root": {{"name": "grid", "children": [\n{{"name": "physics", "children": [\n{{"name": {quoted}}}]}}]}}}}'
    )
    yaml = f"root:\n  name: grid\n  children:\n  - name: physics\n    children:\n    - name: {quoted}\n"
    nodes = NODE.format(0, "Root", 1) + NODE.format(1, "physics", 2) + NODE.format(2, name, "NONE")
    script = f"add account Name=physics Fairshare=60\nadd user Name='{name}' Account=physics\n"
    files = {
        "yaml": (yaml, "line 6"),
        "json": (json, "line 3"),
        "csv": (f"path,shares\n/physics,1\n/physics/{name},2\n", "line 3"),
        "sacctmgr": (f"{HEAD}User - '{name}':Fairshare=2\n", "line 5"),
        "sacctmgr-script": (script, "line 2"),
        "ge": (nodes, "line 12"),
        "htcondor": (f"GROUP_NAMES = physics, physics.{name}\n", "line 1"),
    }
    return files[format]


@each_case("format", list(FORMATS))
@each_case("case", list(NAMES))
@pytest.mark.usefixtures("untouched")
def test_confusable_names_are_rejected_in_every_format(format: str, case: str) -> None:
    name, mark = NAMES[case]
    text, line = named(format, name)
    found = refused(lambda: take(format, text))
    assert line in found
    assert "/physics" in found
    assert mark in found


def deep(format: str) -> str:
    levels = range(1, MAX_DEPTH + 2)
    if format == "csv":
        return "path\n" + "\n".join("/" + "/".join(f"l{n}" for n in levels[:most]) for most in levels) + "\n"
    if format == "sacctmgr":
        chain = "".join(f"Parent - '{f'l{n - 1}' if n > 1 else 'root'}'\nAccount - 'l{n}'\n" for n in levels)
        return "Cluster - 'demo':Fairshare=1\n" + chain
    if format == "sacctmgr-script":
        return "".join(f"add account l{n} parent={f'l{n - 1}' if n > 1 else 'root'}\n" for n in levels)
    if format == "ge":
        return NODE.format(0, "Root", 1) + "".join(
            NODE.format(n, f"l{n}", "NONE" if n == levels[-1] else n + 1) for n in levels
        )
    if format == "htcondor":
        return "GROUP_NAMES = " + ", ".join(".".join(f"l{n}" for n in levels[:most]) for most in levels) + "\n"
    lines = "".join(f"{'  ' * n}children:\n{'  ' * n}- name: l{n}\n" for n in levels)
    if format == "yaml":
        return f"root:\n  name: grid\n{lines}"
    return (
        '{"root": {"name": "grid"'
        + "".join(f', "children": [\n{{"name": "l{n}"' for n in levels)
        + "}]" * len(levels)
        + "}}"
    )


@pytest.mark.parametrize("format", list(FORMATS))
@pytest.mark.usefixtures("untouched")
def test_more_than_64_levels_are_refused_in_every_format(format: str) -> None:
    found = refused(lambda: take(format, deep(format)))
    assert "line " in found
    assert "/l1/l2/l3/" in found
    assert "level 64" in found


RING = NODE.format(1, "a", "2") + NODE.format(2, "b", "1")
CYCLES = {
    "a node below itself": ("ge", NODE.format(0, "Root", 1) + RING, "line 15"),
    "beside the root": ("ge", NODE.format(0, "Root", "NONE") + RING, "line 6"),
    "accounts of each other": ("sacctmgr-script", "add account a parent=b\nadd account b parent=a\n", "line 1"),
    "parents of each other": ("sacctmgr", "Cluster - 'd'\nParent - 'a'\nAccount - 'b'\n", "line 2"),
}


@pytest.mark.parametrize("case", list(CYCLES))
@pytest.mark.usefixtures("untouched")
def test_cycles_in_files_are_refused_with_their_line(case: str) -> None:
    format, text, line = CYCLES[case]
    assert line in refused(lambda: take(format, text))


@pytest.mark.usefixtures("untouched")
def test_a_table_that_moves_an_entry_below_itself_is_rejected_with_its_line(tree: TreeColumns) -> None:
    physics = tree.uuid(tree.index_of_path("/physics") or 0)
    table = f"path,uid\n/biology,\n/physics/bob/deeper,{physics}\n"
    found = refused(lambda: take("csv", table, keep_missing=True))
    assert "line 3" in found, found
    assert "/physics" in found


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nroot: {name: grid, children: *c}\n"
FILES: dict[str, tuple[str, str | bytes, tuple[str, ...]]] = {
    "an alias bomb": ("yaml", BOMB, ("line 2", "aliases")),
    "a tag": ("yaml", "root:\n  name: !!python/name:os.system grid\n", ("line 2", "the tag")),
    "a tag of one's own": ("yaml", "root:\n  name: grid\n  children: !include other.yaml\n", ("line 3", "the tag")),
    "a merge of keys": ("yaml", "root:\n  <<: {name: grid}\n", ("line 2", "<< is unknown", "known are")),
    "a key twice": ("yaml", "root:\n  name: grid\n  name: other\n", ("line 3", "'name' is repeated")),
    "a formula": ("csv", "path,shares\n/physics,=1+1\n", ("line 2", "/physics", "formula")),
    "a command in a kind": ("csv", "path,kind,shares\n/physics,@SUM(1),1\n", ("line 2", "/physics", "formula")),
    "a path twice": (
        "csv",
        "path,shares\n/physics,1\n/biology,1\n/physics,2\n",
        ("line 4", "/: path", "first in line 2"),
    ),
    "a name twice": (
        "yaml",
        "root:\n  name: g\n  children:\n  - name: a\n  - name: a\n",
        ("line 5", "/: children[1]", "repeated"),
    ),
    "a name twice in JSON": (
        "json",
        '{"root": {"name": "g", "children": [\n{"name": "a"},\n{"name": "a"}]}}',
        ("line 3", "repeated"),
    ),
    "a name twice in a dump": ("sacctmgr", f"{HEAD}User - 'u'\nUser - 'u'\n", ("line 6", "/physics", "repeated")),
    "over 100 percent": ("csv", "path,shares\n/physics,101%\n", ("line 2", "/physics", "100")),
    "together over 100": ("csv", "path,shares\n/physics,60%\n/biology,50%\n", ("line 2", "100")),
    "less than nothing": ("csv", "path,shares\n/physics,-1\n", ("line 2", "/physics")),
    "endless shares": (
        "yaml",
        "root:\n  name: g\n  children:\n  - {name: a, shares: .inf}\n",
        ("line 4", "/a", "1e+15"),
    ),
    "no number": (
        "json",
        '{"root": {"name": "g",\n"children": [{"name": "a", "shares": "many"}]}}',
        ("line 2", "/a", "text"),
    ),
    "a picture": ("csv", b"\x89PNG\r\n\x1a\n\0\0\0", ("line 1", "UTF-8")),
    "a spreadsheet": ("csv", b"PK\x03\x04\x14\0\x06\0", ("line 1", "zero bytes")),
    "prose": ("yaml", "Dear colleague,\nhere are the shares.\n", ("root",)),
    "a table called YAML": ("yaml", FORMATS["csv"].sample, ("use --format csv",)),
    "YAML called a table": ("csv", FORMATS["yaml"].sample, ("use --format yaml",)),
    "a dump called a share tree": ("ge", FORMATS["sacctmgr"].sample, ("use --format sacctmgr",)),
    "a share tree called JSON": ("json", FORMATS["ge"].sample, ("use --format ge",)),
}


@each_case("case", list(FILES))
@pytest.mark.usefixtures("untouched")
def test_bad_files_are_refused_with_line_path_and_remedy(case: str) -> None:
    format, content, words = FILES[case]
    found = refused(lambda: take(format, content))
    assert [word for word in words if word not in found] == [], found


@pytest.mark.parametrize("case", list(NAMES))
def test_confusable_names_are_rejected_in_every_edit(policy: Policy, untouched: None, case: str) -> None:
    name, mark = NAMES[case]
    for operation in (
        {"op": "add", "parent": "/physics", "name": name},
        {"op": "rename", "entry": "/physics/bob", "name": name},
        {"op": "rename", "entry": "/", "name": name},
        {"op": "move", "entry": "/physics/bob", "parent": "/biology", "name": name},
    ):
        found = refused(lambda operation=operation: change(operation))  # type: ignore[misc]
        assert "operations[0].name" in found
        assert mark in found
    document = {"root": {"name": "grid", "children": [{"name": "physics", "children": [{"name": name}]}]}}
    found = refused(
        lambda: services.publish_document(policy_slug="grid", document=document, reason="x", at=AT, actor=COMMAND)
    )
    assert "/physics" in found
    assert mark in found
    assert mark in refused(lambda: services.make_policy(slug="other", name=name, at=AT, actor=COMMAND))
    assert not Policy.objects.filter(slug="other").exists()


def change(operation: dict[str, Any]) -> ChangeSet:
    return services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=[operation], reason="x"), at=AT, actor=COMMAND
    )


PASTES = {
    "markup": ("/physics/<i>bob,1", "/physics/<i>bob"),
    "bidi": ("/physics/bo\u202eb,1", "U+202E"),
    "zero width": ("/physics/bo\u200db,1", "U+200D"),
    "folder": ("/physics/.,1", "folder"),
    "formula": ("/physics,=HYPERLINK(1)", "formula"),
    "repeated": ("/biology,1", "first in line 1"),
    "percent": ("/physics,120%", "100"),
    "too deep": ("/physics" + "/x" * MAX_DEPTH + ",1", "level 64"),
    "nowhere": ("/chemistry/lab,1", "parent /chemistry doesn’t exist"),
}


@pytest.mark.parametrize("case", list(PASTES))
def test_a_pasted_line_is_refused_with_its_number(policy: Policy, alice: Actor, case: str) -> None:
    draft = drafts.open_draft(policy_slug="grid", reason="", at=AT, actor=alice)
    before, (line, words) = stored(), PASTES[case]
    found = refused(lambda: plan_paste(draft, f"/biology,51\n{line}\n", at=AT, actor=alice))
    assert "line 2" in found
    assert words in found
    assert stored() == before


@pytest.fixture
def marked(policy: Policy) -> TreeColumns:
    """A policy from before: bob is called <b>bob, and so is a group that was archived since; others have names that
    no user sees in full."""
    old = {"name": "<old>", "children": [{"name": "x>", "kind": "user"}]}
    more = [{"name": name, "kind": "user"} for name in ("zo\u200be", "..")]
    physics = {"name": "physics", "children": [{"name": "<b>bob", "kind": "user"}, *more]}
    for children in ([physics, old], [physics, {"name": "biology"}]):
        policy.refresh_from_db()
        read = read_document({"root": {"name": "grid", "children": children}})
        publish_tree(
            policy_slug="grid",
            new=NewTree(
                tree=merge_document(read, load_tree(policy)),
                settings=PolicySettings(),
                origin="hand",
                base_revision=policy.head_number,
                reason="x",
            ),
            at=AT,
            actor=COMMAND,
        )
    policy.refresh_from_db()
    return load_tree(policy)


def test_existing_confusable_names_can_be_read_moved_changed_and_restored(policy: Policy, marked: TreeColumns) -> None:
    old = load_tree(policy, policy.head_number - 1)
    group = old.uuid(old.index_of_path("/<old>") or 0)
    operations: list[dict[str, Any]] = [
        {"op": "set_shares", "entry": "/physics/<b>bob", "shares": 7},
        {"op": "move", "entry": "/physics/<b>bob", "parent": "/biology"},
        {"op": "move", "entry": "/physics/zo\u200be", "parent": "/biology"},
        {"op": "set_shares", "entry": "/physics/..", "shares": 3},
        {"op": "restore", "entry": str(group), "parent": "/physics"},
    ]
    draft = services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="x"), at=AT, actor=COMMAND
    )
    services.publish_change_set(id=draft.pk, version=draft.version, at=AT, actor=COMMAND)
    policy.refresh_from_db()
    tree = load_tree(policy)
    assert tree.index_of_path("/biology/<b>bob") is not None
    assert tree.index_of_path("/physics/<old>/x>") is not None
    assert tree.index_of_path("/biology/zo\u200be") is not None
    with pytest.raises(Invalid, match="invisible"):
        change({"op": "rename", "entry": "/biology/zo\u200be", "name": "zo\u200ce"})
    with pytest.raises(Invalid, match="marks up pages"):
        change({"op": "rename", "entry": "/biology/<b>bob", "name": "<i>bob"})


@pytest.mark.parametrize("format", ["yaml", "json", "csv"])
def test_exporting_and_importing_existing_confusable_names_changes_nothing(
    policy: Policy, marked: TreeColumns, format: str
) -> None:
    text = export_policy(policy_slug="grid", format=format, at=AT, actor=COMMAND).text()
    assert "<b>bob" in text
    before = stored()
    take(format, text)
    assert stored() == before
