"""The seven operators of the operators paper in time and memory, whole recomputes with ranks; the paper leaves it open.

Time beside A, one stable argsort of a million doubles in the same rounds. Memory by tracemalloc: the peak of one
recompute, result included, over what was there before; once more for the first recompute of a revision, which also
prepares the tree.
"""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np

from apps.engine.algorithms import compute
from apps.engine.arrays import FloatArray
from apps.engine.operators import get_operator
from apps.engine.tree import FairshareTree
from bench.clock import processor_s
from bench.engine import N_LEAVES, standard_tree
from bench.report import BenchLine

SEVEN = ("absolute", "relative", "relative-2", "sigmoid", "sigmoid-2", "slurm", "combined")
ROUNDS = 4
SMALL_ROUNDS = 40
GOAL_BYTES = 200.0


def measure() -> list[BenchLine]:
    """Fastest of several interleaved rounds, so that a busy machine slows all alike."""
    numbers = np.random.default_rng(0).random(N_LEAVES)
    large, small = standard_tree(), small_tree()
    anchor_s, large_s = _fastest(large, numbers, ROUNDS)
    _, small_s = _fastest(small, numbers[:0], SMALL_ROUNDS)
    lines = []
    for name in SEVEN:
        detail = (
            f"{large_s[name] * 1e3:.0f} ms beside A = {anchor_s * 1e3:.0f} ms; formula: {get_operator(name).formula}"
        )
        lines.append(BenchLine(f"{name}, 1M leaves / A", large_s[name] / anchor_s, None, detail))
    for name in SEVEN:
        lines.append(
            BenchLine(f"{name}, 1k leaves / A", small_s[name] / anchor_s, None, f"{small_s[name] * 1e6:.0f} µs")
        )
    for label, (tree, usage) in (("1M", large), ("1k", small)):
        for name in SEVEN:
            peak = _peak_bytes(tree, usage, name)
            per_node = peak / tree.n_entries
            # A thousand leaves leave room for what doesn't grow with them, so only the large tree has a goal.
            goal = GOAL_BYTES if label == "1M" else None
            detail = f"{peak / 2**20:.1f} MiB for {tree.n_entries:,} entries"
            lines.append(BenchLine(f"{name}, {label} leaves, peak bytes a node", per_node, goal, detail))
    tree, usage = standard_tree()  # not prepared yet
    peak = _peak_bytes(tree, usage, "relative")
    detail = f"{peak / 2**20:.1f} MiB for {tree.n_entries:,} entries, targets and levels included"
    lines.append(
        BenchLine("relative, 1M leaves, first of a revision, bytes a node", peak / tree.n_entries, GOAL_BYTES, detail)
    )
    return lines


def small_tree() -> tuple[FairshareTree, FloatArray]:
    """root → 10 groups → 100 users each, 20 % of them idle; usage by entry."""
    rng = np.random.default_rng(2005)
    parent = np.concatenate(([-1], np.zeros(10, dtype=np.int64), 1 + np.repeat(np.arange(10), 100)))
    tree, order = FairshareTree.from_columns(parent, rng.integers(1, 100, len(parent)).astype(np.float64))
    usage = rng.exponential(3600.0, len(parent)) * (rng.random(len(parent)) > 0.2)
    return tree, np.where(np.arange(len(parent)) > 10, usage, 0.0)[order]


def _settings(name: str) -> dict[str, Any]:
    return {"name": "aequus", "operator": name}


def _fastest(
    drawn: tuple[FairshareTree, FloatArray], numbers: FloatArray, rounds: int
) -> tuple[float, dict[str, float]]:
    tree, usage = drawn
    anchor_s, fastest_s = float("inf"), dict.fromkeys(SEVEN, float("inf"))
    compute(tree, usage)  # revision-time work: targets, seats, levels
    for _ in range(rounds):
        anchor_s = min(anchor_s, processor_s(lambda: np.argsort(numbers, kind="stable")))
        for name in SEVEN:
            fastest_s[name] = min(
                fastest_s[name], processor_s(partial(compute, tree, usage, algorithm=_settings(name)))
            )
    return anchor_s, fastest_s


def _peak_bytes(tree: FairshareTree, usage: FloatArray, name: str) -> int:
    """Most memory that numpy and Python held at once during a recompute, beyond what they held before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        result = compute(tree, usage, algorithm=_settings(name))
        _, peak = tracemalloc.get_traced_memory()
        assert result.n_ranked > 0
    finally:
        tracemalloc.stop()
    return peak - before
