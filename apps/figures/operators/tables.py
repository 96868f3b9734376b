"""Records of operators and resolution as the table of a figure: rows and columns, numbers in words, all of them raw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from apps.analytics.operators.records import FigureTable, Layout, Row
from apps.analytics.operators.sentences import resolution_text
from apps.figures.figure import Column, Table
from apps.priorities.sentences.numbers import UNKNOWN, count, job_hours, percent, signed


def table_of(found: FigureTable, shown: Sequence[Row]) -> Table:
    """shown: the records of the picture; the CSV has all of them."""
    names = [column.name for column in found.columns]
    raw = [["" if (value := getattr(row, name)) is None else value for name in names] for row in found.rows]
    if found.layout is not None:
        columns, rows = _pivoted(shown, found.layout)
        return Table(columns, rows, raw, tuple(names))
    columns = tuple(Column(label_of(name), is_number=name not in ("operator", "entry")) for name in names)
    return Table(columns, [[cell(name, getattr(row, name)) for name in names] for row in shown], raw, tuple(names))


def _pivoted(shown: Sequence[Row], layout: Layout) -> tuple[tuple[Column, ...], list[list[str]]]:
    across = list(dict.fromkeys(getattr(row, layout.columns) for row in shown))
    by_row: dict[Any, dict[Any, str]] = {}
    for row in shown:
        cells = by_row.setdefault(getattr(row, layout.rows), {})
        cells[getattr(row, layout.columns)] = cell(layout.cells, getattr(row, layout.cells))
    head = (Column(label_of(layout.rows), is_number=False), *(Column(cell(layout.columns, one)) for one in across))
    return head, [
        [cell(layout.rows, name), *(cells.get(one, UNKNOWN) for one in across)] for name, cells in by_row.items()
    ]


def label_of(name: str) -> str:
    """The head of a column."""
    labels = {
        "operator": _("Operator"),
        "target": _("Target"),
        "actual": _("Actual"),
        "priority": _("Priority from"),
        "component": _("Component"),
        "density": _("Part"),
        "region": _("Region"),
        "bits": _("Bits"),
        "job_h": _("Job"),
        "published": _("Published"),
        "resolution": _("Resolution"),
        "n_leaves": _("Leaves"),
        "n_misplaced": _("Another rank"),
        "n_lost": _("No longer distinct"),
        "n_tied_pairs": _("Tied pairs"),
        "n_turned_pairs": _("Reversed pairs"),
        "entry": _("Entry"),
        "any_level_h": _("Changes the vector"),
        "every_level_h": _("Visible on every level"),
        "parent_ratio": _("Ratio R of the parent"),
        "k": _("Exponent k"),
        "local_ratio": _("Own ratio r_l"),
        "effective_ratio": _("Ratio R"),
    }
    return labels.get(name, name)


def region_label(name: str) -> str:
    labels = {
        "balance": _("Around balance"),
        "under": _("Under target"),
        "over": _("Over target"),
        "overall": _("Overall"),
    }
    return labels.get(name, name)


def cell(name: str, value: Any) -> str:
    """One value as its column is read."""
    if value is None:
        return _("> 20") if name == "bits" else UNKNOWN
    if name in ("target", "actual"):
        return percent(value)
    if name == "density":
        return f"{value + 1e-9:.4f}"  # halves go up, as in docs/analysis.md
    if name == "priority":
        return signed(value, 3)
    if name in ("job_h", "any_level_h", "every_level_h"):
        return job_hours(value)
    if name == "resolution":
        return resolution_text(value)
    if name == "region":
        return region_label(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return count(value) if isinstance(value, int) else str(value)
