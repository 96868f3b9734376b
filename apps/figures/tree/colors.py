"""Colours of the fields: the balance of each entry in seven steps, or its share of its parent in six."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from django.utils.translation import gettext as _

from apps.figures.balance import BALANCE, ON_TARGET, balance_legend, balance_step
from apps.figures.figure import Swatch
from apps.figures.tree.asked import TreeAsked
from apps.priorities.records.tree import EntryRow
from apps.priorities.sentences.numbers import NBSP

_SHARES = (0.01, 0.05, 0.10, 0.25, 0.50)  # of the parent: borders between the steps
_SHARE_COLORS = ("$seq-0", "$seq-1", "$seq-2", "$seq-3", "$seq-5", "$seq-6")  # text has contrast on each
_N_LOW = 4  # so many of them are near the surface: their text has the colour for low amounts


@dataclass(frozen=True, slots=True)
class Paint:
    """Tokens of a field, of the text on it and of its edge. is_hatched: no demand."""

    fill: str
    ink: str = "$ink"
    line: str = "$surface"
    is_hatched: bool = False


WHOLE = Paint("$surface-3")
UNKNOWN = Paint("$surface", "$ink-2", "$line-strong")
_NO_DEMAND = Paint("$surface", line="$line", is_hatched=True)


def paint_of(row: EntryRow | None, asked: TreeAsked) -> Paint:
    """row: None are entries that are drawn together."""
    if row is None:
        return UNKNOWN
    if row.parent_uid is None:
        return WHOLE
    return _share_paint(row, asked) if asked.color == "share" else _balance_paint(row)


def _balance_paint(row: EntryRow) -> Paint:
    if row.state == "idle":
        return _NO_DEMAND
    if row.deviation_points is None or row.state == "unknown":
        return UNKNOWN
    return Paint(BALANCE[ON_TARGET if row.state == "on" else balance_step(row.deviation_points)])


def _share_paint(row: EntryRow, asked: TreeAsked) -> Paint:
    share = row.actual if asked.size == "actual" else row.target
    if share is None:
        return UNKNOWN
    step = bisect_right(_SHARES, share)
    return Paint(_SHARE_COLORS[step], "$on-seq-low" if step < _N_LOW else "$on-seq-high")


def legend_of(asked: TreeAsked, paints: list[Paint]) -> list[Swatch]:
    """The steps, and of what is none of them what the picture has. paints: of its entries."""
    idle = [Swatch(_NO_DEMAND.fill, _("no demand"), is_hatched=True)] if _NO_DEMAND in paints else []
    unknown = [Swatch(UNKNOWN.fill, _("unknown"), is_outlined=True)] if UNKNOWN in paints else []
    if asked.color == "balance":
        return [*balance_legend(), *idle, *unknown]
    edges = [f"{one * 100:g}" for one in _SHARES]
    between = [_("%(low)s to %(high)s") % {"low": low, "high": high} for low, high in pairwise(edges)]
    texts = [
        _("below %(n)s") % {"n": f"{edges[0]}{NBSP}%"},
        *(f"{one}{NBSP}%" for one in between),
        _("%(n)s and more") % {"n": f"{edges[-1]}{NBSP}%"},
    ]
    return [*(Swatch(color, text) for color, text in zip(_SHARE_COLORS, texts, strict=True)), *unknown]
