"""Which groups a user manages, and what of a division counts."""

from __future__ import annotations

import pytest

from apps.accounts.actor import COMMAND, SYSTEM, Actor, TokenBounds
from apps.policies.models import Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.requests.group_division import (
    Division,
    MemberTerms,
    latest_divisions,
    list_managed_groups,
    manages_any_group,
    operations_of,
)
from apps.policies.tree.columns import TreeColumns
from tests.instants import AT
from tests.policies.requests.test_share_requests import grant, lead, uid_of  # noqa: F401 - lead is a fixture


def managed(actor: Actor) -> list[str]:
    return [group.path for group in list_managed_groups(at=AT, actor=actor)]


def test_archived_groups_are_managed_by_nobody(policy: Policy, lead: Actor) -> None:  # noqa: F811
    grant(policy, "/biology/lab", lead)
    publish_operations(
        policy_slug="grid",
        operations=[{"op": "archive", "entry": "/physics"}],
        reason="r",
        at=AT,
        actor=COMMAND,
    )
    assert managed(lead) == ["/biology/lab"]


@pytest.mark.parametrize(("bound", "paths"), [("/", ["/biology/lab", "/physics"]), ("/biology", ["/biology/lab"])])
def test_a_token_lists_groups_in_its_subtree(
    policy: Policy,
    tree: TreeColumns,
    lead: Actor,  # noqa: F811
    bound: str,
    paths: list[str],
) -> None:
    grant(policy, "/biology/lab", lead)
    token = TokenBounds("fsh_x", frozenset({"policies:read"}), "", uid_of(tree, bound))
    assert managed(Actor(lead.user, "api", token)) == paths


def test_only_active_users_with_a_grant_of_shares_manage_groups(policy: Policy, lead: Actor, charlie: Actor) -> None:  # noqa: F811
    assert [manages_any_group(at=AT, actor=actor) for actor in (lead, charlie, COMMAND, SYSTEM)] == [
        True,
        False,
        False,
        False,
    ]
    assert lead.user is not None
    lead.user.is_active = False
    assert not manages_any_group(at=AT, actor=lead)


def test_who_is_no_user_has_divided_nothing(policy: Policy, tree: TreeColumns) -> None:
    physics = uid_of(tree, "/physics")
    operation = {"op": "set_shares", "entry": "/physics/bob", "shares": 9}
    publish_operations(policy_slug="grid", operations=[operation], reason="r", at=AT, actor=COMMAND)
    assert list(latest_divisions(policy, physics, COMMAND)) == []


def test_the_terms_of_a_member_that_leaves_are_ignored(tree: TreeColumns) -> None:
    physics = tree.index_of_path("/physics")
    assert physics is not None
    alice, bob = uid_of(tree, "/physics/alice"), uid_of(tree, "/physics/bob")
    division = Division({alice: MemberTerms(9.0), bob: MemberTerms(-1.0)}, leaves=[bob])
    found = operations_of(tree, physics, division, AT.date())
    assert [(each["op"], each["entry"]) for each in found] == [("set_shares", str(alice)), ("archive", str(bob))]
