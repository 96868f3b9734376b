"""Goals for one actor, on the newest snapshot: read, checked, solved and taken over as a draft.

The engine proposes changes and the projection of the policy decides. Assumptions, as of the projection: every account
goes on as in the last 14 days whatever its priority, nothing else of the policy changes, and new shares, refunds and
half-lives hold from now on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from threading import Lock
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.analytics.forecast.past_usage import DAY_S, competitors, inputs_of, key_of
from apps.analytics.goals.records import (
    LEVERS,
    Goal,
    GoalAssumes,
    GoalCourse,
    GoalLeftOut,
    GoalMoved,
    GoalOption,
    GoalShares,
    GoalSolution,
    Lever,
    Reason,
)
from apps.analytics.series.daily_series import day_of, site_zone
from apps.analytics.what_if.trial import count_computation
from apps.core.errors import Conflict, FieldProblem, Invalid, Malformed, NotAllowed
from apps.core.typed_numbers import read_number
from apps.engine.algorithms import PriorityResult
from apps.engine.analysis import goals
from apps.engine.decay import bucket_weights, get_decay_function
from apps.policies.changesets import drafts
from apps.policies.models import ChangeSet, Policy
from apps.policies.settings import PolicySettings
from apps.priorities.metering import window_of
from apps.priorities.recompute.inputs import Correction
from apps.priorities.recompute.pipeline import Inputs, compute_from
from apps.priorities.recompute.projection import Side, demand_of, needing_the_algorithm, project
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving.served_snapshot import ServedSnapshot

# --- Search -----------------------------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_DAYS = (0.25, 0.5, 1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 365)
HALF_LIVES_S = tuple(int(days * DAY_S) for days in _DAYS)
_NAMES = UUID("b7a54d3c-2f1b-5a53-9d0c-6f1d31a0c0de")  # of refunds that are only tried
_MOST_MOVED = 50
_LEAST_POINTS = 1e-9


def days_to(as_of: datetime, end: datetime) -> int:
    """Whole days from an instant to the last one that is not after `end`; below 0 where it is over."""
    return int((end - as_of) // timedelta(days=1))


def uses_anything(inputs: Inputs, entry: int) -> bool:
    """Whether an entry or anything below it used anything in the last 14 days."""
    result = compute_from(replace(inputs, corrections=()), demand_of(inputs, inputs.settings)).result
    return float(result.usage[entry]) > 0 or float(result.group_usage[entry]) > 0


def solve(
    inputs: Inputs, goal: Goal, entry: int, days: int, allowed: Mapping[Lever, Reason] | None = None
) -> GoalSolution:
    """All options for the entry with this index in `inputs.tree`, `days` after the inputs.

    allowed: levers that are left out, with the reason. Raises BadTree and BadParameter as the engine does.
    """
    return _Search(inputs, goal, entry, days, dict(allowed or {})).solution()


class _Search:
    """One goal on one policy. Deterministic: nothing in it depends on an order or on chance."""

    def __init__(self, inputs: Inputs, goal: Goal, entry: int, days: int, left_out: dict[Lever, Reason]) -> None:
        self.inputs, self.goal, self.entry, self.days, self.left_out = inputs, goal, entry, days, left_out
        self.tree, self.settings = inputs.tree, inputs.settings
        tolerance = self.settings.tolerance
        self.rule = goals.Rule(
            float(tolerance["relative"]),
            float(tolerance["points"]) / 100,
            goal.most_lost,
            goal.least_target,
            goal.most_target,
        )
        self.before = self._project([Side(self.tree, self.settings)])[0]
        self.group = np.array(competitors(self.tree, entry), dtype=np.int64)
        self.contest = self._contest(entry)

    # --- Answer -------------------------------------------------------------------------------------------------------
    def solution(self) -> GoalSolution:
        as_of, goal = self.inputs.as_of, self.goal
        actual, target = self._standing(self.before)
        outside = self.rule.distance(actual, target)
        is_reached = outside == 0.0 and goal.least_target <= target <= goal.most_target
        levers = [] if is_reached else [lever for lever in LEVERS if lever not in self.left_out]
        tried = [one for lever in levers for one in self._try(lever)]
        options = [one for one in tried if one.is_reached]
        if any(one.lever == "shares" for one in options):  # the other is for where these would take too much of one
            options = [one for one in options if one.lever != "equal"]
        return GoalSolution(
            policy=self.inputs.fingerprint.policy_slug,
            entry=self.tree.path(self.entry),
            entry_uid=goal.entry,
            by=goal.by,
            most_lost_points=goal.most_lost * 100,
            least_target=goal.least_target,
            most_target=goal.most_target,
            as_of=as_of,
            at=as_of + timedelta(days=self.days),
            assumes=GoalAssumes(),
            is_reached_already=is_reached,
            is_possible=is_reached or bool(options),
            without=GoalCourse(target, actual, self.rule.tolerance(target), outside * 100),
            options=options,
            closest=None if options else self._closest(tried),
            left_out=[GoalLeftOut(lever, reason) for lever, reason in self.left_out.items()],
        )

    def _closest(self, tried: Sequence[GoalOption]) -> GoalOption | None:
        """The one that keeps the bound and leaves least; None where none is better than nothing."""
        kept = [one for one in tried if one.operations and one.most_lost_points <= self.goal.most_lost * 100 + 1e-7]
        best = min(kept, key=lambda one: (one.outside_points, LEVERS.index(one.lever)), default=None)
        present = self.rule.distance(*self._standing(self.before)) * 100
        return best if best is not None and best.outside_points < present else None

    def _try(self, lever: Lever) -> Iterator[GoalOption]:
        if lever == "refund":
            found = self._refund()
        elif lever == "half_life":
            found = self._half_life()
        else:
            search = {"shares": goals.by_dilution, "unused": goals.by_unused, "equal": goals.by_equal_parts}[lever]
            found = self._shares(lever, search(self.contest, self.rule).shares)
        if found is not None:
            yield found

    # --- Levers -------------------------------------------------------------------------------------------------------
    def _shares(self, lever: Lever, wanted: F8) -> GoalOption | None:
        changed = np.flatnonzero(wanted != self.contest.shares)
        if not len(changed):
            return None
        places = self.group[changed]
        shares = self.tree.shares.copy()
        shares[places] = wanted[changed]
        tree = replace(self.tree, shares=shares, digest="")
        after = self._project([Side(tree, self.settings)])[0]
        new = [
            GoalShares(self.tree.uuid(i), self.tree.name[i], float(self.tree.shares[i]), float(shares[i]))
            for i in sorted(places.tolist(), key=lambda i: (i != self.entry, i))
        ]
        operations = [{"op": "set_shares", "entry": str(one.entry_uid), "shares": one.after} for one in new]
        return self._option(lever, after, operations, shares=new)

    def _refund(self) -> GoalOption | None:
        resource = self._resource()
        hour_s = self.inputs.as_of.timestamp() // 3600 * 3600
        then_s = self.inputs.as_of.timestamp() + self.days * DAY_S
        left = float(bucket_weights(np.array([hour_s]), then_s, window_of(self.settings.window))[0])
        weight = float(self.settings.metric["weights"].get(resource, 0.0)) * left
        found = goals.refund(self.contest, self.rule, self._above())
        if found.amount <= 0 or weight <= 0:
            return None
        hours = found.amount / weight / 3600
        exact = self._refunded(resource, hours, hour_s)
        if not exact.is_reached:
            return exact
        return self._refunded(
            resource, goals.tidy(hours, lambda one: self._refunded(resource, one, hour_s).is_reached, up=True), hour_s
        )

    def _refunded(self, resource: str, hours: float, hour_s: float) -> GoalOption:
        uid, amount_s = self.tree.uuid(self.entry), hours * 3600
        correction = Correction(uuid5(_NAMES, str(uid)), uid, resource, -amount_s, hour_s)
        corrections = (*self.inputs.corrections, correction)
        after = self._project([Side(self.tree, self.settings, corrections=corrections)])[0]
        at = datetime.fromtimestamp(hour_s, self.inputs.as_of.tzinfo).isoformat()
        operation = {
            "op": "adjust_usage",
            "entry": str(uid),
            "resource": resource,
            "amount_s": -amount_s,
            "at": at,
        }
        return self._option("refund", after, [operation], refund_h=amount_s / 3600, resource=resource)

    def _resource(self) -> str:
        """The resource that counts most; the first of two that count alike."""
        weights = self.settings.metric["weights"]
        return str(max(weights, key=lambda name: float(weights[name])))

    def _half_life(self) -> GoalOption | None:
        window = self.settings.window
        present = float(window.get("half_life_s") or 0)
        if not present or "half_life_s" not in {one.name for one in get_decay_function(window["aging"]).parameters}:
            self.left_out["half_life"] = "no_half_life"
            return None
        candidates = [one for one in HALF_LIVES_S if one != present and self._has_hours_for(one)]
        sides = [Side(self.tree, self._with_half_life(one)) for one in candidates]
        tried = [
            self._option(
                "half_life",
                after,
                [{"op": "set_policy", "settings": {"window": {**window, "half_life_s": one}}}],
                half_life_s=one,
            )
            for one, after in zip(candidates, self._project(sides) if sides else [], strict=True)
        ]
        best = goals.nearest_of(candidates, [one.is_reached for one in tried], present)
        return tried[best] if best is not None else self._closest(tried)

    def _with_half_life(self, half_life_s: float) -> PolicySettings:
        return replace(self.settings, window={**self.settings.window, "half_life_s": half_life_s})

    def _has_hours_for(self, half_life_s: float) -> bool:
        """Whether usage was loaded as far back as this half-life counts it."""
        now = window_of(self.settings.window).reach_s
        then = window_of(self._with_half_life(half_life_s).window).reach_s
        return now is None or (then is not None and then <= now)

    # --- Parts --------------------------------------------------------------------------------------------------------
    def _project(self, sides: Sequence[Side]) -> list[PriorityResult]:
        return [at_once[0] for at_once in project(self.inputs, sides, [self.days], is_order_independent=False)]

    def _standing(self, result: PriorityResult) -> tuple[float, float]:
        return float(result.actual[self.entry]), float(result.target[self.entry])

    def _contest(self, entry: int) -> goals.Contest:
        """The group of an entry at the date, if nothing changes."""
        tree, result = self.tree, self.before
        group = np.array(competitors(tree, entry), dtype=np.int64)
        usage, actual = result.usage[group], result.actual[group]
        counts = (usage > 0) & (actual > 0)
        whole = float((usage[counts] / actual[counts]).max()) if counts.any() else float(usage.sum())
        return goals.Contest(
            shares=tree.shares[group].astype(np.float64),
            usage=usage.astype(np.float64),
            whole=max(whole, float(usage.sum())),
            entry=int(np.flatnonzero(group == entry)[0]),
            may_give=~tree.locked[group] & ~tree.inherit[group],
        )

    def _above(self) -> list[goals.Contest]:
        chain = [i for i in reversed(self.tree.ancestors(self.entry)) if i and competitors(self.tree, i)]
        return [self._contest(i) for i in chain]

    def _option(
        self, lever: Lever, after: PriorityResult, operations: Sequence[Mapping[str, Any]], **more: Any
    ) -> GoalOption:
        gained = self._gained(after)
        actual, target = self._standing(after)
        outside = self.rule.distance(actual, target)
        lost = max(float(-gained.min(initial=0.0)), 0.0)
        inside = self.goal.least_target - 1e-9 <= target <= self.goal.most_target + 1e-9
        order = np.argsort(gained, kind="stable")
        ends = [*order[:_MOST_MOVED].tolist(), *order[_MOST_MOVED:][-_MOST_MOVED:].tolist()]
        moved = [
            GoalMoved(self.tree.uuid(i), self.tree.path(i), self.tree.name[i], float(gained[i]) * 100)
            for i in ends
            if abs(gained[i]) * 100 > _LEAST_POINTS
        ]
        is_reached = outside == 0.0 and inside and lost <= self.goal.most_lost + 1e-9
        return GoalOption(
            lever=lever,
            is_reached=is_reached,
            target=target,
            actual=actual,
            outside_points=outside * 100,
            most_lost_points=lost * 100,
            moved=moved,
            operations=operations,
            **more,
        )

    def _gained(self, after: PriorityResult) -> F8:
        """By how much each entry's deviation is larger at the date with the change than without, (n,); 0 of the entry
        itself, of those below it and of those that don't compete.
        """
        before = self.before
        others = before.competes & after.competes & ~self.tree.subtree_mask(self.entry)
        change = (after.target - after.actual) - (before.target - before.actual)
        return np.where(others, change, 0.0)


# --- One goal for one actor -------------------------------------------------------------------------------------------
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
    with needing_the_algorithm():
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
