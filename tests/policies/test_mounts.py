"""Below a mount only its own authority changes anything, whatever the way by which a change comes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from apps.accounts.actor import COMMAND, SYSTEM
from apps.core.errors import Conflict, Invalid, NotAllowed
from apps.policies import services
from apps.policies.changesets.change_sets import ChangeSetAccess, settings_of
from apps.policies.files.import_export import FileImport, import_policy
from apps.policies.formats.registry import dropped, get_format, read_file
from apps.policies.models import ChangeSet, Entry, Policy
from apps.policies.operations.apply import tree_after
from apps.policies.publishing.direct import propose_mounted_tree, publish_automatic, publish_operations
from apps.policies.publishing.revert import revert_revision
from apps.policies.publishing.revisions import lock_policy
from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree
from apps.policies.tree.difference import operations_between
from apps.policies.tree.document_merge import next_revision
from apps.policies.tree.stored import load_tree, node_of
from apps.policies.tree.terms import MountedPublication
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.conftest import person

VO_A = MountedPublication("vo-a.example", "vo-a")
MOUNT = {"op": "mount", "entry": "/physics", "mount": VO_A.to_json()}


def publish(*operations: dict[str, Any]) -> TreeColumns:
    publish_operations(policy_slug="grid", operations=operations, reason="Because.", at=AT, actor=COMMAND)
    return load_tree(Policy.objects.get(slug="grid"))


@pytest.fixture
def mounted(policy: Policy) -> TreeColumns:
    return publish(MOUNT)


def test_an_entry_names_the_authority_of_its_children(mounted: TreeColumns, policy: Policy) -> None:
    physics = mounted.index_of_path("/physics")
    assert mounted.mount == {physics: VO_A}
    assert node_of(Entry.objects.get(policy=policy, name="physics", until=None)).mount == VO_A
    assert unpack_tree(*pack_tree(mounted)).same_as(mounted)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "set_shares", "entry": "/physics/bob", "shares": 9},
        {"op": "rename", "entry": "/physics/bob", "name": "robert"},
        {"op": "archive", "entry": "/physics/bob"},
        {"op": "add", "parent": "/physics", "name": "carol", "kind": "user"},
        {"op": "move", "entry": "/physics/bob", "parent": "/biology"},
        {"op": "move", "entry": "/biology", "parent": "/physics"},
        {"op": "lock", "entry": "/physics/bob", "locked": True},
        {"op": "set_kind", "entry": "/physics/bob", "kind": "group"},
        {"op": "set_scope", "entry": "/physics/bob", "scope": "global"},
        {"op": "set_dates", "entry": "/physics/bob", "dates": {"ends_on": "2027-01-01"}},
        {"op": "set_members", "entry": "/physics", "members": [{"people": "x"}]},
        {"op": "set_members", "entry": "/physics/bob", "members": [{"people": "x"}]},
        {"op": "mount", "entry": "/physics/bob", "mount": VO_A.to_json()},
    ],
)
def test_no_operation_reaches_below_a_mount(mounted: TreeColumns, operation: dict[str, Any]) -> None:
    with pytest.raises(NotAllowed, match=r"maintained by vo-a\.example") as refused:
        publish(operation)
    assert refused.value.code == "mounted"


def test_the_mount_entry_stays_local(mounted: TreeColumns) -> None:
    tree = publish(
        {"op": "set_shares", "entry": "/physics", "shares": 45},
        {"op": "rename", "entry": "/physics", "name": "fysik"},
        {"op": "lock", "entry": "/fysik", "locked": True},
    )
    at = tree.index_of_path("/fysik")
    assert at is not None
    assert (tree.shares[at], tree.mount[at]) == (45, VO_A)
    assert tree.index_of_path("/fysik/bob") is not None
    publish({"op": "move", "entry": "/fysik", "parent": "/biology"})
    publish({"op": "archive", "entry": "/biology/fysik"})


def test_usage_below_a_mount_is_corrected_by_the_site_that_measured_it(mounted: TreeColumns) -> None:
    correction = {
        "op": "adjust_usage",
        "entry": "/physics/bob",
        "resource": "cpu_s",
        "amount_s": -10.0,
        "at": AT.isoformat(),
        "note": "An outage.",
    }
    publish(correction)


def test_after_unmounting_the_entries_are_local(mounted: TreeColumns) -> None:
    tree = publish({"op": "mount", "entry": "/physics", "mount": None})
    assert not tree.mount
    assert publish({"op": "archive", "entry": "/physics/bob"}).index_of_path("/physics/bob") is None


def test_mounts_do_not_nest_and_need_a_group_without_rules(policy: Policy) -> None:
    publish({"op": "set_members", "entry": "/biology", "members": [{"people": "bio"}]}, MOUNT)
    for entry in ("/reserve", "/biology", "/"):
        with pytest.raises(Invalid):
            publish({"op": "mount", "entry": entry, "mount": VO_A.to_json()})
    for wrong in ({}, {"issuer": "vo-a.example"}, {"issuer": "VO A", "publication": "x"}, "vo-a", 7):
        with pytest.raises(Invalid):
            publish({"op": "mount", "entry": "/biology/lab", "mount": wrong})


def test_a_file_keeps_mounts_and_changes_nothing_below_them(mounted: TreeColumns) -> None:
    yaml = get_format("yaml")
    text = "".join(yaml.write(mounted, settings_of(Policy.objects.get(slug="grid"), mounted.number))).encode()
    assert read_file(yaml, text).tree.mount
    plan = import_policy(file=FileImport(policy_slug="grid", format="yaml", content=text), at=AT, actor=COMMAND)
    assert plan.plan.is_empty
    changed = text.replace(b"name: bob", b"name: robert")
    assert changed != text
    with pytest.raises(NotAllowed):
        import_policy(
            file=FileImport(policy_slug="grid", format="yaml", content=changed),
            publish=True,
            reason="x",
            at=AT,
            actor=COMMAND,
        )
    assert any("mounts of 1 entry" in line for line in dropped(get_format("csv"), mounted))


def test_a_whole_tree_with_changes_below_a_mount_is_refused(mounted: TreeColumns) -> None:
    policy = Policy.objects.get(slug="grid")
    free = tree_after(mounted, [{"op": "mount", "entry": "/physics", "mount": None}])
    other = tree_after(free, [{"op": "move", "entry": "/physics/bob", "parent": "/biology"}])
    other = tree_after(other, [MOUNT])
    settings = settings_of(policy, policy.head_number)
    following = next_revision(mounted, other, settings)
    with pytest.raises(NotAllowed, match="is below a mount"):
        services.replace_tree(lock_policy(policy.pk), following, "x", "import", COMMAND, AT)
    services.replace_tree(lock_policy(policy.pk), following, "x", "mount", SYSTEM, AT)
    assert load_tree(Policy.objects.get(slug="grid")).index_of_path("/biology/bob") is not None


def test_rules_and_dates_skip_entries_below_a_mount(mounted: TreeColumns, policy: Policy) -> None:
    operations = [
        {"op": "add", "parent": "/physics", "name": "carol", "kind": "user"},
        {"op": "add", "parent": "/biology", "name": "carol", "kind": "user"},
    ]
    publish_automatic(policy_id=policy.pk, operations=operations, origin="rule", reason="Rules.", at=AT)
    tree = load_tree(Policy.objects.get(slug="grid"))
    assert tree.index_of_path("/physics/carol") is None
    assert tree.index_of_path("/biology/carol") is not None


def test_tree_differences_include_mounts(mounted: TreeColumns) -> None:
    free = tree_after(mounted, [{"op": "mount", "entry": "/physics", "mount": None}])
    assert tree_after(mounted, operations_between(mounted, free)).same_as(free)
    assert tree_after(free, operations_between(free, mounted)).same_as(mounted)


def test_restoring_a_revision_before_a_mount_unmounts(mounted: TreeColumns) -> None:
    draft = revert_revision(policy_slug="grid", number=mounted.number, reason="Back.", at=AT, actor=COMMAND)
    services.publish_change_set(id=draft.pk, version=draft.version, at=AT, actor=COMMAND)
    assert not load_tree(Policy.objects.get(slug="grid")).mount


def proposed_below_physics(mounted: TreeColumns) -> ChangeSet:
    policy = Policy.objects.get(slug="grid")
    free = tree_after(mounted, [{"op": "mount", "entry": "/physics", "mount": None}])
    tree = tree_after(tree_after(free, [{"op": "archive", "entry": "/physics/bob"}]), [MOUNT])
    physics = mounted.uuid(mounted.index_of_path("/physics") or 0)
    with transaction.atomic():
        lock_policy(policy.pk)
        return propose_mounted_tree(policy=policy, tree=tree, mount_uid=physics, reason="Theirs.", at=AT)


@pytest.mark.parametrize(("path", "sees"), [("/physics", True), ("/", True), ("/biology", False)])
def test_a_proposal_of_a_mounted_document_is_shown_to_those_who_see_the_mount(
    mounted: TreeColumns, path: str, sees: bool
) -> None:
    change_set = proposed_below_physics(mounted)
    actor = person("dora")
    make_grant(actor.user, mounted.uuid(mounted.index_of_path(path) or 0), "admin")
    assert ChangeSetAccess(change_set.policy, actor, AT).may_see(change_set) == sees


def test_a_mounted_document_is_not_published_after_unmounting(mounted: TreeColumns) -> None:
    change_set = proposed_below_physics(mounted)
    publish({"op": "mount", "entry": "/physics", "mount": None})
    with pytest.raises(Conflict) as refused:
        services.publish_change_set(id=change_set.pk, version=change_set.version, at=AT, actor=COMMAND)
    assert refused.value.code == "mount_gone"
    assert load_tree(Policy.objects.get(slug="grid")).index_of_path("/physics/bob") is not None
