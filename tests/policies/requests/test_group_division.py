"""A lead divides the own group, and nothing outside it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import Conflict, DomainError, Invalid, NotFound
from apps.policies import services
from apps.policies.models import Policy
from apps.policies.operations.apply import tree_after
from apps.policies.operations.dated_shares import is_boost
from apps.policies.publishing.direct import apply_dates
from apps.policies.records import NewChangeSet
from apps.policies.requests.group_division import (
    Division,
    MemberTerms,
    NewMember,
    divide_group,
    equal_terms,
    latest_divisions,
    list_managed_groups,
    operations_of,
    undo_division,
)
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import Dates
from apps.policies.tree.working_tree import columns_of
from tests.examples import examples
from tests.instants import AT
from tests.policies.requests.test_share_requests import grant, lead, shares_at, uid_of  # noqa: F401 - lead is a fixture
from tests.policies.share_trees import trees

TODAY = AT.date()
UTC_ZONE = ZoneInfo("UTC")


def divide(policy: Policy, actor: Actor, path: str = "/physics", **division: Any) -> Any:
    policy.refresh_from_db()
    wanted = Division(division.pop("terms", {}), **division)
    entry = uid_of(load_tree(policy), path)
    return divide_group(policy_slug="grid", entry_uid=entry, division=wanted, reason="r", at=AT, actor=actor)


def member(policy: Policy, path: str) -> UUID:
    found: UUID = uid_of(load_tree(policy), path)
    return found


def node_at(policy: Policy, path: str) -> Node:
    policy.refresh_from_db()
    tree = load_tree(policy)
    i = tree.index_of_path(path)
    assert i is not None, path
    return tree.node(i)


def test_several_members_change_in_one_revision(policy: Policy, lead: Actor) -> None:  # noqa: F811
    alice, bob = member(policy, "/physics/alice"), member(policy, "/physics/bob")
    done = divide(policy, lead, terms={alice: MemberTerms(2.0), bob: MemberTerms(5.0)})
    assert done.revision.number == 3
    assert len(done.change_set.operations) == 2
    assert (shares_at(policy, "/physics/alice"), shares_at(policy, "/physics/bob")) == (2.0, 5.0)


def test_a_boost_ends_automatically_with_the_former_shares(policy: Policy, lead: Actor) -> None:  # noqa: F811
    alice, ends_on = member(policy, "/physics/alice"), TODAY + timedelta(days=25)
    divide(policy, lead, terms={alice: MemberTerms(4.0, ends_on)})
    assert node_at(policy, "/physics/alice").dates == Dates(ends_on=ends_on, at_end=1.0)
    divide(policy, lead, terms={alice: MemberTerms(6.0, ends_on)})  # more while it lasts: still back to 1
    assert node_at(policy, "/physics/alice").dates == Dates(ends_on=ends_on, at_end=1.0)
    assert apply_dates(at=AT + timedelta(days=25), zone=UTC_ZONE) == []
    assert len(apply_dates(at=AT + timedelta(days=26), zone=UTC_ZONE)) == 1
    assert node_at(policy, "/physics/alice").shares == 1.0
    assert node_at(policy, "/physics/alice").dates is None


def test_a_boost_is_ended_early(policy: Policy, lead: Actor) -> None:  # noqa: F811
    alice = member(policy, "/physics/alice")
    divide(policy, lead, terms={alice: MemberTerms(4.0, TODAY)})
    divide(policy, lead, terms={alice: MemberTerms(1.0, None)})
    assert (node_at(policy, "/physics/alice").shares, node_at(policy, "/physics/alice").dates) == (1.0, None)


def test_equal_shares_for_all_members_end_boosts(policy: Policy, lead: Actor) -> None:  # noqa: F811
    alice = member(policy, "/physics/alice")
    divide(policy, lead, terms={alice: MemberTerms(9.0, TODAY + timedelta(days=5))})
    tree = load_tree(policy)
    nodes = [tree.node(j) for j in tree.children(tree.index_of_path("/physics") or 0)]
    divide(policy, lead, terms=equal_terms(nodes))
    assert shares_at(policy, "/physics/alice") == shares_at(policy, "/physics/bob") == 3.0
    assert node_at(policy, "/physics/alice").dates is None


def test_other_dates_are_not_changed(policy: Policy, lead: Actor) -> None:  # noqa: F811
    dates = {"ends_on": "2027-03-31", "at_end": "archive"}
    operations = [{"op": "set_dates", "entry": "/physics/alice", "dates": dates}]
    draft = services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=COMMAND
    )
    services.publish_change_set(id=draft.pk, version=1, at=AT, actor=COMMAND)
    policy.refresh_from_db()
    alice = member(policy, "/physics/alice")
    with pytest.raises(Conflict) as refused:
        divide(policy, lead, terms={alice: MemberTerms(4.0, TODAY)})
    assert refused.value.code == "has_dates"
    divide(policy, lead, terms={alice: MemberTerms(4.0)})
    kept = node_at(policy, "/physics/alice").dates
    assert kept is not None
    assert kept.at_end == "archive"
    assert not is_boost(kept)


def test_a_lead_without_tree_rights_proposes_new_members(policy: Policy, lead: Actor, bob: Actor) -> None:  # noqa: F811
    alice = member(policy, "/physics/alice")
    sent = divide(policy, lead, joins=[NewMember("dora")], terms={alice: MemberTerms(2.0)})
    assert sent.revision is None
    assert sent.change_set.state == "proposed"
    assert "physics" in sent.why
    assert shares_at(policy, "/physics/alice") == 1.0
    done = divide(policy, bob, joins=[NewMember("dora", 2.0), NewMember("emil")], leaves=[alice])
    assert done.revision is not None
    policy.refresh_from_db()
    tree = load_tree(policy)
    names = [tree.name[j] for j in tree.children(tree.index_of_path("/physics") or 0)]
    assert names == ["bob", "dora", "emil"]


def test_a_large_change_becomes_a_proposal(policy: Policy, lead: Actor) -> None:  # noqa: F811
    guard = {"review": {"points": 5.0, "users": None}}
    services.change_settings(policy_slug="grid", settings=guard, reason="r", at=AT, actor=COMMAND)
    sent = divide(policy, lead, terms={member(policy, "/physics/alice"): MemberTerms(50.0)})
    assert (sent.revision, sent.change_set.state) == (None, "proposed")
    assert "second person" in sent.why


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        (MemberTerms(-1.0), Invalid),
        (MemberTerms(float("nan")), Invalid),
        (MemberTerms(2.0, TODAY - timedelta(days=1)), Invalid),
        (MemberTerms(1.0), Invalid),
    ],
)
def test_invalid_divisions_are_refused(
    policy: Policy,
    lead: Actor,  # noqa: F811
    terms: MemberTerms,
    error: type[DomainError],
) -> None:
    with pytest.raises(error):
        divide(policy, lead, terms={member(policy, "/physics/alice"): terms})
    assert load_tree(policy).number == 2


def test_only_members_of_the_group_are_changed_there(policy: Policy, lead: Actor, charlie: Actor) -> None:  # noqa: F811
    for path in ("/biology", "/physics"):
        with pytest.raises(NotFound):
            divide(policy, lead, terms={member(policy, path): MemberTerms(99.0)})
    with pytest.raises(NotFound):
        divide(policy, charlie, terms={member(policy, "/physics/alice"): MemberTerms(2.0)})
    with pytest.raises(NotFound):
        divide(policy, lead, leaves=[member(policy, "/biology")])


def test_the_author_undoes_a_division(policy: Policy, lead: Actor, bob: Actor) -> None:  # noqa: F811
    alice, physics = member(policy, "/physics/alice"), member(policy, "/physics")
    divide(policy, lead, terms={alice: MemberTerms(4.0, TODAY + timedelta(days=3))})
    assert [each.number for each in latest_divisions(policy, physics, lead)] == [3]
    assert list(latest_divisions(policy, physics, bob)) == []
    undo_division(policy_slug="grid", entry_uid=physics, number=3, at=AT, actor=lead)
    assert (node_at(policy, "/physics/alice").shares, node_at(policy, "/physics/alice").dates) == (1.0, None)
    assert list(latest_divisions(policy, physics, lead)) == []


def test_changes_of_others_are_not_undone_from_a_group(policy: Policy, lead: Actor) -> None:  # noqa: F811
    physics = member(policy, "/physics")
    services.change_shares(
        policy_slug="grid", entry_uid=member(policy, "/biology"), shares=60, reason="r", at=AT, actor=COMMAND
    )
    for number in (1, 2, 3, 99):
        with pytest.raises(NotFound):
            undo_division(policy_slug="grid", entry_uid=physics, number=number, at=AT, actor=lead)


def test_groups_are_those_with_a_grant_of_shares_at_them(policy: Policy, lead: Actor, charlie: Actor) -> None:  # noqa: F811
    grant(policy, "/biology", lead, ["view_aggregate"])
    grant(policy, "/biology/lab", lead)
    assert [group.path for group in list_managed_groups(at=AT, actor=lead)] == ["/biology/lab", "/physics"]
    assert list_managed_groups(at=AT, actor=charlie) == []
    assert list_managed_groups(at=AT, actor=COMMAND) == []


terms = st.builds(
    MemberTerms,
    st.one_of(st.none(), st.floats(0, 1e6), st.integers(0, 9).map(float)),
    st.none() | st.dates(TODAY, TODAY + timedelta(days=400)),
)
joins = st.lists(st.builds(NewMember, st.sampled_from(["ny", "xx", "å", "q"]), st.floats(0, 10)), max_size=2)


def outside(tree: TreeColumns, group: UUID) -> dict[UUID, tuple[float | None, UUID | None]]:
    """Target along the path and parent of everything that doesn't lie below the entry, itself included."""
    i = tree.index_of_uid(group)
    assert i is not None
    below = tree.subtree_mask(i)
    below[i] = False
    return {
        tree.uuid(j): (_target(tree, j), tree.uuid(int(tree.parent[j])) if j else None)
        for j in range(len(tree))
        if not below[j]
    }


