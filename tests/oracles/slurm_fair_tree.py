"""Slow, readable twins of the walks of share trees: nested cases, recursion, exact fractions, one entry at a time."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

INFINITE = Fraction(2) ** 40_000
NO_LEVEL = Fraction(4294967294)


@dataclass(eq=False)
class Entry:
    """One entry of a case; `listed` are those who compete in its list."""

    path: str
    shares: Fraction | None
    kind: str | None
    is_group: bool
    own: Fraction
    above: Entry | None
    children: list[Entry] = field(default_factory=list)
    listed: list[Entry] = field(default_factory=list)
    list_of: Entry | None = None
    level: Fraction = Fraction(0)
    is_last_to_be_served: bool = False
    tie_place: int | None = None

    @functools.cached_property
    def usage(self) -> Fraction:
        return self.own + sum((child.usage for child in self.children), Fraction(0))

    @property
    def is_leaf(self) -> bool:
        return not self.is_group and self.kind != "reserve"

    @property
    def is_user(self) -> bool:
        return self.is_leaf and self.kind == "user"

    def depth_first(self) -> Iterator[Entry]:
        for child in self.children:
            yield child
            yield from child.depth_first()


def read(case: dict[str, Any]) -> Entry:
    usage = case["usage"]

    def build(node: dict[str, Any], path: str, above: Entry | None) -> Entry:
        shares = None if node["shares"] == "parent" else Fraction(node["shares"])
        own = Fraction(usage.get(path or "/", 0))
        entry = Entry(path, shares, node.get("kind"), "children" in node, own, above)
        entry.children = [build(child, f"{path}/{child['name']}", entry) for child in node.get("children", [])]
        return entry

    root = build({**case["policy"], "shares": 1, "children": case["policy"].get("children", [])}, "", None)
    for entry in root.depth_first():
        owner = entry.above
        while owner is not None and owner.shares is None:
            owner = owner.above
        assert owner is not None
        entry.list_of = owner
        owner.listed.append(entry)
    return root


def to_bits(number: Fraction, bits: int) -> Fraction:
    """The nearest number with a mantissa of so many bits, half to even; of any exponent."""
    if number == 0:
        return number
    exponent = number.numerator.bit_length() - number.denominator.bit_length() - bits
    while number / Fraction(2) ** exponent >= 2**bits:
        exponent += 1
    while number / Fraction(2) ** exponent < 2 ** (bits - 1):
        exponent -= 1
    return Fraction(round(number / Fraction(2) ** exponent)) * Fraction(2) ** exponent


def part_of_shares(entry: Entry) -> Fraction:
    """S as a double."""
    assert entry.list_of is not None
    assert entry.shares is not None
    whole = sum((other.shares or Fraction(0) for other in entry.list_of.listed), Fraction(0))
    return to_bits(entry.shares / whole, 53) if whole else Fraction(0)


def slurm(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What `sshare` would print, by path, with our rank."""
    root = read(case)
    entries = list(root.depth_first())
    for entry in entries:
        entry.level = _slurm_level(entry)
        entry.is_last_to_be_served = not entry.is_user
    n_users = sum(entry.is_user for entry in entries)
    walk = _SlurmWalk(merges=case["algorithm"].get("ties") == "as-documented", places_left=n_users)
    walk.visit(root.listed, is_tied=False)
    factors = {path: Fraction(place, n_users) for path, place in walk.place.items()}
    return {entry.path: _row(entry, root, factors) for entry in entries}


def _slurm_level(entry: Entry) -> Fraction:
    if entry.shares is None:
        return INFINITE if entry.is_user else NO_LEVEL
    assert entry.list_of is not None
    shares, whole = part_of_shares(entry), entry.list_of.usage
    if shares == 0:
        return Fraction(0)
    if entry.usage == 0:
        return INFINITE
    return to_bits(shares / to_bits(to_bits(entry.usage, 64) / to_bits(whole, 64), 64), 64)


