"""Slow, readable twins of what the engine does on arrays: exact fractions, recursion, one entry at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

ON_TARGET = Fraction(1, 10**12)
SNAP = Fraction(1, 2**47)
SMALLEST = 2.0**-1022


@dataclass(eq=False)
class Entry:
    """One entry of a case's policy with what the twin finds out about it."""

    path: str
    shares: Fraction | None  # None: inherit
    kind: str | None
    is_group: bool
    own: Fraction
    children: list[Entry] = field(default_factory=list)
    target: Fraction | None = None
    actual: Fraction | None = None
    seat: tuple[str, ...] = ()  # paths of the entries whose components make up the vector

    @property
    def is_ranked(self) -> bool:
        return not self.is_group and self.kind != "reserve"

    @property
    def total(self) -> Fraction:
        return self.own + sum((child.total for child in self.children), Fraction(0))

    def walk(self) -> Iterator[Entry]:
        for child in self.children:
            yield child
            yield from child.walk()


def read(case: dict[str, Any]) -> Entry:
    """The policy of a case with targets, actuals and seats, by the definition."""
    usage = {path: Fraction(amount) for path, amount in case["usage"].items()}

    def build(node: dict[str, Any], path: str) -> Entry:
        shares = None if node.get("shares") == "parent" else Fraction(node.get("shares", 1))
        own = usage.get(path, Fraction(0))
        entry = Entry(path, shares, node.get("kind"), "children" in node, own)
        entry.children = [build(child, f"{path}/{child['name']}") for child in node.get("children", [])]
        return entry

    root = build({**case["policy"], "shares": 1}, "")
    _compare(root)
    return root


def _competitors(entry: Entry) -> Iterator[Entry]:
    """Who competes for the shares of `entry`: its children, and those of children that inherit."""
    for child in entry.children:
        if child.shares is not None:
            yield child
        else:
            child.seat = entry.seat
            for below in child.children:
                yield from _below(below, child)


def _below(entry: Entry, parent: Entry) -> Iterator[Entry]:
    if entry.shares is not None:
        yield entry
        return
    entry.seat = parent.seat
    for below in entry.children:
        yield from _below(below, entry)


def _compare(entry: Entry) -> None:
    group = list(_competitors(entry))
    shares = sum((child.shares or Fraction(0) for child in group), Fraction(0))
    usage = sum((child.total for child in group), Fraction(0))
    for child in group:
        assert child.shares is not None
        child.target = child.shares / shares if shares else Fraction(0)
        child.actual = child.total / usage if usage else Fraction(0)
        child.seat = (*entry.seat, child.path)
        _compare(child)


def operator(name: str, t: Fraction, s: Fraction, k: float = 0.5) -> float:
    """F(t, s) by the paper's case distinctions."""
    if abs(t - s) <= ON_TARGET * max(t, s):
        return 0.0
    if name == "absolute":
        return float(t - s)
    if name == "slurm":
        return 2.0 ** float(1 - s / t) - 1.0 if t else -1.0
    if name == "combined":
        return k * float(t - s) + (1 - k) * operator("relative-2", t, s)
    gap, sign = ((t - s) / t, 1) if s < t else ((s - t) / s, -1)
    family, _, exponent = name.partition("-")
    n = int(exponent or 1)
    if family == "relative":
        return sign * max(float(gap**n), SMALLEST)
    return sign * math.pow(math.sin(math.pi / 2 * float(gap)), 1 / n)


def scalar(p: float, r: int) -> int:
    """The floor in exact arithmetic, of a priority that is rounded: what is next to a whole number is that number."""
    found = math.floor((Fraction(p) + 1) * r / 2 + SNAP * r)
    if p < 0 and 2 * found == r:
        found -= 1
    return min(r - 1, found)


def padded(vector: Sequence[Any], depth: int, fill: Any) -> list[Any]:
    return list(vector) + [fill] * (depth - len(vector))


def ranks_of_vectors(vectors: dict[str, list[int]], ranked: set[str], r: int) -> dict[str, int]:
    """1 + the ranked leaves whose padded vector is strictly greater, for every entry."""
    depth = max((len(vector) for vector in vectors.values()), default=0)
    full = {path: padded(vector, depth, r // 2) for path, vector in vectors.items()}
    return {path: 1 + sum(full[leaf] > mine for leaf in ranked) for path, mine in full.items()}


def ranks_of_numbers(
    tuples: Mapping[str, Sequence[float | Fraction]], ranked: set[str], tolerance: float | Fraction
) -> dict[str, int]:
    """Level by level among entries whose ancestors tie: sorted, neighbours within the tolerance tie."""
    depth = max((len(numbers) for numbers in tuples.values()), default=0)
    full = {path: padded(numbers, depth, 0.0) for path, numbers in tuples.items()}
    classes: dict[str, list[int]] = {path: [] for path in full}

    def split(paths: list[str], level: int) -> None:
        if level == depth:
            return
        paths = sorted(paths, key=lambda path: full[path][level])
        groups = [[paths[0]]]
        for before, path in itertools.pairwise(paths):
            if full[path][level] - full[before][level] > tolerance:
                groups.append([])
            groups[-1].append(path)
        for number, group in enumerate(groups):
            for path in group:
                classes[path].append(number)
            split(group, level + 1)

    if full:
        split(list(full), 0)
    return {path: 1 + sum(classes[leaf] > mine for leaf in ranked) for path, mine in classes.items()}


def compare_vectors(one: Sequence[int], other: Sequence[int], r: int) -> int:
    for level in range(max(len(one), len(other))):
        first = one[level] if level < len(one) else r // 2
        second = other[level] if level < len(other) else r // 2
        if first != second:
            return 1 if first > second else -1
    return 0


def decayed_sum(amounts: Sequence[tuple[int, float]], as_of_s: int, weight_of_age: Any) -> float:
    """Usage of hourly buckets (start, amount) at `as_of_s`, one bucket at a time."""
    total = 0.0
    for start_s, amount in amounts:
        if start_s >= as_of_s:
            continue
        total += amount * weight_of_age(max(0, as_of_s - (start_s + 3600)))
    return total


def deviation(target: Fraction | None, actual: Fraction | None) -> Fraction:
    """target − actual in points, exactly; 0 on target."""
    assert target is not None
    assert actual is not None
    if abs(target - actual) <= ON_TARGET * max(target, actual):
        return Fraction(0)
    return 100 * (target - actual)


def whole_points(points: Fraction) -> int:
    """Rounded half to even; what is next to a half is that half."""
    half = Fraction(round(2 * points), 2)
    return round(half if abs(points - half) <= 200 * SNAP else points)
