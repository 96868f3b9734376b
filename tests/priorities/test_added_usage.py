"""Usage that was added between two snapshots: without decay, and all of it once the calendar has reset usage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.priorities.visibility import _added_usage
from tests.priority_site import AS_OF, PROJECTS, new_site

pytestmark = pytest.mark.django_db
HALVED = {"length_s": None, "aging": "exponential", "half_life_s": 86_400}


@pytest.mark.parametrize(
    ("window", "added_h"),
    [
        ({"length_s": None, "aging": "none", "reset": "daily", "reset_zone": "UTC"}, 8.0),
        ({**HALVED, "reset": "weekly", "reset_zone": "UTC"}, None),
    ],
    ids=["reset between", "decay, and no reset between"],
)
def test_after_a_reset_all_usage_that_counts_was_added(window: dict[str, Any], added_h: float | None) -> None:
    since = AS_OF - timedelta(days=9)
    site = new_site(at=since)
    site.publish(PROJECTS, {"window": window}, at=since)
    site.map(at=since)
    site.job("alice", "physics", 100, ago_h=20)  # of yesterday evening
    site.job("alice", "physics", 8, ago_h=3)
    before, now = (
        store.load_stored(site.slug, site.recompute(as_of).pk) for as_of in (AS_OF - timedelta(hours=14), AS_OF)
    )
    alice = load_tree(site.policy).index_of_path("/physics/alice")
    added_s = float(_added_usage(now, before)[alice])
    if added_h is None:
        assert 7.0 * 3_600 < added_s < 7.5 * 3_600  # three hours of decay
    else:
        assert added_s == added_h * 3_600
