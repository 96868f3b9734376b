"""Entries of a draft as lines: shares to type over, target before and after, what is used now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _

from apps.dashboard.figures import bullet
from apps.dashboard.figures.bullet import Bullet, Tolerance
from apps.dashboard.shell import presentation
from apps.priorities.selectors.changesets.draft import DraftRow

DRAFT_WIDTH = 136
SHARES, PERCENT = "shares", "percent"


@dataclass(frozen=True, slots=True)
class DraftLine:
    """One entry as the editor shows it."""

    row: DraftRow
    index: int
    typed: str  # what stands in its field
    exact: str
    target: str
    target_before: str  # "" where it is the same
    change: str
    actual: str
    bar: Bullet | None
    is_zero: bool

    @property
    def guides(self) -> int:
        return self.row.level - 1

    @property
    def is_parent(self) -> bool:
        return self.row.n_children > 0

    @property
    def css(self) -> str:
        return "edited" if self.row.status else "shifted" if self.row.is_shifted else ""


def draw_draft(
    rows: Sequence[DraftRow],
    *,
    tolerance: Tolerance,
    mode: str = SHARES,
    width: int = DRAFT_WIDTH,
    first_index: int = 2,
) -> list[DraftLine]:
    """Siblings share one scale."""
    scales = _scales(rows, tolerance)
    return [_line(row, index, scales, tolerance, mode, width) for index, row in enumerate(rows, start=first_index)]


def typed_value(row: DraftRow, mode: str) -> str:
    """The text of the field: six significant digits, or *inherit*."""
    if mode == PERCENT and row.node.shares is not None:
        return "" if row.target is None else presentation.shares_short(float(f"{row.target * 100:.6g}"))
    return presentation.shares_short(row.node.shares)


def sum_words(rows: Iterable[DraftRow]) -> str:
    """What the shown targets come to; empty where somebody passes shares on or nobody has any."""
    targets = [row.target for row in rows]
    if not targets or any(target is None for target in targets):
        return ""
    total = sum(target or 0.0 for target in targets)
    return presentation.percent(total) if total else ""


def _line(
    row: DraftRow, index: int, scales: dict[UUID | None, float], tolerance: Tolerance, mode: str, width: int
) -> DraftLine:
    is_root = row.node.parent_uid is None
    moved = not is_root and _differs(row)
    bar = None
    if not is_root and row.target is not None:
        state = presentation.balance(row.actual, row.target, has_usage=row.has_usage, tolerance=tolerance).state
        bar = bullet.draw(
            actual=row.actual,
            target=row.target,
            maximum=scales.get(row.node.parent_uid, 1.0),
            state=state,
            width=width,
            tolerance=tolerance,
            before=row.target_before if moved else None,
        )
    before = presentation.percent(row.target_before) if row.target_before is not None else _("none")
    return DraftLine(
        row=row,
        index=index,
        typed="" if is_root else typed_value(row, mode),
        exact=presentation.shares(row.node.shares),
        target=presentation.percent(1.0 if is_root else row.target),
        target_before=before.replace("\u00a0%", "") if moved else "",
        change=presentation.change(row.target_before, row.target)
        if moved and row.target_before is not None and row.target is not None
        else "",
        actual=presentation.percent(row.actual),
        bar=bar,
        is_zero=row.node.shares == 0,
    )


def _differs(row: DraftRow) -> bool:
    if row.target is None or row.target_before is None:
        return row.target is not row.target_before
    return abs(row.target - row.target_before) > 1e-12


def _scales(rows: Iterable[DraftRow], tolerance: Tolerance) -> dict[UUID | None, float]:
    groups: dict[UUID | None, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        highest = max(row.target or 0.0, row.target_before or 0.0)
        groups[row.node.parent_uid].append((row.actual or 0.0, highest))
    return {parent: bullet.share_scale(pairs, tolerance) for parent, pairs in groups.items()}
