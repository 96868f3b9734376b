"""Drafts of a whole tree: as large a change as any other, and only for the tree that they were made on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import Conflict
from apps.policies import services
from apps.policies.changesets import drafts, lifecycle
from apps.policies.changesets.review import review_of
from apps.policies.files.document import read_document
from apps.policies.files.import_export import FileImport, import_policy
from apps.policies.models import ChangeSet, Policy, ProposedTree
from apps.policies.publishing.direct import propose_tree, publish_tree
from apps.policies.records import NewTree
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import merge_document
from apps.policies.tree.stored import load_tree
from tests.instants import AT
from tests.policies.conftest import person

WANTED = "path,kind,shares\n/physics,vo,90\n/biology,vo,10\n"


@pytest.fixture
def carla(db: None) -> Actor:
    return person("carla", is_admin=True)


@pytest.fixture
def guarded(policy: Policy) -> Policy:
    services.change_settings(
        policy_slug="grid", settings={"review": {"points": 5}}, reason="Four eyes.", at=AT, actor=COMMAND
    )
    policy.refresh_from_db()
    return policy


def wanted(policy: Policy, physics: float = 90) -> TreeColumns:
    children = [{"name": "physics", "kind": "vo", "shares": physics}, {"name": "biology", "kind": "vo", "shares": 10}]
    return merge_document(read_document({"root": {"name": "grid", "children": children}}), load_tree(policy))


def draft(policy: Policy, actor: Actor) -> ChangeSet:
    settings = PolicySettings.from_json({"review": {"points": 5}})
    return propose_tree(
        policy_slug="grid",
        new=NewTree(
            tree=wanted(policy),
            settings=settings,
            base_revision=policy.head_number,
            reason="A new division.",
            origin="import",
        ),
        at=AT,
        actor=actor,
    )


def publish(change_set: ChangeSet, actor: Actor) -> None:
    change_set.refresh_from_db()
    services.publish_change_set(id=change_set.pk, version=change_set.version, reason="Now.", at=AT, actor=actor)


def meanwhile(policy: Policy) -> None:
    lab = load_tree(policy).uuid(load_tree(policy).index_of_path("/biology/lab") or 0)
    services.change_shares(policy_slug="grid", entry_uid=lab, shares=2, reason="Meanwhile.", at=AT, actor=COMMAND)
    policy.refresh_from_db()


def test_a_large_whole_tree_waits_for_a_second_person(guarded: Policy, alice: Actor, carla: Actor) -> None:
    change_set = draft(guarded, alice)
    with pytest.raises(Conflict, match="more than 5 points"):
        publish(change_set, alice)
    services.propose_change_set(id=change_set.pk, version=change_set.version, at=AT, actor=alice)
    change_set.refresh_from_db()
    lifecycle.approve_change_set(id=change_set.pk, version=change_set.version, at=AT, actor=carla)
    publish(change_set, carla)
    guarded.refresh_from_db()
    assert load_tree(guarded).same_as(wanted(guarded))
    assert not ProposedTree.objects.exists()


def test_a_large_whole_tree_cannot_be_published_directly(
    guarded: Policy, alice: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.policies.files.import_export.MOST_APPLIED_OPERATIONS", 0)
    n_change_sets, head = ChangeSet.objects.count(), guarded.head_number
    with pytest.raises(Conflict, match="second person"):
        import_policy(
            file=FileImport(policy_slug="grid", format="csv", content=WANTED.encode()),
            publish=True,
            reason="x",
            at=AT,
            actor=alice,
        )
    with pytest.raises(Conflict, match="second person"):
        publish_tree(
            policy_slug="grid",
            new=NewTree(
                tree=wanted(guarded),
                settings=PolicySettings.from_json({"review": {"points": 5}}),
                base_revision=head,
                reason="x",
                origin="import",
            ),
            at=AT,
            actor=alice,
        )
    guarded.refresh_from_db()
    assert (ChangeSet.objects.count(), guarded.head_number) == (n_change_sets, head)
    assert not ProposedTree.objects.exists()


def test_a_whole_tree_on_an_old_revision_is_shown_but_not_published(policy: Policy, alice: Actor) -> None:
    change_set = draft(policy, alice)
    meanwhile(policy)
    review = review_of(change_set, at=AT)
    assert "It replaces the tree of revision 2, and 3 is current now" in review.problem
    assert review.outcome is not None
    assert lifecycle.open_conflicts(change_set, at=AT, actor=alice) == []
    with pytest.raises(Conflict, match="import the file again"):
        publish(change_set, alice)
    with pytest.raises(Conflict, match="import the file again"):
        lifecycle.rebase_change_set(id=change_set.pk, version=change_set.version, at=AT, actor=alice)
    policy.refresh_from_db()
    assert policy.head_number == 3
    assert load_tree(policy).index_of_path("/biology/lab") is not None


def test_a_scheduled_whole_tree_is_held_if_the_policy_changed(policy: Policy, alice: Actor) -> None:
    change_set = draft(policy, alice)
    at = AT + timedelta(days=1)
    lifecycle.schedule_change_set(
        id=change_set.pk, version=change_set.version, effective_at=at, reason="Tomorrow.", at=AT, actor=alice
    )
    meanwhile(policy)
    lifecycle.publish_due(at=at)
    change_set.refresh_from_db()
    assert change_set.state == "proposed"
    assert "import the file again" in change_set.held_for
    assert load_tree(policy).index_of_path("/biology/lab") is not None


def test_single_edits_cannot_be_added_to_a_whole_tree(policy: Policy, alice: Actor) -> None:
    change_set = draft(policy, alice)
    operation = {"op": "set_shares", "entry": "/physics", "shares": 1}
    with pytest.raises(Conflict, match="whole"):
        drafts.add_operations(id=change_set.pk, version=change_set.version, operations=[operation], at=AT, actor=alice)
    assert ProposedTree.objects.count() == 1
