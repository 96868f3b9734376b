"""What a decay function leaves of usage by its age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from apps.core.errors import Invalid
from apps.engine.decay import weights
from apps.engine.decay_functions import DECAY_FUNCTIONS, DecayFunction
from apps.priorities.metering import window_of

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
SHOWN_AGES_S = (HOUR_S, 5 * HOUR_S, DAY_S, 3 * DAY_S, 7 * DAY_S, 14 * DAY_S, 28 * DAY_S, 90 * DAY_S)
_FINE = 0.01  # of usage: less is not worth a sentence


class RemainingUsage(NamedTuple):
    """Weight of usage of this age, 0..1, under the active decay and under the shown one."""

    age_s: int
    active: float
    chosen: float


def list_decay_functions() -> Sequence[DecayFunction]:
    return tuple(DECAY_FUNCTIONS.values())


def remaining_by_age(
    active: Mapping[str, Any], chosen: Mapping[str, Any] | None, as_of_s: float
) -> list[RemainingUsage]:
    """Usage left by age; decay functions with fixed instants as of now. Empty if one isn’t known."""
    try:
        columns = [weights(SHOWN_AGES_S, window_of(window), as_of_s) for window in (active, chosen or active)]
    except Invalid:
        return []
    return [RemainingUsage(*row) for row in zip(SHOWN_AGES_S, *columns, strict=True)]


def hourly_error(window: Mapping[str, Any]) -> float | None:
    """How much usage at most differs because it counts by the hour and not by the second; None below 1 %."""
    try:
        parsed = replace(window_of(window), reset=None)
        error = 0.0 if parsed.charges_by_period else 1.0 - float(weights(HOUR_S, parsed))
    except Invalid:
        return None
    return error if error > _FINE else None
