"""What Slurm's share trees have in common: parts of all usage, factors below an exponent, ranks of users alone.

Source: Slurm 22.05, priority/multifactor without Fair Tree; names are those that `sshare` prints.
"""

from __future__ import annotations

import numpy as np

from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.operators import get_operator
from apps.engine.tree import FairshareTree

# Factors that differ by less than this part of themselves tie.
TIE = 1e-12


def users_of(tree: FairshareTree) -> BoolArray:
    """(n,) the leaves of kind `user`: what Slurm ranks and counts."""
    users: BoolArray = tree.is_user & tree.is_ranked
    return users


def norm_usage(
    tree: FairshareTree, total: FloatArray, group_total: FloatArray, fairshare_parent: IntArray
) -> FloatArray:
    """Part of the usage of the whole tree, (n,) 0..1: total / total of the root; 0 without usage.

    Where groups are compared in different scopes (group_total differs from total), it is the product of
    total / group_total of the fairshare parent down the tree: equal, but for rounding, where scopes agree.
    """
    part = np.zeros(tree.n_entries)
    part[0] = 1.0 if total[0] > 0 else 0.0
    if group_total is total or np.array_equal(group_total, total):
        if total[0] > 0:
            np.minimum(total / total[0], 1.0, out=part)
        return part
    part[0] = 1.0
    for level in tree.levels:
        here = slice(level.lo, level.hi)
        above = fairshare_parent[here]
        whole = group_total[above]
        local = np.divide(total[here], whole, out=np.zeros(level.hi - level.lo), where=whole > 0)
        part[here] = part[above] * np.minimum(local, 1.0)
    return part


def effective_of_all(
    effective: FloatArray, norm_usage: FloatArray, seat: IntArray, fairshare_parent: IntArray, inherits: BoolArray
) -> FloatArray:
    """Effective usage of competing entries handed to every entry, (n,).

    An entry whose shares are `parent` has that of its fairshare parent, but its own part of all usage directly below
    the root.
    """
    whole: FloatArray = np.where(inherits & (fairshare_parent == 0), norm_usage, effective[seat])
    return whole


def factor(effective: FloatArray, norm_shares: FloatArray, damping_factor: int = 1) -> FloatArray:
    """2^−(UE / S / d), 0..1; 0 where S is 0, whatever was used."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        below = np.exp2(-(effective / norm_shares / damping_factor))
    found: FloatArray = np.where(norm_shares > 0, below, 0.0)
    return found


def priority(effective: FloatArray, norm_shares: FloatArray) -> FloatArray:
    """2^(1 − UE / S) − 1, −1..1: twice the undamped factor less 1, so that 0 is on target; −1 where S is 0."""
    found: FloatArray = np.where(norm_shares > 0, get_operator("slurm")(norm_shares, effective), -1.0)
    return found


def ranks(factors: FloatArray, is_user: BoolArray) -> IntArray:
    """(n,) 1 + the number of users strictly ahead, 0 for those who are none; neighbours within 1e-12 relative tie."""
    users = np.flatnonzero(is_user)
    order = users[np.argsort(-factors[users], kind="stable")]
    sorted_factors = factors[order]
    is_next = np.ones(len(order), dtype=np.bool_)
    is_next[1:] = sorted_factors[:-1] - sorted_factors[1:] > TIE * sorted_factors[:-1]
    places = np.arange(1, len(order) + 1)
    rank = np.zeros(len(factors), dtype=np.int64)
    rank[order] = np.maximum.accumulate(np.where(is_next, places, 0)) if len(order) else places
    return rank
