"""Goals: which change brings an entry to its target by a date, and who gives for it."""

from __future__ import annotations

from apps.analytics.goals.records import LEVERS, Goal, Lever, Moved, Option, Solution

__all__ = ["LEVERS", "Goal", "Lever", "Moved", "Option", "Solution"]
