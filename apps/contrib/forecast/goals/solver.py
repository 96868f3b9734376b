"""Searches the changes that reach a goal; each candidate is evaluated by the policy's projection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt

from apps.contrib.forecast import goal_changes
from apps.contrib.forecast.goals.records import (
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
from apps.contrib.forecast.past_usage import DAY_S, competitors
from apps.engine.algorithms import PriorityResult
from apps.engine.decay import bucket_weights
from apps.engine.decay_functions import get_decay_function
from apps.policies.settings import RESOURCES, PolicySettings
from apps.priorities.metering import window_of
from apps.priorities.recompute.corrections import Correction
from apps.priorities.recompute.pipeline import Inputs, compute_from
from apps.priorities.recompute.simulation import Changes, apply_changes, demand_of, simulate

F8 = npt.NDArray[np.float64]
_DAYS = (0.25, 0.5, 1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 365)
HALF_LIVES_S = tuple(int(days * DAY_S) for days in _DAYS)
_NAMESPACE = UUID("b7a54d3c-2f1b-5a53-9d0c-6f1d31a0c0de")  # for uids of simulated refunds
_MOST_SOLVER_MOVES = 50
_LEAST_POINTS = 1e-9


def whole_days_until(as_of: datetime, end: datetime) -> int:
    """Return whole days from an instant to the last one not after `end`; negative if `end` has passed."""
    return int((end - as_of) // timedelta(days=1))


def has_recent_usage(inputs: Inputs, entry: int) -> bool:
    """Whether the entry or anything below it had usage in the last 14 days."""
    result = compute_from(apply_changes(inputs, Changes(corrections=())), demand_of(inputs, inputs.settings)).result
    return float(result.usage[entry]) > 0 or float(result.group_usage[entry]) > 0


def solve(
    inputs: Inputs, goal: Goal, entry: int, days: int, left_out: Mapping[Lever, Reason] | None = None
) -> GoalSolution:
    """Return all options for the entry with this index in `inputs.tree`, `days` after the inputs.

    left_out: levers not to try, with the reason. Raises BadTree and BadParameter as the engine does.
    """
    return _Search(inputs, goal, entry, days, dict(left_out or {})).solution()


class _Search:
    """Search for one goal in one policy. Deterministic: results depend on neither order nor chance."""

    def __init__(self, inputs: Inputs, goal: Goal, entry: int, days: int, left_out: dict[Lever, Reason]) -> None:
        self.inputs, self.goal, self.entry, self.days, self.left_out = inputs, goal, entry, days, left_out
        self.tree, self.settings = inputs.tree, inputs.settings
        tolerance = self.settings.tolerance
        self.rule = goal_changes.Rule(
            float(tolerance["relative"]),
            float(tolerance["points"]) / 100,
            goal.most_lost,
            goal.least_target,
            goal.most_target,
        )
        self.before = self._project([Changes()])[0]
        self.group = np.array(competitors(self.tree, entry), dtype=np.int64)
        self.contest = self._contest(entry)

    def solution(self) -> GoalSolution:
        as_of, goal = self.inputs.as_of, self.goal
        actual, target = self._actual_and_target(self.before)
        outside = self.rule.distance(actual, target)
        is_reached = outside == 0.0 and goal.least_target <= target <= goal.most_target
        levers = [] if is_reached else [lever for lever in LEVERS if lever not in self.left_out]
        tried = [option for lever in levers for option in self._try(lever)]
        options = [option for option in tried if option.is_reached]
        # "equal" is for goals where "shares" would take too much from one entry.
        if any(option.lever == "shares" for option in options):
            options = [option for option in options if option.lever != "equal"]
        return GoalSolution(
            policy=self.inputs.fingerprint.policy_slug,
            path=self.tree.path(self.entry),
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
        """Return the option within the bound that comes closest; None if none is better than no change."""
        within_bound = [
            option
            for option in tried
            if option.operations and option.most_lost_points <= self.goal.most_lost * 100 + 1e-7
        ]
        best = min(within_bound, key=lambda option: (option.outside_points, LEVERS.index(option.lever)), default=None)
        present = self.rule.distance(*self._actual_and_target(self.before)) * 100
        return best if best is not None and best.outside_points < present else None

    def _try(self, lever: Lever) -> Iterator[GoalOption]:
        if lever == "refund":
            option = self._refund()
        elif lever == "half_life":
            option = self._half_life()
        else:
            search = {
                "shares": goal_changes.by_dilution,
                "unused": goal_changes.by_unused,
                "equal": goal_changes.by_equal_parts,
            }[lever]
            option = self._shares(lever, search(self.contest, self.rule).shares)
        if option is not None:
            yield option

    def _shares(self, lever: Lever, wanted: F8) -> GoalOption | None:
        changed = np.flatnonzero(wanted != self.contest.shares)
        if not len(changed):
            return None
        indices = self.group[changed]
        shares = self.tree.shares.copy()
        shares[indices] = wanted[changed]
        tree = replace(self.tree, shares=shares, digest="")
        after = self._project([Changes(tree=tree)])[0]
        new = [
            GoalShares(self.tree.uuid(i), self.tree.name[i], float(self.tree.shares[i]), float(shares[i]))
            for i in sorted(indices.tolist(), key=lambda i: (i != self.entry, i))
        ]
        operations = [{"op": "set_shares", "entry": str(share.entry_uid), "shares": share.after} for share in new]
        return self._option(lever, after, operations, shares=new)

    def _refund(self) -> GoalOption | None:
        # The resource with the largest weight; the first one if several are equal. An adjustment is in no kind.
        weights = self.settings.metric["weights"]
        resource = max(RESOURCES, key=lambda name: float(weights.get(name, 0.0)))
        hour_s = self.inputs.as_of.timestamp() // 3600 * 3600
        goal_s = self.inputs.as_of.timestamp() + self.days * DAY_S
        left = float(bucket_weights(np.array([hour_s]), goal_s, window_of(self.settings.window))[0])
        weight = float(weights.get(resource, 0.0)) * left
        refund = goal_changes.refund(self.contest, self.rule, self._above())
        if refund.amount <= 0 or weight <= 0:
            return None
        hours = refund.amount / weight / 3600
        exact = self._refund_option(resource, hours, hour_s)
        if not exact.is_reached:
            return exact
        return self._refund_option(
            resource,
            goal_changes.round_beyond(
                hours, lambda candidate: self._refund_option(resource, candidate, hour_s).is_reached, up=True
            ),
            hour_s,
        )

    def _refund_option(self, resource: str, hours: float, hour_s: float) -> GoalOption:
        uid, amount_s = self.tree.uuid(self.entry), hours * 3600
        correction = Correction(uuid5(_NAMESPACE, str(uid)), uid, resource, -amount_s, hour_s)
        corrections = (*self.inputs.corrections, correction)
        after = self._project([Changes(corrections=corrections)])[0]
        at = datetime.fromtimestamp(hour_s, self.inputs.as_of.tzinfo).isoformat()
        operation = {
            "op": "adjust_usage",
            "entry": str(uid),
            "resource": resource,
            "amount_s": -amount_s,
            "at": at,
        }
        return self._option("refund", after, [operation], refund_h=amount_s / 3600, resource=resource)

    def _half_life(self) -> GoalOption | None:
        window = self.settings.window
        present = float(window.get("half_life_s") or 0)
        if not present or "half_life_s" not in {
            parameter.name for parameter in get_decay_function(window["aging"]).parameters
        }:
            self.left_out["half_life"] = "no_half_life"
            return None
        candidates = [
            candidate for candidate in HALF_LIVES_S if candidate != present and self._has_hours_for(candidate)
        ]
        variants = [Changes(settings=self._with_half_life(candidate)) for candidate in candidates]
        tried = [
            self._option(
                "half_life",
                after,
                [{"op": "set_policy", "settings": {"window": {**window, "half_life_s": candidate}}}],
                half_life_s=candidate,
            )
            for candidate, after in zip(candidates, self._project(variants) if variants else [], strict=True)
        ]
        best = goal_changes.nearest_of(candidates, [option.is_reached for option in tried], present)
        return tried[best] if best is not None else self._closest(tried)

    def _with_half_life(self, half_life_s: float) -> PolicySettings:
        return replace(self.settings, window={**self.settings.window, "half_life_s": half_life_s})

    def _has_hours_for(self, half_life_s: float) -> bool:
        """Whether the loaded usage reaches as far back as this half-life needs."""
        now = window_of(self.settings.window).reach_s
        needed_s = window_of(self._with_half_life(half_life_s).window).reach_s
        return now is None or (needed_s is not None and needed_s <= now)

    def _project(self, variants: Sequence[Changes]) -> list[PriorityResult]:
        """Return the priorities of each variant on the day of the goal."""
        simulated = simulate(self.inputs, variants, [self.days], is_order_independent=False)
        return [computed.result for (computed,) in simulated]

    def _actual_and_target(self, result: PriorityResult) -> tuple[float, float]:
        return float(result.actual[self.entry]), float(result.target[self.entry])

    def _contest(self, entry: int) -> goal_changes.Contest:
        """Return the group of an entry at the date if nothing changes."""
        tree, result = self.tree, self.before
        group = np.array(competitors(tree, entry), dtype=np.int64)
        usage, actual = result.usage[group], result.actual[group]
        counts = (usage > 0) & (actual > 0)
        whole = float((usage[counts] / actual[counts]).max()) if counts.any() else float(usage.sum())
        return goal_changes.Contest(
            shares=tree.shares[group].astype(np.float64),
            usage=usage.astype(np.float64),
            whole=max(whole, float(usage.sum())),
            entry=int(np.flatnonzero(group == entry)[0]),
            may_lose=~tree.locked[group] & ~tree.inherit[group],
        )

    def _above(self) -> list[goal_changes.Contest]:
        chain = [i for i in reversed(self.tree.ancestors(self.entry)) if i and competitors(self.tree, i)]
        return [self._contest(i) for i in chain]

    def _option(
        self, lever: Lever, after: PriorityResult, operations: Sequence[Mapping[str, Any]], **more: Any
    ) -> GoalOption:
        gained = self._gained(after)
        actual, target = self._actual_and_target(after)
        outside = self.rule.distance(actual, target)
        lost = max(float(-gained.min(initial=0.0)), 0.0)
        inside = self.goal.least_target - 1e-9 <= target <= self.goal.most_target + 1e-9
        order = np.argsort(gained, kind="stable")
        ends = [*order[:_MOST_SOLVER_MOVES].tolist(), *order[_MOST_SOLVER_MOVES:][-_MOST_SOLVER_MOVES:].tolist()]
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
        """Return (n,) by how much the change raises each entry's deviation at the date.

        0 for the entry itself, for entries below it and for those that don't compete.
        """
        before = self.before
        others = before.competes & after.competes & ~self.tree.subtree_mask(self.entry)
        change = (after.target - after.actual) - (before.target - before.actual)
        return np.where(others, change, 0.0)
