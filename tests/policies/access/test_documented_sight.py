"""Who sees and divides what the documentation says, on random sites: against tests/oracles/visible_entries.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.contrib.auth.models import Group
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import User
from apps.policies import services
from apps.policies.access.authority import FOREVER, GrantedRights
from apps.policies.access.scope import list_own_levels, named_accounts, visible_entries
from apps.policies.files.document import read_document
from apps.policies.models import Grant, Policy
from apps.policies.tree.columns import TreeColumns
from tests.examples import examples
from tests.instants import AT
from tests.oracles import visible_entries as oracle
from tests.policies.conftest import person

pytestmark = pytest.mark.django_db

UIDS = [UUID(int=number) for number in range(1, 13)]
ELSEWHERE = UUID(int=99)  # an entry of no tree
VERBS = [verb.value for verb in Grant.Verb]
SCOPES = ["self:read", "usage:write", "schedulers", "priorities:read", "policies:read", "policies:write", "admin"]
EARLIER, LATER = AT - timedelta(hours=1), AT + timedelta(hours=1)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """At most twelve entries on five levels, as in a policy file; many inherit."""
    root: dict[str, Any] = {"name": "grid", "uid": str(UIDS[0]), "children": []}
    root["shares"] = draw(st.sampled_from([1, 1, "parent"]))
    inner = [(root, 0)]
    for number, uid in enumerate(UIDS[1:]):
        above, depth = draw(st.sampled_from(inner))
        kind = draw(st.sampled_from(["group", "group", "group", "user", "reserve"]))
        inherits = kind != "reserve" and draw(st.booleans())
        entry: dict[str, Any] = {"name": f"e{number}", "uid": str(uid), "kind": kind}
        entry["shares"] = "parent" if inherits else 1
        above["children"].append(entry)
        if kind == "group" and depth < 4:
            entry["children"] = []
            inner.append((entry, depth + 1))
    return root


grants = st.lists(
    st.builds(
        oracle.Grant,
        st.sampled_from(["grid", "grid", "grid", "other"]),
        st.sampled_from([*UIDS, ELSEWHERE]),
        st.frozensets(st.sampled_from(VERBS), min_size=1, max_size=3),
        st.sampled_from(["", "reader", "reader", "someone"]),
        st.sampled_from(["staff", "board", "*"]),
        st.sampled_from([None, EARLIER, AT, AT + timedelta(seconds=1), LATER]),
    ),
    max_size=4,
)
readers = st.builds(
    oracle.Reader,
    st.just("reader"),
    st.just(frozenset({"staff"})),
    st.sampled_from([False, False, True]),
    st.none() | st.frozensets(st.sampled_from(SCOPES), min_size=1, max_size=2),
    st.sampled_from([None, None, *UIDS, ELSEWHERE]),
).map(
    lambda reader: (
        reader if reader.scopes is not None else oracle.Reader("reader", reader.groups, reader.is_admin, None, None)
    )
)


@pytest.fixture
def other(policy: Policy) -> Policy:
    return services.make_policy(slug="other", name="Other", at=AT, actor=person("maker", is_admin=True))


@pytest.fixture
def people(db: None) -> dict[str, User]:
    made = {name: User.objects.create_user(username=name) for name in ("reader", "someone")}
    made["reader"].groups.add(Group.objects.create(name="staff"))
    made["someone"].groups.add(Group.objects.create(name="board"))
    return made


def stored(grant: oracle.Grant, policies: dict[str, Policy], people: dict[str, User]) -> Grant:
    return Grant(
        policy=policies[grant.policy],
        entry_uid=grant.uid,
        user=people.get(grant.person),
        people=grant.people,
        role=Grant.Role.LEAD,
        verbs=sorted(grant.verbs),
        created_at=EARLIER,
        expires_at=grant.expires_at,
    )


def as_stored(drawn: list[oracle.Grant]) -> list[oracle.Grant]:
    """For a person or for people, and one for each at an entry, as the database has them."""
    each_for_one = [replace(grant, people="") if grant.person else grant for grant in drawn]
    return list({(each.policy, each.uid, each.person, each.people): each for each in each_for_one}.values())


def paths(tree: TreeColumns, mask: Any) -> set[str]:
    return {tree.path(i) for i in np.flatnonzero(mask).tolist()}


A_GROUP_WITHOUT_A_LIST_OF_CHILDREN = {
    "name": "grid",
    "uid": str(UIDS[0]),
    "children": [{"name": "e0", "uid": str(UIDS[1]), "kind": "group", "shares": 1}],
}


@pytest.mark.deep
@given(
    documents(),
    grants.map(as_stored),
    readers,
    st.frozensets(st.sampled_from(UIDS), max_size=2),
    st.booleans(),
    st.frozensets(st.sampled_from(UIDS[1:]), max_size=3),
)
@example(
    document=A_GROUP_WITHOUT_A_LIST_OF_CHILDREN,
    grants=[oracle.Grant("grid", UIDS[0], frozenset({"view_aggregate"}), "", "staff", None)],
    reader=oracle.Reader("reader", frozenset({"staff"}), is_admin=False, scopes=None, top=None),
    own=frozenset(),
    is_open=False,
    locked=frozenset(),
)
@example(
    document=A_GROUP_WITHOUT_A_LIST_OF_CHILDREN,
    grants=[oracle.Grant("grid", UIDS[0], frozenset({"map_accounts", "edit_shares"}), "reader", "", None)],
    reader=oracle.Reader("reader", frozenset({"staff"}), is_admin=False, scopes=frozenset({"usage:write"}), top=None),
    own=frozenset(),
    is_open=False,
    locked=frozenset(),
)
@example(
    document=A_GROUP_WITHOUT_A_LIST_OF_CHILDREN,
    grants=[oracle.Grant("grid", ELSEWHERE, frozenset({"view_members"}), "reader", "", None)],
    reader=oracle.Reader("reader", frozenset({"staff"}), False, scopes=frozenset({"admin"}), top=ELSEWHERE),
    own=frozenset({UIDS[1]}),
    is_open=False,
    locked=frozenset(),
)
@examples(2_000, fixed=250, suppress=[HealthCheck.function_scoped_fixture])
def test_a_reader_sees_and_divides_what_the_documentation_says(
    policy: Policy,
    other: Policy,
    people: dict[str, User],
    document: dict[str, Any],
    grants: list[oracle.Grant],
    reader: oracle.Reader,
    own: frozenset[UUID],
    is_open: bool,
    locked: frozenset[UUID],
) -> None:
    tree = read_document({"policy": "grid", "root": document}).tree
    tree = tree.with_values(locked=np.array([tree.uuid(i) in locked for i in range(len(tree))], dtype=np.bool_))
    root = oracle.tree_of(document)
    for entry in root.entries():
        entry.is_locked = entry.uid in locked
    right = oracle.Sight("grid", root, reader, grants, AT, is_open=is_open, own=own)
    Grant.objects.all().delete()
    Grant.objects.bulk_create(stored(each, {"grid": policy, "other": other}, people) for each in grants)
    policy.visibility = Policy.Visibility.TREE if is_open else Policy.Visibility.PATH
    user = people["reader"]
    user.is_superuser = reader.is_admin
    bounds = None if reader.scopes is None else TokenBounds("fsh_x", reader.scopes, "grid", reader.top)
    actor = Actor(user, "page" if bounds is None else "api", bounds)
    at = {entry.path for entry in root.entries()}

    def documented(question: Any) -> set[str]:
        return {entry.path for entry in root.entries() if question(entry)}

    indices = [i for i in range(len(tree)) if tree.uuid(i) in own]
    sight = visible_entries(policy=policy, tree=tree, actor=actor, at=AT, own_entries=indices)
    assert paths(tree, sight.mask) == documented(right.sees)
    assert paths(tree, sight.outright) == documented(right.numbers)
    assert paths(tree, sight.names_below) == documented(right.names_below)
    assert paths(tree, sight.divided) == documented(right.divides)
    assert {tree.path(i) for i in range(len(tree)) if sight.may_change(i)} == documented(right.changes)
    assert sight.all_visible is (documented(right.sees) == at)
    assert sight.shows_all_numbers is (documented(right.sees) == documented(right.numbers) == at)
    named = named_accounts(policy=policy, tree=tree, actor=actor, at=AT)
    assert paths(tree, named) == documented(right.names_accounts)
    levels = list_own_levels(policy=policy, tree=tree, actor=actor, at=AT)
    assert [tree.path(i) for i in levels] == right.own_levels()
    rights = GrantedRights.of_actor(policy, actor, AT)
    for entry in root.entries():
        for verb in ("delegate", "edit_shares"):
            until = rights.until(verb, [each.uid for each in entry.lineage])
            assert ("always" if until == FOREVER else until) == right.holds_until(verb, entry)
