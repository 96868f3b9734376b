"""What an operator and a resolution do to the tree of a policy: before they are chosen, and in a review."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.engine.operators import all_operators
from apps.pages.changes.review.reviewed_change import get_review_page
from apps.policies.changesets.checks import Check
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.priorities.serving import store
from apps.priorities.tried_settings import TriedVector, check_tree
from apps.web.texts.operator_choices import list_operator_choices
from tests.instants import AT
from tests.oracles import analysis as oracles_analysis
from tests.pages.grid import SLUG, Grid


def exact_losses(operator: str, resolution: int, shares: dict[str, Fraction] | None = None) -> dict[str, int]:
    """Recounted from the snapshot's totals in fractions, with other shares of some entries."""
    snapshot = store.newest(SLUG)
    tree = snapshot.tree
    given = [(shares or {}).get(tree.path(i), Fraction(x)) for i, x in enumerate(tree.shares.tolist())]
    vectors = oracles_analysis.exact_vectors(
        tree.parent.tolist(),
        given,
        [Fraction(x) for x in snapshot.values.usage.tolist()],
        operator,
    )
    leaves = np.flatnonzero(tree.engine_tree().is_ranked).tolist()
    return oracles_analysis.rounding_losses([vectors[leaf] for leaf in leaves], resolution)


@pytest.mark.parametrize("operator", ["relative", "absolute", "relative-2"])
def test_the_check_agrees_with_exact_fractions(open_grid: Grid, operator: str) -> None:
    for resolution in (2, 4, 10, 100, 10_000):
        found = check_tree(policy_slug=SLUG, tried=TriedVector(operator, resolution), actor=COMMAND)
        assert {name: getattr(found, name) for name in exact_losses(operator, resolution)} == exact_losses(
            operator, resolution
        )
        assert (found.operator, found.resolution, found.n_leaves) == (operator, resolution, 6)
        assert found.is_current is ((operator, resolution) == ("relative", 10_000))


def test_every_operator_is_a_choice_with_one_sentence() -> None:
    choices = {choice.name: choice for choice in list_operator_choices({"name": "aequus", "operator": "relative-7"})}
    assert set(choices) == {operator.name for operator in all_operators()} | {"relative-7"}
    assert [name for name, choice in choices.items() if not choice.sentence] == []
    assert [name for name, choice in choices.items() if choice.is_current] == ["relative-7"]
    apart = [name for name, choice in choices.items() if not choice.orders_like_relative]
    assert sorted(apart) == ["absolute", "combined"]
    # A claim about another scheduler names its source; the manuals of LSF and Maui contradict the paper.
    for name, scheduler in (("absolute", "The manuals of Maui and Moab"), ("relative", "The manual of LSF")):
        assert scheduler in choices[name].schedulers
        assert "The paper (section 6)" in choices[name].schedulers


def checks(actor: Actor, *operations: dict[str, Any]) -> dict[str, Check]:
    made = make_change_set(policy_slug=SLUG, new=NewChangeSet(operations=operations, reason="try"), at=AT, actor=actor)
    return {check.code: check for check in get_review_page(id=made.pk, actor=actor, at=AT).checks}


def test_a_review_warns_where_rounding_misplaces_more_leaves_than_before(open_grid: Grid) -> None:
    eva = Actor(user=open_grid.admin, via="page")
    coarse = {"op": "set_policy", "settings": {"algorithm": {"operator": "absolute", "resolution": 2}}}
    found = check_tree(policy_slug=SLUG, tried=TriedVector("absolute", 2), actor=COMMAND)
    check = checks(eva, coarse)["resolution"]
    assert (check.state, f"{found.n_misplaced} of {found.n_leaves}" in check.title) == ("warn", True)
    assert f"2^{found.same_ranks_bits}" in check.remedy
    fine = {"op": "set_policy", "settings": {"algorithm": {"operator": "absolute", "resolution": 2**20}}}
    assert checks(eva, fine)["resolution"].state == "ok"
    same = {"op": "set_shares", "entry": "/atlas/alice", "shares": 3}
    assert checks(eva, same)["resolution"].state == "ok"
    unrounded = {"op": "set_policy", "settings": {"algorithm": {"name": "gridwide"}}}
    assert "resolution" not in checks(eva, unrounded)


def test_a_review_counts_the_tree_after_the_change(open_grid: Grid) -> None:
    eva = Actor(user=open_grid.admin, via="page")
    coarse = {"op": "set_policy", "settings": {"algorithm": {"operator": "absolute", "resolution": 10}}}
    found = []
    for atlas in (20, 60, 1000):
        title = checks(eva, coarse, {"op": "set_shares", "entry": "/atlas", "shares": atlas})["resolution"].title
        n = exact_losses("absolute", 10, {"/atlas": Fraction(atlas)})["n_misplaced"]
        assert f" {n} of 6 users" in title, title
        found.append(n)
    assert len(set(found)) > 1
