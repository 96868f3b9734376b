"""What a form for an allocation warns of before it is sent: an end, an allocation used up, or more than is there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.contrib.allocations.board import BoardRow, board_of
from apps.contrib.allocations.loaded import Loaded
from apps.contrib.allocations.periods import Period, day_of
from apps.contrib.allocations.table_sums import table_sums
from apps.contrib.allocations.units import find_unit

SOON = timedelta(days=60)
Key = Literal["over", "parent_ends", "parent_runs_out", "own_ends", "own_runs_out"]


@dataclass(frozen=True, slots=True)
class FormWarning:
    """One warning. name: of the entry that it is about. amount, of: in hours of the unit; on: a day."""

    key: Key
    name: str
    amount: float | None = None
    of: float | None = None
    on: date | None = None


def warnings_of(
    *,
    loaded: Loaded,
    entry_uid: UUID,
    unit: str,
    days: Period | None,
    amount: float | None,
    zone: ZoneInfo,
) -> list[FormWarning]:
    """Warnings about an allocation of an amount on these days; None: not typed yet, or no number.

    over: the amount is more than what the parent (or the capacity) has unallocated on these days. parent_ends: the
    allocation of the parent ends before the last day. Of the parent and of the entry itself: that their current
    allocation runs out early or is used up, or ends within 60 days without a successor.
    """
    view = loaded.view
    tree, i = view.tree, view.require(entry_uid)
    parent = int(tree.parent[i])
    warnings: list[FormWarning] = []
    if days is not None and amount is not None and parent >= 0:
        chosen = find_unit(loaded.units, unit)
        sums = table_sums(view, days, zone, loaded.allocations, loaded.capacities, chosen)
        left, own = float(sums.whole.kept[parent]), float(sums.whole.own[parent])
        is_known = own == own and view.visibility.may_see(parent) and not sums.hides_allocations(parent)
        if is_known and amount > left * (1 + 1e-9):
            name = view.policy.name if parent == 0 else tree.name[parent]
            warnings.append(FormWarning("over", name, left, own))
    for at in (parent, i):
        if at > 0 and view.visibility.may_see(at):
            board = board_of(loaded, zone=zone, of=tree.uuid(at), unit=unit, limit=0)
            if board.own is not None:
                today = day_of(board.now, zone)
                warnings += _of_current(board.own, is_parent=at == parent, today=today, days=days)
    return warnings


def _of_current(row: BoardRow, *, is_parent: bool, today: date, days: Period | None) -> list[FormWarning]:
    warnings = []
    runs_out: Key = "parent_runs_out" if is_parent else "own_runs_out"
    if row.state in ("used_up", "runs_out"):
        warnings.append(FormWarning(runs_out, row.name, row.remaining, row.allocated, row.runs_out_on))
    ends_early = is_parent and days is not None and row.ends_on < days.ends_on and row.renewed_on is None
    ends_soon = not is_parent and row.renewed_on is None and today <= row.ends_on <= today + SOON
    if ends_early or ends_soon:
        warnings.append(FormWarning("parent_ends" if is_parent else "own_ends", row.name, on=row.ends_on))
    return warnings
