"""Goals: changes that bring an entry to its target by a date, and the entries that lose by them."""

from __future__ import annotations

from apps.contrib.forecast.goals.records import LEVERS, Goal, GoalMoved, GoalOption, GoalSolution, Lever

__all__ = ["LEVERS", "Goal", "GoalMoved", "GoalOption", "GoalSolution", "Lever"]