@dataclass
class _SlurmWalk:
    """Places as Slurm counts them, from the number of users down."""

    merges: bool
    places_left: int
    place: dict[str, int] = field(default_factory=dict)
    last_place: int = 0

    def visit(self, entries: list[Entry], is_tied: bool) -> None:
        waiting = sorted(entries, key=lambda entry: (-entry.level, entry.is_last_to_be_served))
        before: Entry | None = None
        while waiting:
            entry = waiting.pop(0)
            if before is not None:
                is_tied = before.level == entry.level
            if entry.is_user:
                if not is_tied or not self.place:
                    self.last_place = self.places_left
                self.place[entry.path] = self.last_place
                self.places_left -= 1
            else:
                below = list(entry.listed)
                while self.merges and waiting and waiting[0].level == entry.level:
                    below += waiting.pop(0).listed
                self.visit(below, is_tied)
            before = entry


def _row(entry: Entry, root: Entry, factors: dict[str, Fraction]) -> dict[str, Any]:
    owner = entry.list_of
    assert owner is not None
    factor = factors.get(entry.path)
    if entry.shares is not None:
        shares: float | None = float(part_of_shares(entry))
    else:
        shares = None if owner is root else float(part_of_shares(owner))
    level: float | str | None = None
    if entry.shares is not None:
        level = "Infinity" if entry.level > Fraction(2) ** 1024 else float(entry.level)
    return {
        "norm_shares": shares,
        "norm_usage": float(entry.usage / root.usage) if root.usage else 0.0,
        "effective_usage": float(entry.usage / owner.usage) if owner.usage else 0.0,
        "level_fs": level,
        "factor": None if factor is None else float(factor),
        "rank": None if factor is None else 1 + sum(other > factor for other in factors.values()),
    }


def flux(case: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Weight, rank and factor by path."""
    root = read(case)
    entries = list(root.depth_first())
    weights = {entry.path: _flux_weight(entry) for entry in entries}
    ahead: dict[str, int] = {}
    _flux_visit(root.listed, weights, ahead, [0])
    n_leaves = sum(entry.is_leaf for entry in entries)
    rows: dict[str, dict[str, Any]] = {}
    for entry in entries:
        count = ahead.get(entry.path)
        rows[entry.path] = {
            "weight": float(weights[entry.path]),
            "rank": None if count is None else count + 1,
            "factor": None if count is None else float(Fraction(n_leaves - count, n_leaves)),
        }
    return rows


def _flux_weight(entry: Entry) -> Fraction:
    assert entry.list_of is not None
    group = entry.list_of.children
    if not entry.shares:
        return Fraction(0)
    if entry.usage < Fraction(1e-9):
        return Fraction(2**64)
    used = sum((other.usage for other in group), Fraction(0))
    shares = sum((other.shares or Fraction(0) for other in group), Fraction(0))
    return min((entry.shares / shares) / (entry.usage / used), Fraction(sys.float_info.max))


def _flux_visit(entries: list[Entry], weights: dict[str, Fraction], ahead: dict[str, int], count: list[int]) -> None:
    classes: list[list[Entry]] = []
    heavier: Fraction | None = None
    for entry in sorted(entries, key=lambda entry: -weights[entry.path]):
        weight = weights[entry.path]
        if heavier is None or heavier - weight >= Fraction(1, 2**52) * max(heavier, Fraction(1)):
            classes.append([])
        classes[-1].append(entry)
        heavier = weight
    for tied in classes:
        users = [entry for entry in tied if entry.is_leaf]
        for entry in users:
            ahead[entry.path] = count[0]
        count[0] += len(users)
        _flux_visit_all([entry for entry in tied if not entry.is_leaf], weights, ahead, count)


def _flux_visit_all(banks: list[Entry], weights: dict[str, Fraction], ahead: dict[str, int], count: list[int]) -> None:
    below = [child for bank in banks for child in bank.listed]
    if below:
        _flux_visit(below, weights, ahead, count)
