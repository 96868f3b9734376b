"""What a change would move, counted from the revision that it starts from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from apps.accounts.actor import SYSTEM
from apps.priorities import change_effects
from apps.priorities.change_effects import simulate_operations
from apps.priorities.selectors.rows import open_view
from apps.priorities.serving import store
from tests.priority_site import PROJECTS, Site, make_site  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


def _moves(site: Site, name: str, shares: float) -> list[dict[str, Any]]:
    view = open_view(policy_slug=site.slug, actor=SYSTEM)
    at = view.tree.index_of_path(name)
    assert at is not None
    moves = simulate_operations(view, [{"op": "set_shares", "entry": str(view.tree.uuid(at)), "shares": shares}])
    assert moves is not None
    return moves


def _with_shares(**shares: float) -> list[dict[str, Any]]:
    return [{**project, "shares": shares[project["name"]]} for project in PROJECTS]


def test_moves_of_what_was_published_last_are_not_those_of_the_next_change(make_site: Callable[..., Site]) -> None:  # noqa: F811
    """Between a publication and its recompute, the numbers that are served are those of the revision before."""
    site = make_site()
    site.publish(_with_shares(physics=1, biology=1))
    site.map()
    site.job("alice", "physics", 10)
    site.job("carol", "biology", 5)
    site.recompute()
    store.poll()
    swapping = _moves(site, "/physics", 9)
    assert swapping, "nine times the shares move ranks"
    site.publish(_with_shares(physics=9, biology=1))
    assert _moves(site, "/physics", 9) == [], "the same again moves nobody"
    back = _moves(site, "/physics", 1)
    site.recompute()
    store.poll()
    assert back == _moves(site, "/physics", 1)
    assert [each["entry"] for each in back] == [each["entry"] for each in swapping]


def test_moves_of_a_large_tree_are_computed_once_until_what_they_follow_from_changes(
    make_site: Callable[..., Site],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = make_site()
    site.publish(_with_shares(physics=1, biology=1))
    site.map()
    site.job("alice", "physics", 10)
    site.job("carol", "biology", 5)
    site.recompute()
    store.poll()
    small = [_moves(site, "/physics", shares) for shares in (9, 2)]
    monkeypatch.setattr(change_effects, "_MANY_ENTRIES", 1)
    with patch.object(change_effects, "_simulate", wraps=change_effects._simulate) as simulate:
        assert [_moves(site, "/physics", shares) for shares in (9, 2, 9, 2)] == [*small, *small]
        assert simulate.call_count == 2
        site.job("carol", "biology", 500)
        site.recompute()
        store.poll()
        assert _moves(site, "/physics", 9) != small[0]
        assert simulate.call_count == 3
        site.publish(_with_shares(physics=9, biology=1))
        assert _moves(site, "/physics", 9) == []
        assert simulate.call_count == 4
    view = open_view(policy_slug=site.slug, actor=SYSTEM)
    entry = str(view.tree.uuid(1))
    assert simulate_operations(view, [{"op": "set_shares", "entry": entry, "shares": 10**30}]) is None
