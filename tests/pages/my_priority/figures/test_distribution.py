"""The distribution of factors: counts add up, no user is alone in a bin, and one's own place is marked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import NotFound
from apps.pages.my_priority.figures.rank import places_figure
from apps.pages.my_priority.numbers.position import bin_factors, factors_with_distance, get_my_position
from apps.pages.my_priority.numbers.records import MyPosition
from apps.priorities.recompute.totals import simulate_totals
from apps.priorities.serving import store
from tests.instants import AT
from tests.pages.grid import SLUG, Grid
from tests.web.figures.schema import check_schema

SMALLEST = 5


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.data())
@example([0.5] * 6, None)
@example([0.0] * 6 + [0.99] * 5 + [1.0], None)
def test_every_bin_is_empty_or_large_enough_and_bins_cover_all_users(factors: list[float], data: object) -> None:
    own = factors[-1] if data is None else data.draw(st.sampled_from(factors))  # type: ignore[attr-defined]
    found = bin_factors(np.array(factors), own, smallest=SMALLEST)
    if not found:
        assert bin_factors(np.array(factors * 20 + [0.0] * 20 + [1.0] * 20), own, smallest=SMALLEST)
        return
    assert len(factors) > 2 * SMALLEST
    assert sum(one.n for one in found) == len(factors)
    assert [one.is_mine for one in found].count(True) == 1
    for one in found:
        others = one.n - one.is_mine
        assert others == 0 or others >= SMALLEST
        assert others == 0 or one.n == sum(one.low <= factor + 1e-9 < one.high + (one.high == 1) for factor in factors)
    edges = [found[0].low, *(one.high for one in found)]
    assert edges[0] == 0
    assert edges[-1] == 1
    assert all(one.high == other.low for one, other in itertools.pairwise(found))


def test_a_factor_made_from_the_rank_is_replaced_by_that_of_the_key(open_grid: Grid) -> None:
    store.poll()
    snapshot = store.newest(SLUG)
    assert snapshot.algorithm["factor_from"] == "rank"
    found = factors_with_distance(snapshot)
    by_key = simulate_totals(snapshot.totals, snapshot.tree, algorithm={**snapshot.algorithm, "factor_from": "key"})
    ranked = snapshot.values.is_ranked
    assert found[ranked].tolist() == by_key.factor[ranked].tolist()


def place(n: int, *, rank: int = 3) -> MyPosition:
    factors = np.linspace(0.1, 0.9, n)
    bins = bin_factors(factors, float(factors[-rank]), smallest=SMALLEST)
    return MyPosition("grid", "Grid", "alice", AT, 7, rank, n, 0, float(factors[-rank]), SMALLEST, bins)


def test_the_figure_is_valid_for_plotly_and_its_areas_count_users() -> None:
    figure = places_figure(place(69))
    check_schema(figure)
    assert len(figure.table.raw) > 8
    bars = figure.traces[0]
    wide = [round(w / 0.94 * 20) for w in bars["width"]]
    people = [row[2] for row in figure.table.raw[::-1]]
    assert [h * w for h, w in zip(bars["y"], wide, strict=True)] == pytest.approx(people, abs=0.01)
    assert bars["marker"]["color"].count("$accent") == 1
    assert "66 behind" in figure.sentence


def test_too_few_users_have_no_distribution_and_the_minimum_is_named() -> None:
    figure = places_figure(place(5))
    assert "5" in figure.empty
    assert figure.table.raw == []


def test_only_the_own_rank_is_shown_without_other_names(open_grid: Grid, client: Client) -> None:
    store.poll()
    actor = Actor(user=open_grid.alice, via="session")
    for path in ("/atlas/bob", "/atlas"):
        with pytest.raises(NotFound):
            get_my_position(policy_slug=SLUG, entry_uid=open_grid.uid(path), actor=actor, at=clock.now())
    client.force_login(open_grid.alice)
    named = {"policy": SLUG, "entry": str(open_grid.uid("/atlas/alice"))}
    answer = client.get("/me/priority/figures/places", named)
    assert answer.status_code == 200
    assert "bob" not in answer.content.decode()
    assert answer.json()["empty"], "six people make no distribution"
    assert "5 others" in answer.json()["sentence"]
