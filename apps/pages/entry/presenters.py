"""The side panel of an entry's shares: what typed shares do to it, to its siblings, and to ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from apps.priorities.projections import Projection
from apps.priorities.records import EntryRow
from apps.priorities.sentences import numbers
from apps.priorities.shares_preview import PreviewRow, SharesPreview
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import Balance
from apps.web.texts.day_on_target import day_on_target
from apps.web.texts.rank_moves import Places, change_text, other_targets_text, places_of

SHOWN = 8
_DECIMALS = 1  # of the column of targets
_LEAST_SHOWN = 0.05  # points, of a difference that one decimal shows
_UNCHANGED = "±0"


@dataclass(frozen=True, slots=True)
class EffectLine:
    """One entry of the table. on_target: the day, or in short why there is none."""

    name: str
    url: str
    is_changed: bool
    target: str
    change: str
    used: str
    places: Places
    on_target: str
    is_day_kept: bool


@dataclass(frozen=True, slots=True)
class Effect:
    """A preview as the panel shows it; the edited entry is the first of the lines.

    change: of its target, signed and in points, empty if it stays; from: its target before. rest_change: of the targets
    of all entries that aren't listed, together. balance: of the usage so far with the target that follows, None where
    it inherits; is_farther: by that it is off its target, and by more than now.
    """

    name: str
    parent_name: str
    shares: str
    target: str
    change: str
    target_before: str
    ranks: str
    places: Places
    on_target: str
    on_target_before: str
    heading: str
    lines: Sequence[EffectLine]
    n_left_out: int
    rest_change: str
    balance: Balance | None
    balance_before: Balance | None
    is_farther: bool

    @property
    def changes_nothing(self) -> bool:
        return not self.change

    @property
    def announcement(self) -> str:
        """What a screen reader hears while shares are typed."""
        if self.changes_nothing:
            return _("No change yet.")
        values = {"name": self.name, "target": self.target, "parent": self.parent_name, "ranks": self.ranks}
        return _("%(name)s: %(target)s of %(parent)s. %(ranks)s.") % values


def draw_effect(preview: SharesPreview, *, policy_slug: str) -> Effect:
    """The edited entry first, then those whose ranks and targets move most, then the largest."""
    edited = preview.changed
    others = sorted((row for row in preview.rows if not row.is_changed), key=_most_first)
    shown, rest = others[: SHOWN - 1], others[SHOWN - 1 :]
    targets = numbers.change_shares(edited.before.target, edited.after.target)
    is_same = edited.before.shares == edited.after.shares
    before, after = _balances(edited, preview, policy_slug)
    return Effect(
        name=edited.name,
        parent_name=preview.whole.name,
        shares=presentation.shares(edited.after.shares),
        target=targets.after,
        change="" if is_same else targets.change,
        target_before=targets.before,
        ranks=change_text(preview.ranks),
        places=places_of(edited.moves),
        on_target=_day(edited.after, edited.projection_after),
        on_target_before=_day(edited.before, edited.projection_before),
        heading=_heading(others),
        lines=[_line(row, policy_slug) for row in [edited, *shown]],
        n_left_out=len(rest),
        rest_change=_change(sum(row.target_shift for row in rest)),
        balance=after,
        balance_before=before,
        is_farther=not is_same and after is not None and after.is_off_target and _is_farther(edited),
    )


def _balances(row: PreviewRow, preview: SharesPreview, policy_slug: str) -> list[Balance | None]:
    """Before and after the change."""
    context = lines.LineContext(policy_slug=policy_slug, tolerance=lines.tolerance_of(preview.settings))
    return [line.balance for entry in (row.before, row.after) for line in lines.draw_lines([entry], context)]


def _is_farther(row: PreviewRow) -> bool:
    """From its target, by as much as is shown."""
    before, after = row.before.deviation_points, row.after.deviation_points
    return before is not None and after is not None and abs(after) - abs(before) >= _LEAST_SHOWN


def _most_first(row: PreviewRow) -> tuple[float, float, float]:
    places = 0 if row.moves is None else abs(row.moves.furthest)
    return -places, -abs(row.target_shift), -(row.before.target or 0.0)


def _heading(others: Sequence[PreviewRow]) -> str:
    """How many other targets change, and by which part of their value."""
    changes = [row.target_shift / row.before.target for row in others if row.before.target]
    return other_targets_text(changes) or _("Siblings")


def _line(row: PreviewRow, policy_slug: str) -> EffectLine:
    on_target = _day(row.after, row.projection_after)
    return EffectLine(
        name=row.name,
        url=lines.entry_url(policy_slug, row.uid, row.name),
        is_changed=row.is_changed,
        target=numbers.percent(row.after.target, _DECIMALS),
        change=numbers.change_shares(row.before.target, row.after.target, decimals=_DECIMALS).change,
        used=numbers.percent(row.before.actual, _DECIMALS),
        places=places_of(row.moves),
        on_target=on_target,
        is_day_kept=on_target == _day(row.before, row.projection_before),
    )


def _day(row: EntryRow, projection: Projection | None) -> str:
    return day_on_target(row, projection)


def _change(shift: float) -> str:
    """Signed points; <0.1 for a change that the column's decimals don't show."""
    if not shift:
        return _UNCHANGED
    text = numbers.change_shares(0.0, shift, decimals=_DECIMALS).change
    smallest = numbers.number(10.0**-_DECIMALS, _DECIMALS)
    return f"<{smallest}" if text == _UNCHANGED else text
