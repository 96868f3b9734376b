"""The rank of an account mapped to a group among the ranked leaves: by the group's own tuple, padded.

Source: Elmroth and Gardfjäll, Decentralized, scalable, Grid fairshare scheduling, section 4: levels that an entry
doesn't have count as on target. `compute` gives groups without children no rank; a job there needs one all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apps.engine import codecs
from apps.priorities.serving.newcomer import ComputedTree, count_ahead, factor_of_vector

Place = tuple[int | None, int, float | None]  # rank, of how many, factor


def place_of(snapshot: ComputedTree, entry: int, components: Sequence[Any], computed: Place) -> Place:
    """The place of an entry that is no ranked leaf: among these and itself. components: its vector or deviations.

    Unchanged under an algorithm that orders leaves by rules of its own, for the root, and for what is reserved.
    """
    if snapshot.order.has_own_order or entry == 0 or snapshot.tree.is_reserve[entry]:
        return computed
    rank, n_ranked, factor = computed
    if rank is None:
        rank = 1 + count_ahead(snapshot.leaf_components, list(components), snapshot.order)
    if factor is None and snapshot.algorithm.get("factor_from") == "key":
        factor = factor_of_vector(components, snapshot.depth, int(snapshot.order.resolution or 0))
    if factor is None:
        factor = float(codecs.factor_from_rank(np.array([rank]), n_ranked)[0])
    return rank, n_ranked + 1, factor
