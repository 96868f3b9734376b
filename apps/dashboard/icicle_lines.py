"""The icicle and the table beside it: sectors with their words, and the same entries as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.dashboard import lines, presentation
from apps.dashboard.figures.bullet import Tolerance
from apps.dashboard.figures.icicle import MIDDLE, NARROW, SHAPES, WIDE, Icicle, Node, draw
from apps.dashboard.presentation import Balance
from apps.priorities.selectors import EntryRow
from apps.priorities.selectors.icicle import IciclePage, Sector

WIDTHS = ((WIDE, "wide hide-m"), (MIDDLE, "mid"), (NARROW, "narrow"))
_LISTED_LEVELS = 2


def legend() -> list[tuple[str, str]]:
    """The seven steps, and what is none of them."""
    return [
        ("u3", _("12 and more under")), ("u2", _("5 to 12")), ("u1", _("up to 5")), ("lv", _("on target")),
        ("o1", _("up to 5")), ("o2", _("5 to 12")), ("o3", _("12 and more over")), ("idle", _("no demand")),
        ("none", _("not known")),
    ]  # fmt: skip


def figures(page: IciclePage, link: Callable[[EntryRow], str], chosen: EntryRow | None) -> list[tuple[str, Icicle]]:
    """One drawing for each width that there is; style sheets choose."""
    top = _node(page.top, page, link, chosen)
    return [(name, draw(top, width=width)) for width, name in WIDTHS]


def _node(sector: Sector, page: IciclePage, link: Callable[[EntryRow], str], chosen: EntryRow | None) -> Node:
    below = [_node(child, page, link, chosen) for child in sector.children]
    if sector.row is None:
        name = ngettext("%(n)s more, together", "%(n)s more, together", sector.n_together) % {
            "n": presentation.count(sector.n_together)
        }
        return Node("", name, sector.size, None, "unknown", "", name, "")
    row = sector.row
    tolerance = lines.tolerance_of(page.settings)
    shown = balance_of(row, tolerance)
    return Node(
        key=str(row.uid),
        name=row.name,
        size=sector.size,
        points=0.0 if row.parent_uid is None else row.deviation_points,
        state="on" if row.parent_uid is None else row.state,
        words=_words(shown),
        label=_label(row, shown),
        url=link(row),
        slack_points=tolerance.around(row.target or 0.0) * 100,
        children=below,
        is_chosen=chosen is not None and chosen.uid == row.uid,
    )


def balance_of(row: EntryRow, tolerance: Tolerance) -> Balance | None:
    if row.parent_uid is None or row.target is None:
        return None
    return lines.balance_of(row, tolerance)


def _words(shown: Balance | None) -> str:
    if shown is None:
        return ""
    shape = SHAPES.get(shown.state.value, "")
    return f"{shape} {shown.text}".strip()


def _label(row: EntryRow, shown: Balance | None) -> str:
    if row.parent_uid is None:
        return _("%(name)s: the whole") % {"name": row.name}
    if shown is None:
        return _("%(name)s: no shares of its own") % {"name": row.name}
    return _("%(name)s: target %(target)s, actual %(actual)s, %(balance)s") % {
        "name": row.name, "target": presentation.percent(row.target), "actual": presentation.percent(row.actual),
        "balance": shown.text,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableRow:
    """An entry in the table beside the picture."""

    row: EntryRow
    depth: int
    url: str
    target: str
    actual: str
    balance: Balance | None


def table_rows(page: IciclePage, link: Callable[[EntryRow], str]) -> list[TableRow]:
    tolerance = lines.tolerance_of(page.settings)
    return [
        TableRow(
            row, depth, link(row), presentation.percent(row.target), presentation.percent(row.actual),
            balance_of(row, tolerance),
        )
        for row, depth in _below(page.top)
    ]  # fmt: skip


def _below(sector: Sector, depth: int = 0) -> Iterator[tuple[EntryRow, int]]:
    """In the order of the picture, top to bottom; at most five levels deep."""
    for child in sector.children:
        if child.row is not None:
            yield child.row, depth
            yield from _below(child, depth + 1)


CSV_HEADER = (
    "path",
    "entry",
    "uid",
    "target",
    "target_of_total",
    "actual",
    "actual_of_total",
    "deviation_points",
    "state",
)


def csv_rows(page: IciclePage) -> Iterator[tuple[Any, ...]]:
    top = [(page.top.row, 0)] if page.top.row is not None else []
    for row, _depth in (*top, *_below(page.top)):
        numbers = (row.target, row.target_global, row.actual, row.actual_global, row.deviation_points)
        yield row.path, row.name, str(row.uid), *("" if one is None else one for one in numbers), row.state


def picture_label(page: IciclePage) -> str:
    """What the picture says to somebody who can't see it."""
    rows = [row for row, _depth in _below(page.top)]
    worst = sorted((row for row in rows if row.state in SHAPES), key=lambda row: -abs(row.deviation_points or 0.0))[:3]
    name = page.top.row.name if page.top.row is not None else page.policy_name
    text = _("Icicle of %(name)s: levels from left to right, height is the part of the whole, colour is the balance.")
    tolerance = lines.tolerance_of(page.settings)
    named = ", ".join(f"{row.name} {shown.text}" for row in worst if (shown := balance_of(row, tolerance)))
    return text % {"name": name} + (" " + _("Furthest off: %(named)s.") % {"named": named} if named else "")
