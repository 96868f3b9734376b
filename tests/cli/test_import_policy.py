"""Policies in and out of files by the operator's commands; the counts are those of the files."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import Sum
from syrupy.assertion import SnapshotAssertion

from apps.accounts.account_ids import account_ids
from apps.accounts.account_index import load_account_index
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.core.clock import now
from apps.core.errors import Conflict, Invalid
from apps.mapping.models import MappingRule
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.files.document import KEYS
from apps.policies.formats.registry import FORMATS
from apps.policies.models import ChangeSet, Policy, ProposedTree, Revision
from apps.policies.operations import apply as operations
from apps.policies.publishing.direct import publish_operations
from apps.policies.services import effect_of, make_policy, publish_change_set, publish_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree, load_tree_from_rows
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, JobClass
from apps.usage.services import NewSource, make_source
from tests.cli.refusals import code_of

TREE = {
    "name": "grid",
    "children": [
        {
            "name": "physics",
            "kind": "vo",
            "shares": 30,
            "children": [
                {"name": "alice", "kind": "user", "shares": 1},
                {"name": "bob", "kind": "user", "shares": 3, "locked": True},
            ],
        },
        {"name": "biology", "kind": "vo", "shares": 50, "children": [{"name": "lab", "children": []}]},
        {"name": "reserve", "kind": "reserve", "shares": 20},
    ],
}
CSV = "path,kind,shares\n/physics,vo,40\n/physics/alice,user,2\n/physics/carl,user,1\n/reserve,reserve,20\n"

ACTIVE = ("--publish", "--reason", "x")

Write = Callable[[str | bytes], Path]


def run(*arguments: object) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def refused(*arguments: object) -> CommandError:
    with pytest.raises(CommandError) as refusal:
        run(*arguments)
    return refusal.value


@pytest.fixture
def grid(db: None) -> Policy:
    make_policy(slug="grid", name="Grid", at=now(), actor=COMMAND)
    publish_document(policy_slug="grid", document={"root": TREE}, reason="x", at=now(), actor=COMMAND)
    return Policy.objects.get()


@pytest.fixture
def file(tmp_path: Path) -> Write:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "policy"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def paths(policy: Policy) -> dict[str, float | None]:
    policy.refresh_from_db()
    tree = load_tree(policy)
    assert load_tree_from_rows(policy).same_as(tree)
    return {tree.path(i): tree.node(i).shares for i in range(1, len(tree))}


def test_a_file_becomes_a_draft_without_effect(grid: Policy, file: Write, snapshot: SnapshotAssertion) -> None:
    before = paths(grid)
    out, err = run("import_policy", "--policy", "grid", "--format", "csv", file(CSV))
    draft = ChangeSet.objects.get(state="draft")
    first, *targets = out.splitlines()
    assert re.findall(r"\d+", first) == [str(draft.pk), "2", "1", "3", "2", "1"]
    assert [
        (path.strip(), re.findall(r"[\d.]+ %", found)) for path, found in (line.split(": ") for line in targets)
    ] == [
        ("/biology/lab", ["100.0 %"]),
        ("/physics/bob", ["75.0 %"]),
        ("/biology", ["50.0 %"]),
        ("/physics/alice", ["25.0 %", "66.7 %"]),
        ("/physics", ["30.0 %", "66.7 %"]),
        ("/physics/carl", ["33.3 %"]),
        ("/reserve", ["20.0 %", "33.3 %"]),
    ]
    assert "--publish --reason" in err
    assert (out.replace(str(draft.pk), "ID", 1), err) == snapshot
    assert draft.origin == "import"
    assert paths(grid) == before


def test_listed_additions_equal_their_count(grid: Policy, file: Write) -> None:
    """Also those without a target of their own: with inherited shares, without shares, and beside the former."""
    added = [("/physics/zero", "0"), ("/new", "9"), ("/new/a", "parent"), ("/new/b", "2"), ("/new/c", "0")]
    content = "path,shares\n" + "".join(f"{path},{shares}\n" for path, shares in added)
    out, _ = run("import_policy", "--policy", "grid", "--format", "csv", "--keep-missing", "--dry-run", file(content))
    first, *lines = out.splitlines()
    listed = {path.strip() for path, found in (line.split(": ") for line in lines) if "added" in found.split(", ")}
    assert listed == {path for path, _ in added}
    assert first.split(": ", 1)[1].split(", ")[0] == f"added: {len(added)}"


def test_a_published_import_equals_the_tree_of_the_file(grid: Policy, file: Write) -> None:
    out, _ = run("import_policy", "--policy", "grid", "--format", "csv", "--publish", "--reason", "New year", file(CSV))
    assert re.findall(r"\d+", out.splitlines()[-1]) == ["3"]
    assert paths(grid) == {"/physics": 40, "/reserve": 20, "/physics/alice": 2, "/physics/carl": 1}
    assert Revision.objects.get(number=3).reason == "New year"


def test_entries_missing_in_the_file_are_kept_on_request(grid: Policy, file: Write) -> None:
    content = "path,shares\n/physics/alice,7\n"
    out, _ = run("import_policy", "--policy", "grid", "--format", "csv", "--keep-missing", "--dry-run", file(content))
    assert re.findall(r"\d+", out.splitlines()[0]) == ["2", "1", "1"]
    assert not ChangeSet.objects.filter(state="draft").exists()
    run(
        "import_policy",
        "--policy",
        "grid",
        "--format",
        "csv",
        "--keep-missing",
        "--publish",
        "--reason",
        "x",
        file(content),
    )
    assert paths(grid)["/physics/alice"] == 7
    assert len(paths(grid)) == 6


@pytest.mark.parametrize("name", list(FORMATS))
def test_importing_an_export_changes_nothing(grid: Policy, file: Write, name: str) -> None:
    cluster = ("--cluster", "tux") if name == "sacctmgr-script" else ()
    text, dropped = run("export_policy", "--policy", "grid", "--format", name, *cluster)
    out, _ = run("import_policy", "--policy", "grid", "--format", name, *ACTIVE, file(text))
    assert re.findall(r"\d+|grid", out) == ["2", "grid"]
    assert out.count("\n") == 1
    assert Policy.objects.get().head_number == 2
    assert bool(dropped) == (name not in ("yaml", "json"))


def test_an_export_lists_what_it_omits(grid: Policy, snapshot: SnapshotAssertion) -> None:
    _, err = run("export_policy", "--policy", "grid", "--format", "ge")
    assert err == snapshot


def test_a_past_revision_is_exported_and_restored_with_its_entries(grid: Policy, file: Write) -> None:
    before = load_tree(grid)
    between = now()
    run("import_policy", "--policy", "grid", "--format", "csv", *ACTIVE, file(CSV))
    text, _ = run("export_policy", "--policy", "grid", "--format", "yaml", "--at", 2)
    assert run("export_policy", "--policy", "grid", "--format", "yaml", "--at", between.isoformat())[0] == text
    run("import_policy", "--policy", "grid", "--format", "yaml", "--publish", "--reason", "back", file(text))
    grid.refresh_from_db()
    assert load_tree(grid).same_as(before)
    kinds = {operation["op"] for operation in ChangeSet.objects.latest("pk").operations}
    assert "restore" in kinds
    assert "add" not in kinds


def test_a_moved_and_renamed_entry_is_matched_by_uid(grid: Policy, file: Write) -> None:
    data = json.loads(run("export_policy", "--policy", "grid", "--format", "json")[0])
    children = {child["name"]: child for child in data["root"]["children"]}
    biology, physics = children["biology"], children["physics"]
    bob = physics["children"].pop()
    biology["children"].append({**bob, "name": "rob"})
    out, _ = run("import_policy", "--policy", "grid", "--format", "json", *ACTIVE, file(json.dumps(data)))
    counts = re.findall(r"\d+", out.splitlines()[0])[-4:]
    assert counts == ["2", "1", "1", "2"], "of revision 2: one moved, one renamed; targets of two siblings"
    grid.refresh_from_db()
    tree = load_tree(grid)
    assert str(tree.uuid(tree.index_of_path("/biology/rob") or 0)) == bob["uid"]


def test_settings_come_with_a_document(grid: Policy, file: Write) -> None:
    data = json.loads(run("export_policy", "--policy", "grid", "--format", "json")[0])
    data["settings"]["fallback_factor"] = 0.25
    out, _ = run("import_policy", "--policy", "grid", "--format", "json", *ACTIVE, file(json.dumps(data)))
    assert "settings: fallback_factor" in out
    assert Revision.objects.get(number=3).settings["fallback_factor"] == 0.25


def test_accounts_of_a_site_are_imported_from_its_script(grid: Policy, traces_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "accounts.gz"
    shutil.copy(traces_dir / "ubhpc-accounts.sacctmgr-script.gz", script)
    out, err = run("import_policy", "--policy", "grid", "--format", "sacctmgr", *ACTIVE, script)
    assert re.findall(r"\d+", out.splitlines()[0])[-3:] == ["2", "158", "6"]
    assert "qos (" in err
    tree = load_tree(Policy.objects.get())
    assert (int(tree.inherit.sum()), tree.kind.count("user"), int(tree.is_group.sum()) - 1) == (94, 96, 62)
    assert set(tree.shares[tree.is_group].tolist()) == {1.0, 100.0}
    text, _ = run("export_policy", "--policy", "grid", "--format", "sacctmgr-script")
    assert text.count("add user") == 96
    assert text.count("Fairshare=parent") == 94


def test_slurm_dumps_and_grid_engine_trees_are_imported(grid: Policy, golden_dir: Path) -> None:
    samples = golden_dir
    dump = samples / "slurm" / "samples" / "sacctmgr-dump-demo.cfg"
    run("import_policy", "--policy", "grid", "--format", "sacctmgr", *ACTIVE, dump)
    assert paths(grid) == {
        "/biology": 40,
        "/physics": 60,
        "/root": 1,
        "/biology/carol": 10,
        "/physics/alice": 2,
        "/physics/bobby": None,
        "/physics/hep": 3,
        "/physics/hep/alice": 1,
    }
    tree = samples / "gridengine" / "samples" / "qconf-sstree.txt"
    run("import_policy", "--policy", "grid", "--format", "ge", *ACTIVE, tree)
    assert paths(grid) == {
        "/grp1": 300,
        "/grp2": 100,
        "/grp1/gea": 60,
        "/grp1/geb": 40,
        "/grp2/gec": 10,
        "/grp2/ged": 30,
    }


def test_a_large_import_is_a_draft_of_the_whole_tree(
    grid: Policy, file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.policies.files.import_export.MOST_APPLIED_OPERATIONS", 3)
    assert operations.MOST_APPLIED_OPERATIONS == 10_000
    run("import_policy", "--policy", "grid", "--format", "csv", file(CSV))
    draft = ChangeSet.objects.get(state="draft")
    assert [operation["op"] for operation in draft.operations] == ["document"]
    assert effect_of(draft, actor=COMMAND, at=now())["n_stated"] == 6
    publish_change_set(id=draft.pk, version=1, reason="x", at=now(), actor=COMMAND)
    assert paths(grid) == {"/physics": 40, "/reserve": 20, "/physics/alice": 2, "/physics/carl": 1}
    assert effect_of(ChangeSet.objects.get(pk=draft.pk), actor=COMMAND, at=now())["n_stated"] == 6
    assert not ProposedTree.objects.exists()


def test_a_whole_tree_does_not_overwrite_concurrent_changes(
    grid: Policy, file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.policies.files.import_export.MOST_APPLIED_OPERATIONS", 0)
    run("import_policy", "--policy", "grid", "--format", "csv", file(CSV))
    draft = ChangeSet.objects.get(state="draft")
    run(
        "import_policy",
        "--policy",
        "grid",
        "--format",
        "csv",
        "--publish",
        "--reason",
        "x",
        file("path,shares\n/a,1\n"),
    )
    with pytest.raises(Conflict) as stale:
        publish_change_set(id=draft.pk, version=1, reason="x", at=now(), actor=COMMAND)
    assert stale.value.code == "stale_document"
    assert list(paths(grid)) == ["/a"]
    assert ProposedTree.objects.count() == 1


def test_all_invalid_rows_are_reported_with_status_2_and_nothing_changes(grid: Policy, file: Write) -> None:
    before = paths(grid)
    bad = "path,kind,shares\n/a,vo,x\n/a/b,user,-1\n/a,vo,2\n/c\u202e,vo,1\n/d,=1+1,3\n/<b>,vo,120%\n"
    error = refused("import_policy", "--policy", "grid", "--format", "csv", *ACTIVE, file(bad))
    assert error.returncode == 2
    assert isinstance(error.__cause__, Invalid)
    places = [field.where for field in error.__cause__.fields]
    assert [re.findall(r"\d+", place)[0] for place in places] == ["2", "3", "4", "5", "6", "7"]
    assert [places[n].partition(", ")[2] for n in (0, 1, 4)] == ["/a: shares", "/a/b: shares", "/d: kind"]
    assert [place for place in places if place not in str(error)] == []
    assert paths(grid) == before
    assert not ChangeSet.objects.filter(state="draft").exists()


@pytest.mark.parametrize("name", ["yaml", "csv", "ge"])
def test_a_new_name_with_markup_is_refused_with_its_line(grid: Policy, file: Write, name: str) -> None:
    sample = FORMATS[name].sample.replace("physics", "<b>physics")
    error = refused("import_policy", "--policy", "grid", "--format", name, file(sample))
    assert (error.returncode, code_of(error)) == (2, "bad_document")
    assert re.search(r"line \d+", str(error))
    assert "/<b>physics" in str(error)


@pytest.mark.parametrize(
    ("arguments", "status", "named"),
    [
        (("--policy", "grid", "--format", "xls"), 2, ["xls", "yaml"]),
        (("--policy", "none", "--format", "csv"), 1, ["none"]),
        (("--policy", "grid", "--format", "yaml"), 2, ["--format csv"]),
        (("--policy", "grid", "--format", "csv", "--publish"), 2, ["--publish", "--reason"]),
        (
            ("--policy", "grid", "--format", "csv", "--publish", "--dry-run", "--reason", "x"),
            2,
            ["--publish", "--dry-run"],
        ),
    ],
)
def test_wrong_import_calls_name_the_remedy(
    grid: Policy, file: Write, arguments: Any, status: int, named: list[str]
) -> None:
    error = refused("import_policy", *arguments, file(CSV))
    assert (error.returncode, [each for each in named if each not in str(error)]) == (status, []), error


def test_wrong_export_calls_name_the_remedy(grid: Policy, tmp_path: Path) -> None:
    for arguments, status in ((("--at", "9"), 1), (("--at", "yesterday"), 2), (("--at", "2026-01-01"), 2)):
        assert refused("export_policy", "--policy", "grid", "--format", "yaml", *arguments).returncode == status
    assert refused("import_policy", "--policy", "grid", "--format", "csv", tmp_path / "none").returncode == 2


def test_the_output_counts_mapped_accounts_and_map_creates_the_rules(grid: Policy, file: Write) -> None:
    for slug, namespace in (("linux", "linux"), ("linux-2", "linux")):
        make_source(NewSource(slug=slug, name=slug, namespace=namespace), at=now(), actor=COMMAND)
    accounts = [AccountKey("linux", "alice", "physics"), AccountKey("linux", "zed", "elsewhere")]
    account_ids(accounts, at=now())
    content = "path,kind,shares\n/physics,vo,40\n/physics/alice,user,2\n/physics/never,user,1\n"
    arguments = ("import_policy", "--policy", "grid", "--format", "csv", *ACTIVE)
    _, err = run(*arguments, file(content))
    assert "0 of 2 accounts of the usage sources map" in err
    assert "--publish --map" in err
    _, err = run(*arguments, "--map", "linux", file(content))
    assert re.findall(r"(\d+) mapping rules added|(\d of \d) accounts", err) == [("2", ""), ("", "1 of 2")]
    assert {rule.namespace for rule in MappingRule.objects.all()} == {"linux"}
    _, err = run(*arguments, "--map", "linux", file(content))
    assert "there already" in err
    work_run_now(request_recompute(policy_slug="grid", at=now(), actor=COMMAND).pk)
    store.poll()
    (never,) = store.newest("grid").lookup(["never"])
    assert (never["entry"], never["rank"]) == ("/physics/never", 1), "the next look-up finds who never ran"


def test_map_needs_a_namespace_if_there_are_several(grid: Policy, file: Write) -> None:
    for slug in ("linux", "grid-users"):
        make_source(NewSource(slug=slug, name=slug), at=now(), actor=COMMAND)
    arguments = ("import_policy", "--policy", "grid", "--format", "csv", "--map")
    assert "grid-users, linux" in str(refused(*arguments, "--publish", "--reason", "x", "--", file(CSV)))
    assert not MappingRule.objects.exists()
    assert "--publish" in str(refused(*arguments, "linux", file(CSV)))
    assert "--map" in str(refused(*arguments, "typo", *ACTIVE, file(CSV)))


DOUBLED = "root:\n  name: fresh\n  children:\n    - name: a\n      shares: 1\n      shares: 2\n"


@pytest.mark.parametrize("more", [(), ACTIVE, ("--dry-run",)])
def test_a_refused_file_leaves_no_policy_behind(db: None, file: Write, more: tuple[str, ...]) -> None:
    error = refused("import_policy", "--policy", "fresh", "--make", "--format", "yaml", *more, file(DOUBLED))
    assert (error.returncode, "shares" in str(error)) == (2, True)
    assert not Policy.objects.exists()
    assert not Revision.objects.exists()


def test_a_refused_namespace_leaves_no_policy_behind(db: None, file: Write) -> None:
    for slug in ("linux", "grid-users"):
        make_source(NewSource(slug=slug, name=slug), at=now(), actor=COMMAND)
    arguments = ("import_policy", "--policy", "fresh", "--make", "--format", "csv", *ACTIVE)
    refused(*arguments, "--map", "typo", "--", file(CSV))
    assert not Policy.objects.exists()


def test_a_dry_run_stores_nothing(db: None, file: Write) -> None:
    arguments = ("import_policy", "--policy", "fresh", "--make", "--format", "csv", file(CSV))
    out, _ = run(*arguments, "--dry-run")
    assert out.startswith("dry run on revision 1 of fresh: added: 4")
    assert not Policy.objects.exists()
    assert not ChangeSet.objects.exists()
    assert not AuditEvent.objects.filter(policy_slug="fresh").exists()
    run(*arguments, *ACTIVE)
    assert len(paths(Policy.objects.get())) == 4


def test_the_difference_is_json_and_an_exit_status(grid: Policy, file: Write) -> None:
    arguments = ("import_policy", "--policy", "grid", "--format", "csv", "--json")
    path = file(CSV)
    out = io.StringIO()
    with pytest.raises(SystemExit) as status:
        call_command(*map(str, (*arguments, "--dry-run", "--exit-code", path)), stdout=out, stderr=io.StringIO())
    body = json.loads(out.getvalue())
    assert status.value.code == 3
    assert (body["policy"], body["base_revision"], body["is_same"], body["n_entries"]) == ("grid", 2, False, 7)
    assert body["counts"]["added"] == 1
    assert {each["path"]: each["changes"] for each in body["entries"]}["/physics/carl"] == ["added"]
    assert (body["change_set"], body["revision"]) == (None, None)
    assert not ChangeSet.objects.filter(state="draft").exists()
    done = json.loads(run(*arguments, *ACTIVE, path)[0])
    assert (done["revision"], done["change_set"]) == (3, ChangeSet.objects.latest("pk").pk)
    same = json.loads(run(*arguments, "--dry-run", "--exit-code", path)[0])
    assert (same["is_same"], same["n_entries"], same["entries"]) == (True, 0, [])


def test_a_changed_setting_is_a_difference(grid: Policy, file: Write) -> None:
    document = json.loads(run("export_policy", "--policy", "grid", "--format", "json")[0])
    document["settings"]["fallback_factor"] = 0.25
    arguments = ("import_policy", "--policy", "grid", "--format", "json", "--json", "--dry-run")
    body = json.loads(run(*arguments, file(json.dumps(document)))[0])
    (setting,) = body["settings"]
    assert (setting["field"], setting["after"], body["is_same"], body["n_entries"]) == (
        "fallback_factor",
        0.25,
        False,
        0,
    )


def test_the_exit_status_option_needs_a_dry_run(grid: Policy, file: Write) -> None:
    assert "--dry-run" in str(refused("import_policy", "--policy", "grid", "--format", "csv", "--exit-code", file(CSV)))


DOCS = Path(__file__).parents[2] / "docs"


def test_the_tree_of_the_docs_is_imported_literally(db: None, file: Write) -> None:
    (text,) = re.findall(r"```yaml\n(# vo-a\.yaml\n.*?)```", (DOCS / "federation.md").read_text(), re.DOTALL)
    run("import_policy", "--policy", "vo-a", "--format", "yaml", "--make", *ACTIVE, file(text))
    tree = load_tree(Policy.objects.get(slug="vo-a"))
    leaves = [tree.path(i) for i in range(len(tree)) if tree.engine_tree().is_ranked[i]]
    assert leaves == ["/P-A2", "/P-A3", "/P-A1/anna", "/P-A1/ben"]
    assert tree.effective_scope(0) == ("global", ())


def test_the_docs_name_every_field_of_an_entry() -> None:
    (table,) = re.findall(
        r"### A tree as a file\n.*?\n\n(\|.*?)\n\n", (DOCS / "policies-as-code.md").read_text(), re.DOTALL
    )
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(KEYS)


@pytest.mark.django_db
def test_a_dump_is_rewritten_with_one_changed_share(tmp_path: Path, golden_dir: Path) -> None:
    dump = golden_dir / "slurm/samples/sacctmgr-dump-demo.cfg"
    given = ["--policy", "demo", "--format", "sacctmgr", str(dump), "--make", "--publish", "--reason", "r"]
    call_command("import_policy", *given, stdout=io.StringIO(), stderr=io.StringIO())

    def exported(format: str, *more: str) -> str:
        out = io.StringIO()
        call_command("export_policy", "--policy", "demo", "--format", format, *more, stdout=out, stderr=io.StringIO())
        return out.getvalue()

    assert exported("sacctmgr", "--against", str(dump)) == dump.read_text()
    operation = {"op": "set_shares", "entry": "/physics/hep", "shares": 5}
    publish_operations(policy_slug="demo", operations=[operation], reason="r", at=now(), actor=COMMAND)
    wanted = dump.read_text().replace("Organization='science':Fairshare=3\n", "Organization='science':Fairshare=5\n")
    assert exported("sacctmgr", "--against", str(dump)) == wanted
    script = exported("sacctmgr-script", "--against", str(dump)).splitlines()
    assert script[1:] == ["modify account where name=hep cluster=demo set fairshare=5"]
    with pytest.raises(CommandError, match="sacctmgr-script can"):
        exported("csv", "--against", str(dump))
    with pytest.raises(CommandError, match="can't be read"):
        exported("sacctmgr", "--against", str(tmp_path / "none"))


@pytest.mark.django_db
def test_a_slurm_tree_is_mapped_by_associations(golden_dir: Path) -> None:
    make_source(NewSource(slug="demo", name="demo", namespace="slurm"), at=now(), actor=COMMAND)
    dump = golden_dir / "slurm/samples/sacctmgr-dump-demo.cfg"
    given = ("--policy", "demo", "--format", "sacctmgr", str(dump), "--make", "--map", "--publish", "--reason", "r")
    _, err = run("import_policy", *given)
    assert "1 mapping rule added" in err
    (rule,) = MappingRule.objects.all()
    assert (rule.kind, rule.namespace, rule.suffix) == ("association", "slurm", "")
    _, err = run("import_policy", *given)
    assert "there already" in err
    MappingRule.objects.update(namespace="typo")
    _, err = run("import_policy", *given[:5])
    assert "Rule 1: Matches nothing: no account has the namespace typo." in err


@pytest.mark.django_db
def test_one_command_imports_tree_algorithm_decay_and_mapping_of_a_slurm_site(golden_dir: Path, file: Write) -> None:
    make_source(NewSource(slug="demo", name="demo", namespace="slurm"), at=now(), actor=COMMAND)
    dump, config = golden_dir / "slurm/samples/sacctmgr-dump-demo.cfg", golden_dir / "slurm/config/classic.txt"
    given = ("--policy", "demo", "--format", "sacctmgr", str(dump), "--slurm-config", str(config))
    _, err = run("import_policy", *given, "--make", "--map", *ACTIVE)
    assert "  PriorityDecayHalfLife=1-12:30:00: Decay function Slurm" in err
    assert "! AccountingStorageEnforce=none: Without limits" in err
    settings = PolicySettings.from_json(Revision.objects.get(policy__slug="demo", number=2).settings)
    assert settings.algorithm == {"name": "slurm-classic", "damping_factor": 1}
    wanted = {"aging": "slurm", "length_s": None, "half_life_s": 131_400, "calc_period_s": 300}
    assert {key: settings.window[key] for key in wanted} == wanted
    assert settings.metric["weights"] == {"billing": 1.0}
    assert MappingRule.objects.get().kind == "association"
    out, _ = run("import_policy", *given, "--json")
    assert json.loads(out)["is_same"]
    assert {line["name"] for line in json.loads(out)["slurm_config"]} >= {"PriorityFlags", "PriorityCalcPeriod"}
    out, err = run("import_policy", *given, "--dry-run", "--json")
    start = "! phase_s=22: Slurm's periods start some seconds after BOOT_TIME"  # 07:35:21, and a second
    (line,) = [line for line in err.splitlines() if line.startswith(start)]
    assert "`manage.py scheduler setup`, given these outputs and that of sshare -a -P -l -m" in line
    assert json.loads(out)["slurm_config"][-1]["name"] == "phase_s"
    error = refused("import_policy", *given[:-1], file("PriorityType=priority/basic\nPriorityDecayHalfLife=x\n"))
    assert (error.returncode, "line 2" in str(error) or "PriorityDecayHalfLife" in str(error)) == (2, True)


def test_a_class_factor_without_matching_jobs_is_reported(grid: Policy, file: Write) -> None:
    JobClass.objects.create(queue="", partition="cpu", qos="")
    factors = [{"partition": name, "queue": "", "qos": "", "factor": 2.0} for name in ("cpu", "gpu")]
    document = {"settings": {"metric": {"class_factors": factors}}, "root": TREE}
    _, err = run("import_policy", "--policy", "grid", "--format", "json", *ACTIVE, file(json.dumps(document)))
    assert [line for line in err.splitlines() if "no job" in line] == [
        "The factor of partition gpu matches no job so far."
    ]


def used_by_path() -> dict[str, float]:
    """CPU-seconds of all accounts by the path of their entry."""
    policy = Policy.objects.get()
    tree, accounts = load_tree(policy), load_account_index(use_cache=False)
    entries = load_rule_set(policy, tree).on(tree).resolve_many(accounts.keys)
    rows = dict(Bucket.objects.values_list("account").annotate(Sum("cpu_s")))
    used: dict[str, float] = {}
    for pk, entry in zip(accounts.ids.tolist(), entries.tolist(), strict=True):
        used[tree.path(entry)] = used.get(tree.path(entry), 0.0) + float(rows.get(pk, 0.0))
    return used


@pytest.mark.django_db
def test_a_login_in_another_letter_case_counts_at_its_association(golden_dir: Path) -> None:
    field = golden_dir / "field"
    _, err = run(
        "import_policy", "--policy", "c1", "--format", "sacctmgr", "--make", *ACTIVE, "--map", field / "m01_case.cfg"
    )
    assert "1 mapping rule added" in err
    run("import_usage", "--source", "c1", "--format", "sacct", field / "m01_case.sacct")
    used = used_by_path()
    assert used == {"/phys/jdoe": 14_400.0, "/phys/u2": 800.0}
    _, err = run("import_policy", "--policy", "c1", "--format", "sacctmgr", field / "m01_case.cfg")
    assert "3 of 3 accounts of the usage sources map to entries" in err
    assert "letter case" not in err


@pytest.mark.django_db
def test_after_map_the_hint_names_what_is_left_to_do(golden_dir: Path) -> None:
    field = golden_dir / "field"
    given = ("--policy", "c1", "--format", "sacctmgr", field / "m01_case.cfg")
    run("import_usage", "--source", "c1", "--format", "sacct", field / "s11_other.sacct")
    _, err = run("import_policy", *given, "--make", *ACTIVE)
    assert "import with --publish --map" in err
    _, err = run("import_policy", *given, *ACTIVE, "--map")
    assert "0 of 1 accounts" in err
    assert "--publish --map" not in err
    assert "The tree has no entries of their names: add them" in err


@pytest.mark.django_db
def test_a_file_after_map_is_the_file(golden_dir: Path) -> None:
    dump = golden_dir / "field/m01_case.cfg"
    given = ("--policy", "c1", "--format", "sacctmgr", "--make", *ACTIVE)
    _, err = run("import_policy", *given, "--map", dump)
    assert "1 mapping rule added" in err
    with pytest.raises(CommandError, match="Name the file to import"):
        run("import_policy", *given)
    with pytest.raises(CommandError, match="namespace"):
        run("import_policy", dump, *given, "--map", "nowhere")


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["e01_stree.txt", "e02_backslash.txt"])
def test_the_leaf_default_counts_users_that_a_share_tree_lacks(golden_dir: Path, name: str) -> None:
    field = golden_dir / "field"
    _, err = run("import_policy", "--policy", "ge", "--format", "ge", "--make", *ACTIVE, "--map", field / name)
    assert "1 mapping rule added" in err
    assert MappingRule.objects.get().kind == "share_tree"
    run("import_usage", "--source", "ge", "--format", "gridengine", field / "e01_usage.accounting")
    assert used_by_path() == {"/P1/u1": 3_600.0, "/P1/default": 7_200.0, "/default": 7_200.0}


@pytest.mark.django_db
def test_a_login_in_another_letter_case_is_named_by_both_imports(golden_dir: Path, file: Write) -> None:
    """Rules of other schedulers keep letter case: JDoe counts at phys, beside an idle jdoe."""
    tree = file("path,kind\n/phys,group\n/phys/jdoe,user\n/phys/u2,user\n")
    given = ("--policy", "c1", "--format", "csv", tree, "--make", *ACTIVE, "--map")
    run("import_policy", *given)
    usage = ("--source", "c1", "--format", "sacct", golden_dir / "field/m01_case.sacct")
    _, err = run("import_usage", *usage)
    likely = "is not named like an entry, but /phys/{} differs by letter case alone"
    assert "JDoe · phys " + likely.format("jdoe") in err
    assert "u2 · PHYS " + likely.format("u2") in err
    out, _ = run("import_usage", *usage, "--json")
    assert {(one["user"], one["likely"]) for one in json.loads(out)["other_case"]} == {
        ("JDoe", "/phys/jdoe"),
        ("u2", "/phys/u2"),
    }
    _, err = run("import_policy", *given)
    assert "JDoe · phys " + likely.format("jdoe") in err
