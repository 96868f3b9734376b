"""Context of a figure about operators: records, query, links to other states, and the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.contrib.lab.operators.figure_numbers import NamedTarget
from apps.contrib.lab.operators.records import COUNTS, REGIONS, FigureQuery, FigureTable, Layout, Row
from apps.priorities.sentences.numbers import UNKNOWN, count, job_hours, percent, signed
from apps.priorities.sentences.operators import resolution_text
from apps.web.figures.figure import Choice, Column, Control, Figure, Table, Trace, with_changes


def table_of(figure_table: FigureTable, shown: Sequence[Row]) -> Table:
    """Build the table. shown: the records of the picture; the CSV has all."""
    names = [column.name for column in figure_table.columns]
    raw = [["" if (value := getattr(row, name)) is None else value for name in names] for row in figure_table.rows]
    if figure_table.layout is not None:
        columns, rows = _pivoted(shown, figure_table.layout)
        return Table(columns, rows, raw, tuple(names))
    columns = tuple(Column(label_of(name), is_number=name not in ("operator", "entry")) for name in names)
    return Table(columns, [[cell(name, getattr(row, name)) for name in names] for row in shown], raw, tuple(names))


def _pivoted(shown: Sequence[Row], layout: Layout) -> tuple[tuple[Column, ...], list[list[str]]]:
    across = list(dict.fromkeys(getattr(row, layout.columns) for row in shown))
    by_row: dict[Any, dict[Any, str]] = {}
    for row in shown:
        cells = by_row.setdefault(getattr(row, layout.rows), {})
        cells[getattr(row, layout.columns)] = cell(layout.cells, getattr(row, layout.cells))
    head = (
        Column(label_of(layout.rows), is_number=False),
        *(Column(cell(layout.columns, column)) for column in across),
    )
    return head, [
        [cell(layout.rows, name), *(cells.get(column, UNKNOWN) for column in across)] for name, cells in by_row.items()
    ]


def label_of(name: str) -> str:
    """Return the head of a column."""
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
    """Format a value for its column."""
    if value is None:
        return _("> 20") if name == "bits" else UNKNOWN
    if name in ("target", "actual"):
        return percent(value)
    if name == "density":
        return f"{value + 1e-9:.4f}"  # rounds halves up, as in docs/analysis.md
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


R = TypeVar("R")
_PAPER_TARGETS = (0.1, 0.5)
_MOST_TARGETS = 6


@dataclass(frozen=True)
class FigureContext:
    """own: the queried operator; target: the shown one, 0..1; resolution: the one in use or queried. address: the
    page's query.
    """

    figure_table: FigureTable
    query: FigureQuery
    address: QueryDict
    policy: str
    caption: str
    own: str
    resolution: int
    target: float
    targets: Sequence[NamedTarget]

    def figure(
        self, drawn: Sequence[Trace], layout: dict[str, Any], rows: Sequence[Row] | None = None, **more: Any
    ) -> Figure:
        """Build the figure with its texts. rows: the records of the picture, by default all."""
        figure_table = self.figure_table
        parts: dict[str, Any] = {
            "name": figure_table.name,
            "title": figure_table.title,
            "sentence": figure_table.sentence,
            "note": figure_table.unit,
            "traces": drawn,
            "layout": layout,
            "table": table_of(figure_table, figure_table.rows if rows is None else rows),
            "file": f"fairshare_{self.policy}_{figure_table.name}",
            "caption": self.caption,
        }
        return Figure(**(parts | more))

    def of(self, record: type[R]) -> list[R]:
        return [row for row in self.figure_table.rows if isinstance(row, record)]

    def operator_control(self, names: Iterable[str]) -> Control:
        return self._seg(_("Operator"), "operator", [(name, name) for name in names], self.own)

    def target_control(self) -> Control:
        """Targets of the policy's largest entries, then the paper's."""
        labels = {entry.target: f"{entry.name} {percent(entry.target)}" for entry in self.targets[:_MOST_TARGETS]}
        for target in (*_PAPER_TARGETS, self.target):
            labels.setdefault(target, percent(target))
        choices = [(repr(target), label) for target, label in labels.items()]
        return self._seg(_("Target"), "target", choices, repr(self.target))

    def region_control(self) -> Control:
        choices = [(region, region_label(region)) for region in REGIONS]
        return self._seg(_("Region"), "region", choices, self.query.region)

    def count_control(self) -> Control:
        labels = {
            "misplaced": _("Another rank"),
            "lost": _("No longer distinct"),
            "pairs": _("Pairs ordered differently"),
        }
        return self._seg(_("Counts"), "count", [(name, labels[name]) for name in COUNTS], self.query.count)

    def _seg(self, label: str, name: str, choices: Sequence[tuple[str, str]], chosen: str) -> Control:
        return Control(
            label,
            [
                Choice(f"{name}-{value}", text, with_changes(self.address, **{name: value}), value == chosen)
                for value, text in choices
            ],
        )
