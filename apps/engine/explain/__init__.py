"""Why an entry has its rank, what would change it, and when its deviation ends by itself."""

from apps.engine.explain.contrast import Contrast, Turn, contrast
from apps.engine.explain.recovery import (
    ON_TARGET,
    Balance,
    Course,
    History,
    Pace,
    Recovery,
    RecoveryRange,
    Spell,
    course_in_window,
    fading_course,
    half_life_s_of,
    has_closed_form,
    meeting,
    quartile_rates,
    recovery,
    recovery_in_window,
    recovery_range,
    steady_rate,
)
from apps.engine.explain.walk import Step

__all__ = [
    "ON_TARGET",
    "Balance",
    "Contrast",
    "Course",
    "History",
    "Pace",
    "Recovery",
    "RecoveryRange",
    "Spell",
    "Step",
    "Turn",
    "contrast",
    "course_in_window",
    "fading_course",
    "half_life_s_of",
    "has_closed_form",
    "meeting",
    "quartile_rates",
    "recovery",
    "recovery_in_window",
    "recovery_range",
    "steady_rate",
]
