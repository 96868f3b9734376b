"""Why an entry stands where it stands, what would change that, and when it ends by itself."""

from apps.engine.explain.contrast import Contrast, Turn, contrast
from apps.engine.explain.recovery import (
    Balance,
    History,
    Recovery,
    half_life_s_of,
    has_closed_form,
    recovery,
    recovery_in_window,
    recovery_range,
)
from apps.engine.explain.walk import Step, walk

__all__ = [
    "Balance",
    "Contrast",
    "History",
    "Recovery",
    "Step",
    "Turn",
    "contrast",
    "half_life_s_of",
    "has_closed_form",
    "recovery",
    "recovery_in_window",
    "recovery_range",
    "walk",
]
