"""SAM's books: what each fair-share group has received, who is below its share, and the statement of both."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

TIE = 1e-12  # relative: decimal benefits would otherwise miss an exact equality


def fraction_after(received: float, total: float, benefit: float) -> float:
    """(B[g] + b) / (ΣB + b): the group's part of all benefit once this job's is booked; 1 where there is none at all.

    received: the group's cumulative benefit, total: that of all fair-share groups (received included), benefit: the
    job's, all ≥ 0 in one unit. Source: the SAM note, with the allocation read as a fraction of the whole.
    """
    after = total + benefit
    return (received + benefit) / after if after > 0 else 1.0


def goes_to_front(fraction: float, share: float) -> bool:
    """Whether the group is still below its share with this job; equality (1e-12 relative) goes to the back."""
    return share - fraction > TIE * max(share, fraction)


@dataclass
class Ledger:
    """What the fair-share groups have received so far, `booked` of it in this case.

    shares: fractions of the whole, sum 1 (or all 0). Amounts are multiples of `unit`, which keeps sums finite.
    """

    shares: dict[str, float]
    received: dict[str, float]
    total: float
    unit: float = 1.0
    before: dict[str, float] = field(init=False)
    booked: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.before = dict(self.received)

    def decide(self, group: str, benefit: float) -> tuple[bool, float]:
        """Front or not, and the fraction it was decided by; books nothing. A group without share goes to the back."""
        fraction = fraction_after(self.received.get(group, 0.0), self.total, benefit)
        return goes_to_front(fraction, self.shares.get(group, 0.0)), fraction

    def book(self, group: str, benefit: float) -> None:
        self.received[group] = self.received.get(group, 0.0) + benefit
        self.booked[group] = self.booked.get(group, 0.0) + benefit
        self.total += benefit

    def statement(self, *, unit_name: str, is_held: bool) -> dict[str, Any]:
        """By group, in the benefit's own unit: before this case, booked by it, after it, and what it is owed.

        fraction: of all benefit, null where there is none. owed: share · whole − after; < 0 for a group that has more
        than its share. next: the field of the case that goes on from here.
        """
        groups = {group: self._of(group) for group in dict.fromkeys([*self.shares, *self.received])}
        after = {group: each["after"] for group, each in groups.items()}
        return {
            "unit": unit_name,
            "total": self.amount(self.total),
            "groups": groups,
            "next": {"running" if is_held else "benefit": after},
        }

    def _of(self, group: str) -> dict[str, Any]:
        share, after, booked = (table.get(group, 0.0) for table in (self.shares, self.received, self.booked))
        return {
            "share": share,
            "before": self.amount(self.before.get(group, 0.0)),
            "booked": self.amount(booked),
            "after": self.amount(after),
            "fraction": after / self.total if self.total > 0 else None,
            "owed": self.amount(share * self.total - after),
        }

    def amount(self, multiple: float) -> float:
        """In the benefit's own unit; at most the largest number."""
        most = sys.float_info.max / self.unit
        return min(max(multiple, -most), most) * self.unit
