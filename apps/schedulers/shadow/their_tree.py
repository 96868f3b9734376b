"""The scheduler's own share tree and usage, built from the rows that it lists. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.errors import BadTree
from apps.engine.tree import FairshareTree
from apps.schedulers.own_values import PARENT, OwnValue

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
ROOT = "root"


@dataclass(frozen=True, eq=False)
class TheirTree:
    """tree over all rows. entry_of_row: (rows,) the tree's entry of each row. own_usage: (entries,) in their unit."""

    tree: FairshareTree
    entry_of_row: I8
    own_usage: F8


def own_usage_of(rows: Sequence[OwnValue]) -> F8:
    """(rows,) of each user what is listed, of each group what none of its users and groups has.

    Listed usage is cut to whole numbers, so that a remainder of less than one for each member is nothing. A larger one
    is real: that of users who were removed.
    """
    own = np.array([0.0 if math.isnan(one.raw_usage) else one.raw_usage for one in rows])
    place = {one.group: i for i, one in enumerate(rows) if not one.user}
    below, members = np.zeros(len(rows)), np.zeros(len(rows))
    for i, one in enumerate(rows):
        above = place.get(one.group if one.user else one.parent)
        if above is not None and above != i:
            below[above] += own[i]
            members[above] += 1
    is_group = np.array([not one.user for one in rows], np.bool_)
    rest = own - below
    return np.where(is_group, np.where(rest > members, rest, 0.0), own)


def build_their_tree(rows: Sequence[OwnValue]) -> TheirTree | None:
    """None where the rows don't say where each group is, or are no tree."""
    place = {one.group: i for i, one in enumerate(rows) if not one.user}
    if ROOT not in place:
        return None
    parents = []
    for one in rows:
        is_root = not one.user and one.group == ROOT
        above = -1 if is_root else place.get(one.group if one.user else one.parent)
        if above is None:
            return None
        parents.append(above)
    shares = [math.nan if one.raw_shares == PARENT else _shares(one) for one in rows]
    is_user = [bool(one.user) for one in rows]
    try:
        tree, order = FairshareTree.from_columns(
            parents, shares, is_group=[not user for user in is_user], is_user=is_user
        )
    except BadTree:
        return None
    entry = np.empty(len(rows), np.int64)
    entry[order] = np.arange(len(rows))
    return TheirTree(tree, entry, own_usage_of(rows)[order])


def _shares(one: OwnValue) -> float:
    return 0.0 if math.isnan(one.raw_shares) else one.raw_shares
