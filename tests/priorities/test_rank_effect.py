"""Ranks that a change of shares moves: as a recompute would move them, and only those that the reader may see."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.policies.changesets.drafts import add_operations, open_draft
from apps.policies.operations.apply import tree_after
from apps.policies.tree.stored import load_tree
from apps.priorities.rank_effect import RankMoves, rank_effect, rank_effect_of_draft
from apps.priorities.selectors.draft import DraftView, open_draft_view
from apps.priorities.selectors.rows import open_view
from apps.priorities.serving import store
from apps.web.texts.rank_moves import change_text, places_of
from tests.examples import examples
from tests.priority_site import AS_OF, Site

pytestmark = pytest.mark.django_db


def uid_of(site: Site, path: str) -> UUID:
    tree = load_tree(site.policy)
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


def drafted(site: Site, actor: Actor, *operations: dict[str, Any]) -> DraftView:
    draft = open_draft(policy_slug=site.slug, at=AS_OF, actor=actor)
    if operations:
        add_operations(id=draft.pk, version=draft.version, operations=operations, at=AS_OF, actor=actor)
    return open_draft_view(change_set_id=draft.pk, at=AS_OF, actor=actor)


def to(shares: float, path: str = "/biology") -> dict[str, Any]:
    return {"op": "set_shares", "entry": path, "shares": shares}


def ranks(site: Site) -> dict[str, int]:
    site.recompute()
    snapshot = store.newest(site.slug)
    values, tree = snapshot.values, snapshot.tree
    return {tree.path(i): int(values.rank[i]) for i in range(len(tree)) if values.is_ranked[i]}


def test_before_the_first_snapshot_no_ranks_can_move(site: Site, as_eva: Actor) -> None:
    assert rank_effect_of_draft(drafted(site, as_eva, to(500))) is None
    assert change_text(None) == ""


def test_a_draft_without_edits_moves_no_rank(site: Site, as_eva: Actor) -> None:
    site.recompute()
    effect = rank_effect_of_draft(drafted(site, as_eva))
    assert effect is not None
    assert effect.n_moved == 0
    assert effect.of_entry(uid_of(site, "/physics")) == RankMoves(2, 0, 0, 0)
    assert change_text(effect) == "No rank changes"
    assert places_of(effect.of_entry(uid_of(site, "/physics"))).text == "\u2013"


def test_people_move_as_the_next_recompute_moves_them(site: Site, as_eva: Actor) -> None:
    before = ranks(site)
    effect = rank_effect_of_draft(drafted(site, as_eva, to(500)))
    assert effect is not None
    site.publish(
        [
            {
                "name": "physics",
                "kind": "group",
                "shares": 60,
                "children": [{"name": n, "kind": "user"} for n in ("alice", "bob")],
            },
            {
                "name": "biology",
                "kind": "group",
                "shares": 500,
                "children": [
                    {"name": "carol", "kind": "user", "shares": 3},
                    {"name": "dan", "kind": "user", "shares": 1},
                ],
            },
        ]
    )
    after = ranks(site)
    moved = {path: before[path] - after[path] for path in before}
    assert any(moved.values())
    assert effect.n_moved == sum(1 for places in moved.values() if places)
    for path, places in moved.items():
        assert effect.of_entry(uid_of(site, path)) == RankMoves(1, int(places != 0), places, places)
    biology = [moved["/biology/carol"], moved["/biology/dan"]]
    assert effect.of_entry(uid_of(site, "/biology")) == RankMoves(
        2, sum(1 for each in biology if each), min(biology), max(biology)
    )


def test_the_form_of_an_entry_and_its_draft_move_the_same_ranks(site: Site, as_eva: Actor) -> None:
    site.recompute()
    view = open_view(policy_slug=site.slug, actor=as_eva)
    by_form = rank_effect(view, tree_after(view.tree, [to(500)]))
    by_draft = rank_effect_of_draft(drafted(site, as_eva, to(500)))
    assert by_form is not None
    assert by_draft is not None
    assert by_form.n_moved == by_draft.n_moved > 0
    for path in ("/physics", "/biology", "/biology/carol", "/"):
        assert by_form.of_entry(uid_of(site, path)) == by_draft.of_entry(uid_of(site, path))


def test_new_and_removed_people_count_and_have_no_places(site: Site, as_eva: Actor) -> None:
    site.recompute()
    add = {"op": "add", "parent": "/physics", "name": "erin", "kind": "user", "shares": 2}
    view = drafted(site, as_eva, add, {"op": "archive", "entry": "/biology/dan"})
    effect = rank_effect_of_draft(view)
    assert effect is not None
    assert effect.n_moved >= 2
    at = view.outcome.tree.index_of_path("/physics/erin")
    assert at is not None
    assert effect.of_entry(view.outcome.tree.uuid(at)) is None
    assert effect.of_entry(uid_of(site, "/biology/dan")) is None


def test_an_algorithm_that_does_not_fit_has_no_effect_to_show(site: Site) -> None:
    site.recompute()
    view = open_view(policy_slug=site.slug, actor=COMMAND)
    assert rank_effect(view, view.tree, algorithm={"name": "no-such"}) is None


@pytest.mark.parametrize(
    ("moves", "direction", "text", "phrase"),
    [
        (None, "", "\u2013", "no rank changes"),
        (RankMoves(3, 0, 0, 0), "", "\u2013", "no rank changes"),
        (RankMoves(3, 3, 37, 37), "up", "37", "37 places up"),
        (RankMoves(1, 1, -1, -1), "down", "1", "1 place down"),
        (RankMoves(3, 2, 0, 5), "up", "\u2264\u00a05", "up to 5 places up"),
        (RankMoves(3, 3, -8, 5), "down", "\u2264\u00a08", "up to 8 places down"),
    ],
)
def test_places_are_exact_where_all_move_alike(moves: RankMoves | None, direction: str, text: str, phrase: str) -> None:
    assert places_of(moves) == (direction, text, phrase)


@examples(20, suppress=[HealthCheck.function_scoped_fixture])
@given(shares=st.floats(0.01, 1e6))
def test_places_of_all_leaves_agree_with_the_number_that_moved(site: Site, shares: float) -> None:
    view = open_view(policy_slug=site.slug, actor=COMMAND)
    if view.snapshot is None:
        site.recompute()
        view = open_view(policy_slug=site.slug, actor=COMMAND)
    effect = rank_effect(view, tree_after(view.tree, [to(shares)]))
    assert effect is not None
    root = effect.of_entry(view.tree.uuid(0))
    assert root is not None
    assert root.n_moved == effect.n_moved
    assert root.fewest <= 0 <= root.most
