"""Forecast: when a level returns to its target at the present pace, for readers with the right to it."""

from __future__ import annotations

from apps.analytics.forecast.entry_forecast import (
    HORIZON_DAYS,
    CurvePoint,
    FactorAhead,
    FactorPoint,
    Outlook,
    Standing,
    foresee,
)
from apps.analytics.forecast.past_usage import PACE_DAYS, LevelPast
from apps.analytics.forecast.selectors import (
    Forecast,
    ForecastLevel,
    days_to_draw,
    forecast_of,
    get_forecasts,
    get_my_forecast,
    get_my_forecasts,
)

__all__ = [
    "HORIZON_DAYS",
    "PACE_DAYS",
    "CurvePoint",
    "FactorAhead",
    "FactorPoint",
    "Forecast",
    "ForecastLevel",
    "LevelPast",
    "Outlook",
    "Standing",
    "days_to_draw",
    "forecast_of",
    "foresee",
    "get_forecasts",
    "get_my_forecast",
    "get_my_forecasts",
]
