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
    order, over = found.order(), scales_of(found, found.n_over)
    widened = scales_of(found) if found.n_over < len(found.on) else over
    targets = _largest(found.target[:, : found.n_over]).tolist()
    large = [row for row in order if targets[row] >= SMALL]
    tail = [row for row in order if targets[row] < SMALL]
    here = set([*large, *tail][(page - 1) * PAGE : page * PAGE])
    sections = []
    for rows, is_small in ((large, False), (tail, True)):
        scales, shared = shared_scales([over[row] for row in rows])
        common = max([shared, *(widened[row] for row, top in zip(rows, scales, strict=True) if top == shared)])
        scales = [common if top == shared else max(top, widened[row]) for row, top in zip(rows, scales, strict=True)]
        shown = [(row, scale) for row, scale in zip(rows, scales, strict=True) if row in here]
        if shown:
            sections.append(Section(is_small, rows, scales, common, shown))
    return sections


def scales_of(found: Convergence, n_points: int | None = None) -> list[float]:
    """For each panel the smallest step that holds all of it, or its first points."""
    part = slice(n_points)
    needed = np.maximum(_largest(found.actual[:, part]), _largest(found.target[:, part] + found.slack[:, part]))
    steps = np.array(STEPS)
    at = np.minimum(np.searchsorted(steps, needed - 1e-12), len(steps) - 1)
    scales: list[float] = steps[at].tolist()
    return scales


def shared_scales(steps: Sequence[float]) -> tuple[list[float], float]:
    """The scale of each panel of a section, and the one that is shared: a single giant doesn't flatten the others."""
    ordered = [*sorted(steps, reverse=True), 0.0, 0.0]
    common = ordered[1] if 0 < _OUTLIER * ordered[1] < ordered[0] else ordered[0]
    return [step if step > common else common for step in steps], common


def _largest(values: F8) -> F8:
    """(rows, points) → (rows,): of those that are known; 0 where none is."""
    found: F8 = np.max(values, axis=1, initial=0.0, where=np.isfinite(values))
    return found
