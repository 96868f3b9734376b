"""All sentences by key, as they are translated. Values are written in by `said`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.priorities.sentences import advice, audience, contrasts, effects, forecasts, levels, past, verdicts

TEXTS: Mapping[str, Any] = {
    **levels.TEXTS,
    **verdicts.TEXTS,
    **advice.TEXTS,
    **contrasts.TEXTS,
    **effects.TEXTS,
    **audience.TEXTS,
    **forecasts.TEXTS,
    **past.TEXTS,
}