def _target(tree: TreeColumns, j: int) -> float | None:
    """Independent of the product: shares over the sum of siblings, where none inherits."""
    product = 1.0
    while j:
        siblings: Sequence[int] = tree.children(int(tree.parent[j]))
        if any(tree.inherit[k] for k in siblings):
            return None
        total = sum(float(tree.shares[k]) for k in siblings)
        product *= float(tree.shares[j]) / total if total else 0.0
        j = int(tree.parent[j])
    return product


@given(data=st.data(), tree=trees(most=10))
@examples(150)
def test_dividing_a_group_moves_no_target_outside_it(data: st.DataObject, tree: TreeColumns) -> None:
    inner = [i for i in range(len(tree)) if len(tree.children(i)) and not (i and tree.inherit[i])]
    if not inner:
        return
    i = data.draw(st.sampled_from(inner))
    members = [tree.uuid(j) for j in tree.children(i)]
    division = Division(
        {uid: data.draw(terms) for uid in data.draw(st.lists(st.sampled_from(members), unique=True))},
        joins=data.draw(joins),
        leaves=data.draw(st.lists(st.sampled_from(members), unique=True, max_size=1)),
    )
    try:
        operations = operations_of(tree, i, division, TODAY)
        after = tree_after(tree, operations) if operations else tree
    except DomainError:
        return
    assert outside(after, tree.uuid(i)) == outside(tree, tree.uuid(i))


