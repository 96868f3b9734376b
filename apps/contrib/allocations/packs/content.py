"""Builds the JSON document of a pack with the rights of one actor.

Numbers are those of the core-hour table and of monthly statements. People are left out; what the actor may not see is
null with `suppressed`. `balance` and `held_back` are in hours of the policy's metric, named by `unit`; allocations in
hours of their own unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.allocations.packs.changes import changes, expiring
from apps.contrib.allocations.packs.core_hours import (
    MOST_PACK_ROWS,
    allocation_rows,
    balance_rows,
    fairness_among,
    held_back_pairs,
)
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.units import policy_units
from apps.core.errors import FieldProblem, Invalid
from apps.policies.units import CORE_HOUR
from apps.priorities.selectors.rows import open_view
from apps.priorities.serving.served_snapshot import instant
from apps.series.days import site_zone
from apps.series.months import Month, day_today, month_of, read_month
from apps.web.shell.presentation import hour_unit

FORMAT = "fairshare-pack/1"
MOST_PACK_MONTHS = 12

Json = dict[str, Any]


def read_months(first: str, last: str, today: date) -> list[Month]:
    """Parse first and last month, such as 2026-10; default: the last full month. Oldest first, at most 12."""
    newest = read_month(last, today) if last else read_month(first, today) if first else month_of(today).before()
    oldest = read_month(first, today) if first else newest
    months = [newest.before(n) for n in range(MOST_PACK_MONTHS) if newest.before(n).first_on >= oldest.first_on][::-1]
    if not months or months[0] != oldest:
        number = {"n": MOST_PACK_MONTHS - 1}
        message = _("must be at most %(n)s months before the last one, and not after it") % number
        whole = _("The first month must be at most %(n)s months before the last one, and not after it.") % number
        raise Invalid(whole, code="bad_period", fields=[FieldProblem("from", message)])
    return months


@dataclass(frozen=True, slots=True)
class PackQuery:
    """uid: the entry, None for the root. first, last: months, see `read_months`."""

    policy_slug: str
    uid: UUID | None = None
    first: str = ""
    last: str = ""


def get_pack(query: PackQuery, *, actor: Actor) -> Json:
    """Return the pack of an entry and its children, by default the root.

    Raises: Invalid for malformed months, months that haven't started, or more than twelve. NotFound if the policy or
    entry doesn't exist for this actor.
    """
    view = open_view(policy_slug=query.policy_slug, actor=actor)
    i = view.require(view.tree.uuid(0) if query.uid is None else query.uid)
    people = view.tree.engine_tree().is_ranked
    if i and people[i]:
        problem = FieldProblem("entry", _("is one person: choose the group"))
        raise Invalid(_("A pack is about a group, not about one person."), code="one_person", fields=[problem])
    months = read_months(query.first, query.last, day_today(view))
    period = Period(months[0].first_on, months[-1].last_on)
    visible = view.visible_children(i)
    groups = [child for child in visible if not people[child]]
    children = groups[:MOST_PACK_ROWS]
    balance = balance_rows(view, [*([i] if i else []), *children], months)
    return {
        "format": FORMAT,
        "policy": view.policy.slug,
        "policy_name": view.policy.name,
        "revision": view.revision,
        "entry": view.tree.path(i),
        "entry_uid": str(view.tree.uuid(i)),
        "name": view.policy.name if i == 0 else view.tree.name[i],
        "from": period.starts_on.isoformat(),
        "to": period.ends_on.isoformat(),
        "made_at": instant(view.now),
        "zone": site_zone().key,
        "allocations": allocation_rows(view, i, period, actor, people, CORE_HOUR),
        "allocations_by_unit": [
            allocation_rows(view, i, period, actor, people, unit)
            for unit in policy_units(view.policy)
            if not unit.is_core_hour
        ],
        "unit": hour_unit(view.settings.metric),
        "balance": balance,
        "fairness": fairness_among(balance[-len(children) :]) if 0 < len(children) == len(groups) else None,
        "held_back": held_back_pairs(view, children, period),
        "changes": changes(view, [i, *children], period),
        "expiring": expiring(view, i, actor, people),
        "n_people_left_out": len(visible) - len(groups),
    }
