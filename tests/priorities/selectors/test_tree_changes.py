"""What differs from an earlier snapshot: the fast comparison finds what a comparison of every entry finds."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.core.errors import NotFound
from apps.priorities.entry_order import own_numbers
from apps.priorities.selectors import open_view
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.selectors.tree_changes import changed, view_at
from tests.priority_site import NO_AGING, PROJECTS, Site, children

pytestmark = pytest.mark.django_db


def views(site: Site, actor: Actor, since: int) -> tuple[PolicyView, PolicyView]:
    view = open_view(policy_slug=site.slug, actor=actor)
    return view, view_at(view, since)


def differing(view: PolicyView, then: PolicyView, json_of: Any, top: int = 0) -> set[str]:
    found, _gone = changed(view, then, top, json_of)
    return {view.tree.path(i) for i in found}


def own(view: PolicyView, i: int) -> str:
    assert view.snapshot is not None
    return str(own_numbers(view.snapshot.values, i))


@pytest.mark.parametrize("name", ["aequus", "gridwide", "flux", "slurm-classic", "slurm-fair-tree"])
def test_entries_whose_own_numbers_of_the_algorithm_changed_are_found(site: Site, as_eva: Actor, name: str) -> None:
    """Dan's first job gives him numbers that he had none of, or an infinite one of."""
    site.publish(PROJECTS, {**NO_AGING, "algorithm": {"name": name}})
    first = site.recompute()
    site.job("dan", "biology", 3)
    site.recompute()
    view, then = views(site, as_eva, first.pk)
    expected = {view.tree.path(i) for i in range(len(view.tree)) if own(view, i) != own(then, i)}
    assert differing(view, then, own) == expected
    assert not differing(view, view, own)
    assert view.snapshot is not None
    assert ("/biology/dan" in expected) == bool(view.snapshot.values.columns)


def test_entries_that_a_change_of_the_tree_leaves_alike_are_not_listed(site: Site, as_eva: Actor) -> None:
    first = site.recompute()
    site.publish(children(physics={"": 60, "alice": 5, "bob": 1}, biology={"": 40, "dan": 1, "erin": 1}))
    site.recompute()
    view, then = views(site, as_eva, first.pk)

    def shares(seen: PolicyView, i: int) -> tuple[str, float]:
        return seen.tree.path(i), float(seen.tree.shares[i])

    found, gone = changed(view, then, 0, shares)
    assert {view.tree.path(i) for i in found} == {"/physics/alice", "/biology/erin"}
    assert [then.tree.path(j) for j in gone] == ["/biology/carol"]
    top = view.tree.index_of_path("/physics")
    assert top is not None
    assert differing(view, then, shares, top) == {"/physics/alice"}


def test_a_snapshot_of_another_policy_is_not_found(site: Site, as_eva: Actor) -> None:
    view = open_view(policy_slug=site.slug, actor=as_eva)
    for number in (site.recompute().pk + 99, 0):
        with pytest.raises(NotFound):
            view_at(view, number)
