"""A small policy and three people: alice rules the site, bob is authority of physics, charlie has no grant."""

from __future__ import annotations

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.grants import make_grant
from tests.lock_order import _one_order_of_locks, lock_watch  # noqa: F401 - fixtures


def person(name: str, *, is_admin: bool = False) -> Actor:
    return Actor(user=User.objects.create_user(username=name, is_superuser=is_admin), via="page")


@pytest.fixture
def policy(published_policy: Policy) -> Policy:
    return published_policy


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
