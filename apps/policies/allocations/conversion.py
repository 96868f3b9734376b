"""From core-hours to shares and back, each step a line that a person can check.

Shares are weights among siblings, so the core-hours that are divided, and not those of the machine, are the whole:
share of the parent = own core-hours / core-hours of the parent, and shares = that part × the sum the siblings have now
(to six significant digits), so that the numbers stay on the scale people know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any
from uuid import UUID

from apps.core.errors import Invalid
from apps.policies.allocations.records import invalid
from apps.policies.tree.columns import F8, TreeColumns
from apps.policies.tree.names import RESERVE
from apps.policies.tree.terms import AT_END, Dates

RESTS = ("spread", "reserve")
_DIGITS = 6
_SAME = 1.5e-5
_USUAL_SUM = 100.0
_NEW = -1


@dataclass(frozen=True, slots=True)
class ConvertedLine:
    """One child: its part of the parent's core-hours, the reason, and the resulting shares.

    basis: promised; rest (its share of what is unallocated); none (nothing allocated, nothing left). uid None: a
    reserve that doesn't exist yet.
    """

    uid: UUID | None
    name: str
    kind: str
    basis: str
    core_h: float
    part: float  # of the core-hours that are divided, 0..1
    shares_before: float | None
    shares_after: float
    ends_on: date | None = None  # the last day of its allocation

    @property
    def is_changed(self) -> bool:
        return self.shares_before != self.shares_after


@dataclass(frozen=True)
class Conversion:
    """Children's core-hours as shares. has_core_h: of the parent, None where nothing says how many it has."""

    parent_uid: UUID
    parent_name: str
    has_core_h: float | None
    allocated_core_h: float
    rest_core_h: float  # unallocated core-hours
    over_core_h: float  # over-allocated: targets are fractions of the sum allocated then
    divided_core_h: float
    sum_of_shares: float
    rest: str
    lines: Sequence[ConvertedLine] = field(default_factory=tuple)

    @property
    def is_changed(self) -> bool:
        return any(line.is_changed for line in self.lines)


def convert(
    tree: TreeColumns,
    parent: int,
    promised: Mapping[int, float],
    has_core_h: float | None,
    *,
    rest: str = "spread",
    last_days: Mapping[int, date] | None = None,
) -> Conversion:
    """Shares of the children of an entry in proportion to their core-hours. promised: by index, of some children.

    rest `reserve`: unallocated core-hours go to the reserve, which is made if there is none. `spread`: they go to the
    children without an allocation, in proportion to their present shares; without such, every allocation grows in
    proportion and a reserve has none.
    """
    if rest not in RESTS:
        raise invalid("rest", f"must be one of {', '.join(RESTS)}")
    children = list(tree.children(parent))
    inheriting = next((i for i in children if tree.inherit[i]), None)
    if inheriting is not None:
        raise Invalid(
            f"{tree.path(inheriting)} inherits its shares: its children compete one level up. Give it a number first.",
            code="inherits",
        )
    total = sum(promised.values())
    if total <= 0:
        raise Invalid(
            "These entries have no allocation in this period: allocate core-hours first.", code="no_allocation"
        )
    left = 0.0 if has_core_h is None else max(has_core_h - total, 0.0)
    of_rest = _parts_of_rest(tree, children, promised, left, rest)
    divided = total + sum(of_rest.values())
    scale = float(tree.shares[list(children)].sum()) or _USUAL_SUM
    days = last_days or {}
    lines = [replace(_line(tree, i, promised, of_rest, divided, scale), ends_on=days.get(i)) for i in children]
    if _NEW in of_rest:
        part = left / divided
        name = _free_name({tree.name[i] for i in children})
        lines.append(ConvertedLine(None, name, RESERVE, "rest", left, part, None, _rounded(part * scale)))
    over = 0.0 if has_core_h is None else max(total - has_core_h, 0.0)
    return Conversion(
        tree.uuid(parent), tree.name[parent], has_core_h, total, left, over, divided, scale, rest, tuple(lines)
    )


