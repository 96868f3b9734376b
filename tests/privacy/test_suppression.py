"""The rule of five with complementary suppression, against what a reader with pencil and paper could work out."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.working_tree import columns_of
from apps.priorities.suppression import LARGEST_PART, Amounts, shown_entries
from tests.call_counts import count_calls
from tests.examples import examples

Mask = npt.NDArray[np.bool_]
Used = Mapping[str, float]


def tree_of(paths: list[str]) -> TreeColumns:
    """Entries by path; a leaf is a user, names ending with + are groups."""
    groups = {path[:at] for path in paths for at in range(1, len(path)) if path[at] == "/"}
    paths = sorted({*paths, *groups})
    uids = {path: UUID(int=at + 2) for at, path in enumerate(paths)}
    root = UUID(int=1)
    nodes = [Node(root, None, "root")]
    for path in sorted(paths, key=lambda each: each.count("/")):
        above, name = path.rsplit("/", 1)
        is_group = path in groups or name.endswith("+")
        nodes.append(Node(uids[path], uids.get(above, root), name, "group" if is_group else "user", is_group=is_group))
    return columns_of(nodes)


def shown_paths(
    paths: list[str], used: Used, *more: Used, outright: tuple[str, ...] = (), hidden: tuple[str, ...] = ()
) -> set[str]:
    """By a reader who sees groups: their paths. more: what else the reader could know a number of."""
    tree = tree_of(paths)
    own = np.array([[row.get(tree.path(i), 0.0) for i in range(len(tree))] for row in (used, *more)])
    members = ~tree.is_group & ~tree.is_reserve
    known = np.array([tree.path(i) in outright for i in range(len(tree))])
    seen = (~members | known) & np.array([tree.path(i) not in hidden for i in range(len(tree))])
    mask = shown_entries(tree, Amounts.of(tree, own, members), seen=seen, outright=known)
    return {tree.path(i) for i in np.flatnonzero(mask & seen).tolist()}


def people(group: str, n: int, each: float = 1.0) -> dict[str, float]:
    return {f"{group}/p{k}": each for k in range(n)}


def test_a_group_needs_five_members_to_be_shown() -> None:
    five = people("/a", 5)
    assert shown_paths(list(five), five) == {"/", "/a"}
    four = people("/a", 4)
    assert shown_paths(list(four), four) == set()


def test_members_without_usage_do_not_count() -> None:
    used = people("/a", 4)
    assert shown_paths([*used, "/a/idle"], used) == set()


def test_a_group_dominated_by_one_member_is_suppressed() -> None:
    used = {**people("/a", 9), "/a/big": 36.0}
    assert shown_paths(list(used), used) == {"/", "/a"}  # exactly four fifths
    used["/a/big"] = 36.1
    assert shown_paths(list(used), used) == set()


def test_a_single_suppressed_sibling_suppresses_the_smallest_shown_one() -> None:
    used = {**people("/a", 9), **people("/b", 7), **people("/c", 2)}
    assert shown_paths(list(used), used) == {"/", "/a"}


def test_two_small_siblings_large_enough_together_suppress_no_other() -> None:
    used = {**people("/a", 9), **people("/b", 3), **people("/c", 2)}
    assert shown_paths(list(used), used) == {"/", "/a"}


def test_an_idle_sibling_is_protected() -> None:
    used = {**people("/a", 9), **people("/b", 6)}
    assert shown_paths([*used, "/c/p0", "/c/p1"], used) == {"/", "/a"}


def test_a_group_without_users_needs_no_protection() -> None:
    used = {**people("/a", 9), **people("/b", 6)}
    assert shown_paths([*used, "/empty+"], used) == {"/", "/a", "/b"}


def test_nested_groups_reveal_no_difference() -> None:
    used = {**people("/a/x", 6), **people("/a/y", 1), **people("/b", 8)}
    assert shown_paths(list(used), used) == {"/", "/a", "/b"}  # with /a/x shown, /a − /a/x would be one person


def test_direct_members_are_a_protected_remainder() -> None:
    used = {**people("/a/x", 6), "/a/solo": 3.0, **people("/b", 8)}
    assert "/a/x" not in shown_paths(list(used), used)


def test_descendants_of_a_suppressed_group_are_suppressed() -> None:
    """An actual share is of the parent's usage: it would reveal that."""
    used = {**people("/a/x", 6), "/a/y": 1000.0, **people("/b", 8)}
    assert shown_paths(list(used), used) == set()


def test_the_own_path_is_always_shown_and_protects_no_other() -> None:
    used = {"/a/me": 5.0, "/a/you": 3.0, **people("/b", 9), **people("/c", 9)}
    assert shown_paths(list(used), used, outright=("/", "/a", "/a/me"), hidden=("/b", "/c")) == {"/", "/a", "/a/me"}
    # Beside it sums are shown where the remainder is large enough, or nothing is.
    assert shown_paths(list(used), used, outright=("/", "/a", "/a/me")) == {"/", "/a", "/a/me", "/b", "/c"}
    alone = {**used, "/d/solo": 2.0}
    assert shown_paths(list(alone), alone, outright=("/", "/a", "/a/me")) == {"/", "/a", "/a/me", "/c"}


