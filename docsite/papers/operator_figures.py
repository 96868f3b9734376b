"""Figures 4 to 17 of the operators paper, from the functions that `analyse` prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from apps.contrib.lab.operators import figure_numbers
from apps.contrib.lab.operators.figure_numbers import JOB_BITS, SEVEN
from apps.contrib.lab.operators.records import FigureQuery, LocalDensity
from apps.engine import codecs
from apps.engine.analysis import density, job_size
from apps.engine.operators import get_operator
from docsite.markdown import table
from docsite.papers.drawing import Axis, curves, heat_map
from docsite.papers.figure import Figure

_OPERATORS = [get_operator(name) for name in SEVEN]
_BITS = 3
_PRIORITY_TICKS = {0: "−1", 4: "0", 7: "0.75"}
_INVERTED = {"u1": (0.015, -0.5), "u2": (0.012, 0.5)}  # priorities of two users on two levels


def figures() -> Iterator[Figure]:
    yield Figure(
        "operators",
        "1",
        "the pipeline",
        "Shares and usage are distributed, priorities computed from them, and applied by schedulers.",
        "Mounts and feeds distribute, a recompute makes a snapshot, look-ups and agents apply it.",
        "[architecture](../architecture.md)",
    )
    yield Figure(
        "operators",
        "2",
        "a tree of organisations",
        "Two organisations and a local queue divide a system, and divide their shares again.",
        "The tree of the sample grid is drawn with targets and usage.",
        "[a worked tree](../worked-tree.md)",
    )
    yield Figure(
        "operators",
        "3",
        "from the tree to vectors",
        "The priorities on the path from the root are the vector of a leaf.",
        "The worked tree has the vector of each leaf, and their order.",
        "[a worked tree](../worked-tree.md)",
    )
    yield Figure(
        "operators",
        "4",
        "a vector as a string",
        "At a resolution of 10,000 the components run from 0 to 9999 and are joined to one string.",
        _written_vector(),
        "`key` of REST",
    )
    yield Figure(
        "operators",
        "5",
        "what a low resolution loses",
        "At 100 two users share the first component and the second one decides wrongly; at 1,000 the order is right.",
        _inverted_order(),
        "`analyse resolution`",
    )
    yield Figure(
        "operators",
        "6",
        "steps of absolute at 3 bits",
        "Each effective priority is a flat strip over targets and actuals.",
        _largest_step(),
        "`manage.py analyse steps --operator absolute`",
        heat_map("Component of absolute by target (up) and actual (right)", _steps(), {0: "0", 19: "1"}),
    )
    yield Figure(
        "operators",
        "7",
        "input density of absolute",
        "Fewest inputs fall on the ends, most around balance.",
        _ends_and_balance("absolute"),
        "`manage.py analyse input-density --operator absolute`",
        heat_map("Input density of absolute at 3 bits", _densities(["absolute"]), _PRIORITY_TICKS),
    )
    yield Figure(
        "operators",
        "8",
        "input density of seven operators",
        "Relative is level; sigmoid-2 has the fewest inputs around balance and the most at the ends.",
        f"{_ends_and_balance('sigmoid-2')} {_ends_and_balance('relative')}",
        "`manage.py analyse input-density`",
        heat_map("Input density at 3 bits by operator and priority", _densities(SEVEN), _PRIORITY_TICKS),
    )
    yield Figure(
        "operators",
        "9",
        "densities of absolute at eleven targets",
        "No target reaches all priorities; the sum over targets hides that.",
        _unreached(),
        "`manage.py analyse aggregation --operator absolute`",
        heat_map("Local density of absolute by target and priority", _by_target(), _PRIORITY_TICKS),
    )
    for number, target in (("10", 0.1), ("11", 0.5)):
        yield Figure(
            "operators",
            number,
            f"profiles at a target of {target:g}",
            "The steeper the curve, the finer the operator; all meet 0 at the target.",
            _slopes(target),
            f"`manage.py analyse profiles --target {target:g}`",
            _profile(target),
        )
    for number, target in (("12", 0.1), ("13", 0.5)):
        rows = _rows_of(figure_numbers.local_densities(_OPERATORS, [target], _BITS))
        yield Figure(
            "operators",
            number,
            f"local densities at a target of {target:g}",
            "Sigmoid-2 is the finest around balance.",
            _finest_around_balance(rows),
            f"`manage.py analyse local-density --target {target:g}`",
            heat_map(f"Local density at a target of {target:g}, 3 bits", rows, _PRIORITY_TICKS),
        )
    for number, region, said in (
        ("14", "balance", "Sigmoid-2 needs the smallest jobs."),
        ("15", "under", "Relative-2 needs the smallest jobs."),
        ("16", "over", "Sigmoid-2 needs the smallest jobs, combined the largest."),
    ):
        yield Figure(
            "operators",
            number,
            f"smallest visible job, {region}",
            said,
            _job_order(region),
            f"`manage.py analyse job-size --region {region} --reading typical`",
            heat_map(f"Logarithm of the smallest visible job, {region}", _job_sizes(region), _bit_ticks()),
        )
    yield Figure(
        "operators",
        "17",
        "bits for a job of 2,000 h",
        "Sigmoid-2 needs the fewest bits at balance and over target, relative-2, Slurm and combined under target.",
        _bits_table(),
        "`manage.py analyse bits --reading typical`",
    )


def _written_vector() -> str:
    vector = codecs.scalar(np.array([-1.0, 0.0, 1.0]), 10_000).tolist()
    return f"Priorities −1, 0 and 1 are the components {vector}, written `{codecs.key_string(vector, 3, 10_000)}`."


def _inverted_order() -> str:
    texts = []
    for resolution in (100, 1_000):
        vectors = {name: codecs.scalar(np.array(p), resolution).tolist() for name, p in _INVERTED.items()}
        first = max(vectors, key=vectors.__getitem__)
        texts.append(f"at {resolution:,}: u1 {vectors['u1']}, u2 {vectors['u2']}, so {first} is first")
    parameters = " and ".join(f"{name} ({p[0]:g}, {p[1]:+g})" for name, p in _INVERTED.items()).replace("-", "−")
    return f"With {parameters}, {'; '.join(texts)}."


def _steps() -> dict[str, list[float | None]]:
    rows: dict[str, list[float | None]] = {}
    for cell in figure_numbers.steps([get_operator("absolute")], _BITS):
        rows.setdefault(f"{cell.target:.3f}", []).append(cell.component)
    return dict(reversed(rows.items()))


def _largest_step() -> str:
    parts = density.input_density(get_operator("absolute"), 2**_BITS)
    return (
        f"Eight strips; the widest two have {parts.max():.4f} of all inputs each, the narrowest two {parts.min():.4f}."
    )


def _densities(names: Sequence[str]) -> dict[str, list[float | None]]:
    return {name: density.input_density(get_operator(name), 2**_BITS).tolist() for name in names}


def _ends_and_balance(name: str) -> str:
    parts = density.input_density(get_operator(name), 2**_BITS)
    return (
        f"{name}: {parts[0] + parts[-1]:.4f} at both ends, {parts[3] + parts[4]:.4f} in the two parts around balance."
    )


def _rows_of(cells: Iterable[LocalDensity]) -> dict[str, list[float | None]]:
    rows: dict[str, list[float | None]] = {}
    for cell in cells:
        rows.setdefault(cell.operator, []).append(cell.density)
    return rows


def _by_target() -> dict[str, list[float | None]]:
    rows: dict[str, list[float | None]] = {}
    for cell in figure_numbers.aggregation(get_operator("absolute"), _BITS):
        rows.setdefault(f"{cell.target:.1f}", []).append(cell.density)
    return rows


def _unreached() -> str:
    n_unreached = [sum(part == 0 for part in row) for row in _by_target().values()]
    return f"Of the 8 priorities, {min(n_unreached)} to {max(n_unreached)} are out of reach, by target."


def _profile(target: float) -> str:
    by_name: dict[str, list[tuple[float, float | None]]] = {}
    for point in figure_numbers.profiles(_OPERATORS, target):
        by_name.setdefault(point.operator, []).append((point.actual, point.priority))
    x = Axis(0.0, 1.0, [(0.0, "0"), (target, f"{target:g}"), (1.0, "1")])
    y = Axis(-1.0, 1.0, [(-1.0, "−1"), (0.0, "0"), (1.0, "1")])
    return curves(f"Priority by actual share at a target of {target:g}", by_name, x, y)


def _slopes(target: float) -> str:
    """What one point of usage beside the target moves."""
    actual = np.array([target + 0.01])
    moved = {one.name: abs(float(one(np.array([target]), actual)[0])) for one in _OPERATORS}
    most, least = (pick(moved, key=moved.__getitem__) for pick in (max, min))
    return f"One point above the target moves {most} by {moved[most]:.3f} and {least} by {moved[least]:.3f}."


def _finest_around_balance(rows: dict[str, list[float | None]]) -> str:
    widths = {name: (row[3] or 0.0) + (row[4] or 0.0) for name, row in rows.items()}
    finest = min(widths, key=widths.__getitem__)
    return f"The two parts around balance are narrowest with {finest}: {widths[finest]:.4f} of all actuals."


def _job_sizes(region: str) -> dict[str, list[float | None]]:
    rows: dict[str, list[float | None]] = {}
    for size in figure_numbers.job_sizes(_OPERATORS, FigureQuery(reading="typical")):
        if size.region == region:
            rows.setdefault(size.operator, []).append(None if not size.job_h else math.log10(size.job_h))
    return rows


def _bit_ticks() -> dict[int, str]:
    return {column: str(bits) for column, bits in enumerate(JOB_BITS) if column % 4 == 0}


def _job_order(region: str) -> str:
    order = job_size.best_first(_OPERATORS, region, job_size.TYPICAL)
    return f"At 10 bits, smallest job first: {', '.join(order)}."


def _bits_table() -> str:
    """Rows of operators; each cell has our bits by the reading *typical*, and the published."""
    ours = job_size.bits_table(_OPERATORS, job_size.TYPICAL)
    rows = [
        (name, *(f"{ours[name][column]} ({bits})" for column, bits in zip(job_size.COLUMNS, published, strict=True)))
        for name, published in job_size.PUBLISHED.items()
    ]
    head = ("operator", *job_size.COLUMNS)
    return f"Our bits, and in brackets the published:\n\n{table(head, rows)}"
