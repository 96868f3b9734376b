"""Cached finished days, from which readers of sums get their numbers."""

from __future__ import annotations

import sys
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest

from apps.priorities import visibility as settled
from tests.instants import AT
from tests.worlds import _caches


def test_a_reused_snapshot_id_of_another_tree_is_another_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a database was restored, or in the next database of a test process."""
    monkeypatch.setattr(settled, "_amounts", lambda _policy, snapshot: f"amounts of {snapshot.tree.digest}")
    snapshots: list[Any] = [
        SimpleNamespace(snapshot_id=1, computed_at=AT, tree=SimpleNamespace(digest=digest)) for digest in ("a", "b")
    ]
    policy: Any = None
    memory = settled._AmountsCache()
    for _ in range(2):
        found: list[Any] = [memory.of(policy, each) for each in snapshots]
        assert found == ["amounts of a", "amounts of b"]


def test_the_days_asked_for_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(settled, "_amounts", lambda _policy, snapshot: asked.append(snapshot.snapshot_id))
    policy: Any = None
    memory, n = settled._AmountsCache(), settled._MOST_CACHED_SIGHTS + 3
    for number in (*range(n), n - 1, 0):
        day: Any = SimpleNamespace(snapshot_id=number, computed_at=AT, tree=SimpleNamespace(digest="a"))
        memory.of(policy, day)
    assert asked == [*range(n), n - 1, 0]
    assert len(memory._known) == settled._MOST_CACHED_SIGHTS


def test_caches_are_cleared_between_databases() -> None:
    """`forget_process` clears what objects hold; a class would hold its memory for all of them."""
    assert any(held is settled._amounts_cache._known for held in _caches(len(sys.modules)))
    held_by_classes = [
        f"{name}.{value.__name__}.{attribute}"
        for name, module in list(sys.modules.items())
        if name.startswith("apps.")
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith("apps.")
        for attribute, held in vars(value).items()
        if isinstance(held, OrderedDict)
    ]
    assert held_by_classes == []
