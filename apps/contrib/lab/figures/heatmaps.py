"""Heat maps of operators by component, resolution, bits or region, with the number in each cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log10, sqrt
from typing import Any

from django.utils.translation import gettext as _

from apps.contrib.lab.figures.context import FigureContext, region_label
from apps.contrib.lab.operators.figure_numbers import SEVEN
from apps.contrib.lab.operators.records import (
    BitsNeeded,
    InputDensity,
    JobSize,
    LocalDensity,
    ResolutionEffect,
    Row,
    Step,
)
from apps.priorities.sentences.numbers import count, job_hours, number, percent, signed
from apps.priorities.sentences.operators import resolution_text
from apps.web.figures import axes, traces
from apps.web.figures.figure import Figure

# The ramp without its middle step, on which no text colour has enough contrast.
RAMP = ("$seq-0", "$seq-1", "$seq-2", "$seq-3", "$seq-5", "$seq-6")
# Components from the lowest priority (over target) to the highest (under target).
_COMPONENTS = (
    "$ice-o3",
    "$ice-o2",
    "$ice-o2/0.55",
    "$ice-o1",
    "$ice-u1",
    "$ice-u2/0.55",
    "$ice-u2",
    "$ice-u3",
)
_LEAST_JOB_H, _MOST_JOB_H = 10.0, 10_000.0
_DENSEST = 0.85
_MOST_TEXTS = 150  # in one picture; with more cells only hover and table have the numbers


@dataclass(frozen=True)
class Cell:
    """One cell: row and column as on the axes, position 0..1 on the ramp (None: a gap), text, and hover words."""

    row: str
    column: str
    part: float | None
    text: str
    words: str


def local_density(context: FigureContext) -> Figure:
    cells = [
        Cell(row.operator, signed(row.priority, 2), _dense(row.density), _share(row.density), _density_text(row))
        for row in context.of(LocalDensity)
    ]
    return _heatmap(
        context, cells, note=_in_percent(context), labels=_priority_labels(cells), controls=[context.target_control()]
    )


def input_density(context: FigureContext) -> Figure:
    cells = [
        Cell(row.operator, signed(row.priority, 2), _dense(row.density), _share(row.density), _density_text(row))
        for row in context.of(InputDensity)
    ]
    return _heatmap(context, cells, note=_in_percent(context), labels=_priority_labels(cells))


def aggregation(context: FigureContext) -> Figure:
    cells = [
        Cell(
            percent(row.target, 0),
            signed(row.priority, 2),
            _dense(row.density),
            _share(row.density),
            _density_text(row),
        )
        for row in context.of(LocalDensity)
    ]
    return _heatmap(
        context,
        cells,
        note=_in_percent(context),
        labels=_priority_labels(cells),
        size="l",
        is_upward=True,
        controls=[context.operator_control(SEVEN)],
    )


def _in_percent(context: FigureContext) -> str:
    return f"{context.figure_table.unit} (%)"


def _dense(density: float) -> float | None:
    """Position on the ramp by the square root, so that small differences are visible; components never reached are
    gaps.
    """
    return sqrt(min(density, _DENSEST) / _DENSEST) if density > 0 else None


def _share(density: float) -> str:
    return "–" if density == 0 else number(100 * density, 1 if density < 0.0095 else 0)


def _density_text(row: LocalDensity | InputDensity) -> str:
    return _("%(part)s from priority %(priority)s on") % {
        "part": percent(row.density),
        "priority": signed(row.priority, 2),
    }


def job_size(context: FigureContext) -> Figure:
    """The line marks where the queried job becomes visible."""
    rows = [row for row in context.of(JobSize) if row.region == context.query.region]
    cells = [Cell(row.operator, str(row.bits), _by_job(row.job_h), "", _job_text(row)) for row in rows]
    figure = _heatmap(context, cells, rows=rows, controls=[context.region_control()])
    figure.layout["shapes"] = _edges(rows, context.query.job_h)
    figure.layout["annotations"] = _first_texts(rows, context.query.job_h, cells)
    return figure


def _by_job(job_h: float | None) -> float | None:
    if job_h is None:
        return None
    low, high = log10(_LEAST_JOB_H), log10(_MOST_JOB_H)
    return min(max((log10(max(job_h, 1e-9)) - low) / (high - low), 0.0), 1.0)


def _job_text(row: JobSize) -> str:
    if row.job_h is None:
        return _("%(bits)s bits: component not reached") % {"bits": row.bits}
    return _("%(bits)s bits: a job of %(job)s h is visible") % {"bits": row.bits, "job": job_hours(row.job_h)}


def _first_bits(rows: Sequence[JobSize], job_h: float) -> dict[str, int | None]:
    """Bits from which the job is visible, by operator, in the axis's order (from below)."""
    first_bits: dict[str, int | None] = dict.fromkeys(reversed(list(dict.fromkeys(row.operator for row in rows))))
    for row in rows:
        if first_bits[row.operator] is None and row.job_h is not None and row.job_h <= job_h:
            first_bits[row.operator] = row.bits
    return first_bits


