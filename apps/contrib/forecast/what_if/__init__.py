"""What-if computations of a priority at another usage or another target; nothing is stored."""

from __future__ import annotations

from apps.contrib.forecast.what_if.trial import (
    Course,
    RankRange,
    Scenario,
    ScenarioResult,
    read_scenario,
    run_my_scenario,
    run_scenario,
)

__all__ = ["Course", "RankRange", "Scenario", "ScenarioResult", "read_scenario", "run_my_scenario", "run_scenario"]
