"""Large changes need a second person, on every way in; small ones and those of rules and dates don't."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core.errors import Conflict
from apps.policies import services
from apps.policies.access.authority import VERBS_OF_ROLE
from apps.policies.changesets import lifecycle
from apps.policies.models import Grant, Policy
from apps.policies.publishing import size_guard
from apps.policies.records import ChangeSetEdit
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.revision_diff import compare_targets
from apps.policies.tree.working_tree import columns_of
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.changesets.test_review import drafted, proposed, shares, shares_of
from tests.policies.conftest import person
from tests.policies.published import GRID
from tests.policies.share_trees import trees


def guard(policy: Policy, **limits: float | None) -> None:
    services.change_settings(policy_slug="grid", settings={"review": limits}, reason="Four eyes.", at=AT, actor=COMMAND)
    policy.refresh_from_db()


@pytest.fixture
def bess(policy: Policy, tree: TreeColumns, bob: Actor) -> Actor:
    actor = person("bess")
    entry_uid = Grant.objects.get(user=bob.user).entry_uid
    make_grant(actor.user, entry_uid, policy=policy)
    return actor


def publish(actor: Actor, *operations: dict[str, Any]) -> None:
    draft = drafted(actor, *operations)
    services.publish_change_set(id=draft.pk, version=draft.version, reason="Now.", at=AT, actor=actor)


def test_a_second_approval_is_needed_only_if_the_policy_requires_it(policy: Policy, bob: Actor) -> None:
    assert PolicySettings().review == {"points": None, "users": None}
    publish(bob, shares("/physics/alice", 1000))
    assert shares_of(policy, "/physics/alice") == 1000


def test_a_change_beyond_the_limit_needs_a_second_person(policy: Policy, bob: Actor, bess: Actor) -> None:
    guard(policy, points=5)
    publish(bob, shares("/physics/bob", 3.2))  # 75 % to 76.2 %
    with pytest.raises(Conflict, match="more than 5 points") as refused:
        publish(bob, shares("/physics/alice", 9))
    assert refused.value.code == "needs_approval"
    asked = proposed(bob, shares("/physics/alice", 9))
    approved = lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bess)
    services.publish_change_set(id=asked.pk, version=approved.version, at=AT, actor=bob)
    assert shares_of(policy, "/physics/alice") == 9


def test_direct_publishing_cannot_bypass_the_limit(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    guard(policy, points=5)
    physics = tree.uuid(tree.index_of_path("/physics") or 0)
    with pytest.raises(Conflict, match="second person"):
        services.change_shares(policy_slug="grid", entry_uid=physics, shares=90, reason="x", at=AT, actor=alice)
    document = {"root": {**GRID["root"], "children": GRID["root"]["children"][:1]}}
    with pytest.raises(Conflict, match="second person"):
        services.publish_document(policy_slug="grid", document=document, reason="x", at=AT, actor=alice)
    later = drafted(alice, shares("/physics", 90))
    with pytest.raises(Conflict, match="second person"):
        lifecycle.schedule_change_set(
            id=later.pk, version=later.version, effective_at=AT + timedelta(days=1), reason="x", at=AT, actor=alice
        )
    services.publish_document(policy_slug="grid", document=document, reason="By hand.", at=AT, actor=COMMAND)


def test_future_shares_count_toward_the_limit(policy: Policy, bob: Actor) -> None:
    guard(policy, points=5)
    dates = {"starts_on": "2026-12-01", "shares": 50}
    with pytest.raises(Conflict, match="second person"):
        publish(bob, {"op": "set_dates", "entry": "/physics/alice", "dates": dates})
    publish(bob, {"op": "set_dates", "entry": "/physics/alice", "dates": {"ends_on": "2026-12-01", "at_end": "keep"}})
    with pytest.raises(Conflict, match="second person"):
        publish(bob, {"op": "set_dates", "entry": "/physics/bob", "dates": {"ends_on": "2026-12-01", "at_end": "zero"}})


def test_raising_the_limit_needs_two_persons_and_lowering_it_one(policy: Policy, alice: Actor) -> None:
    guard(policy, points=5, users=100)
    for looser in ({"points": None}, {"points": 6}, {"users": 101}):
        with pytest.raises(Conflict, match="raises the limit"):
            publish(alice, {"op": "set_policy", "settings": {"review": looser}})
    publish(alice, {"op": "set_policy", "settings": {"review": {"points": 4}}})


def test_an_approval_counts_while_its_author_has_the_right(policy: Policy, bob: Actor, bess: Actor) -> None:
    guard(policy, points=5)
    asked = proposed(bob, shares("/physics/alice", 9))
    approved = lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bess)
    Grant.objects.filter(user=bess.user).update(verbs=["view_aggregate"])
    with pytest.raises(Conflict, match="second person"):
        services.publish_change_set(id=asked.pk, version=approved.version, at=AT, actor=bob)
    Grant.objects.filter(user=bess.user).update(verbs=list(VERBS_OF_ROLE[Grant.Role.MANAGER]))
    User.objects.filter(username="bess").update(is_active=False)
    with pytest.raises(Conflict, match="second person"):
        services.publish_change_set(id=asked.pk, version=approved.version, at=AT, actor=bob)


def test_two_approvals_coexist_and_an_edit_revokes_both(policy: Policy, bob: Actor, bess: Actor, alice: Actor) -> None:
    asked = proposed(bob, shares("/physics/alice", 9))
    once = lifecycle.approve_change_set(id=asked.pk, version=asked.version, at=AT, actor=bess)
    twice = lifecycle.approve_change_set(id=asked.pk, version=once.version, at=AT, actor=alice)
    assert {each.user_name for each in size_guard.second_persons(twice, AT)} == {"alice", "bess"}
    edited = services.update_change_set(
        id=asked.pk,
        version=twice.version,
        edit=ChangeSetEdit(operations=[shares("/physics/alice", 10)]),
        at=AT,
        actor=bob,
    )
    assert size_guard.second_persons(edited, AT) == []


def counts(n: int) -> size_guard.RankCount:
    return lambda *_change: size_guard.RankMoves(n, is_exact=True)


def test_leaves_that_change_rank_are_counted_by_priorities(
    policy: Policy, alice: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard(policy, users=2)
    monkeypatch.setattr(size_guard, "_rank_counts", [counts(2)])
    publish(bob, shares("/physics/alice", 9))
    monkeypatch.setattr(size_guard, "_rank_counts", [counts(3)])
    with pytest.raises(Conflict, match="3 leaves change rank"):
        publish(alice, shares("/physics/alice", 2))
    with pytest.raises(Conflict, match="More leaves change rank; one person may change 2"):
        publish(bob, shares("/physics/alice", 2))  # doesn't see all leaves
    monkeypatch.setattr(size_guard, "_rank_counts", [lambda *_change: None])
    publish(bob, shares("/physics/alice", 2))  # no ranks yet: two targets move


def test_a_first_member_dilutes_no_one_and_a_second_does(policy: Policy, alice: Actor) -> None:
    guard(policy, points=5)
    publish(alice, {"op": "add", "parent": "/biology/lab", "name": "eva", "kind": "user", "shares": 1})
    with pytest.raises(Conflict, match="second person"):
        publish(alice, {"op": "add", "parent": "/biology/lab", "name": "ada", "kind": "user", "shares": 1})
    with pytest.raises(Conflict, match="second person"):
        publish(alice, {"op": "archive", "entry": "/physics/alice"})


def _slow_targets(tree: TreeColumns) -> dict[Any, float]:
    """Of the whole, of trees without inherited shares, one entry after the other."""
    found = {tree.uuid(0): 1.0}
    for i in range(len(tree)):
        children = list(tree.children(i))
        total = sum(float(tree.shares[child]) for child in children)
        for child in children:
            part = float(tree.shares[child]) / total if total else 0.0
            found[tree.uuid(child)] = found[tree.uuid(i)] * part
    return found


@given(tree=trees(), data=st.data())
def test_moved_targets_equal_the_oracle(tree: TreeColumns, data: st.DataObject) -> None:
    before = columns_of(replace(node, shares=node.shares or 1.0) for node in tree.nodes())
    numbers = st.floats(0, 1e6)
    after = columns_of(
        replace(node, shares=data.draw(numbers)) if node.parent_uid and data.draw(st.booleans()) else node
        for node in before.nodes()
    )
    moves = compare_targets(before, after)
    was, is_now = _slow_targets(before), _slow_targets(after)
    for i in range(1, len(after)):
        uid = after.uuid(i)
        assert moves.old_global[i] == pytest.approx(was[uid], abs=1e-9)
        assert moves.new_global[i] == pytest.approx(is_now[uid], abs=1e-9)
    assert moves.furthest >= 100 * max((abs(is_now[uid] - was[uid]) for uid in was), default=0) - 1e-6
    assert compare_targets(after, after).furthest == 0