@given(data=st.data(), tree=trees(most=10))
def test_equalised_members_have_equal_targets(data: st.DataObject, tree: TreeColumns) -> None:
    i = data.draw(st.sampled_from(range(len(tree))))
    nodes = [tree.node(j) for j in tree.children(i)]
    operations = operations_of(tree, i, Division(equal_terms(nodes)), TODAY)
    after = tree_after(tree, operations) if operations else tree
    equal = [node for node in nodes if node.kind != "reserve" and node.shares is not None]
    equal = [node for node in equal if node.dates is None or is_boost(node.dates)]
    found = [after.node(after.index_of_uid(node.uid) or 0) for node in equal]
    assert len({node.shares for node in found}) <= 1
    assert all(node.dates is None and (node.shares or 0) > 0 for node in found)
    for node in nodes:
        if node not in equal:
            assert after.node(after.index_of_uid(node.uid) or 0) == replace(node)


def test_a_lead_changes_no_target_outside_the_group(policy: Policy, lead: Actor) -> None:  # noqa: F811
    """With the services and the rights of a real lead, in any order, and also with members of other groups."""
    published: list[int] = []

    @given(data=st.data())
    @examples(30, suppress=HealthCheck)
    def divides(data: st.DataObject) -> None:
        with transaction.atomic():
            for _ in range(3):
                policy.refresh_from_db()
                before = load_tree(policy)
                physics = before.index_of_path("/physics") or 0
                members = [before.uuid(j) for j in before.children(physics)]
                every = [before.uuid(j) for j in range(len(before))]
                uids = data.draw(st.lists(st.sampled_from([*members, *members, *every]), max_size=2))
                group = data.draw(st.sampled_from([before.uuid(physics)] * 4 + every))
                division = Division({uid: data.draw(terms) for uid in uids})
                try:
                    with transaction.atomic():
                        done = divide_group(
                            policy_slug="grid", entry_uid=group, division=division, reason="r", at=AT, actor=lead
                        )
                except DomainError:
                    continue
                published.extend([1] if done.revision else [])
                policy.refresh_from_db()
                assert outside(load_tree(policy), every[physics]) == outside(before, every[physics])
            transaction.set_rollback(True)

    divides()
    assert published


def test_past_days_are_decided_in_the_zone_of_the_site() -> None:
    tree = _one_member()
    yesterday = Division({tree.uuid(1): MemberTerms(2.0, date(2026, 11, 19))})
    assert operations_of(tree, 0, yesterday, date(2026, 11, 19))
    with pytest.raises(Invalid):
        operations_of(tree, 0, yesterday, date(2026, 11, 20))


def _one_member() -> TreeColumns:
    root, child = UUID(int=1), UUID(int=2)
    return columns_of([Node(root, None, "r"), Node(child, root, "a", "user", 1.0, is_group=False)])
