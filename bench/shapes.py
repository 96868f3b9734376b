"""Trees to measure on: all leaves are users, shares and usage come from a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apps.engine.arrays import FloatArray, IntArray
from apps.engine.tree import FairshareTree

Shape = tuple[FairshareTree, FloatArray]
IDLE_PART = 0.2


def standard(n_leaves: int) -> Shape:
    """root → divisions → groups of about 100 users, 100 groups a division; a fifth of the users idle."""
    rng = np.random.default_rng(2005)
    tree = _tree(rng, _three_levels(rng, n_leaves), n_leaves)
    return tree, _amounts(rng, tree, lambda n: rng.exponential(3600.0, n) * (rng.random(n) > IDLE_PART))


def tie_heavy(n_leaves: int) -> Shape:
    """The standard tree with equal shares everywhere and usage 0, 1 or 2."""
    rng = np.random.default_rng(2006)
    tree = _tree(rng, _three_levels(rng, n_leaves), n_leaves, most_shares=1)
    return tree, _amounts(rng, tree, lambda n: rng.integers(0, 3, n).astype(np.float64))


def near_ties(n_leaves: int) -> Shape:
    """The standard tree with few shares and usage in proportion to them, times 1 or 2: equal on paper, not in bits."""
    rng = np.random.default_rng(2007)
    tree = _tree(rng, _three_levels(rng, n_leaves), n_leaves, most_shares=7)
    usage: FloatArray = _amounts(rng, tree, lambda n: rng.integers(1, 3, n).astype(np.float64))
    usage *= tree.shares * 3.0
    return tree, usage


def all_idle(n_leaves: int) -> Shape:
    """The standard tree without any usage."""
    tree, usage = standard(n_leaves)
    return tree, np.zeros_like(usage)


def flat(n_leaves: int) -> Shape:
    """All users directly below the root."""
    rng = np.random.default_rng(2008)
    tree = _tree(rng, np.concatenate(([-1], np.zeros(n_leaves, dtype=np.int64))), n_leaves)
    return tree, _amounts(rng, tree, lambda n: rng.exponential(3600.0, n) * (rng.random(n) > IDLE_PART))


def six_levels(n_leaves: int) -> Shape:
    """Five levels of groups below the root, so wide that about ten users are in each of the lowest."""
    rng = np.random.default_rng(2009)
    parts = [np.array([-1])]
    above, begin = 1, 0
    for number in range(1, 7):
        size = max(above, round(n_leaves ** (number / 6))) if number < 6 else n_leaves
        parts.append(begin + np.sort(rng.integers(0, above, size)))
        begin, above = begin + above, size
    tree = _tree(rng, np.concatenate(parts), n_leaves)
    return tree, _amounts(rng, tree, lambda n: rng.exponential(3600.0, n) * (rng.random(n) > IDLE_PART))


def _three_levels(rng: np.random.Generator, n_leaves: int) -> IntArray:
    n_groups = max(1, n_leaves // 100)
    n_divisions = max(1, n_groups // 100)
    groups = 1 + np.sort(rng.integers(0, n_divisions, n_groups))
    users = 1 + n_divisions + np.sort(rng.integers(0, n_groups, n_leaves))
    return np.concatenate(([-1], np.zeros(n_divisions, dtype=np.int64), groups, users))


def _tree(rng: np.random.Generator, parent: IntArray, n_leaves: int, most_shares: int = 99) -> FairshareTree:
    shares = rng.integers(1, most_shares + 1, len(parent)).astype(np.float64)
    is_group = np.arange(len(parent)) < len(parent) - n_leaves
    return FairshareTree.from_columns(parent, shares, is_group=is_group, is_user=~is_group)[0]


def _amounts(rng: np.random.Generator, tree: FairshareTree, draw: Callable[[int], FloatArray]) -> FloatArray:
    usage = np.zeros(tree.n_entries)
    users = np.flatnonzero(tree.is_user)
    usage[users] = draw(len(users))
    return usage
