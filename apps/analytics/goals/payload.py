"""Solutions of goals as REST sends them: numbers unrounded, parts of 1 as such, losses in points."""

from __future__ import annotations

from typing import Any

from apps.analytics.goals.records import Option, Solution
from apps.priorities.recompute.projection import DEMAND_DAYS
from apps.priorities.serving.served_snapshot import instant


def solution_json(policy: str, found: Solution) -> dict[str, Any]:
    goal = found.goal
    return {
        "policy": policy,
        "entry": found.path,
        "entry_uid": str(goal.entry),
        "by": goal.by.isoformat(),
        "most_lost_points": goal.most_lost * 100,
        "least_target": goal.least_target,
        "most_target": goal.most_target,
        "as_of": instant(found.as_of),
        "at": instant(found.at),
        "assumes": {"demand_days": DEMAND_DAYS, "demand": "as_lately", "changes": "from_now_on"},
        "is_reached_already": found.is_reached_already,
        "is_possible": found.is_reached_already or bool(found.options),
        "without": {
            "target": found.target,
            "actual": found.actual,
            "tolerance": found.tolerance,
            "outside_points": found.outside * 100,
        },
        "options": [option_json(one) for one in found.options],
        "closest": None if found.closest is None else option_json(found.closest),
        "left_out": [{"lever": lever, "reason": reason} for lever, reason in found.left_out.items()],
    }


def option_json(option: Option) -> dict[str, Any]:
    return {
        "lever": option.lever,
        "is_reached": option.is_reached,
        "target": option.target,
        "actual": option.actual,
        "outside_points": option.outside * 100,
        "most_lost_points": option.lost * 100,
        "shares": [
            {"entry_uid": str(one.uid), "name": one.name, "before": one.before, "after": one.after}
            for one in option.shares
        ],
        "refund_h": option.refund_s / 3600 if option.lever == "refund" else None,
        "resource": option.resource or None,
        "half_life_s": option.half_life_s,
        "moved": [
            {"entry_uid": str(one.uid), "entry": one.path, "name": one.name, "points": one.points}
            for one in option.moved
        ],
        "operations": [dict(one) for one in option.operations],
    }