def _edges(rows: Sequence[JobSize], job_h: float) -> list[dict[str, Any]]:
    """Draw a stepped line with a halo."""
    fewest, most = min(row.bits for row in rows), max(row.bits for row in rows)
    at = [(bits if bits is not None else most + 1) - fewest - 0.5 for bits in _first_bits(rows, job_h).values()]
    parts: list[dict[str, float]] = []
    for row, x in enumerate(at):
        if row and at[row - 1] != x:
            parts.append({"x0": at[row - 1], "x1": x, "y0": row - 0.5, "y1": row - 0.5})
        parts.append({"x0": x, "x1": x, "y0": row - 0.5, "y1": row + 0.5})
    pens = ({"color": "$surface", "width": 4.5}, {"color": "$ink", "width": 1.75})
    return [{"type": "line", **part, "line": pen} for pen in pens for part in parts]


def _first_texts(rows: Sequence[JobSize], job_h: float, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Write the number of bits into the first cell in which the job is visible."""
    fewest = min(row.bits for row in rows)
    first = {name: (bits, y) for y, (name, bits) in enumerate(_first_bits(rows, job_h).items()) if bits is not None}
    return [
        _text(cell, cell.column, first[cell.row][0] - fewest, first[cell.row][1])
        for cell in cells
        if cell.row in first and cell.column == str(first[cell.row][0])
    ]


def bits(context: FigureContext) -> Figure:
    cells = [
        Cell(
            row.operator,
            region_label(row.region),
            None if row.bits is None else (row.bits - 3) / 17,
            "> 20" if row.bits is None else str(row.bits),
            _bits_text(row),
        )
        for row in context.of(BitsNeeded)
    ]
    labels = {cell.column: cell.column.replace(" ", "<br>", 1) for cell in cells}  # two lines, for narrow windows
    figure = _heatmap(context, cells, labels=labels)
    return replace(figure, layout=figure.layout | {"margin": axes.margin(96, 12, 8, 40)} if figure.layout else {})


def _bits_text(row: BitsNeeded) -> str:
    needed = _("more than 20 bits") if row.bits is None else _("%(bits)s bits") % {"bits": row.bits}
    if row.published is None:
        return f"{region_label(row.region)}: {needed}"
    published = _("%(bits)s in the paper") % {"bits": row.published}
    return f"{region_label(row.region)}: {needed}, {published}"


def resolution(context: FigureContext) -> Figure:
    """Draw the effects of resolutions; the queried one is outlined."""
    rows = context.of(ResolutionEffect)
    counted: dict[str, Callable[[ResolutionEffect], int]] = {
        "misplaced": lambda row: row.n_misplaced,
        "lost": lambda row: row.n_lost,
        "pairs": lambda row: row.n_tied_pairs + row.n_turned_pairs,
    }
    n_of = counted[context.query.count]
    most = max(
        (row.n_leaves * (row.n_leaves - 1) // 2 if context.query.count == "pairs" else row.n_leaves for row in rows),
        default=1,
    )
    cells = [
        Cell(
            row.operator,
            resolution_text(row.resolution),
            _part(n_of(row), most),
            count(n_of(row)),
            _effect_text(row, n_of(row), context.query.count),
        )
        for row in rows
    ]
    labels = {resolution_text(row.resolution): _bits_or_number(row.resolution) for row in rows}
    figure = _heatmap(context, cells, labels=labels, controls=[context.count_control()])
    columns = list(dict.fromkeys(cell.column for cell in cells))
    if resolution_text(context.resolution) in columns:
        at = columns.index(resolution_text(context.resolution))
        frame = {"color": "$accent", "width": 1.5}
        figure.layout["shapes"] = [
            {"type": "rect", "x0": at - 0.5, "x1": at + 0.5, "yref": "paper", "y0": 0, "y1": 1, "line": frame}
        ]
    return figure


def _bits_or_number(resolution: int) -> str:
    """Return the bits of a power of two, else the number, e.g. 10 k."""
    is_power = resolution & (resolution - 1) == 0
    return str(resolution.bit_length() - 1) if is_power else axes.short_amount(resolution)


def _part(n: int, most: int) -> float:
    return 0.0 if n == 0 else 0.15 + 0.85 * sqrt(n / max(most, 1))


def _effect_text(row: ResolutionEffect, n: int, kind: str) -> str:
    texts = {
        "misplaced": _("at %(resolution)s: %(n)s of %(all)s leaves with another rank"),
        "lost": _("at %(resolution)s: %(n)s of %(all)s leaves no longer distinct"),
        "pairs": _("at %(resolution)s: %(n)s pairs of %(all)s leaves ordered differently"),
    }
    return texts[kind] % {
        "resolution": resolution_text(row.resolution),
        "n": count(n),
        "all": count(row.n_leaves),
    }


def steps(context: FigureContext) -> Figure:
    """Figure 6 of one operator, seen from above: areas of pairs that share a component."""
    every = context.of(Step)
    rows = [row for row in every if row.operator == context.own]
    n = 2**context.query.bits
    targets, actuals = (sorted({getattr(row, name) for row in rows}) for name in ("target", "actual"))
    by_pair = {(row.target, row.actual): row for row in rows}
    grid = [[by_pair[target, actual] for actual in actuals] for target in targets]
    trace = traces.cells(
        [[row.component * len(_COMPONENTS) // n for row in line] for line in grid],
        [[_step_text(row) for row in line] for line in grid],
        _COMPONENTS,
        gap=0.0,
    )
    last = len(grid) - 0.5
    marks = [-0.5 + (last + 0.5) * part / 4 for part in range(5)]
    percents = {"range": [-0.5, last], "tickvals": marks, "ticktext": ["0", "25", "50", "75", "100\u00a0%"]}
    layout = {
        "margin": axes.margin(44, 12, 8, 24),
        "xaxis": percents | {"fixedrange": True},
        "yaxis": percents | {"showgrid": False, "fixedrange": True},
        "hovermode": "closest",
        "bargap": 0,
    }
    control = context.operator_control(dict.fromkeys(row.operator for row in every))
    return context.figure([trace], layout, rows, reads=False, size="l", controls=[control])


def _step_text(row: Step) -> str:
    return _("actual %(actual)s, target %(target)s: component %(component)s, priorities from %(priority)s on") % {
        "actual": percent(row.actual),
        "target": percent(row.target),
        "component": count(row.component + 1),
        "priority": signed(row.priority, 2),
    }


def _heatmap(
    context: FigureContext,
    cells: Sequence[Cell],
    *,
    rows: Sequence[Row] | None = None,
    is_upward: bool = False,
    labels: Mapping[str, str] | None = None,
    **more: Any,
) -> Figure:
    """The first row is on top unless `is_upward`. labels: of columns, if they differ from their names."""
    if not cells:
        nothing = _("No usage yet: numbers appear with the first recompute.")
        return context.figure([], {}, (), empty=nothing, reads=False, **more)
    names = list(dict.fromkeys(cell.row for cell in cells))
    names = names if is_upward else names[::-1]
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_position = {(cell.row, cell.column): cell for cell in cells}
    grid = [[by_position.get((name, column)) for column in columns] for name in names]
    trace = traces.cells(
        [[None if cell is None else _step(cell.part) for cell in line] for line in grid],
        [["" if cell is None else f"{cell.row} {cell.words}" for cell in line] for line in grid],
        RAMP,
    )
    layout = {
        "margin": axes.margin(96, 12, 8, 24),
        "xaxis": _names_axis(columns, labels) | {"tickangle": 0},
        "yaxis": _names_axis(names) | {"showgrid": False},
        "hovermode": "closest",
        "annotations": [
            _text(cell, cell.text, columns.index(cell.column), names.index(cell.row))
            for cell in (cells if len(cells) <= _MOST_TEXTS else ())
            if cell.text
        ],
    }
    return context.figure([trace], layout, rows, reads=False, **{"size": "m", **more})


def _names_axis(names: Sequence[str], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Axis with names at 0, 1, …; with labels only at columns that have one."""
    context = [
        (at, name if labels is None else labels[name])
        for at, name in enumerate(names)
        if labels is None or name in labels
    ]
    return {
        "range": [-0.5, len(names) - 0.5],
        "tickvals": [at for at, _label in context],
        "ticktext": [label for _at, label in context],
        "fixedrange": True,
        "zeroline": False,
    }


def _priority_labels(cells: Sequence[Cell]) -> dict[str, str]:
    """Label about four priorities, so that they don't overlap in a narrow window."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    return {column: column for column in columns[:: max(len(columns) // 4, 1)]}


def _step(part: float | None) -> int | None:
    return None if part is None else min(int(part * len(RAMP)), len(RAMP) - 1)


def _text(cell: Cell, text: str, x: int, y: int) -> dict[str, Any]:
    step = _step(cell.part)
    color = "$ink-3" if step is None else "$on-seq-high" if step > 3 else "$on-seq-low"
    return {"x": x, "y": y, "text": text, "showarrow": False, "font": {"size": 11, "color": color}}
