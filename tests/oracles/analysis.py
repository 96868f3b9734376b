"""Slow twins of the analyses: counting points, sorting pairs, pouring water drop by drop, stepping through hours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from tests.oracles import engine as oracles

Operator = Callable[[float, float], float]


def counted_density(operator: Operator, r: int, n: int) -> list[float]:
    """Share of n × n midpoints that fall on each component."""
    found = [0] * r
    for i, j in itertools.product(range(n), repeat=2):
        found[oracles.scalar(operator((i + 0.5) / n, (j + 0.5) / n), r)] += 1
    return [count / n**2 for count in found]


def counted_local_density(operator: Operator, t: float, r: int, n: int) -> list[float]:
    found = [0] * r
    for j in range(n):
        found[oracles.scalar(operator(t, (j + 0.5) / n), r)] += 1
    return [count / n for count in found]


def state_after(own: Fraction, others: Fraction, job: Fraction) -> Fraction:
    """The actual of a user who runs one more job."""
    return (own + job) / (own + others + job)


def jain(x: Sequence[Fraction]) -> Fraction:
    squares = sum((value * value for value in x), Fraction(0))
    return sum(x, Fraction(0)) ** 2 / (len(x) * squares) if squares else Fraction(1)


def gini(x: Sequence[Fraction], w: Sequence[Fraction]) -> Fraction:
    """Mean difference between two who are drawn by weight, in parts of twice the mean."""
    total = sum(w, Fraction(0))
    mean = sum((a * b for a, b in zip(x, w, strict=True)), Fraction(0)) / total if total else Fraction(0)
    if not mean:
        return Fraction(0)
    pairs = itertools.product(zip(x, w, strict=True), repeat=2)
    return sum((u * v * abs(a - b) for (a, u), (b, v) in pairs), Fraction(0)) / (2 * total * total * mean)


def poured(target: Sequence[Fraction], demand: Sequence[Fraction], capacity: Fraction) -> list[Fraction]:
    """Allocate in proportion to targets; entries with enough drop out, and the remainder is allocated again."""
    given = [Fraction(0)] * len(target)
    thirsty = {i for i, t in enumerate(target) if t > 0 and demand[i] > 0}
    while thirsty and capacity > 0:
        weight = sum(target[i] for i in thirsty)
        level = min([capacity / weight, *((demand[i] - given[i]) / target[i] for i in thirsty)])
        for i in thirsty:
            given[i] += level * target[i]
        capacity -= level * weight
        thirsty = {i for i in thirsty if given[i] < demand[i]}
    return given


def shared_vectors(vectors: Sequence[tuple[int, ...]]) -> int:
    """Leaves that have the vector of another leaf."""
    return sum(list(vectors).count(vector) > 1 for vector in vectors)


def seconds_to_balance(
    own: float, group: float, target: float, rate: float, share: float, half_life_s: float, step_s: float
) -> float:
    """Halve and add, one small step after the other, until the sign of own − target · group turns."""
    sign = math.copysign(1.0, own - target * group)
    keep, seconds = 2.0 ** (-step_s / half_life_s), 0.0
    while (own - target * group) * sign > 0:
        middle = 2.0 ** (-step_s / 2 / half_life_s)
        own = own * keep + rate * share * step_s * middle
        group = group * keep + rate * step_s * middle
        seconds += step_s
    return seconds


def component(priority: Fraction, r: int) -> int:
    """min(r − 1, floor((p + 1)/2 · r)), of exact numbers."""
    return min(r - 1, math.floor((priority + 1) * r / 2))


EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "absolute": lambda t, s: t - s,
    "relative": lambda t, s: Fraction(0) if t == s else (t - s) / max(t, s),
    "relative-2": lambda t, s: Fraction(0) if t == s else (t - s) * abs(t - s) / max(t, s) ** 2,
}
EXACT["combined"] = lambda t, s: (EXACT["absolute"](t, s) + EXACT["relative-2"](t, s)) / 2


def exact_vectors(
    parents: Sequence[int], shares: Sequence[Fraction], usage: Sequence[Fraction], operator: str
) -> list[list[Fraction]]:
    """Priorities root→entry of every entry in exact fractions; usage: totals. Parents come before their children."""
    children: dict[int, list[int]] = {}
    for i, parent in enumerate(parents):
        children.setdefault(parent, []).append(i)
    vectors: list[list[Fraction]] = [[] for _ in parents]
    for i, parent in enumerate(parents):
        if parent < 0:
            continue
        among = children[parent]
        all_shares, all_usage = sum(shares[j] for j in among), sum(usage[j] for j in among)
        target = shares[i] / all_shares if all_shares else Fraction(0)
        actual = usage[i] / all_usage if all_usage else Fraction(0)
        vectors[i] = [*vectors[parent], EXACT[operator](target, actual)]
    return vectors


def ranks_of(vectors: Sequence[Sequence[Fraction | int]], balance: Fraction | int) -> list[int]:
    """1 + vectors strictly ahead, those that end early padded with the balance."""
    depth = max((len(vector) for vector in vectors), default=0)
    padded = [(*vector, *[balance] * (depth - len(vector))) for vector in vectors]
    return [1 + sum(other > one for other in padded) for one in padded]


def rounding_losses(vectors: Sequence[Sequence[Fraction]], r: int) -> dict[str, int]:
    """What a resolution does to the order of exact vectors, counted leaf by leaf and pair by pair."""
    exact = ranks_of(vectors, Fraction(0))
    rounded = ranks_of([[component(value, r) for value in vector] for vector in vectors], r // 2)
    pairs = list(itertools.combinations(range(len(vectors)), 2))
    return {
        "n_leaves": len(vectors),
        "n_misplaced": sum(a != b for a, b in zip(exact, rounded, strict=True)),
        "n_lost": sum(
            any(rounded[i] == rounded[j] and exact[i] != exact[j] for j in range(len(vectors)))
            for i in range(len(vectors))
        ),
        "n_tied_pairs": sum(exact[i] != exact[j] and rounded[i] == rounded[j] for i, j in pairs),
        "n_turned_pairs": sum((exact[i] - exact[j]) * (rounded[i] - rounded[j]) < 0 for i, j in pairs),
    }