def operations_of(conversion: Conversion, *, at_end: str | float | None = None) -> list[dict[str, Any]]:
    """The operations of a change set: `set_shares` where a number changes, and a reserve that is missing.

    at_end: also give the shares of allocated children the allocation's last day, and what happens then.
    """
    if at_end is not None and not (at_end in AT_END or isinstance(at_end, int | float)):
        raise invalid("at_end", f"must be one of {', '.join(AT_END)}, or a number of shares")
    operations: list[dict[str, Any]] = []
    for line in conversion.lines:
        if line.uid is None:
            parent = str(conversion.parent_uid)
            new = {"op": "add", "parent": parent, "name": line.name, "kind": RESERVE, "shares": line.shares_after}
            operations.append(new)
            continue
        if line.is_changed:
            operations.append({"op": "set_shares", "entry": str(line.uid), "shares": line.shares_after})
        if at_end is not None and line.ends_on is not None:
            dates = Dates(ends_on=line.ends_on, at_end=at_end)
            operations.append({"op": "set_dates", "entry": str(line.uid), "dates": dates.to_json()})
    return operations


@dataclass(frozen=True, slots=True)
class Step:
    """One level of the way from the root: the entry's shares of those beside it."""

    uid: UUID
    name: str
    shares: float | None
    of_shares: float
    part: float
    core_h: float  # what is left of the capacity at this level


def walk_down(tree: TreeColumns, i: int, capacity_core_h: float, target: F8) -> list[Step]:
    """Core-hours that an entry's shares amount to: the capacity times the target at each level, without the root.

    target: of every entry among those it competes with, as the engine has it; an entry that inherits is no step.
    """
    steps, left = [], capacity_core_h
    for j in [*tree.ancestors(i), i][1:]:
        if tree.inherit[j]:
            continue
        part = float(target[j])
        left *= part
        own = float(tree.shares[j])
        steps.append(Step(tree.uuid(j), tree.name[j], own, own / part if part else 0.0, part, left))
    return steps


def shares_beside(part: float, others: float) -> float | None:
    """Shares that make a part of a group while the others keep theirs: others · part / (1 − part)."""
    if part >= 1 or others <= 0:
        return None
    return _rounded(others * part / (1 - part))


def _parts_of_rest(
    tree: TreeColumns, children: Sequence[int], promised: Mapping[int, float], left: float, rest: str
) -> dict[int, float]:
    """Core-hours of the rest, by child; under `_NEW` those of a reserve that has to be made."""
    if left <= 0:
        return {}
    if rest == RESERVE:
        reserves = [i for i in children if tree.is_reserve[i]]
        return {i: left / len(reserves) for i in reserves} if reserves else {_NEW: left}
    without = {i: float(tree.shares[i]) for i in children if i not in promised and not tree.is_reserve[i]}
    weight = sum(without.values())
    return {i: left * shares / weight for i, shares in without.items()} if weight > 0 else {}


def _line(
    tree: TreeColumns,
    i: int,
    promised: Mapping[int, float],
    of_rest: Mapping[int, float],
    divided: float,
    scale: float,
) -> ConvertedLine:
    basis = "promised" if i in promised else "rest" if of_rest.get(i) else "none"
    core_h = promised[i] if i in promised else of_rest.get(i, 0.0)
    part = core_h / divided
    kind = tree.kind_names[int(tree.kind_code[i])]
    before, after = float(tree.shares[i]), _rounded(part * scale)
    if abs(before - after) <= _SAME * max(before, after):  # no change below six significant digits
        after = before
    return ConvertedLine(tree.uuid(i), tree.name[i], kind, basis, core_h, part, before, after)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _free_name(taken: set[str]) -> str:
    names = (RESERVE, *(f"{RESERVE} {n}" for n in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)
