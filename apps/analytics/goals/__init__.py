"""Goals: which change brings an entry to its target by a date, and who gives for it."""

from __future__ import annotations

from apps.analytics.goals.records import LEVERS, Goal, GoalMoved, GoalOption, GoalSolution, Lever

__all__ = ["LEVERS", "Goal", "GoalMoved", "GoalOption", "GoalSolution", "Lever"]
