"""Shares from a percentage of the group: the sibling's own, and what others give up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from uuid import UUID

from apps.policies.tree.columns import Node

# Significant digits of a scaled number: 60, not 60.00000000000001.
_DIGITS = 12
# Decimals of shares computed from a percentage; more only where these would miss the percentage.
_DECIMALS = 2


def own_shares_for_percent(node: Node, siblings: Sequence[Node], percent: object) -> float:
    """Return shares that give `node` this percentage of its group while its siblings keep theirs.

    w = p · S / (1 − p), with S the sum of the siblings' shares; rounded to two decimals, or to as many as are needed
    for the target to equal the percentage to its own decimals (at least one). Raises ValueError with a remedy.
    """
    wanted = _percentage(percent) / 100
    _require_shares_of_all(node, siblings)
    others = math.fsum(each.shares or 0.0 for each in siblings)
    if others <= 0:
        raise ValueError("its siblings have no shares, so it always has 100 %; give one of them shares")
    if wanted == 1:
        raise ValueError("100 % isn't possible while its siblings have shares: enter less, or take from them")
    exact = wanted * others / (1 - wanted)
    written = f"{100 * wanted:.10g}".partition(".")[2]
    within = 0.5 * 10.0 ** -(2 + min(max(len(written), 1), 4))
    for decimals in range(_DECIMALS, 16):
        shares = round(exact, decimals)
        if (shares > 0 or not wanted) and abs(shares / (shares + others) - wanted) < within:
            return shares
    return _rounded(exact)


def require_own_whole(group: Node) -> None:
    """Raise ValueError for a group that inherits its shares: its members' targets are no parts of it."""
    if group.shares is None and group.parent_uid is not None:
        raise ValueError(
            f"its group {group.name!r} inherits its shares, so the entries below compete with those of the level "
            "above; enter shares"
        )


def _require_shares_of_all(node: Node, siblings: Sequence[Node]) -> None:
    if node.shares is None:
        raise ValueError("the entry inherits its shares; give it a number first")
    inheriting = [each.name for each in siblings if each.shares is None]
    if inheriting:
        raise ValueError(
            f"its sibling {inheriting[0]!r} inherits its shares, so percentages of the group are undefined"
        )


def shares_for_percent(
    node: Node, siblings: Sequence[Node], givers: Sequence[Node], percent: object
) -> dict[UUID, float]:
    """Return shares that give `node` this percentage of its group, with `givers` scaled in proportion to pay for it.

    new = percent/100 · sum of the group; a giver's share becomes share · (G − (new − old)) / G, with G the sum of the
    givers. All others keep their shares. Raises ValueError with a remedy.
    """
    wanted = _percentage(percent)
    _require_shares_of_all(node, siblings)
    own = node.shares or 0.0
    total = math.fsum(each.shares or 0.0 for each in [node, *siblings])
    if total <= 0:
        raise ValueError("all shares of this group are 0; set some first")
    new = _rounded(wanted / 100 * total)
    if new == own:
        return {}
    pot = math.fsum(giver.shares or 0.0 for giver in givers)
    left = pot - (new - own)
    if left < -1e-9 * total:
        most = 100 * (own + pot) / total
        raise ValueError(f"the siblings that give up shares have too few: at most {most:.6g} % is possible")
    if pot <= 0:
        raise ValueError("the siblings that would gain have no shares to scale; give one of them shares first")
    return {node.uid: new, **_scaled(givers, max(left, 0.0), pot)}


def _percentage(value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= 100:  # type: ignore[operator]
        raise ValueError("must be a number from 0 to 100")
    return float(value)  # type: ignore[arg-type]


def _scaled(givers: Sequence[Node], left: float, pot: float) -> dict[UUID, float]:
    """Scale in proportion; the largest giver gets the rounding remainder, so that the sum stays the same."""
    scaled = {giver.uid: _rounded((giver.shares or 0.0) * left / pot) for giver in givers}
    largest = max(scaled, key=lambda uid: scaled[uid])
    others = math.fsum(shares for uid, shares in scaled.items() if uid != largest)
    scaled[largest] = max(_rounded(left - others), 0.0)
    return scaled


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
