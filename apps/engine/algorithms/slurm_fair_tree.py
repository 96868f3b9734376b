"""`slurm-fair-tree`: Slurm's share tree walked by level fairshare, with the ties of the program or of its manual."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from apps.engine import operators, sweep
from apps.engine.algorithms import base, inputs
from apps.engine.algorithms.base import Column, Explanation, PriorityResult, finish
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import FloatArray, LongArray
from apps.engine.numerics import long_quotients
from apps.engine.numerics.ties import LongRuler, balance
from apps.engine.numerics.walk_order import Manners, count_ahead
from apps.engine.parameters import Parameter, Settings, choice

Sums = TypeVar("Sums", FloatArray, LongArray)

# The level of an account whose shares are `parent`: the number that Slurm uses for "no value".
NO_LEVEL = 4294967294.0
# Where a part of usage is below this, the level may be beyond doubles, and all levels are divided exactly.
_TINY_PART = 2.0**-900

_MANNERS = {
    "as-slurm": Manners(merges=False, hands_down=True),
    "as-documented": Manners(merges=True, hands_down=True),
}


class SlurmFairTree:
    """LF = S/U: S = shares / Σ shares of the list, U = usage / usage of whom the list belongs to."""

    name = "slurm-fair-tree"
    label = "Slurm: Fair Tree"
    formula = "walk by LF = S/U, highest first, users before accounts; factor = (N − users ahead)/N"
    component = "(S − U)/(S + U), which is (LF − 1)/(LF + 1): −1 without shares, else 1 without usage"
    reference = "Slurm: Fair Tree Fairshare Algorithm (priority/multifactor), as Slurm 22.05 computes it"
    parameters: tuple[Parameter, ...] = (
        choice(
            "ties",
            "Ties",
            "as-slurm",
            tuple(_MANNERS),
            note="as-slurm: accounts that tie follow each other in their order in the tree, as Slurm runs; "
            "as-documented: their members are merged and ranked together",
        ),
    )
    fields: tuple[str, ...] = base.SSHARE_FIELDS
    takes_inherit = True
    explanation = Explanation("levels", component="level_fs")

    def properties(self, settings: Settings) -> operators.Properties:
        """Levels compare siblings alone, and who is idle leaves the quotients of the others as they were."""
        return operators.Properties(
            isolation=True,
            proportional_redistribution=True,
            scale_invariance=True,
            boundaries=True,
            order_independent=settings["ties"] != "as-slurm",
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Levels of every entry, ranks and factors of users; `columns` as `sshare` names them."""
        listing = prepared.users
        shares: FloatArray = prepared.spread(prepared.target)
        part = _part_of_list(prepared, compared)
        ruler = _ruler(prepared, compared, shares, part)
        ahead = count_ahead(listing, ruler, _MANNERS[settings["ties"]])
        level = ruler.value
        if not listing.is_same:
            ahead, level = ahead[listing.place], level[listing.place]
        is_user, n_users = inputs.users_of(prepared.tree), listing.n_ranked
        has_shares = None if prepared.is_whole else ~prepared.tree.inherits
        columns = {
            "norm_shares": Column(shares, None if has_shares is None else has_shares | (prepared.fairshare_parent > 0)),
            "norm_usage": Column(base.norm_usage(prepared, compared)),
            "effective_usage": Column(part),
            "level_fs": Column(level, has_shares),
        }
        actual = part if prepared.is_whole else part[prepared.entry]
        return finish(
            prepared,
            compared,
            settings,
            actual=actual,
            priority=balance(prepared.target, actual),
            rank=np.where(is_user, ahead + 1, 0),
            factor=np.where(is_user, (n_users - ahead) / max(n_users, 1), 0.0),
            has_rank=is_user,
            has_factor=is_user,
            is_ranked=is_user,
            n_ranked=n_users,
            columns=columns,
        )


def _part_of_list(prepared: Prepared, compared: Compared) -> FloatArray:
    """U, (n,) 0..1: usage of the entry and all below / that of its fairshare parent; 0 where that has none."""
    total, whole = compared.total, compared.group_total
    if prepared.is_whole:
        part = sweep.divide_by_group(prepared.tree, total, whole)
    else:
        divisor = whole[np.maximum(prepared.fairshare_parent, 0)]
        part = np.divide(total, divisor, out=np.zeros(len(total)), where=divisor > 0)
    part[0] = 1.0 if total[0] > 0 else 0.0
    return part


def _ruler(prepared: Prepared, compared: Compared, shares: FloatArray, part: FloatArray) -> LongRuler:
    """Levels of all in the order of the listing, as doubles and as what they are quotients of.

    A user whose shares are `parent` has an infinite level, an account `NO_LEVEL`.
    """
    tree, listing = prepared.tree, prepared.users
    usage, whole, above = compared.total, compared.group_total, listing.tree.parent

    def listed(usage: Sums, whole: Sums) -> tuple[Sums, Sums]:
        if listing.is_same:
            return usage, whole
        usage = np.where(dissolved, np.where(listing.is_ranked, 0.0, 1.0), usage[listing.entry])
        return usage, np.append(whole[listing.entry], 1.0)

    def long_sums() -> tuple[LongArray, LongArray]:
        return listed(*compared.long_totals)

    if not listing.is_same:
        entry = listing.entry
        dissolved = tree.inherits[entry]
        shares = np.where(dissolved, np.where(listing.is_ranked, 1.0, NO_LEVEL), shares[entry])
        usage, whole = listed(usage, whole)
        part = np.where(dissolved, usage, part[entry])
        above = np.where(dissolved, len(usage), above)
    if np.count_nonzero(part < _TINY_PART) > np.count_nonzero(usage == 0):
        level = long_quotients.to_doubles(long_quotients.levels(shares, usage, whole[np.maximum(above, 0)]))
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            level = shares / part
        level[shares == 0] = 0.0
    is_sum = tree.child_count > 0
    if not listing.is_same:
        is_sum = is_sum[listing.entry]
    return LongRuler(level, shares, usage, whole, above, is_sum, lambda: compared.adds_up_exactly, long_sums)
