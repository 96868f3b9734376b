"""The engine in memory: from usage to ranks and factors, beside A, one stable argsort of a million doubles.

Each figure is the median over rounds of a time divided by the A measured just before it, so that a busy machine slows
both sides alike. What a revision alone decides (targets, lists, levels) is computed once before.
"""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from apps.engine import fast
from apps.engine.algorithms import compute
from bench import shapes
from bench.clock import processor_s
from bench.report import BenchLine

N_LEAVES = 1_000_000
ROUNDS = 7
SHAPE_ROUNDS = 3
GOAL_BYTES = 200.0

AEQUUS: dict[str, Any] = {"name": "aequus"}
FAIR_TREE: dict[str, Any] = {"name": "slurm-fair-tree"}
DOCUMENTED: dict[str, Any] = {"name": "slurm-fair-tree", "ties": "as-documented"}
FLUX: dict[str, Any] = {"name": "flux"}
LABELS = {
    "vectors with ranks (aequus, relative)": AEQUUS,
    "fair tree (slurm-fair-tree, as-slurm)": FAIR_TREE,
    "fair tree (slurm-fair-tree, as-documented)": DOCUMENTED,
    "fair tree (flux)": FLUX,
}
GOALS = {1_000_000: {"vectors": 0.35, "fair": 0.6}, 100_000: {"fair": 0.08}}
SHAPES: tuple[Callable[[int], shapes.Shape], ...] = (
    shapes.tie_heavy,
    shapes.near_ties,
    shapes.all_idle,
    shapes.flat,
    shapes.six_levels,
)
GROWTH = (1_000, 10_000, 100_000, 1_000_000, 3_000_000)


class Ratio(NamedTuple):
    """Time in units of A, and in seconds."""

    of_anchor: float
    seconds: float


def measure() -> list[BenchLine]:
    """Standard sizes, other shapes, small trees and memory; machine code where it makes a difference."""
    million, standard = _standard()
    return [*_sizes(standard, million), *_shapes(standard), *_memory(million)]


def measure_large() -> list[BenchLine]:
    """Growth up to three million leaves."""
    return [*_growth(_standard()[1])]


def _standard() -> tuple[shapes.Shape, dict[str, Ratio]]:
    million = shapes.standard(N_LEAVES)
    return million, {label: _ratio(million, settings, ROUNDS, is_fast=False) for label, settings in LABELS.items()}


def _sizes(standard: dict[str, Ratio], million: shapes.Shape) -> Iterator[BenchLine]:
    for size, shape in ((N_LEAVES, million), (100_000, shapes.standard(100_000))):
        for label, settings in LABELS.items():
            kind = label.split(" ", 1)[0]
            ratio = standard[label] if size == N_LEAVES else _ratio(shape, settings, ROUNDS, is_fast=False)
            detail, goal = f"{ratio.seconds * 1e3:.1f} ms", GOALS[size].get(kind)
            yield BenchLine(f"{label}, {size:,} leaves, numpy alone / A", ratio.of_anchor, goal, detail)
    small = shapes.standard(1_000)
    for label, settings in LABELS.items():
        seconds = _ratio(small, settings, 20 * ROUNDS, is_fast=False, n_anchor=1).seconds
        yield BenchLine(f"{label}, 1,000 leaves, milliseconds", seconds * 1e3, 1.0)


def _shapes(standard: dict[str, Ratio]) -> Iterator[BenchLine]:
    """Other shapes of a million leaves beside the standard one."""
    for make in SHAPES:
        shape = make(N_LEAVES)
        for label, settings in LABELS.items():
            ratio = _ratio(shape, settings, SHAPE_ROUNDS, is_fast=False)
            times = ratio.of_anchor / standard[label].of_anchor
            # Levels equal on paper and different in bits are divided again, exactly: reported, without a goal.
            goal = None if make is shapes.near_ties else 3.0
            name = f"{label}, {make.__name__.replace('_', ' ')} / standard shape"
            detail = f"{ratio.of_anchor:.3f} A, {ratio.seconds * 1e3:.0f} ms"
            if make is shapes.near_ties and settings["name"] == "slurm-fair-tree" and fast.IS_INSTALLED:
                detail += f"; {_ratio(shape, settings, SHAPE_ROUNDS, is_fast=True).of_anchor:.3f} A with [fast]"
            yield BenchLine(name, times, goal, detail)


def _growth(standard: dict[str, Ratio]) -> Iterator[BenchLine]:
    """Time by size: of each leaf in nanoseconds, so that linear growth shows as equal numbers."""
    leaf_times: dict[str, list[str]] = {label: [] for label in LABELS}
    last: dict[str, Ratio] = {}
    for size in GROWTH:
        shape = shapes.standard(size) if size != N_LEAVES else None
        for label, settings in LABELS.items():
            rounds = SHAPE_ROUNDS if size >= 100_000 else 10 * ROUNDS
            last[label] = standard[label] if shape is None else _ratio(shape, settings, rounds, is_fast=False)
            leaf_times[label].append(f"{size // 1000}k: {last[label].seconds / size * 1e9:.0f}")
    for label, times in leaf_times.items():
        detail = f"ns a leaf: {', '.join(times)}"
        yield BenchLine(f"{label}, growth, 3,000,000 leaves / A", last[label].of_anchor, None, detail)


def _memory(million: shapes.Shape) -> Iterator[BenchLine]:
    tree, usage = million
    for label, settings in LABELS.items():
        tracemalloc.start()
        compute(tree, usage, algorithm=settings)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        detail = f"{peak / 2**20:.0f} MiB at the peak, result included"
        yield BenchLine(f"{label}, 1,000,000 leaves, bytes a node", peak / tree.n_entries, GOAL_BYTES, detail)


def _ratio(
    shape: shapes.Shape, settings: dict[str, Any], rounds: int, *, is_fast: bool, n_anchor: int | None = None
) -> Ratio:
    """Median of interleaved rounds; the first computation, which prepares the tree and compiles, isn't counted."""
    tree, usage = shape
    numbers = np.random.default_rng(0).random(1_000_000)
    ratios, seconds = [], []
    with fast.switched(is_fast):
        result = compute(tree, usage, algorithm=settings)
        assert result.rank[result.is_ranked].min() == 1
        anchor_s = 0.0
        for number in range(rounds):
            if number < (n_anchor or min(rounds, 2 * ROUNDS)):
                anchor_s = processor_s(lambda: np.argsort(numbers, kind="stable"))
            seconds.append(processor_s(lambda: compute(tree, usage, algorithm=settings)))
            ratios.append(seconds[-1] / anchor_s)
    return Ratio(statistics.median(ratios), statistics.median(seconds))
