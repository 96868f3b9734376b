"""Corrections of usage in words: what was given back or added, what is left of it, what one would change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from apps.dashboard.shell import lines, presentation
from apps.dashboard.shell.presentation import Balance, signed_hours
from apps.policies.tree.columns import TreeColumns
from apps.priorities.adjustments import AdjustmentLine, AdjustmentPreview, AdjustmentsPage, Standing
from apps.priorities.sentences import unit_of


@dataclass(frozen=True, slots=True)
class Drawn:
    """One adjustment as it is shown."""

    uid: UUID
    amount: str
    unit: str
    counted: str
    used_at: datetime
    at: datetime
    note: str
    reason: str
    author: str
    path: str
    url: str
    where: str  # here, above or below
    is_in_force: bool
    may_revoke: bool


def draw(page: AdjustmentsPage) -> dict[str, Any]:
    """What the page of adjustments and the card on the entry's page show."""
    view, i = page.view, page.entry
    drawn = [_line(line, view.tree, i, view.policy.slug) for line in page.lines]
    entry = view.row(i)
    return {
        "page": page,
        "entry": entry,
        "policy": view.policy.slug,
        "uid": entry.uid,
        "entry_url": lines.entry_url(view.policy.slug, entry.uid, entry.name),
        "adjustments": drawn,
        "in_force": [one for one in drawn if one.is_in_force],
        "may_adjust": page.may_adjust,
        "as_of": view.as_of,
        "summary": summary(page),
    }


def summary(page: AdjustmentsPage) -> str:
    """What all adjustments at this very entry come to now."""
    here = page.view.tree.uuid(page.entry)
    own = [line.counted for line in page.lines if line.is_in_force and line.adjustment.entry_uid == here]
    if not own:
        return ""
    return _("Adjustments here amount to %(amount)s core-h now.") % {"amount": signed_hours(sum(own))}


def draw_effect(found: AdjustmentPreview, page: AdjustmentsPage) -> dict[str, Any]:
    """Before and after of one entry, and the sentence that sums it up."""
    before, after = (_standing(one, found.target) for one in (found.before, found.after))
    rows = [
        (_("Core-hours in window"), before["usage"], after["usage"]),
        (_("Actual"), before["actual"], after["actual"]),
        (_("Priority"), before["priority"], after["priority"]),
    ]
    if found.before.rank is not None or found.after.rank is not None:
        rows += [(_("Rank"), before["rank"], after["rank"]), (_("Factor"), before["factor"], after["factor"])]
    return {
        "counted": _("Amounts to %(amount)s core-h now, after decay.") % {"amount": signed_hours(found.counted)},
        "is_nothing": found.counted == 0,
        "balance_before": before["balance"],
        "balance_after": after["balance"],
        "rows": rows,
    }


def _standing(one: Standing, target: float | None) -> dict[str, Any]:
    balance: Balance = presentation.balance(one.actual, target, has_usage=one.state != "idle")
    return {
        "usage": presentation.core_hours(one.usage),
        "actual": presentation.percent(one.actual),
        "priority": presentation.signed(one.priority),
        "rank": presentation.UNKNOWN if one.rank is None else presentation.count(one.rank),
        "factor": presentation.factor(one.factor),
        "balance": balance,
    }


def _line(line: AdjustmentLine, tree: TreeColumns, i: int, slug: str) -> Drawn:
    row = line.adjustment
    at = tree.index_of_uid(row.entry_uid)
    where = "here" if at == i else "above" if at is not None and at in tree.ancestors(i) else "below"
    return Drawn(
        uid=row.uid,
        amount=signed_hours(row.amount_s),
        unit=unit_of(row.resource),
        counted=signed_hours(line.counted),
        used_at=row.at,
        at=row.created_at,
        note=row.note,
        reason=row.reason,
        author=row.author_name,
        path=line.path,
        url=lines.entry_url(slug, row.entry_uid, line.entry_name) if at is not None else "",
        where=where,
        is_in_force=line.is_in_force,
        may_revoke=line.may_revoke,
    )
