"""Percent as a way of editing shares: one entry gets p % of its parent, others pay or gain, the group's sum stays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from uuid import UUID

from apps.policies.tree.columns import Node

_DIGITS = 12  # significant digits of a scaled number: 60, not 60.00000000000001


def shares_for_percent(
    node: Node, siblings: Sequence[Node], givers: Sequence[Node], percent: object
) -> dict[UUID, float]:
    """Shares after giving `node` that percentage of its group, where `givers` are scaled in proportion to pay for it.

    new = percent/100 · sum of the group; a giver's share becomes share · (G − (new − old)) / G with G the givers' sum.
    Entries that are neither keep their number. Raises ValueError saying what to do instead.
    """
    wanted = _percentage(percent)
    if node.shares is None:
        raise ValueError("the entry passes its parent's shares on; give it a number first")
    inheriting = [each.name for each in siblings if each.shares is None]
    if inheriting:
        raise ValueError(f"{inheriting[0]!r} beside it passes shares on, so percentages of the group mean nothing")
    total = math.fsum(each.shares or 0.0 for each in [node, *siblings])
    if total <= 0:
        raise ValueError("all shares here are 0; give numbers first")
    new = _rounded(wanted / 100 * total)
    if new == node.shares:
        return {}
    pot = math.fsum(giver.shares or 0.0 for giver in givers)
    left = pot - (new - node.shares)
    if left < -1e-9 * total:
        most = 100 * (node.shares + pot) / total
        raise ValueError(f"those who pay have too little: at most {most:.6g} % is possible")
    if pot <= 0:
        raise ValueError("those who would gain have no shares to scale; give one of them a number first")
    return {node.uid: new, **_scaled(givers, max(left, 0.0), pot)}


def _percentage(value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= 100:  # type: ignore[operator]
        raise ValueError("must be a number from 0 to 100")
    return float(value)  # type: ignore[arg-type]


def _scaled(givers: Sequence[Node], left: float, pot: float) -> dict[UUID, float]:
    """Each in proportion; the largest gets the rounding remainder, so that the sum is kept."""
    scaled = {giver.uid: _rounded((giver.shares or 0.0) * left / pot) for giver in givers}
    largest = max(scaled, key=lambda uid: scaled[uid])
    others = math.fsum(shares for uid, shares in scaled.items() if uid != largest)
    scaled[largest] = max(_rounded(left - others), 0.0)
    return scaled


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
