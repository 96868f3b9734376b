"""Where a right comes from: the entries above, groups of people, and several locks of one person."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Group

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.policies.access.authority import GrantDependencies, Lineages
from apps.policies.models import Grant, Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.grants import make_grant
from tests.policies.changesets.test_rebase import publish
from tests.policies.conftest import person


def uid_of(tree: TreeColumns, path: str) -> UUID:
    i = tree.index_of_path(path)
    assert i is not None, path
    return tree.uuid(i)


def test_an_archived_entry_keeps_the_lineage_that_it_had(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    expected = tuple(uid_of(tree, path) for path in ("/", "/biology", "/biology/lab"))
    assert Lineages(policy, tree).of(expected[-1]) == expected
    publish(alice, {"op": "archive", "entry": "/biology"})
    policy.refresh_from_db()
    lineages = Lineages(policy, load_tree(policy))
    assert (lineages.is_archived(expected[-1]), lineages.of(expected[-1])) == (True, expected)
    unknown = uuid4()
    assert (lineages.of(unknown), lineages.last_name(unknown)) == ((unknown,), "")


@pytest.mark.parametrize("is_member", [True, False])
def test_a_grant_of_a_group_of_people_supports_what_its_members_grant(
    policy: Policy, tree: TreeColumns, bob: Actor, is_member: bool
) -> None:
    Grant.objects.all().delete()
    assert bob.user is not None
    if is_member:
        bob.user.groups.add(Group.objects.create(name="oidc:physics"))
    physics = uid_of(tree, "/physics")
    of_bob = make_grant(bob.user, physics, "admin")
    of_people = make_grant(None, physics, "admin", people="oidc:physics")
    given = make_grant(person("dora").user, physics, "viewer", granted_by=bob.user)
    dependencies = GrantDependencies([of_bob, of_people, given], Lineages(policy, tree))
    assert dependencies.depending_on(of_bob) == ([] if is_member else [given])


def test_who_locked_several_entries_changes_them_together(policy: Policy, tree: TreeColumns, bob: Actor) -> None:
    paths = ("/physics/alice", "/physics/bob")
    changes = [{"op": "set_shares", "entry": path, "shares": 7} for path in paths]
    bess = person("bess")
    make_grant(bess.user, uid_of(tree, "/physics"))
    publish(bob, {"op": "lock", "entry": paths[0]})
    publish(bess, {"op": "lock", "entry": paths[1]})
    for actor in (bob, bess):
        with pytest.raises(NotAllowed) as refused:
            publish(actor, *changes)
        assert refused.value.code == "locked"
    publish(bess, {"op": "lock", "entry": paths[1], "locked": False})
    publish(bob, {"op": "lock", "entry": paths[1]})
    publish(bob, *changes)
    policy.refresh_from_db()
    after = load_tree(policy)
    assert [after.node(after.index_of_path(path) or 0).shares for path in paths] == [7, 7]
