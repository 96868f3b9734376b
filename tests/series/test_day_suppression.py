"""Days of children that a reader of sums sees: against the rule of five, day by day."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from uuid import UUID

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.policies.files.document import read_document
from apps.series.visible_days import _DayVisibility, _EntryDays, _suppress_remainder
from tests.examples import examples

LARGEST = 0.8


class Child(NamedTuple):
    """Active members, their usage, and that of the largest of them. may_show: the reader's rights allow its sum."""

    n_active: int
    used: int
    largest: int
    may_show: bool
    has_people: bool


def meets_rule(n_active: int, used: int, largest: int) -> bool:
    return n_active >= 5 and largest <= LARGEST * used


def shown(children: list[Child], direct: int) -> list[bool]:
    """Hide the smallest sums, as few as it takes: the remainder meets the rule, or is nobody's.

    The remainder is what hidden children and the parent itself used, which the reader can subtract.
    """
    smallest_first = sorted(
        (at for at, child in enumerate(children) if child.may_show), key=lambda at: (children[at].used, at)
    )
    for n_hidden in range(len(smallest_first) + 1):
        visible = set(smallest_first[n_hidden:])
        rest = [child for at, child in enumerate(children) if child.has_people and at not in visible]
        n_active = sum(child.n_active for child in rest) + (direct > 0)
        used = sum(child.used for child in rest) + direct
        if (not rest and not direct) or meets_rule(n_active, used, max([child.largest for child in rest] + [direct])):
            return [at in visible for at in range(len(children))]
    return [False] * len(children)


@st.composite
def groups(draw: st.DrawFn) -> list[Child]:
    made = []
    for _ in range(draw(st.integers(1, 5))):
        used = draw(st.integers(0, 12))
        made.append(
            Child(draw(st.integers(0, 7)), used, draw(st.integers(0, used)), draw(st.booleans()), draw(st.booleans()))
        )
    return made


@examples(300)
@given(days=st.lists(st.tuples(groups(), st.sampled_from([0, 0, 1, 5])), min_size=1, max_size=4))
@example(days=[([Child(5, 10, 2, True, True)] * 2, 0)])
@example(days=[([Child(5, 10, 8, True, True), Child(1, 1, 1, False, True)], 0)])
@example(days=[([Child(5, 10, 2, True, True), Child(4, 8, 2, False, True)], 1)])
def test_visible_days_leave_a_remainder_that_meets_the_rule(days: list[tuple[list[Child], int]]) -> None:
    n = max(len(children) for children, _direct in days)
    nobody = Child(0, 0, 0, may_show=False, has_people=False)
    rows = [[*children, *[nobody] * (n - len(children))] for children, _direct in days]

    def column(name: str, kind: Any) -> Any:
        return np.array([[getattr(child, name) for child in day] for day in rows], dtype=kind).T

    entries = _EntryDays(
        tuple(UUID(int=at) for at in range(n)),
        column("n_active", float),
        column("used", float),
        column("largest", float),
        np.ones((n, len(days)), np.bool_),
    )
    direct = np.array([amount for _children, amount in days], float)
    visible = _suppress_remainder(entries, column("may_show", bool), column("has_people", bool), direct)
    assert visible.T.tolist() == [shown(day, amount) for day, (_children, amount) in zip(rows, days, strict=True)]


@pytest.mark.parametrize("n_own", [0, 1, 4, 5])
def test_members_whom_a_reader_sees_in_full_are_no_part_of_the_remainder(n_own: int) -> None:
    """Who sees four of five members in full subtracts them, too: of the remainder, only the fifth would be left."""
    team = [_entry(f"user{k}", 10 + k, kind="user") for k in range(5)]
    members = [_entry(f"member{k}", 20 + k, kind="user") for k in range(5)]
    children = [_entry("team", 2, children=team), *members]
    tree = read_document({"policy": "p", "root": {"name": "p", "uid": str(UUID(int=1)), "children": children}}).tree
    own = {f"member{k}" for k in range(n_own)}
    visibility = SimpleNamespace(
        outright=np.array([name in own for name in tree.name]), mask=np.ones(len(tree), np.bool_)
    )
    view, span, day = SimpleNamespace(tree=tree, visibility=visibility), SimpleNamespace(), np.ones((1, 1))
    days = _DayVisibility(cast(Any, view), cast(Any, span))
    days.visible[0] = np.ones(1, np.bool_)
    days.numbers[0] = _EntryDays((tree.uuid(0),), 10 * day, 10 * day, day, day > 0)
    places = [tree.index_of_path(f"/{child['name']}") or 0 for child in children]
    active = np.array([[5.0], *[[1.0]] * 5])  # each used 1
    days._decide_children(
        0, _EntryDays(tuple(map(tree.uuid, places)), active, active, np.ones_like(active), active > 0)
    )
    assert [bool(days.visible[at][0]) for at in places] == [n_own in (0, 5), *(k < n_own for k in range(5))]


def _entry(name: str, number: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "uid": str(UUID(int=number)), "shares": 1, **fields}
