"""Rows of the tree in display order: opened, filtered and sorted among siblings, against a walk written by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID, uuid4

import numpy as np
import pytest
from hypothesis import given

from apps.accounts.actor import Actor
from apps.policies.files.document import read_document
from apps.policies.tree.columns import TreeColumns
from apps.priorities.selectors import open_view, tree_listing
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.selectors.tree import WINDOW, get_tree_page, iterate_rows, selectable
from apps.priorities.selectors.tree_listing import DEEPEST, Arrangement, list_rows
from tests.policies.share_trees import trees
from tests.priority_site import Site, children

pytestmark = pytest.mark.django_db


@dataclass
class Drawn:
    """A random tree with visible entries, entries off target, and a deviation of each."""

    view: PolicyView
    visible: list[bool]
    off: list[bool]
    deviation: list[float]

    def walk(self, level: int, sort: str, only: set[int] | None, i: int = 0) -> list[int]:
        """Depth first; what has no number comes last."""
        tree = self.view.tree
        found = [i]
        if int(tree.level[i]) >= level:
            return found
        below = [child for child in tree.children(i) if self.visible[child] and (only is None or child in only)]
        if sort:
            sign = -1 if sort.startswith("-") else 1
            below.sort(key=lambda c: (np.isnan(self.deviation[c]), sign * np.nan_to_num(self.deviation[c]), c))
        for child in below:
            found += self.walk(level, sort, only, child)
        return found


def draw(rng: random.Random) -> Drawn:
    levels, names = [[0]], 1
    n_children = [0]
    first = [1]
    at = 0
    while at < names and names < 120:
        n = rng.choice((0, 0, 1, 3, 7)) if at else 5
        first_child = names
        n_children[at], first[at] = n, first_child
        names += n
        n_children += [0] * n
        first += [0] * n
        at += 1
    for k in range(at, names):
        first[k] = names
    parent = [-1] + [0] * (names - 1)
    level = [0] * names
    for i in range(names):
        for child in range(first[i], first[i] + n_children[i]):
            parent[child], level[child] = i, level[i] + 1
    del levels
    visible = [i == 0 or rng.random() < 0.9 for i in range(names)]
    for i in range(1, names):
        visible[i] = visible[i] and visible[parent[i]]
    deviation = [rng.choice((float("nan"), -0.2, 0.0, 0.1, 0.3)) for _ in range(names)]
    off = [visible[i] and i > 0 and abs(np.nan_to_num(deviation[i])) > 0.15 for i in range(names)]
    uids = [UUID(int=i + 1) for i in range(names)]

    class Tree:
        """As much of TreeColumns as a listing needs."""

        subtree, ancestors, children = TreeColumns.subtree, TreeColumns.ancestors, TreeColumns.children

        def __init__(self) -> None:
            self.parent, self.level = np.array(parent), np.array(level)
            self.n_children, self.first_child = np.array(n_children), np.array(first)
            self.name = [f"n{rng.randrange(9)}" for _ in range(names)]

        def __len__(self) -> int:
            return names

        def uuid(self, i: int) -> UUID:
            return uids[i]

        def index_of_uid(self, uid: UUID) -> int | None:
            return uids.index(uid) if uid in uids else None

    everyone = np.ones(names, dtype=bool)
    values = SimpleNamespace(actual=np.nan_to_num(np.array(deviation)), competes=~np.isnan(np.array(deviation)))
    view = SimpleNamespace(
        tree=Tree(),
        visibility=SimpleNamespace(mask=np.array(visible), may_see=lambda i: visible[i]),
        off_target=np.array(off),
        competes=everyone,
        target=(np.zeros(names), np.zeros(names)),
        snapshot_index=np.arange(names),
        snapshot=SimpleNamespace(values=values),
    )
    return Drawn(cast(PolicyView, view), visible, off, deviation)


def with_way(drawn: Drawn, matches: set[int]) -> set[int]:
    return matches | {above for i in matches for above in drawn.view.tree.ancestors(i)}


def test_listings_equal_a_walk_over_random_trees() -> None:
    rng = random.Random(28)
    for _ in range(60):
        drawn = draw(rng)
        for sort in ("", "deviation", "-deviation"):
            level = rng.randrange(1, 5)
            plain = list_rows(drawn.view, Arrangement(level=level, sort=sort), most_children=10_000, room=10)
            assert plain.rows.tolist() == drawn.walk(level, sort, None)
            only = with_way(drawn, {i for i, is_off in enumerate(drawn.off) if is_off})
            found = list_rows(drawn.view, Arrangement(off_target=True, sort=sort), most_children=10_000, room=10)
            assert found.n_matches == sum(drawn.off)
            assert found.rows.tolist() == drawn.walk(DEEPEST, sort, only)
            assert [int(found.at[i]) for i in found.rows] == list(range(len(found.rows)))


def test_the_initial_depth_depends_on_the_number_of_rows() -> None:
    drawn = draw(random.Random(3))
    mask, levels = np.array(drawn.visible), drawn.view.tree.level
    for room in (1, 6, 20, 50, 1_000):
        found = list_rows(drawn.view, Arrangement(), most_children=10_000, room=room)
        fits = [k for k in range(1, int(levels.max()) + 1) if int((mask & (levels <= k)).sum()) <= room]
        assert found.level == max(fits, default=1)


def test_consecutive_row_windows_have_no_gap(make_site: Callable[..., Site], as_eva: Actor) -> None:
    made = make_site()
    groups = {f"g{n}": {"": n + 1.0, **{f"u{n}x{k}": 1.0 for k in range(30)}} for n in range(3)}
    made.publish(children(**groups))
    asked = Arrangement(level=2, sort="-target")
    whole = [row.path for row in iterate_rows(open_view(policy_slug="grid", actor=as_eva), asked)]
    assert len(whole) == 1 + 3 + 90
    assert whole[1] == "/g2"
    seen: list[str] = []
    after = None
    while True:
        page = get_tree_page(policy_slug="grid", actor=as_eva, arranged=asked, after=after)
        new = [row.path for row in page.rows if row.path not in seen]
        repeated = [row.path for row in page.rows if row.path in seen]
        assert len(new) <= WINDOW
        assert all(new[0].startswith(way) for way in repeated), "the way to the first row"
        seen += new
        assert page.n_rows == len(whole)
        assert page.n_left == len(whole) - len(seen)
        if not page.n_left:
            break
        after = page.rows[-1].uid
    assert seen == whole


def test_toggled_rows_override_the_level(site: Site, as_eva: Actor) -> None:
    paths = {
        row.path: row.uid for row in iterate_rows(open_view(policy_slug="grid", actor=as_eva), Arrangement(level=9))
    }

    def shown(**asked: Any) -> list[str]:
        page = get_tree_page(policy_slug="grid", actor=as_eva, arranged=Arrangement(**asked))
        return [row.path for row in page.rows]

    assert shown(level=1) == ["/", "/biology", "/physics"]
    assert shown(level=1, open_uids=[paths["/physics"], uuid4()])[-2:] == ["/physics/alice", "/physics/bob"]
    assert "/physics/alice" not in shown(level=2, shut_uids=[paths["/physics"]])
    assert shown(level=0) == ["/"]


def test_a_sort_never_shows_an_order_of_hidden_numbers(
    make_site: Callable[..., Site], as_alice: Actor, as_eva: Actor
) -> None:
    made = make_site(visibility="path")
    made.publish(children(physics={"": 60, "alice": 1, "bob": 1}, biology={"": 40, "carol": 1}))
    made.map()
    made.job("alice", "physics", 40)
    made.job("carol", "biology", 80)
    made.recompute()
    view = open_view(policy_slug="grid", actor=as_alice)
    listed = [row.path for row in iterate_rows(view, Arrangement(level=9, sort="-deviation"))]
    assert listed == ["/", "/physics", "/physics/alice"]
    whole = open_view(policy_slug="grid", actor=as_eva)
    assert [row.path for row in iterate_rows(whole, Arrangement(level=1, sort="-deviation"))] == [
        "/",
        "/biology",
        "/physics",
    ]
    assert selectable(view, Arrangement(level=9)) == [], "nothing that alice may change"


def _page(actor: Actor, after: UUID | None = None, **asked: Any) -> list[str]:
    return [
        row.path
        for row in get_tree_page(policy_slug="grid", actor=actor, arranged=Arrangement(**asked), after=after).rows
    ]


def _uids(actor: Actor) -> dict[str, UUID]:
    view = open_view(policy_slug="grid", actor=actor)
    return {view.tree.path(i): view.tree.uuid(i) for i in range(len(view.tree))}


def test_rows_go_on_after_the_subtree_of_an_entry_that_is_folded_now(site: Site, as_eva: Actor) -> None:
    uids = _uids(as_eva)
    assert _page(as_eva, uids["/biology/carol"], level=1) == ["/", "/physics"]
    assert _page(as_eva, uids["/physics/alice"], level=1) == []
    assert _page(as_eva, uids["/biology/carol"], level=0) == []
    assert _page(as_eva, uuid4(), level=1) == ["/", "/biology", "/physics"], "unknown: from the beginning"
    assert _page(as_eva, query="o") == ["/", "/biology", "/biology/carol", "/physics", "/physics/bob"]
    assert _page(as_eva, uids["/biology/dan"], query="o") == ["/", "/physics", "/physics/bob"]


def test_an_entry_opened_by_hand_shows_all_its_children_beside_the_matches(site: Site, as_eva: Actor) -> None:
    uids = _uids(as_eva)
    assert _page(as_eva, query="alice") == ["/", "/physics", "/physics/alice"]
    assert _page(as_eva, query="alice", open_uids=[uids["/physics"]]) == [
        "/",
        "/physics",
        "/physics/alice",
        "/physics/bob",
    ]
    assert _page(as_eva, query="nobody", open_uids=[uids["/physics"]]) == ["/"]


def test_rows_without_the_number_they_are_sorted_by_come_last(site: Site, as_eva: Actor) -> None:
    """Groups have no rank; before the first snapshot nobody has."""
    plain = _page(as_eva, level=9)
    numbers = ("rank", "factor", "deviation")
    assert [_page(as_eva, level=9, sort=name) for name in numbers] == [plain] * 3
    site.recompute()
    view = open_view(policy_slug="grid", actor=as_eva)
    people = [row for row in iterate_rows(view, Arrangement(level=9)) if row.path.startswith("/physics/")]
    for name, sign in (("rank", ""), ("rank", "-"), ("factor", ""), ("factor", "-")):
        ordered = sorted(people, key=lambda row: getattr(row, name), reverse=bool(sign))
        listed = _page(as_eva, level=9, sort=sign + name)
        assert [path for path in listed if path.startswith("/physics/")] == [row.path for row in ordered]
        assert [path for path in listed if path.count("/") == 1] == ["/", "/biology", "/physics"]


def test_rows_are_sorted_by_name_without_regard_to_case(make_site: Callable[..., Site], as_eva: Actor) -> None:
    made = make_site()
    made.publish(children(b={"": 1}, C={"": 1}, A={"": 1}))
    assert _page(as_eva, level=1, sort="name") == ["/", "/A", "/b", "/C"]
    assert _page(as_eva, level=1, sort="-name") == ["/", "/C", "/b", "/A"]


@pytest.mark.parametrize("most_bytes", [0, 1_000_000])
@given(tree=trees(most=20))
def test_siblings_are_ordered_by_name_without_regard_to_case(most_bytes: int, tree: TreeColumns) -> None:
    """most_bytes: of names that are sorted as bytes; others are sorted as objects."""
    everything = np.arange(len(tree))
    with patch.object(tree_listing, "_MOST_NAME_BYTES", most_bytes):
        order = tree_listing._order_of_names(tree, everything)
    for i in everything.tolist():
        below = tree.children(i)
        assert sorted(below, key=lambda c: order[c]) == sorted(below, key=lambda c: tree.name[c].casefold())
        names = {tree.name[c].casefold(): order[c] for c in below}
        assert all(names[tree.name[c].casefold()] == order[c] for c in below), "equal names have one number"


def test_small_names_are_in_order_as_they_are() -> None:
    root = {"name": "p", "children": [{"name": name, "shares": 1} for name in ("b", "a-1", "a.0", "a0", "zz")]}
    tree = read_document({"policy": "p", "root": root}).tree
    assert tree.has_small_names
    assert tree_listing._order_of_names(tree, np.arange(1, 6)).tolist() == [1, 2, 3, 4, 5]
    assert list(tree.name[1:]) == sorted(tree.name[1:])
