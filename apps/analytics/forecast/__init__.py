"""Forecasts of when a level returns to its target, and of an entry's factor, for readers who may see the numbers."""

from __future__ import annotations

from apps.analytics.forecast.entry_forecast import (
    HORIZON_DAYS,
    CurvePoint,
    FactorAhead,
    FactorPoint,
    LevelState,
    Outlook,
    forecast_level,
)
from apps.analytics.forecast.past_usage import PACE_DAYS, LevelPast
from apps.analytics.forecast.selectors import (
    Forecast,
    ForecastLevel,
    build_forecast,
    curve_days,
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
    "LevelState",
    "Outlook",
    "build_forecast",
    "curve_days",
    "forecast_level",
    "get_forecasts",
    "get_my_forecast",
    "get_my_forecasts",
]
