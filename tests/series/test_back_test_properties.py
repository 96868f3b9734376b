"""Past days of random trees, usage and revisions under a draft: what was current is the stored series to the last bit,
and a draft moves the targets of the groups that it changes, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.engine.convergence import actual_share
from apps.series.back_test import back_test
from apps.series.back_test_runs import current_state
from apps.series.builder import Builder
from apps.series.daily_series import COMPETES, EXISTS, KNOWS_WAITING
from apps.series.days import Day, days_of, site_zone
from apps.series.stored_series import load_series
from apps.series.tiles import AMOUNTS
from tests.examples import examples, new_uid
from tests.priority_site import AS_OF, NO_AGING, WINDOW, Site, finished, new_site
from tests.priority_site import build_series as build
from tests.series.test_series import DAY, TODAY
from tests.worlds import forget_process

pytestmark = pytest.mark.django_db
N_DAYS = 5
GROUPS, USERS = ("astro", "bio", "chem"), ("ann", "ben", "cleo")
SETTINGS: tuple[dict[str, Any], ...] = (
    NO_AGING,
    WINDOW,
    {"window": {"length_s": None, "aging": "exponential", "half_life_s": 100_000}},
    {"window": {"length_s": 200_000, "aging": "step", "granularity_s": 40_000, "factor": 0.7}},
    {"window": {"length_s": None, "aging": "exponential", "half_life_s": 100_000, "reset": "weekly"}},
    {**WINDOW, "metric": {"weights": {"cpu_s": 2.0}}},
    {**WINDOW, "algorithm": {"name": "slurm-fair-tree"}},
)

shares = st.integers(1, 9)
trees = st.dictionaries(
    st.sampled_from(GROUPS),
    st.tuples(shares, st.dictionaries(st.sampled_from(USERS), shares, min_size=1)),
    min_size=2,
)
Tree = dict[str, tuple[int, dict[str, int]]]
revisions = st.lists(st.tuples(trees, st.sampled_from(SETTINGS)), min_size=2, max_size=3)
jobs = st.lists(
    st.tuples(st.sampled_from(GROUPS), st.sampled_from(USERS), st.integers(1, 40), st.integers(1, 24 * N_DAYS)),
    min_size=1,
    max_size=12,
    unique=True,
)


@contextmanager
def _world(
    published: Sequence[tuple[Tree, dict[str, Any]]], used: Sequence[tuple[str, str, int, int]]
) -> Iterator[Site]:
    """A site with these revisions, spread over its days, and its stored series; gone at the end."""
    with transaction.atomic():
        site = new_site(f"p{new_uid().hex[:12]}", at=AS_OF - 12 * DAY)
        for number, (tree, settings) in enumerate(published):
            site.publish(_document(tree), settings, at=AS_OF - (N_DAYS + 1 - number * 1.4) * DAY)
        site.map(at=AS_OF - 6 * DAY)
        site.jobs([finished(user, group, hours, ago_h=ago_h) for group, user, hours, ago_h in used])
        build(site)
        yield site
        transaction.set_rollback(True)
    forget_process()


def _document(tree: Tree) -> list[dict[str, Any]]:
    return [
        {
            "name": group,
            "kind": "group",
            "shares": amount,
            "children": [{"name": user, "kind": "user", "shares": n} for user, n in users.items()],
        }
        for group, (amount, users) in tree.items()
    ]


def _days() -> list[Day]:
    return days_of(TODAY - N_DAYS * DAY, TODAY - DAY, site_zone())


@pytest.mark.deep
@examples(60, suppress=HealthCheck, fixed=6)
@given(revisions, jobs)
def test_the_recorded_revisions_give_the_stored_series_to_the_last_bit(
    published: list[tuple[Tree, dict[str, Any]]], used: list[tuple[str, str, int, int]]
) -> None:
    with _world(published, used) as site:
        for built in Builder(site.policy, _days(), with_priorities=True).build(_days()):
            tree = built.context.tree
            uids = [tree.uuid(i) for i in range(len(tree))]
            stored = load_series(site.policy, uids, from_on=built.day.on, to_on=built.day.on)
            columns = built.values.columns
            flags = columns["flags"].astype(np.uint8)
            assert stored.days.revision.tolist() == [built.context.number]
            assert stored.days.root_decayed.tolist() == [built.values.root_decayed]
            for name in (*AMOUNTS, "n_active"):
                assert columns[name].tolist() == getattr(stored, name)[:, 0].tolist(), name
            for bit, name in ((EXISTS, "exists"), (COMPETES, "competes"), (KNOWS_WAITING, "knows_waiting")):
                assert ((flags & bit) > 0).tolist() == getattr(stored, name)[:, 0].tolist(), name


@pytest.mark.deep
@examples(60, suppress=HealthCheck, fixed=6)
@given(revisions, jobs, st.data())
def test_a_changed_share_moves_the_targets_of_its_siblings_and_no_others(
    published: list[tuple[Tree, dict[str, Any]]], used: list[tuple[str, str, int, int]], data: st.DataObject
) -> None:
    with _world(published, used) as site:
        head = current_state(site.policy)
        tree = head.tree
        same = back_test(site.policy, head, replace(head, number=0), _days())
        assert len(same.daily) == 0
        for name in ("days_on", "off", "rank"):
            np.testing.assert_array_equal(getattr(same, name), getattr(same, f"{name}_was"))
        i = data.draw(st.integers(1, len(tree) - 1))
        shares = tree.shares.copy()
        shares[i] = shares[i] * data.draw(st.sampled_from([0.25, 3.0, 10.0])) + 1
        draft = replace(head, number=0, tree=replace(tree, shares=shares, digest=""))
        tested = back_test(site.policy, head, draft, _days())
        siblings = sorted(tree.children(int(tree.parent[i])))
        moves = len(siblings) > 1 and shares[i] != tree.shares[i]
        assert tested.daily.tolist() == (siblings if moves else [])
        for row, entry in enumerate(tested.daily.tolist()):
            np.testing.assert_allclose(tested.target[row], shares[entry] / shares[siblings].sum(), rtol=1e-12)
            np.testing.assert_allclose(
                tested.target_was[row], tree.shares[entry] / tree.shares[siblings].sum(), rtol=1e-12
            )
        np.testing.assert_array_equal(tested.actual, tested.actual_was)
        for name in ("n_days", "off_was", "days_on_was", "rank_was", "is_idle"):  # whatever the draft is
            np.testing.assert_array_equal(getattr(tested, name), getattr(same, name))
        others = [n for n in range(1, len(tree)) if n not in siblings]
        for name in ("off", "days_on"):
            np.testing.assert_array_equal(getattr(tested, name)[others], getattr(same, name)[others])


@pytest.mark.deep
@examples(40, suppress=HealthCheck, fixed=6)
@given(revisions, jobs)
def test_days_since_the_head_was_published_are_those_of_the_stored_series(
    published: list[tuple[Tree, dict[str, Any]]], used: list[tuple[str, str, int, int]]
) -> None:
    with _world(published, used) as site:
        head, days = current_state(site.policy), _days()
        shares = head.tree.shares.copy()
        shares[1] += 1
        tested = back_test(
            site.policy, head, replace(head, number=0, tree=replace(head.tree, shares=shares, digest="")), days
        )
        uids = [head.tree.uuid(i) for i in tested.daily.tolist()]
        stored = load_series(site.policy, uids, from_on=days[0].on, to_on=days[-1].on)
        since = stored.days.revision == site.policy.head_number
        is_known = stored.competes & (stored.peers_decayed > 0)
        actual = np.where(is_known, actual_share(stored.decayed, stored.peers_decayed), np.nan)
        np.testing.assert_array_equal(tested.actual_was[:, since], actual[:, since])
        assert tested.target_was[:, since].tolist() == stored.target[:, since].tolist()
