"""Usage adjustments of an entry as rows, and the effect of another one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from apps.accounts.selectors import display_name
from apps.policies.tree.columns import TreeColumns
from apps.priorities.adjustments import (
    AdjustmentLine,
    AdjustmentPreview,
    AdjustmentsPage,
    EntryNumbers,
)
from apps.priorities.sentences import numbers as number_texts
from apps.priorities.sentences import unit_of
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import signed_hours
from apps.web.svg.bars import Tolerance


@dataclass(frozen=True, slots=True)
class AdjustmentRow:
    """One adjustment as shown. `where`: here, above or below the entry of the page."""

    uid: UUID
    amount: str
    unit: str
    usage: str
    used_at: datetime
    at: datetime
    note: str
    reason: str
    author: str
    path: str
    url: str
    where: str
    is_active: bool
    may_revoke: bool


def draw(page: AdjustmentsPage) -> dict[str, Any]:
    """Context of the page of adjustments and of the card on the entry's page."""
    view, i = page.view, page.entry
    drawn = [_line(line, view.tree, i, view.policy.slug) for line in page.lines]
    entry = view.row(i)
    return {
        "page": page,
        "entry": entry,
        "policy": view.policy.slug,
        "uid": entry.uid,
        "adjustments": drawn,
        "active": [adjustment for adjustment in drawn if adjustment.is_active],
        "may_adjust": page.may_adjust,
        "as_of": view.as_of,
        "summary": summary(page),
        "usage_unit": presentation.hour_unit(view.settings.metric),
        "usage_title": _("%(unit)s now") % {"unit": presentation.hour_heading(view.settings.metric)},
    }


def summary(page: AdjustmentsPage) -> str:
    """Sum of the active adjustments of this entry, after decay; empty without any."""
    here = page.view.tree.uuid(page.entry)
    own = [line.usage for line in page.lines if line.is_active and line.adjustment.entry_uid == here]
    if not own:
        return ""
    return _amounts_to(sum(own), page)


def _amounts_to(usage: float, page: AdjustmentsPage) -> str:
    unit = presentation.hour_unit(page.view.settings.metric)
    return _("Amounts to %(amount)s %(unit)s now, after decay.") % {"amount": signed_hours(usage), "unit": unit}


def draw_effect(preview: AdjustmentPreview, page: AdjustmentsPage) -> dict[str, Any]:
    """Numbers of the entry before and after the adjustment, and its effect after decay in a sentence."""
    decimals = number_texts.decimals_beside(preview.before.actual, preview.after.actual, preview.target)
    view, at = page.view, page.entry
    tolerance = lines.tolerance_of(view.settings).at(not view.tree.n_children[at])
    before, after = (
        _standing(numbers, preview.target, tolerance, decimals) for numbers in (preview.before, preview.after)
    )
    rows = [
        (presentation.hour_heading(view.settings.metric), before["usage"], after["usage"]),
        (_("Actual"), before["actual"], after["actual"]),
        (_("Priority"), before["priority"], after["priority"]),
    ]
    if preview.before.rank is not None or preview.after.rank is not None:
        rows += [(_("Rank"), before["rank"], after["rank"]), (_("Factor"), before["factor"], after["factor"])]
    return {
        "usage": _amounts_to(preview.usage, page),
        "is_nothing": preview.usage == 0,
        "balance_before": before["balance"],
        "balance_after": after["balance"],
        "rows": rows,
    }


def _standing(numbers: EntryNumbers, target: float | None, tolerance: Tolerance, decimals: int) -> dict[str, Any]:
    balance = presentation.balance_of(numbers.state, numbers.actual, target, tolerance=tolerance, decimals=decimals)
    return {
        "usage": presentation.hours(numbers.usage),
        "actual": number_texts.compare_shares(numbers.actual, target, decimals=decimals).actual,
        "priority": number_texts.signed(numbers.priority),
        "rank": number_texts.UNKNOWN if numbers.rank is None else number_texts.count(numbers.rank),
        "factor": number_texts.factor(numbers.factor),
        "balance": balance,
    }


def _line(line: AdjustmentLine, tree: TreeColumns, i: int, slug: str) -> AdjustmentRow:
    row = line.adjustment
    at = tree.index_of_uid(row.entry_uid)
    where = "here" if at == i else "above" if at is not None and at in tree.ancestors(i) else "below"
    return AdjustmentRow(
        uid=row.uid,
        amount=signed_hours(row.amount_s),
        unit=unit_of(row.resource),
        usage=signed_hours(line.usage),
        used_at=row.at,
        at=row.created_at,
        note=row.note,
        reason=row.reason,
        author=display_name(row.author_name),
        path=line.path,
        url=lines.entry_url(slug, row.entry_uid, line.entry_name) if at is not None else "",
        where=where,
        is_active=line.is_active,
        may_revoke=line.may_revoke,
    )
