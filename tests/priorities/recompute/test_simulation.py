"""What a change set leads to, now and later: against a slow twin, and against what then really is recomputed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.policies.files.document import read_document
from apps.policies.models import Policy
from apps.policies.operations.apply import tree_after
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.metering import APPROACHES, SourceRow
from apps.priorities.recompute.fingerprint import Fingerprint
from apps.priorities.recompute.pipeline import Inputs, compute, load_inputs
from apps.priorities.recompute.simulation import HORIZONS_DAYS, Changes, Projection, demand_of, project, usage_ahead
from apps.priorities.serving import store
from apps.priorities.usage_factors import JobClassRow
from apps.usage.arrays import OpenRecords, UsageArrays
from tests.examples import examples
from tests.oracles.projection import HOUR, Bucket, Job, used_ahead
from tests.priority_site import AS_OF, PROJECTS, Site, finished

NOW = datetime(2026, 11, 20, 12, 20, tzinfo=UTC)
NOW_S = NOW.timestamp()
FIRST_HOUR = NOW_S // HOUR * HOUR
SOURCES = (SourceRow(1, "here", ""), SourceRow(2, "there", "peer"))


def _inputs(buckets: list[Bucket], jobs: list[Job], policy_settings: PolicySettings) -> Inputs:
    def ints(values: Any) -> Any:
        return np.array(list(values), dtype=np.int64)

    def floats(values: Any) -> Any:
        return np.array(list(values), dtype=np.float64)

    none = np.zeros(len(buckets))
    idle = np.zeros(len(jobs))
    return Inputs(
        policy_pk=1,
        fingerprint=Fingerprint("p", 1, 1, {}, policy_settings.to_json(), "1", NOW),
        settings=policy_settings,
        tree=read_document({"policy": "p", "root": {"name": "p", "children": []}}).tree,
        rules=(),
        sources=SOURCES,
        classes={1: JobClassRow(1, "", "", "")},
        account_ids=ints([1, 2, 3]),
        account_keys=AccountKeys.of(AccountKey("", name) for name in "abc"),
        usage=UsageArrays(
            ints(b.account for b in buckets),
            ints(b.source for b in buckets),
            ints(1 for _ in buckets),
            ints(b.hour for b in buckets),
            floats(b.cpu_s for b in buckets),
            floats(b.gpu_s for b in buckets),
            none,
            none,
            none,
        ),
        opened=OpenRecords(
            ints(j.account for j in jobs),
            ints(j.source for j in jobs),
            ints(1 for _ in jobs),
            np.array([j.start is not None for j in jobs], dtype=np.bool_),
            floats(np.nan if j.start is None else j.start for j in jobs),
            floats(j.cpus for j in jobs),
            idle,
            idle,
            idle,
            idle,
            floats(np.nan if j.requested_s is None else j.requested_s for j in jobs),
        ),
    )


_windows = st.sampled_from(
    [
        {"length_s": None, "aging": "none"},
        {"length_s": 5 * 86_400, "aging": "none"},
        {"length_s": 40 * 86_400, "aging": "exponential", "half_life_s": 7 * 86_400},
        {"length_s": 20 * 86_400, "aging": "linear"},
        {"length_s": None, "aging": "step", "granularity_s": 86_400, "factor": 0.75},
    ]
)
_amounts = st.integers(0, 1_000_000).map(lambda n: n / 16)
_buckets = st.lists(
    st.builds(
        Bucket,
        st.integers(1, 3),
        st.integers(1, 2),
        st.integers(0, 24 * 30).map(lambda n: FIRST_HOUR - n * HOUR),
        _amounts,
        _amounts,
    ),
    max_size=8,
)
_starts = st.none() | st.integers(-3600, 20 * 86_400).map(lambda ago: NOW_S - ago)
_jobs = st.lists(
    st.builds(
        Job,
        st.integers(1, 3),
        st.integers(1, 2),
        _starts,
        st.integers(1, 64).map(float),
        st.none() | st.integers(1, 30 * 86_400).map(float),
    ),
    max_size=3,
)


@examples(40)
@given(_buckets, _jobs, _windows, st.sampled_from(APPROACHES), st.sampled_from(HORIZONS_DAYS))
def test_projected_usage_equals_the_sum_of_every_hour(
    buckets: list[Bucket], jobs: list[Job], window: dict[str, Any], approach: str, days: int
) -> None:
    weights = {"cpu_s": 1.0, "gpu_s": 3.0}
    policy_settings = PolicySettings.from_json({"window": window, "metric": {"weights": weights}})
    inputs = _inputs(buckets, jobs, policy_settings)
    demand = demand_of(inputs, policy_settings)
    ahead = usage_ahead(inputs, policy_settings, demand, days).by_approach[approach]
    slow = used_ahead(
        buckets, jobs, weights=weights, window=policy_settings.window, approach=approach, as_of=NOW_S, days=days
    )
    for account in (1, 2, 3):
        for source in (1, 2):
            wanted = slow.get((account, source), 0.0)
            assert ahead[account - 1, source - 1] == pytest.approx(wanted, rel=1e-9, abs=1e-6)


def _steady(site: Site, from_days: float, to_days: float) -> None:
    """Equal usage every hour: bob's is twice alice's, carol's comes from biology."""
    people = (("alice", "physics", 2), ("bob", "physics", 4), ("carol", "biology", 3))
    hours = range(int(from_days * 24), int(to_days * 24))
    site.jobs([finished(*person, ago_h=hour) for hour in hours for person in people])


