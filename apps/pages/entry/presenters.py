"""The preview of an entry's new shares: the siblings whose targets change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _

from apps.priorities.shares_preview import PreviewRow, SharesPreview
from apps.web.shell import lines, presentation
from apps.web.svg import bars
from apps.web.svg.bars import USUAL_TOLERANCE, Bullet

SHOWN = 12


@dataclass(frozen=True, slots=True)
class EffectLine:
    name: str
    url: str
    kind: str
    is_changed: bool
    shares_before: str
    shares_after: str
    target_before: str
    target_after: str
    change: str
    ranks: str
    bar: Bullet


@dataclass(frozen=True, slots=True)
class Effect:
    """A preview as the page shows it; the changed entry is always among the shown lines."""

    parent_name: str
    lines: Sequence[EffectLine]
    n_left_out: int
    base_revision: int
    changes_nothing: bool


def draw_preview(preview: SharesPreview, *, policy_slug: str, groups: Collection[UUID]) -> Effect:
    """The changed entry first, then those whose target changes most, in tree order. Groups are shown without rank."""
    moved = [row for row in preview.rows if row.is_changed or row.target_before != row.target_after]
    most = sorted(moved, key=lambda row: (not row.is_changed, -_moved_by(row)))[:SHOWN]
    shown = sorted((row for row in moved if row in most), key=lambda row: not row.is_changed)
    pairs = [(row.actual or 0.0, max(row.target_before or 0.0, row.target_after or 0.0)) for row in shown]
    scale = bars.share_scale(pairs)
    changed = next((row for row in preview.rows if row.is_changed), None)
    return Effect(
        parent_name=preview.parent_name,
        lines=[_line(row, scale, policy_slug, is_group=row.uid in groups) for row in shown],
        n_left_out=len(moved) - len(shown),
        base_revision=preview.base_revision,
        changes_nothing=changed is None or changed.shares_before == changed.shares_after,
    )


def _moved_by(row: PreviewRow) -> float:
    return abs((row.target_after or 0.0) - (row.target_before or 0.0))


def _line(row: PreviewRow, scale: float, policy_slug: str, *, is_group: bool) -> EffectLine:
    state = presentation.balance_state(row.actual, row.target_after, has_usage=(row.actual or 0.0) > 0)
    bar = bars.draw(
        actual=row.actual,
        target=row.target_after,
        before=row.target_before,
        maximum=scale,
        state=state,
        width=bars.TREE_WIDTH,
        tolerance=USUAL_TOLERANCE,
    )
    shares = presentation.change_shares(row.target_before, row.target_after)
    return EffectLine(
        name=row.name,
        url=lines.entry_url(policy_slug, row.uid, row.name),
        kind=row.kind,
        is_changed=row.is_changed,
        shares_before=presentation.shares(row.shares_before),
        shares_after=presentation.shares(row.shares_after),
        target_before=shares.before,
        target_after=shares.after,
        change="" if row.target_before is None or row.target_after is None else shares.change,
        ranks="" if is_group else _ranks(row),
        bar=bar,
    )


def _ranks(row: PreviewRow) -> str:
    if row.rank_before is None or row.rank_after is None:
        return ""
    if row.rank_before == row.rank_after:
        return _("rank stays %(n)s") % {"n": row.rank_after}
    return _("rank %(before)s to %(after)s") % {"before": row.rank_before, "after": row.rank_after}
