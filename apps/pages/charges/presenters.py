"""The arithmetic of one job's charge for its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.policies.units import CORE_HOUR
from apps.priorities.charges import ChargedJob, ChargesPage
from apps.priorities.job_charge import HourLine
from apps.priorities.sentences import numbers
from apps.priorities.sentences import unit_of as unit_of_resource
from apps.series.own_days import OwnDays
from apps.web.listings.charge_listing import hours, state_text, unit_of, usage_of, who_of
from apps.web.shell import presentation
from apps.web.svg.day_bars import DayBar, draw_days
from apps.web.texts import value_texts

_SHOWN_HOURS = 48


@dataclass(frozen=True, slots=True)
class OwnUse:
    """What one's jobs used in the last days. most: the amount that the highest bar shows."""

    title: str
    bars: Sequence[DayBar]
    first_day: str
    most: str


def draw_own_use(own: OwnDays) -> OwnUse:
    titles = [f"{presentation.short_day(day)}: {_core_h(used)}" for day, used in zip(own.days, own.used, strict=True)]
    first = presentation.short_day(own.days[0])
    title = _("%(amount)s used since %(day)s") % {"amount": _core_h(own.total), "day": first}
    return OwnUse(title, draw_days(own.used, titles), first, _core_h(max(own.used)))


def _core_h(core_s: float) -> str:
    return f"{presentation.hours(core_s)}{numbers.NBSP}{CORE_HOUR.symbol}"


@dataclass(frozen=True, slots=True)
class HourRow:
    at: datetime
    charged: str
    age: str
    weight: str
    usage: str
    note: str


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """One resource: 4 cores × 2 h = 8 core-hours, × weight = weighted amount."""

    unit: str
    rate: str
    amount: str
    weight: str
    weighted: str


def draw(job: ChargedJob, page: ChargesPage) -> dict[str, Any]:
    """Template context of one job with its complete arithmetic."""
    charge = job.charge
    shown = list(reversed(charge.hours))[:_SHOWN_HOURS]
    older = charge.hours[: -_SHOWN_HOURS or None] if len(charge.hours) > _SHOWN_HOURS else ()
    return {
        "who": who_of(job),
        "state": state_text(job),
        "usage": hours(usage_of(job)),
        "unit": unit_of(page.settings),
        "resources": [
            ResourceRow(
                unit_of_resource(row.resource),
                presentation.shares_short(row.rate),
                hours(row.amount_s),
                presentation.shares_short(row.weight),
                hours(row.weighted),
            )
            for row in charge.resources
        ],
        "weighted": hours(sum(row.weighted for row in charge.resources)),
        "rules": [value_texts.value_text([rule], "class_factors") for rule in charge.class_rules],
        "class_factor": presentation.shares_short(charge.class_factor),
        "site_factor": presentation.shares_short(charge.site_factor),
        "charged": hours(charge.charged),
        "hours": [_hour(row) for row in shown],
        "n_older": len(older),
        "older_usage": hours(sum(row.usage for row in older)),
        "usage_active": hours(charge.active),
        "predicted": hours(charge.predicted) if job.record.state == "running" else "",
        "scopes": _scopes(job, unit_of(page.settings)),
        "window": page.settings.window,
        "as_of": page.as_of,
        "run_text": _run_text(job),
    }


def _run_text(job: ChargedJob) -> str:
    record = job.record
    if record.state == "pending":
        return _("Waiting: demand, not usage.")
    if record.state == "withdrawn":
        return _("Cancelled: counts nothing.")
    if not job.charge.run_s and record.state == "running":
        return _("It started after the time of these numbers.")
    return ""


def _hour(row: HourLine) -> HourRow:
    notes = {
        "counts": "",
        "after": _("upcoming"),
        "old": _("outside the window"),
        "held": _("held: another source has this hour too"),
    }
    return HourRow(
        at=datetime.fromtimestamp(row.hour_s, UTC),
        charged=hours(row.charged),
        age=presentation.age(row.age_s),
        weight=numbers.number(row.weight, 4),
        usage=hours(row.usage),
        note=notes[row.why],
    )


def _scopes(job: ChargedJob, unit: str) -> Sequence[tuple[str, str, str]]:
    """(scope, amount with its unit, components) of the job’s usage."""
    labels = {
        "historical": _("finished jobs"),
        "active": _("running jobs so far"),
        "predictive": _("running jobs so far, and the rest of their request"),
    }
    scopes = []
    if job.approach_local is None or job.usage_local is None:
        scopes.append((_("local usage"), _("none"), _("it ran at another site")))
    else:
        scopes.append((_("local usage"), f"{hours(job.usage_local)} {unit}", labels[job.approach_local]))
    scopes.append((_("global usage"), f"{hours(job.usage_global)} {unit}", labels[job.approach_global]))
    return scopes