def _projection(policy: Policy, *operations: dict[str, Any], wanted: dict[str, Any] | None = None) -> Projection:
    inputs = load_inputs(policy, as_of=AS_OF, from_at=AS_OF - timedelta(days=90))
    tree = load_tree(policy)
    after = tree_after(tree, operations) if operations else tree
    changed = PolicySettings.from_json(wanted or {}, base=inputs.settings)
    return project(inputs, Changes(tree, inputs.settings), Changes(after, changed))


def _by_path(policy: Policy, projection: Projection) -> dict[str, int]:
    tree = load_tree(policy)
    at = {tree.uuid(i).bytes: tree.path(i) for i in range(len(tree))}
    return {at[uid.tobytes()]: n for n, uid in enumerate(projection.uid)}


SEVEN = HORIZONS_DAYS.index(7)
WEEK = {"window": {"length_s": 60 * 86_400, "aging": "exponential", "half_life_s": 2 * 86_400}}


def test_a_week_of_constant_usage_agrees_with_the_projection(make_site: Any) -> None:
    site: Site = make_site()
    site.publish(PROJECTS, WEEK)
    site.map()
    site.job("dan", "biology", 5000, ago_h=20)  # ahead of its share for a while, then forgotten
    _steady(site, 0, 14)
    change = {"op": "set_shares", "entry": "/physics", "shares": 10}
    found = _projection(site.policy, change)
    where = _by_path(site.policy, found)
    _steady(site, -7, 0)  # the week that follows
    later = AS_OF + timedelta(days=7)
    inputs = load_inputs(site.policy, as_of=later)
    tree = load_tree(site.policy)
    for side, ranks, factors in (
        (tree, found.rank_without, found.factor_without),
        (tree_after(tree, [change]), found.rank_with, found.factor_with),
    ):
        really = compute(replace(inputs, tree=side)).result
        for path, n in where.items():
            i = side.index_of_path(path)
            assert i is not None
            # dan's last day counts in his demand of two weeks, and he runs nothing any more
            if path != "/biology/dan":
                assert ranks[SEVEN][n] == really.rank[i], path
                assert factors[SEVEN][n] == pytest.approx(really.factor[i])


def test_without_a_change_both_projections_are_equal(site: Site) -> None:
    found = _projection(site.policy)
    assert np.array_equal(found.rank_with, found.rank_without)
    assert np.array_equal(found.factor_with, found.factor_without)
    assert found.n_moved == 0


def test_the_projection_starts_from_the_newest_recompute(site: Site) -> None:
    snapshot = site.recompute(AS_OF)
    values = store.load_stored(site.slug, snapshot.pk).values
    found = _projection(site.policy)
    tree = load_tree(site.policy)
    for path, n in _by_path(site.policy, found).items():
        assert found.rank_without[0][n] == values.rank[tree.index_of_path(path) or 0]


def test_added_and_archived_entries_are_on_one_side_only(site: Site) -> None:
    found = _projection(
        site.policy,
        {"op": "add", "parent": "/biology", "name": "new", "kind": "user"},
        {"op": "archive", "entry": "/physics/bob"},
    )
    gone = found.rank_with[0] == 0
    come = found.rank_without[0] == 0
    assert (int(gone.sum()), int(come.sum()), len(found.uid)) == (1, 1, 5)
    assert np.isnan(found.factor_with[0][gone]).all()


def test_another_window_gives_ranks_under_both(make_site: Any) -> None:
    site: Site = make_site()
    site.publish(PROJECTS, {"window": {"length_s": None, "aging": "none"}})
    site.map()
    site.job("alice", "physics", 10, ago_h=1)
    site.job("bob", "physics", 100, ago_h=24 * 60)
    site.job("carol", "biology", 1, ago_h=1)
    short = {"window": {"length_s": 10 * 86_400, "aging": "none"}}
    found = _projection(site.policy, wanted=short)
    where = _by_path(site.policy, found)
    bob, alice = where["/physics/bob"], where["/physics/alice"]
    assert found.rank_without[0][alice] < found.rank_without[0][bob]
    assert found.rank_with[0][bob] < found.rank_with[0][alice]  # what was long ago doesn't count any more
