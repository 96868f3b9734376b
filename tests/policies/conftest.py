"""A small policy and three people: alice rules the site, bob is authority of physics, charlie has no grant."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.policies import services
from apps.policies.access.authority import VERBS_OF_ROLE
from apps.policies.models import Grant, Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
GRID = {
    "root": {
        "name": "grid",
        "children": [
            {
                "name": "physics",
                "kind": "vo",
                "shares": 30,
                "children": [
                    {"name": "alice", "kind": "user", "shares": 1},
                    {"name": "bob", "kind": "user", "shares": 3},
                ],
            },
            {
                "name": "biology",
                "kind": "vo",
                "shares": 50,
                "children": [{"name": "lab", "kind": "group", "children": []}],
            },
            {"name": "reserve", "kind": "reserve", "shares": 20},
        ],
    }
}


def person(name: str, *, is_admin: bool = False) -> Actor:
    return Actor(user=User.objects.create_user(username=name, is_superuser=is_admin), via="page")


@pytest.fixture
def policy(db: None) -> Policy:
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    services.publish_document(policy_slug="grid", document=GRID, reason="The start.", at=AT, actor=COMMAND)
    return Policy.objects.get(slug="grid")


@pytest.fixture
def tree(policy: Policy) -> TreeColumns:
    return load_tree(policy)


@pytest.fixture
def alice(db: None) -> Actor:
    return person("alice", is_admin=True)


@pytest.fixture
def bob(policy: Policy, tree: TreeColumns) -> Actor:
    actor = person("bob")
    physics = tree.index_of_path("/physics")
    assert physics is not None
    assert actor.user is not None
    Grant.objects.create(
        policy=policy,
        entry_uid=tree.uuid(physics),
        user=actor.user,
        role=Grant.Role.MANAGER,
        verbs=list(VERBS_OF_ROLE[Grant.Role.MANAGER]),
        created_at=AT,
    )
    return actor


@pytest.fixture
def charlie(db: None) -> Actor:
    return person("charlie")
