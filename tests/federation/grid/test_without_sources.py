"""What if a source were left out: bit-identical to a site without it, and visible by rights only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import NotFound, TooLarge
from apps.federation.grid import without_sources
from apps.federation.grid.without_sources import compare_without_sources, compute_both
from apps.policies.models import Policy
from apps.priorities.models import Snapshot
from apps.priorities.recompute.pipeline import compute, load_inputs, pack_result
from apps.priorities.recompute.simulation import Changes, apply_changes
from apps.usage.models import Source
from apps.usage.services import NewSource, make_source
from tests.priority_site import (
    AS_OF,
    PROJECTS,
    Site,
    _clock,  # noqa: F401 - fixture
)
from tests.series.conftest import _fresh_process  # noqa: F401 - fixture
from tests.worlds import forget_process

GLOBAL = [{**project, "scope": "global"} for project in PROJECTS]


@pytest.fixture
def peer(db: None) -> Source:
    return make_source(
        NewSource(slug="peer", name="Other site", namespace="c1", origin="other.example"), at=AS_OF, actor=COMMAND
    )


@pytest.fixture
def both(make_site: Callable[..., Site], peer: Source) -> Site:
    """Here alice has 30 of 40 core-hours of physics; with the other site's 60 of bob she has 30 of 100."""
    made = make_site()
    made.publish(GLOBAL)
    made.map()
    made.job("alice", "physics", 30)
    made.job("bob", "physics", 10)
    made.job("carol", "biology", 20)
    made.job("bob", "physics", 60, source=peer)
    made.recompute()
    return made


def test_the_result_is_bit_identical_to_a_recompute_without_the_source(both: Site, peer: Source) -> None:
    both.running("carol", "biology", cpus=4, since_h=2)
    both.running("bob", "physics", cpus=4, since_h=2, source=peer)
    before = load_inputs(both.policy, as_of=AS_OF)
    computed = compute(apply_changes(before, Changes(without_sources=frozenset({peer.pk}))))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM usage_bucket WHERE source_id = %s", [peer.pk])
        cursor.execute("DELETE FROM usage_record WHERE source_id = %s", [peer.pk])
    Source.objects.filter(pk=peer.pk).delete()
    really = load_inputs(both.policy, as_of=AS_OF)
    assert [source.slug for source in really.sources] == ["grid-c1"]
    assert pack_result(really, computed) == pack_result(really, compute(really))
    assert pack_result(before, compute(before))[1] != pack_result(really, compute(really))[1]


def test_excluding_a_source_equals_never_importing_it(both: Site, peer: Source) -> None:
    aged = {"window": {"length_s": None, "aging": "exponential", "half_life_s": 90_000}}
    both.publish(GLOBAL, aged)
    for n in range(9):  # with eight and more, sums over sources are made in another order than one after the other
        more = make_source(
            NewSource(slug=f"s{n}", name="s", namespace="c1", origin=f"s{n}.example"), at=AS_OF, actor=COMMAND
        )
        for ago_h in (1, 5, 17):
            both.job("alice", "physics", 0.1 + n / 7, ago_h=ago_h + n, source=more)
            both.job("carol", "biology", 0.3 + n / 3, ago_h=ago_h * n, source=more)
    both.running("carol", "biology", cpus=4, since_h=2)
    inputs = load_inputs(both.policy, as_of=AS_OF)
    found = compute_both(inputs, {peer.pk})
    rest = apply_changes(inputs, Changes(without_sources=frozenset({peer.pk})))
    assert pack_result(rest, found.without_them) == pack_result(rest, compute(rest))
    assert pack_result(inputs, found.with_them) == pack_result(inputs, compute(inputs))


def test_excluding_no_source_changes_nothing(both: Site) -> None:
    inputs = load_inputs(both.policy, as_of=AS_OF)
    found = compute_both(inputs, ())
    assert pack_result(inputs, found.with_them) == pack_result(inputs, found.without_them)


