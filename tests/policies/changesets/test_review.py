"""Approved, sent back, scheduled, rebased: what may follow what, and who may do it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.changesets import review as reviewing
from apps.policies.changesets.conflicts import EditConflict
from apps.policies.models import ChangeSet, Grant, Policy
from apps.policies.records import ChangeSetEdit, NewChangeSet
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.conftest import person

State = ChangeSet.State


def drafted(actor: Actor, *operations: dict[str, Any], **more: Any) -> ChangeSet:
    return services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, **more), at=AT, actor=actor
    )


def proposed(actor: Actor, *operations: dict[str, Any]) -> ChangeSet:
    draft = drafted(actor, *operations)
    return services.propose_change_set(id=draft.pk, version=draft.version, reason="Why not.", at=AT, actor=actor)


def shares(path: str, value: Any) -> dict[str, Any]:
    return {"op": "set_shares", "entry": path, "shares": value}


def shares_of(policy: Policy, path: str) -> float:
    policy.refresh_from_db()
    tree = load_tree(policy)
    at = tree.index_of_path(path)
    assert at is not None
    return float(tree.shares[at])


@pytest.fixture
def bess(policy: Policy, tree: TreeColumns, bob: Actor) -> Actor:
    """A second manager of physics."""
    actor = person("bess")
    make_grant(actor.user, Grant.objects.get(user=bob.user).entry_uid, policy=policy)
    return actor


def test_a_second_person_approves_and_the_author_publishes(policy: Policy, bob: Actor, bess: Actor) -> None:
    asked = proposed(bob, shares("/physics/alice", 9))
    approved = lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bess)
    assert approved.state == State.APPROVED
    assert [a.user_name for a in approved.approvals.all()] == ["bess"]
    services.publish_change_set(id=asked.pk, version=approved.version, at=AT, actor=bob)
    assert shares_of(policy, "/physics/alice") == 9


def test_users_cannot_approve_their_own_change_sets_or_exceed_their_rights(
    policy: Policy, bob: Actor, bess: Actor, alice: Actor, charlie: Actor
) -> None:
    asked = proposed(bob, shares("/physics/alice", 9))
    with pytest.raises(NotAllowed, match="own change set"):
        lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bob)
    with pytest.raises(NotFound):
        lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=charlie)
    wider = proposed(alice, shares("/biology", 9), shares("/physics/alice", 2))
    with pytest.raises((NotAllowed, NotFound)):
        lifecycle.approve_change_set(id=wider.pk, version=wider.version, at=AT, actor=bess)
    Grant.objects.filter(user=bess.user).update(verbs=["view_aggregate", "edit_shares", "publish"])
    with pytest.raises(NotAllowed):
        lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bess)


@pytest.mark.fault("F19")
def test_an_edit_revokes_the_approval(policy: Policy, bob: Actor, bess: Actor) -> None:
    asked = proposed(bob, shares("/physics/alice", 9))
    approved = lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bess)
    edited = services.update_change_set(
        id=asked.pk,
        version=approved.version,
        edit=ChangeSetEdit(operations=[shares("/physics/alice", 99)]),
        at=AT,
        actor=bob,
    )
    assert (edited.state, edited.approvals.count()) == (State.DRAFT, 0)


def test_drafts_and_stale_versions_cannot_be_approved(policy: Policy, bob: Actor, alice: Actor) -> None:
    draft = drafted(bob, shares("/physics/alice", 9))
    with pytest.raises(Conflict, match="draft"):
        lifecycle.approve_change_set(id=draft.pk, version=draft.version, at=AT, actor=alice)
    asked = services.propose_change_set(id=draft.pk, version=draft.version, reason="Why not.", at=AT, actor=bob)
    with pytest.raises(Stale):
        lifecycle.approve_change_set(id=draft.pk, version=draft.version, at=AT, actor=alice)
    assert asked.state == State.PROPOSED


def test_a_returned_change_set_is_a_draft_with_a_comment(policy: Policy, bob: Actor, bess: Actor) -> None:
    asked = proposed(bob, shares("/physics/alice", 9))
    back = lifecycle.request_changes(id=asked.pk, version=asked.version, text="Too much.", at=AT, actor=bess)
    assert back.state == State.DRAFT
    assert [comment.text for comment in back.comments.all()] == ["Too much."]
    with pytest.raises(Invalid, match=r"^Enter a comment\.$"):
        lifecycle.comment_on(id=asked.pk, text="  ", at=AT, actor=bob)
    found = lifecycle.comment_on(id=asked.pk, text="Less, then.", operation=0, at=AT, actor=bob)
    assert found.operation == 0
    with pytest.raises(Invalid, match="operation"):
        lifecycle.comment_on(id=asked.pk, text="Where?", operation=1, at=AT, actor=bob)


def test_a_scheduled_change_set_is_published_once_when_due(policy: Policy, bob: Actor) -> None:
    draft = drafted(bob, shares("/physics/alice", 9))
    due_at = AT + timedelta(days=3)
    set_for = lifecycle.schedule_change_set(
        id=draft.pk, version=draft.version, effective_at=due_at, reason="From Monday on.", at=AT, actor=bob
    )
    assert set_for.state == State.APPROVED
    assert lifecycle.publish_due(at=due_at - timedelta(seconds=1)) == []
    (revision,) = lifecycle.publish_due(at=due_at)
    assert (revision.author_name, revision.published_at) == ("bob", due_at)
    assert lifecycle.publish_due(at=due_at) == []
    assert shares_of(policy, "/physics/alice") == 9


def test_a_scheduled_change_set_needs_the_right_when_due(policy: Policy, bob: Actor) -> None:
    draft = drafted(bob, shares("/physics/alice", 9))
    due_at = AT + timedelta(days=3)
    lifecycle.schedule_change_set(
        id=draft.pk, version=draft.version, effective_at=due_at, reason="Later.", at=AT, actor=bob
    )
    Grant.objects.filter(user=bob.user).update(expires_at=AT + timedelta(days=1))
    assert lifecycle.publish_due(at=due_at) == []
    draft.refresh_from_db()
    assert (draft.state, draft.effective_at) == (State.PROPOSED, None)
    assert draft.held_for
    assert AuditEvent.objects.filter(verb="changeset.held").count() == 1
    assert shares_of(policy, "/physics/alice") == 1


def test_a_schedule_must_be_in_the_future(policy: Policy, bob: Actor) -> None:
    draft = drafted(bob, shares("/physics/alice", 9))
    with pytest.raises(Invalid, match="future"):
        lifecycle.schedule_change_set(id=draft.pk, version=draft.version, effective_at=AT, reason="x", at=AT, actor=bob)


@pytest.mark.fault("F19")
def test_a_rebase_asks_which_value_to_keep(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    mine = drafted(alice, shares("/physics", 40), shares("/biology", 60))
    services.change_shares(
        policy_slug="grid",
        entry_uid=tree.uuid(tree.index_of_path("/physics") or 0),
        shares=35,
        reason="Meanwhile.",
        at=AT,
        actor=alice,
    )
    with pytest.raises(EditConflict) as refused:
        lifecycle.rebase_change_set(id=mine.pk, version=mine.version, at=AT, actor=alice)
    (conflict,) = refused.value.conflicts
    assert (conflict.path, conflict.base, conflict.mine, conflict.theirs) == ("/physics", 30.0, 40.0, 35.0)
    key = f"{conflict.entry}:{conflict.field}"
    kept = lifecycle.rebase_change_set(id=mine.pk, version=mine.version, choices={key: "mine"}, at=AT, actor=alice)
    policy.refresh_from_db()
    assert (kept.base_number, len(kept.operations)) == (policy.head_number, 2)
    services.publish_change_set(id=mine.pk, version=kept.version, reason="Mine.", at=AT, actor=alice)
    assert (shares_of(policy, "/physics"), shares_of(policy, "/biology")) == (40, 60)


def test_choosing_theirs_drops_only_that_operation(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    mine = drafted(alice, shares("/physics", 40), shares("/biology", 60))
    physics = tree.uuid(tree.index_of_path("/physics") or 0)
    services.change_shares(policy_slug="grid", entry_uid=physics, shares=35, reason="Meanwhile.", at=AT, actor=alice)
    kept = lifecycle.rebase_change_set(
        id=mine.pk, version=mine.version, choices={f"{physics}:shares": "theirs"}, at=AT, actor=alice
    )
    assert [operation["shares"] for operation in kept.operations] == [60]
    services.publish_change_set(id=mine.pk, version=kept.version, reason="Both.", at=AT, actor=alice)
    assert (shares_of(policy, "/physics"), shares_of(policy, "/biology")) == (35, 60)


def test_a_kept_outcome_is_that_of_the_newest_edits(
    policy: Policy, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large tree it is kept between requests: until the draft, the policy or the minute changes."""
    monkeypatch.setattr(reviewing, "_MANY_ENTRIES", 1)
    draft = drafted(bob, shares("/physics/alice", 9))

    def shares_after(change_set: ChangeSet) -> float:
        review = reviewing.open_review(id=change_set.pk, actor=bob, at=AT)
        assert review.outcome is not None
        again = reviewing.open_review(id=change_set.pk, actor=bob, at=AT)
        assert again.outcome is review.outcome
        assert again.moves is review.moves
        at = review.after.index_of_path("/physics/alice")
        assert at is not None
        assert review.moves.new[at] != review.moves.old[at]
        return float(review.after.shares[at])

    assert shares_after(draft) == 9
    edit = ChangeSetEdit(operations=[shares("/physics/alice", 12)])
    draft = services.update_change_set(id=draft.pk, version=draft.version, edit=edit, at=AT, actor=bob)
    assert shares_after(draft) == 12
    other = drafted(bob, shares("/physics/bob", 50), reason="More.")
    services.publish_change_set(id=other.pk, version=other.version, at=AT, actor=bob)
    review = reviewing.open_review(id=draft.pk, actor=bob, at=AT)
    at = review.after.index_of_path("/physics/bob")
    assert at is not None
    assert review.after.shares[at] == 50, "it is compared with what was published meanwhile"
    assert shares_after(draft) == 12
