"""How one level enters a number of the whole path: R and the factor above it and with it, and what is said of that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apps.engine.algorithms import Explanation, PriorityResult
from apps.priorities.sentences import Message, say
from apps.priorities.snapshots.blob import Values

Numbers = Values | PriorityResult  # of a snapshot, or just computed

_SAME = 1e-9  # a part of R by which two levels may differ and still count as equal


@dataclass(frozen=True, slots=True)
class Effect:
    """One level under an algorithm with F = 2^(−R / damping): R ≥ 0, None without shares; F from 0 to 1.

    above, factor_above: with all levels above this one alone. own_ratio, exponent: r_l and k, where the algorithm has
    them and they exist at this level. change: of log2 F by this level; −inf where it takes F to 0.
    """

    above: float | None
    ratio: float | None
    own_ratio: float | None
    exponent: float | None
    factor_above: float
    factor: float
    change: float

    @property
    def is_same(self) -> bool:
        return self.change == 0

    @property
    def lowers(self) -> bool:
        return self.change < 0


def effects_of(explanation: Explanation, values: Numbers, chain: Sequence[int], damping: float) -> list[Effect | None]:
    """One for each entry root→leaf; None for one that doesn't compete, and under algorithms of another kind."""
    if explanation.kind != "ratio":
        return [None] * len(chain)
    found: list[Effect | None] = []
    above: float | None = 1.0
    factor_above = 2.0 ** (-1.0 / damping)
    for entry in chain:
        if not values.competes[entry]:
            found.append(None)
            continue
        ratio = _ratio(explanation, values, entry)
        factor = float(values.factor[entry]) if values.has_factor[entry] else _factor(ratio, damping)
        found.append(
            Effect(
                above,
                ratio,
                _own(values, explanation.own_ratio, entry),
                _own(values, explanation.exponent, entry),
                factor_above,
                factor,
                _change(above, ratio, damping),
            )
        )
        above, factor_above = ratio, factor
    return found


def weightiest(effects: Sequence[Effect | None]) -> int | None:
    """The level with the largest change of log2 F, the first of equal ones; None where none changes it."""
    sizes = [0.0 if effect is None else abs(effect.change) for effect in effects]
    return sizes.index(max(sizes)) if any(sizes) else None


def effect_said(effect: Effect | None) -> list[Message]:
    """What this level does to the factor, and why its own ratio counts in part only."""
    if effect is None:
        return []
    facts = {"above": effect.above, "ratio": effect.ratio, "factor": effect.factor, "other_factor": effect.factor_above}
    if effect.ratio is None:
        return [say("effect.no_shares" if effect.above is not None else "effect.no_shares_above", factor=effect.factor)]
    key = "same" if effect.is_same else "lowers" if effect.lowers else "raises"
    said = [say(f"effect.{key}", **facts)]
    if effect.exponent is not None and effect.exponent < 1:
        said.append(say("effect.bent", own_ratio=effect.own_ratio, k=effect.exponent, above=effect.above))
    return said


def _ratio(explanation: Explanation, values: Numbers, entry: int) -> float | None:
    promised = float(values.columns[explanation.due].values[entry])
    if promised <= 0:
        return None
    used = float(values.columns[explanation.used].values[entry])
    ratio = used / promised
    return ratio if math.isfinite(ratio) else None


def _own(values: Numbers, name: str, entry: int) -> float | None:
    column = values.columns.get(name)
    if column is None or (column.exists is not None and not column.exists[entry]):
        return None
    return float(column.values[entry])


def _factor(ratio: float | None, damping: float) -> float:
    return 0.0 if ratio is None else 2.0 ** (-ratio / damping)


def _change(above: float | None, ratio: float | None, damping: float) -> float:
    if above is None:
        return 0.0
    if ratio is None:
        return -math.inf
    return 0.0 if abs(ratio - above) <= _SAME * max(ratio, above) else (above - ratio) / damping
