"""Entries as lines of a page: scales, balance, addresses, and the place of "load more"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from apps.priorities.selectors import EntryRow, MoreRow
from apps.web.shell import lines
from apps.web.svg.bars import USUAL_TOLERANCE, State

ROOT = EntryRow(
    uid=UUID(int=1),
    parent_uid=None,
    path="/",
    name="whole",
    kind="root",
    level=1,
    pos_in_set=1,
    set_size=1,
    n_children=2,
    hidden_children=0,
    is_open=True,
    shares=1.0,
    target=1.0,
    target_global=1.0,
    actual=1.0,
    actual_global=1.0,
    deviation_points=0.0,
    state="on",
    priority=0.0,
    rank=None,
    factor=None,
    usage=3600.0,
    has_usage=True,
    locked=False,
    may_change=False,
)


def _child(parent: EntryRow, name: str, **more: Any) -> EntryRow:
    given: dict[str, Any] = {
        "target": 0.5,
        "actual": 0.5,
        "target_global": 0.5,
        "actual_global": 0.5,
        "n_children": 0,
        **more,
    }
    return replace(ROOT, uid=uuid4(), parent_uid=parent.uid, name=name, level=parent.level + 1, is_open=False, **given)


def _draw(*rows: EntryRow, of: str = lines.OF_PARENT) -> list[lines.Line]:
    return lines.draw_lines(rows, lines.LineContext(policy_slug="grid", tolerance=USUAL_TOLERANCE, of=of))


def test_the_root_has_neither_bar_nor_balance() -> None:
    (line,) = _draw(ROOT)
    assert line.bar is None
    assert line.balance is None


def test_siblings_share_a_scale_and_cousins_have_their_own() -> None:
    small = _child(ROOT, "small", target=0.1, actual=0.1)
    large = _child(ROOT, "large", target=0.9, actual=0.9, n_children=1)
    cousin = _child(large, "cousin", target=0.1, actual=0.1)
    drawn = {line.entry.name: line.bar for line in _draw(small, large, cousin)}
    assert drawn["small"] is not None
    assert drawn["cousin"] is not None
    assert drawn["small"].tick_x is not None
    assert drawn["cousin"].tick_x is not None
    assert drawn["small"].tick_x < drawn["cousin"].tick_x


def test_an_entry_that_inherits_has_no_target_and_no_bar() -> None:
    (line,) = _draw(
        _child(ROOT, "dissolved", shares=None, target=None, target_global=None, actual=None, state="unknown")
    )
    assert line.bar is None
    assert line.target == "\u2013"


def test_shares_of_the_total_use_the_whole_policy() -> None:
    row = _child(ROOT, "a", target=0.5, actual=0.7, target_global=0.1, actual_global=0.1, state="over")
    (line,) = _draw(row, of=lines.OF_TOTAL)
    assert line.target == "10.0\u00a0%"
    assert line.balance is not None
    assert line.balance.state is State.ON


def test_load_more_follows_the_last_shown_descendant_of_its_group() -> None:
    first = replace(_child(ROOT, "first", n_children=300), is_open=True)
    inside = replace(_child(first, "inside", n_children=2), is_open=True)
    deepest = _child(inside, "deepest")
    second = _child(ROOT, "second")
    more = [MoreRow(first.uid, 3, "100", 200), MoreRow(ROOT.uid, 2, "100", 7)]
    shown = list(lines.with_more(_draw(ROOT, first, inside, deepest, second), more, policy_slug="grid"))
    names = [each.entry.name if isinstance(each, lines.Line) else each.more.remaining for each in shown]
    assert names == ["whole", "first", "inside", "deepest", 200, "second", 7]


def test_every_name_has_a_readable_slug() -> None:
    uid = uuid4()
    assert lines.entry_url("grid", uid, "Ab-initio /materials").endswith(f"/n/{uid}/ab-initio-materials/")
    assert lines.entry_url("grid", uid, "日本").endswith(f"/n/{uid}/entry/")
    assert lines.entry_url("grid", uid, "name").endswith(f"/n/{uid}/name/")


def test_the_total_of_a_group_follows_from_one_member() -> None:
    assert lines.whole_of([_child(ROOT, "a", shares=120.0, target=120 / 1130)]) == "1130"
    assert lines.whole_of([_child(ROOT, "a", shares=0.0, target=0.0)]) == "0"
