"""Deciding about change sets: by whom, when due, on a newer head, and where their comments stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, Invalid, NotFound
from apps.policies import services
from apps.policies.access.scope import Verb
from apps.policies.changesets import drafts, lifecycle
from apps.policies.changesets.change_sets import anchors
from apps.policies.changesets.outcomes import effect_of
from apps.policies.changesets.review import MOST_NAMED_DECIDERS, Which, list_of_change_sets, review_of, waits_for
from apps.policies.models import ChangeSet, Grant, Policy
from apps.policies.records import ChangeSetEdit
from tests.instants import AT
from tests.policies.changesets.test_rebase import publish, rebase
from tests.policies.changesets.test_review import bess, drafted, proposed, shares, shares_of  # noqa: F401 - bess
from tests.policies.conftest import person

DUE = AT + timedelta(days=3)
State = ChangeSet.State


def test_a_draft_is_not_sent_back(policy: Policy, alice: Actor, bob: Actor) -> None:
    draft = drafted(bob, shares("/physics/alice", 9))
    with pytest.raises(Conflict) as refused:
        lifecycle.request_changes(id=draft.pk, version=draft.version, text="Less.", at=AT, actor=alice)
    assert refused.value.code == "not_proposed"
    assert not draft.comments.exists()


def test_a_change_set_that_nobody_published_for_its_date_is_held(policy: Policy, bob: Actor, bess: Actor) -> None:  # noqa: F811
    draft = drafted(bob, shares("/physics/alice", 9), effective_at=DUE)
    asked = services.propose_change_set(id=draft.pk, version=draft.version, reason="Later.", at=AT, actor=bob)
    lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bess)
    assert lifecycle.publish_due(at=DUE) == []
    asked.refresh_from_db()
    assert (asked.state, asked.effective_at, bool(asked.held_for)) == (State.PROPOSED, None, True)
    assert shares_of(policy, "/physics/alice") == 1


def test_what_a_deleted_user_scheduled_is_held(policy: Policy, bob: Actor, bess: Actor) -> None:  # noqa: F811
    asked = proposed(bob, shares("/physics/alice", 9))
    lifecycle.schedule_change_set(id=asked.pk, version=asked.version, effective_at=DUE, at=AT, actor=bess)
    assert bess.user is not None
    bess.user.delete()
    assert lifecycle.publish_due(at=DUE) == []
    asked.refresh_from_db()
    assert (asked.state, bool(asked.held_for)) == (State.PROPOSED, True)
    assert shares_of(policy, "/physics/alice") == 1


def test_a_rebase_that_drops_all_operations_is_refused(policy: Policy, alice: Actor) -> None:
    mine = drafted(alice, shares("/physics", 40))
    publish(alice, shares("/physics", 35))
    entry = mine.operations[0]["entry"]
    with pytest.raises(Invalid) as refused:
        rebase(mine, alice, choices={f"{entry}:shares": "theirs"})
    assert refused.value.code == "nothing_to_change"
    mine.refresh_from_db()
    assert len(mine.operations) == 1


def test_an_unknown_change_set_is_not_found(policy: Policy, alice: Actor) -> None:
    with pytest.raises(NotFound):
        lifecycle.approve_change_set(id=0, version=1, at=AT, actor=alice)


def test_comments_stay_with_their_operations_and_else_with_the_change_set(policy: Policy, alice: Actor) -> None:
    asked = proposed(alice, shares("/physics", 31), shares("/biology", 51), shares("/reserve", 21))
    for n in range(3):
        lifecycle.comment_on(id=asked.pk, text=f"On {n}.", operation=n, at=AT, actor=alice)
    edit = ChangeSetEdit(operations=[shares("/physics", 32), shares("/reserve", 21)])
    services.update_change_set(id=asked.pk, version=asked.version, edit=edit, at=AT, actor=alice)
    assert [each.operation for each in asked.comments.order_by("pk")] == [0, None, 1]


def test_an_added_entry_is_the_same_while_its_parent_and_name_are(policy: Policy) -> None:
    added = {"op": "add", "parent": "/physics", "name": "new", "shares": 1}
    assert anchors([added], [shares("/physics", 2), added | {"shares": 3}]) == {0: 1}
    assert anchors([added], [added | {"name": "other"}]) == {0: None}
    assert anchors([added], [added | {"parent": "/biology"}]) == {0: None}


def test_a_change_set_waits_until_it_is_approved_or_published(policy: Policy, bob: Actor, bess: Actor) -> None:  # noqa: F811
    Grant.objects.filter(user=bess.user).update(verbs=["view_aggregate", "approve"])
    draft = drafted(bob, shares("/physics/alice", 9))
    assert not waits_for(draft, actor=bess, at=AT)
    asked = services.propose_change_set(id=draft.pk, version=draft.version, reason="r", at=AT, actor=bob)
    assert (waits_for(asked, actor=bess, at=AT), waits_for(asked, actor=bob, at=AT)) == (True, False)
    approved = lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bess)
    assert not waits_for(approved, actor=bess, at=AT)


def test_withdrawn_change_sets_are_listed_apart(policy: Policy, alice: Actor) -> None:
    open_, gone = drafted(alice, shares("/physics", 31)), drafted(alice, shares("/physics", 32))
    services.withdraw_change_set(id=gone.pk, version=gone.version, at=AT, actor=alice)
    expected: dict[Which, list[ChangeSet]] = {"open": [open_], "mine": [open_], "withdrawn": [gone]}
    for which, listed in expected.items():
        assert list_of_change_sets(policy=policy, which=which, actor=alice, at=AT) == listed


def test_a_few_people_are_named_who_may_publish_and_none_for_very_large_changes(policy: Policy, bob: Actor) -> None:
    for n in range(MOST_NAMED_DECIDERS + 1):
        person(f"admin{n}", is_admin=True)
    draft = drafted(bob, shares("/physics/alice", 9))
    found = review_of(draft, at=AT).people_who_may(Verb.PUBLISH)
    assert [user.username for user in found] == [f"admin{n}" for n in range(MOST_NAMED_DECIDERS)]
    many = drafted(bob, *[shares("/physics/alice", 2 + n) for n in range(501)])
    assert review_of(many, at=AT).people_who_may(Verb.PUBLISH) == []


def test_anyone_who_edits_may_publish_an_empty_draft(policy: Policy, bob: Actor) -> None:
    review = review_of(drafts.open_draft(policy_slug="grid", at=AT, actor=bob), at=AT)
    assert review.why_not_publish(bob) is None
    assert review.account_moves(bob).n == 0


def test_the_effect_of_a_new_group_begins_without_targets(policy: Policy, alice: Actor) -> None:
    operations: list[dict[str, Any]] = [
        {"op": "add", "parent": "/", "name": "climate", "kind": "vo", "shares": 100},
        {"op": "add", "parent": "/climate", "name": "eva", "kind": "user", "shares": 3},
    ]
    effect = effect_of(drafted(alice, *operations), actor=alice, at=AT)
    targets = {each["path"]: (each["target_before"], each["target_after"]) for each in effect["effective"]}
    assert (targets["/climate"], targets["/climate/eva"]) == ((None, 0.5), (None, 1.0))
    assert targets["/physics"] == (0.3, 0.15)


def test_the_effect_shows_no_targets_where_an_entry_inherits(policy: Policy, alice: Actor) -> None:
    effect = effect_of(drafted(alice, shares("/physics", "parent")), actor=alice, at=AT)
    targets = {each["path"]: (each["target_before"], each["target_after"]) for each in effect["effective"]}
    assert targets == {"/physics": (0.3, None), "/biology": (0.5, None), "/reserve": (0.2, None)}
