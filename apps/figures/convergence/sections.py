"""Which panels stand on a page of small multiples, in which section, and the scale that a section shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apps.analytics.convergence.records import Convergence
from apps.analytics.series.storage.columns import F8

PAGE = 12  # panels
SMALL = 0.05  # of the parent: smaller ones have a section of their own
STEPS = (0.01, 0.02, 0.04, 0.06, 0.10, 0.20, 0.40, 0.60, 1.0)  # whose halves are short to write
_OUTLIER = 2.5  # a panel that needs so much more than the next one gets a scale of its own


@dataclass(frozen=True, slots=True)
class Section:
    """rows: of all its members; scales: the top of each one's axis, 0..1; common: the one that is shared; shown: the
    rows on this page, with their scales."""

    is_small: bool
    rows: list[int]
    scales: list[float]
    common: float
    shown: list[tuple[int, float]]


def sections_of(found: Convergence, page: int) -> list[Section]:
    """The panels of a page, twelve of them: large shares first, each section by how far off its members are.

    Days that are over say which panel is where and which scale is shared; a newest point beyond it widens the scale.
    """
    order = found.order()
    small = {row for row in order if _largest(found.target[row, : found.n_over]) < SMALL}
    large = [row for row in order if row not in small]
    tail = [row for row in order if row in small]
    here = set([*large, *tail][(page - 1) * PAGE : page * PAGE])
    sections = []
    for rows, is_small in ((large, False), (tail, True)):
        scales, common = shared_scales([scale_of(found, row, found.n_over) for row in rows])
        widest = max([common, *(scale_of(found, row) for row, top in zip(rows, scales, strict=True) if top == common)])
        scales = [
            widest if top == common else max(top, scale_of(found, row)) for row, top in zip(rows, scales, strict=True)
        ]
        common = widest
        shown = [(row, scale) for row, scale in zip(rows, scales, strict=True) if row in here]
        if shown:
            sections.append(Section(is_small, rows, scales, common, shown))
    return sections


def scale_of(found: Convergence, row: int, n_points: int | None = None) -> float:
    """The smallest step that holds all of one panel, or its first points."""
    part = slice(n_points)
    needed = max(_largest(found.actual[row, part]), _largest(found.target[row, part] + found.slack[row, part]))
    return next((step for step in STEPS if step >= needed - 1e-12), 1.0)


def shared_scales(steps: Sequence[float]) -> tuple[list[float], float]:
    """The scale of each panel of a section, and the one that is shared: a single giant doesn't flatten the others."""
    ordered = [*sorted(steps, reverse=True), 0.0, 0.0]
    common = ordered[1] if 0 < _OUTLIER * ordered[1] < ordered[0] else ordered[0]
    return [step if step > common else common for step in steps], common


def _largest(values: F8) -> float:
    """Of those that are known; 0 where none is."""
    return float(np.max(values, initial=0.0, where=np.isfinite(values)))
