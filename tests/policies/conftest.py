"""A small policy and three people: alice rules the site, bob is authority of physics, charlie has no grant."""

from __future__ import annotations

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.policies import services
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.grants import make_grant
from tests.instants import AT
from tests.lock_order import _one_order_of_locks, lock_watch  # noqa: F401 - fixtures

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
    make_grant(actor.user, tree.uuid(physics), policy=policy)
    return actor


@pytest.fixture
def charlie(db: None) -> Actor:
    return person("charlie")
