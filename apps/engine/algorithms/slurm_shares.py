"""What Slurm's share trees without Fair Tree have in common: fields of sshare, damping and normalised usage.

Source: Slurm 22.05, priority/multifactor without Fair Tree; names are those that `sshare` prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from apps.engine.algorithms import inputs
from apps.engine.algorithms.base import Column, Components, PriorityResult, Ranking, build_result
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import FloatArray
from apps.engine.parameters import Parameter, Settings

SSHARE_FIELDS = ("norm_shares", "norm_usage", "effective_usage", "level_fs", "rank", "factor")


def _read_damping(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    if not math.isfinite(float(value)) or value < 1 or not float(value).is_integer():
        raise ValueError
    return int(value)


DAMPING_FACTOR = Parameter("damping_factor", "Damping factor", 1, "an integer ≥ 1", _read_damping, minimum=1)


def norm_usage(prepared: Prepared, compared: Compared) -> FloatArray:
    """Usage of each entry and its subtree as a part of all usage, (n,) 0..1."""
    return inputs.norm_usage(prepared.tree, compared.total, compared.group_total, prepared.fairshare_parent)


def assemble_sshare(
    prepared: Prepared,
    compared: Compared,
    settings: Settings,
    *,
    norm_usage: FloatArray,
    effective: FloatArray,
    columns: Mapping[str, Column] | None = None,
) -> PriorityResult:
    """Build the result of a Slurm share tree: factors of all entries but reserves, ranks of users, `sshare` columns.

    norm_usage: (n,) of all entries. effective: (m,) effective usage of the competing entries. columns: additional ones.
    """
    tree, above = prepared.tree, prepared.fairshare_parent
    shares = prepared.spread(prepared.target_global)
    effective_of_all = inputs.effective_of_all(effective, norm_usage, prepared.seat, above, tree.inherits)
    factor = inputs.factor(effective_of_all, shares, settings["damping_factor"])
    is_user, has_factor = inputs.users_of(tree), ~tree.is_reserve
    named = {
        "norm_shares": Column(shares),
        "norm_usage": Column(norm_usage),
        "effective_usage": Column(effective_of_all),
        "level_fs": Column(np.zeros(tree.n_entries), np.zeros(tree.n_entries, dtype=np.bool_)),
        **(columns or {}),
    }
    ranking = Ranking(
        rank=inputs.ranks(factor, is_user),
        factor=np.where(has_factor, factor, 0.0),
        has_rank=is_user,
        has_factor=has_factor,
        is_ranked=is_user,
        n_ranked=int(is_user.sum()),
    )
    components = Components(compared.actual, inputs.priority(effective, prepared.target_global))
    return build_result(prepared, compared, settings, components, ranking, named)