def test_every_derivable_number_must_be_safe() -> None:
    used = {**people("/a", 9), **people("/b", 9)}
    since = {**people("/a", 9), **people("/b", 1)}  # yesterday /b was one person
    assert shown_paths(list(used), used, since) == {"/"}
    assert shown_paths(list(used), used, {"/b/p0": 1.0}) == set()


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[str], list[Used], tuple[str, ...], tuple[str, ...]]:
    groups = [""]
    for k in range(draw(st.integers(1, 7))):
        groups.append(f"{draw(st.sampled_from(groups))}/g{k}")
    leaves = [f"{draw(st.sampled_from(groups))}/m{k}" for k in range(draw(st.integers(5, 40)))]
    amounts = st.sampled_from([0.0, 1.0, 1.0, 1.0, 2.0, 3.0, 50.0])
    rows = [{leaf: draw(amounts) for leaf in leaves} for _ in range(draw(st.integers(1, 2)))]
    own = draw(st.lists(st.sampled_from(leaves), max_size=2, unique=True))
    way = {"/", *own} | {leaf[:at] for leaf in own for at in range(1, len(leaf)) if leaf[at] == "/"} if own else set()
    hidden = draw(st.lists(st.sampled_from(groups[1:]), max_size=2, unique=True))
    paths = sorted({*groups[1:], *leaves})
    named = [
        f"{path}+" if path in groups and not any(p.startswith(f"{path}/") for p in paths) else path for path in paths
    ]
    return named, list(rows), tuple(way), tuple(hidden)


@examples(300)
@given(worlds())
def test_no_sum_of_fewer_than_five_can_be_derived(
    world: tuple[list[str], list[Used], tuple[str, ...], tuple[str, ...]],
) -> None:
    paths, rows, outright, hidden = world
    found = shown_paths(paths, rows[0], *rows[1:], outright=outright, hidden=hidden)
    people_of = {path for path in paths if path.rsplit("/", 1)[1].startswith("m")}
    known = found | set(outright)

    def below(path: str) -> set[str]:
        return {leaf for leaf in people_of if path == "/" or leaf == path or leaf.startswith(f"{path}/")}

    for path in found - set(outright):
        assert _above(path) <= known | set(hidden)  # those that are hidden were shown in effect, and are checked below
    shown_groups = known | {above for path in found for above in _above(path)}
    for path in shown_groups:
        children = {each for each in shown_groups if each != path and _parent(each) == path}
        rest = below(path).difference(*map(below, children)) if children else below(path)
        adds = path not in outright or any(child not in outright for child in children)
        if not adds or not rest or rest <= set(outright):
            continue
        for row in rows:
            active = [row[leaf] for leaf in rest if row[leaf] > 0]
            assert len(active) >= 5, (path, rest)
            assert max(active) <= LARGEST_PART * sum(active), (path, rest)
    assert not _recovered(shown_groups, set(outright), people_of, below)


def _recovered(shown_groups: set[str], outright: set[str], leaves: set[str], below: object) -> set[str]:
    """Leaves whose number follows from the shown ones by any sums and differences, and doesn't without the optional."""
    order = sorted(leaves - outright)
    if not order:
        return set()

    def rank(paths: set[str], *more: list[float]) -> int:
        rows = [[float(leaf in below(path)) for leaf in order] for path in sorted(paths)]  # type: ignore[operator]
        return int(np.linalg.matrix_rank(np.array([*rows, *more]))) if rows or more else 0

    found = set()
    base, whole = rank(outright), rank(shown_groups)
    for at, leaf in enumerate(order):
        unit = [float(k == at) for k in range(len(order))]
        if rank(shown_groups, unit) == whole and rank(outright, unit) != base:
            found.add(leaf)
    return found


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0] or "/"


def _above(path: str) -> set[str]:
    return set() if path == "/" else {_parent(path), *_above(_parent(path))}


def test_suppression_is_deterministic_and_asks_no_entry_apart() -> None:
    rng = np.random.default_rng(5)
    groups = [f"/v{v}/g{g}" for v in range(20) for g in range(100)]
    paths = [f"{group}/u{u}" for group in groups for u in range(50)]
    tree = tree_of([*{path.rsplit("/", 2)[0] for path in paths}, *groups, *paths])
    members = ~tree.is_group
    own = np.where(members & (rng.random(len(tree)) < 0.3), rng.pareto(1.2, len(tree)), 0.0)[None, :]
    none = np.zeros(len(tree), dtype=np.bool_)
    first, calls = count_calls(
        lambda: shown_entries(tree, Amounts.of(tree, own, members), seen=~members, outright=none)
    )
    again = shown_entries(tree, Amounts.of(tree, own, members), seen=~members, outright=none)
    assert len(tree) > 100_000
    assert np.array_equal(first, again)
    assert first.any()
    assert calls < len(tree)
