"""Why an entry has its rank, what would change it, and when its deviation ends by itself."""

from apps.engine.explain.contrast import Contrast, OrderFlip, contrast
from apps.engine.explain.path_step import Step
from apps.engine.explain.recovery import (
    ON_TARGET,
    Balance,
    Course,
    History,
    Outcome,
    Recovery,
    RecoveryRange,
    UsageRate,
    catch_up,
    course_in_window,
    fading_course,
    half_life_s_of,
    has_closed_form,
    recovery,
    recovery_in_window,
    recovery_range,
    steady_rate,
    usual_rates,
)

__all__ = [
    "ON_TARGET",
    "Balance",
    "Contrast",
    "Course",
    "History",
    "OrderFlip",
    "Outcome",
    "Recovery",
    "RecoveryRange",
    "Step",
    "UsageRate",
    "catch_up",
    "contrast",
    "course_in_window",
    "fading_course",
    "half_life_s_of",
    "has_closed_form",
    "recovery",
    "recovery_in_window",
    "recovery_range",
    "steady_rate",
    "usual_rates",
]
