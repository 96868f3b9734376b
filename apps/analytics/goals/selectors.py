"""Goals for one actor, on the newest snapshot: read, checked, solved and taken over as a draft.

The engine proposes changes and the projection of the policy decides. Assumptions, as of the projection: every account
goes on as in the last 14 days whatever its priority, nothing else of the policy changes, and new shares, refunds and
half-lives hold from now on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from threading import Lock
from uuid import UUID

from cachetools import LRUCache, cached
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.analytics.forecast.past_usage import competitors, inputs_of, key_of
from apps.analytics.goals.records import Goal, GoalSolution, Lever, Reason
from apps.analytics.goals.solver import days_to, solve, uses_anything
from apps.analytics.series.daily_series import day_of, site_zone
from apps.analytics.what_if.trial import count_computation
from apps.core.errors import Conflict, FieldProblem, Invalid, Malformed, NotAllowed
from apps.core.typed_numbers import read_number
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet, Policy
from apps.priorities.recompute.totals import conflict_without_algorithm
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving.served_snapshot import ServedSnapshot

MOST_DAYS = 366
USUAL_LOSS = 1.0  # points
_MOST_KEPT = 16


def read_goal(given: Mapping[str, str], *, entry: UUID, today: date) -> Goal:
    """From texts: by (a day), most_lost in points, least_target and most_target in percent; all problems at once."""
    problems: list[FieldProblem] = []

    def percent(name: str, usual: float) -> float:
        text = given.get(name, "").strip().removesuffix("%")
        try:
            value = read_number(text) if text else usual
        except ValueError:
            value = math.nan
        if not 0 <= value <= 100:  # NaN is neither
            problems.append(FieldProblem(name, _("must be a number from 0 to 100")))
            return usual / 100
        return value / 100

    by = _day(given.get("by", ""), today, problems)
    lost = percent("most_lost", USUAL_LOSS)
    least, most = percent("least_target", 0.0), percent("most_target", 100.0)
    if problems:
        first = problems[0]
        raise Malformed(f"{first.where} {first.message}.", code="bad_goal", fields=problems)
    if by < today:
        raise _refused("by", _("is over: choose today or a later day"), "past")
    if least > most:
        raise _refused("least_target", _("is above the largest target: no target is between them"), "contradiction")
    return Goal(entry, by, lost, least, most)


def _day(text: str, today: date, problems: list[FieldProblem]) -> date:
    try:
        by = date.fromisoformat(text.strip())
    except ValueError:
        problems.append(FieldProblem("by", _("must be a day, such as %(day)s") % {"day": today + timedelta(days=21)}))
        return today
    if by > today + timedelta(days=MOST_DAYS):
        problems.append(FieldProblem("by", _("must be within the next %(n)s days") % {"n": MOST_DAYS}))
    return by


def get_solution(*, policy_slug: str, goal: Goal, actor: Actor) -> GoalSolution:
    """For readers of the numbers of the entry and of all that compete with it; others' levers are left out.

    Raises Conflict where numbers are missing or older than the published revision, and Invalid for an entry that has
    no target of its own or used nothing in the last 14 days.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    snapshot, entry = _entry_of(view, goal)
    left_out = _left_out(view, snapshot, entry)
    count_computation(actor)
    with conflict_without_algorithm():
        return _solved(view.policy, snapshot, goal, entry, tuple(sorted(left_out.items())))


def take_over(*, policy_slug: str, goal: Goal, lever: str, actor: Actor, at: datetime) -> ChangeSet:
    """The operations of one option, in a new draft with the goal as its reason; all of them, or no draft."""
    found = get_solution(policy_slug=policy_slug, goal=goal, actor=actor)
    option = found.option(lever)
    if option is None:
        raise Conflict(_("This option no longer reaches the goal: solve it again."), code="no_option")
    reason = _("%(name)s at its target by %(day)s") % {"name": found.name, "day": goal.by.isoformat()}
    with transaction.atomic():
        draft = drafts.open_draft(policy_slug=policy_slug, reason=reason, at=at, actor=actor)
        return drafts.add_operations(
            id=draft.pk, version=draft.version, operations=option.operations, at=at, actor=actor
        )


# --- Checks -----------------------------------------------------------------------------------------------------------
def _entry_of(view: PolicyView, goal: Goal) -> tuple[ServedSnapshot, int]:
    i = view.require(goal.entry)
    snapshot = view.snapshot
    there = None if snapshot is None else snapshot.tree.index_of_uid(goal.entry)
    if snapshot is None or there is None or snapshot.revision != view.revision:
        message = _("This policy has no priorities yet.")
        raise Conflict(message, code="not_current")
    if not i or view.tree.inherit[i]:
        message = _("has no target of its own: choose the entry above it, or give it shares first")
        raise _refused("entry", message, "no_target" if not i else "inherits")
    if view.tree.is_reserve[i]:
        raise _refused("entry", _("is a reserve and has no usage"), "reserve")
    return snapshot, there


def _left_out(view: PolicyView, snapshot: ServedSnapshot, entry: int) -> dict[Lever, Reason]:
    """Levers whose effect would show numbers that the actor may not see; NotAllowed where all would."""
    tree, told = snapshot.tree, view.told  # both are of one revision: `_entry_of` has refused others
    if not told[[entry, *competitors(tree, entry)]].all():
        message = _("You may not see the usage of all entries that compete with this one: ask its manager.")
        raise NotAllowed(message, code="suppressed")
    found: dict[Lever, Reason] = {}
    above = [j for i in tree.ancestors(entry)[1:] for j in competitors(tree, i)]
    if not told[above].all():
        found["refund"] = "hidden"
    if not told[snapshot.values.competes].all():
        found["half_life"] = "hidden"
    return found


@cached(LRUCache(_MOST_KEPT), key=lambda policy, snapshot, *rest: (*key_of(policy, snapshot), *rest), lock=Lock())
def _solved(
    policy: Policy, snapshot: ServedSnapshot, goal: Goal, entry: int, left_out: tuple[tuple[Lever, Reason], ...]
) -> GoalSolution:
    """Kept for a while: taking an option over solves the same goal again."""
    inputs = inputs_of(policy, snapshot)
    if inputs is None:
        message = _("There is too much usage to solve this on request: shorten the policy’s window.")
        raise Conflict(message, code="too_many_hours")
    if not uses_anything(inputs, entry):
        message = _("used nothing in the last 14 days: without demand no share brings it to its target")
        raise _refused("entry", message, "no_demand")
    days = days_to(snapshot.as_of, day_of(goal.by, site_zone()).to_at)
    if days < 0:
        raise _refused("by", _("is over: choose today or a later day"), "past")
    return solve(inputs, goal, entry, days, dict(left_out))


def _refused(where: str, message: str, code: str) -> Invalid:
    return Invalid(f"{where} {message}.", code=code, fields=[FieldProblem(where, message)])
