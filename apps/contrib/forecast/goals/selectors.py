"""Parses, checks and solves a goal for one actor on the newest snapshot, and opens a draft with the solution.

The engine proposes changes and the policy's projection evaluates them. It assumes that every account continues as in
the last 14 days, whatever its priority, that nothing else in the policy changes, and that a change is effective from
now on.
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
from apps.contrib.forecast.goals.records import Goal, GoalSolution, Lever, Reason
from apps.contrib.forecast.goals.solver import has_recent_usage, solve, whole_days_until
from apps.contrib.forecast.past_usage import competitors, load_snapshot_inputs
from apps.contrib.forecast.rate_limit import limit_computations
from apps.core.derived_state import in_memory
from apps.core.errors import Conflict, FieldProblem, Invalid, Malformed, NotAllowed
from apps.core.typed_numbers import read_number
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet, Policy
from apps.priorities.recompute.totals import conflict_without_algorithm
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving.served_snapshot import ServedSnapshot, snapshot_key
from apps.series.days import day_of, site_zone

DERIVED_STATE = (
    in_memory(
        "_solved",
        holds="solutions of goals",
        key="slug, id and last instant of the snapshot, goal, entry",
        inputs="the snapshot, and usage up to its instant",
        range="the snapshot's instant",
        ends="the newest ones push it out; a snapshot of another instant has another key",
    ),
)

MOST_GOAL_DAYS = 366
DEFAULT_LOSS = 1.0  # points
_MOST_CACHED_GOALS = 16


def read_goal(parameters: Mapping[str, str], *, entry: UUID, today: date) -> Goal:
    """Parse a goal: by (a day), most_lost in points, least_target and most_target in percent. Reports all invalid
    fields at once.
    """
    problems: list[FieldProblem] = []

    def percent(name: str, default: float) -> float:
        text = parameters.get(name, "").strip().removesuffix("%")
        try:
            value = read_number(text) if text else default
        except ValueError:
            value = math.nan
        if not 0 <= value <= 100:  # also rejects NaN
            problems.append(FieldProblem(name, _("must be a number from 0 to 100")))
            return default / 100
        return value / 100

    by = _day(parameters.get("by", ""), today, problems)
    lost = percent("most_lost", DEFAULT_LOSS)
    least, most = percent("least_target", 0.0), percent("most_target", 100.0)
    if problems:
        first = problems[0]
        raise Malformed(f"{first.where} {first.message}.", code="bad_goal", fields=problems)
    if by < today:
        raise _invalid("by", _("is over: choose today or a later day"), "past")
    if least > most:
        raise _invalid("least_target", _("is above the largest target: no target is between them"), "contradiction")
    return Goal(entry, by, lost, least, most)


def _day(text: str, today: date, problems: list[FieldProblem]) -> date:
    try:
        by = date.fromisoformat(text.strip())
    except ValueError:
        problems.append(FieldProblem("by", _("must be a day, such as %(day)s") % {"day": today + timedelta(days=21)}))
        return today
    if by > today + timedelta(days=MOST_GOAL_DAYS):
        problems.append(FieldProblem("by", _("must be within the next %(n)s days") % {"n": MOST_GOAL_DAYS}))
    return by


def get_solution(*, policy_slug: str, goal: Goal, actor: Actor) -> GoalSolution:
    """Solve a goal for an actor who may see the entry and all its competitors; levers that reveal other entries are
    left out.

    Raises Conflict if there are no numbers, or they are older than the published revision. Raises Invalid for an entry
    without a target of its own, or without usage in the last 14 days.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    snapshot, entry = _entry_of(view, goal)
    left_out = _left_out(view, snapshot, entry)
    limit_computations(actor)
    with conflict_without_algorithm():
        return _solved(view.policy, snapshot, goal, entry, tuple(sorted(left_out.items())))


def add_option_to_draft(
    *, policy_slug: str, goal: Goal, lever: str, draft: ChangeSet | None, actor: Actor, at: datetime
) -> ChangeSet:
    """Add all operations of one option to a draft of the actor; without one, to a new draft with the goal as reason."""
    solution = get_solution(policy_slug=policy_slug, goal=goal, actor=actor)
    option = solution.option(lever)
    if option is None:
        raise Conflict(_("This option no longer reaches the goal: solve it again."), code="no_option")
    reason = _("%(name)s at its target by %(day)s") % {"name": solution.name, "day": goal.by.isoformat()}
    with transaction.atomic():
        draft = draft or drafts.open_draft(policy_slug=policy_slug, reason=reason, at=at, actor=actor)
        return drafts.add_operations(
            id=draft.pk, version=draft.version, operations=option.operations, at=at, actor=actor
        )


def _entry_of(view: PolicyView, goal: Goal) -> tuple[ServedSnapshot, int]:
    i = view.require(goal.entry)
    snapshot = view.snapshot
    there = None if snapshot is None else snapshot.tree.index_of_uid(goal.entry)
    if snapshot is None or there is None or snapshot.revision != view.revision:
        message = _("This policy has no priorities yet.")
        raise Conflict(message, code="not_current")
    if not i or view.tree.inherit[i]:
        message = _("has no target of its own: choose the entry above it, or give it shares first")
        raise _invalid("entry", message, "no_target" if not i else "inherits")
    if view.tree.is_reserve[i]:
        raise _invalid("entry", _("is a reserve and has no usage"), "reserve")
    return snapshot, there


def _left_out(view: PolicyView, snapshot: ServedSnapshot, entry: int) -> dict[Lever, Reason]:
    """List levers whose effect would reveal hidden numbers; NotAllowed if all would."""
    tree, visible = snapshot.tree, view.shows_numbers  # of the same revision: `_entry_of` has rejected others
    if not visible[[entry, *competitors(tree, entry)]].all():
        message = _("You may not see the usage of all entries that compete with this one: ask its manager.")
        raise NotAllowed(message, code="suppressed")
    left_out: dict[Lever, Reason] = {}
    above = [j for i in tree.ancestors(entry)[1:] for j in competitors(tree, i)]
    if not visible[above].all():
        left_out["refund"] = "hidden"
    if not visible[snapshot.values.competes].all():
        left_out["half_life"] = "hidden"
    return left_out


@cached(
    LRUCache(_MOST_CACHED_GOALS),
    key=lambda policy, snapshot, *rest: (*snapshot_key(policy, snapshot), *rest),
    lock=Lock(),
)
def _solved(
    policy: Policy, snapshot: ServedSnapshot, goal: Goal, entry: int, left_out: tuple[tuple[Lever, Reason], ...]
) -> GoalSolution:
    """Solve a goal; cached, because opening a draft solves the same goal again."""
    inputs = load_snapshot_inputs(policy, snapshot)
    if inputs is None:
        message = _("There is too much usage to solve this on request: shorten the policy’s window.")
        raise Conflict(message, code="too_many_hours")
    if not has_recent_usage(inputs, entry):
        message = _("used nothing in the last 14 days: without demand no share brings it to its target")
        raise _invalid("entry", message, "no_demand")
    days = whole_days_until(snapshot.as_of, day_of(goal.by, site_zone()).to_at)
    if days < 0:
        raise _invalid("by", _("is over: choose today or a later day"), "past")
    return solve(inputs, goal, entry, days, dict(left_out))


def _invalid(where: str, message: str, code: str) -> Invalid:
    return Invalid(f"{where} {message}.", code=code, fields=[FieldProblem(where, message)])
