from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import User
from tests.lock_order import _one_order_of_locks  # noqa: F401 - fixture
from tests.lock_order import watch_of_changes as lock_watch  # noqa: F401 - fixture


@pytest.fixture
def at() -> datetime:
    return datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create_user("alice", "alice@example.org", "a long pass phrase")


@pytest.fixture
def eva(db: None) -> User:
    return User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase")


@pytest.fixture
def as_alice(alice: User) -> Actor:
    return Actor(user=alice, via="page")


@pytest.fixture
def as_eva(eva: User) -> Actor:
    return Actor(user=eva, via="page")
