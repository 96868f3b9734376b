from __future__ import annotations

import pytest

from apps.priorities import served

pytestmark = pytest.mark.django_db


def test_actuals_priorities_and_ranks_of_a_small_site(site) -> None:
    snapshot = site.recompute()
    got = served.newest("grid")
    assert got.snapshot_id == snapshot.pk
    print(got.lookup(["alice", "bob", "carol", "dan", "nobody"]))