def test_the_largest_differences_are_listed_first_with_both_numbers(both: Site, as_eva: Actor) -> None:
    found = compare_without_sources(policy_slug="grid", sources=["peer"], actor=as_eva, at=AS_OF)
    shares = {row.path: (row.before.actual, row.after.actual) for row in found.rows}
    assert shares["/physics/alice"] == pytest.approx((0.3, 0.75))
    assert shares["/physics/bob"] == pytest.approx((0.7, 0.25))
    assert "/physics" not in shares, "projects are compared by this site's usage, with the peer and without it"
    changes = [abs(row.change) for row in found.rows]
    assert changes == sorted(changes, reverse=True)
    alice = next(row for row in found.rows if row.name == "alice")
    assert (alice.before.usage, alice.after.usage) == (30 * 3600, 30 * 3600)
    bob = next(row for row in found.rows if row.name == "bob")
    assert (bob.before.usage, bob.after.usage) == (70 * 3600, 10 * 3600)
    assert bob.before.rank is not None
    assert bob.after.rank is not None
    assert bob.after.rank < bob.before.rank
    assert (found.n_more, found.n_hidden) == (0, 0)
    assert found.n_moved >= 2


def test_the_list_is_bounded_and_counts_the_rest(both: Site, as_eva: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compare_without_sources(policy_slug="grid", sources=["peer"], actor=as_eva, at=AS_OF)
    monkeypatch.setattr(without_sources, "MOST_LISTED_DIFFERENCES", 1)
    short = compare_without_sources(policy_slug="grid", sources=["peer"], actor=as_eva, at=AS_OF)
    assert short.rows == whole.rows[:1]
    assert short.n_more == len(whole.rows) - 1


def test_partial_visibility_limits_the_result(both: Site, as_alice: Actor) -> None:
    Policy.objects.filter(pk=both.policy.pk).update(visibility="path")
    found = compare_without_sources(policy_slug="grid", sources=["peer"], actor=as_alice, at=AS_OF)
    assert {row.path for row in found.rows} <= {"/physics", "/physics/alice"}
    assert "/physics/alice" in {row.path for row in found.rows}
    assert found.n_hidden > 0


def test_the_result_is_computed_once_per_snapshot(both: Site, as_eva: Actor) -> None:
    compare_without_sources(policy_slug="grid", sources=["peer"], actor=as_eva, at=AS_OF)
    with CaptureQueriesContext(
        connection,
    ) as asked:
        compare_without_sources(policy_slug="grid", sources=["peer"], actor=as_eva, at=AS_OF)
    assert not [query for query in asked.captured_queries if "usage_bucket" in query["sql"]]
    n_snapshots = Snapshot.objects.count()
    assert n_snapshots == 1, "nothing is kept"


def test_a_computation_that_takes_too_long_is_refused(
    both: Site, as_eva: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(without_sources, "MOST_GRID_BUCKETS", 2)
    forget_process()
    with pytest.raises(TooLarge, match=r"\b2\b"):
        compare_without_sources(policy_slug="grid", sources=["peer"], actor=as_eva, at=AS_OF)


def test_unknown_sources_and_policies_are_not_found(both: Site, as_eva: Actor) -> None:
    with pytest.raises(NotFound, match="'nobody'"):
        compare_without_sources(policy_slug="grid", sources=["nobody"], actor=as_eva, at=AS_OF)
    with pytest.raises(NotFound):
        compare_without_sources(policy_slug="none", sources=["peer"], actor=as_eva, at=AS_OF)


def test_open_jobs_of_the_source_are_excluded_too(both: Site, peer: Source) -> None:
    both.publish(
        GLOBAL, {"window": {"length_s": None, "aging": "none"}, "approach": {"local": "active", "global": "active"}}
    )
    here, both.source = both.source, peer
    both.running("alice", "physics", cpus=100, since_h=1)
    both.source = here
    inputs = load_inputs(both.policy, as_of=AS_OF + timedelta(minutes=1))
    assert (inputs.opened.source_id == peer.pk).any()
    found = compute_both(inputs, {peer.pk})
    alice = inputs.tree.index_of_path("/physics/alice")
    assert found.with_them.result.usage[alice] > found.without_them.result.usage[alice] + 99 * 3600
    assert np.array_equal(found.with_them.entry_of_account, found.without_them.entry_of_account)
