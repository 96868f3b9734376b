"""Forecast: when a level returns to its target at the present pace, for readers with the right to it."""

from __future__ import annotations

from apps.analytics.forecast.asking import (
    Forecast,
    ForecastLevel,
    days_to_draw,
    forecast_of,
    get_forecasts,
    get_my_forecast,
    get_my_forecasts,
)
from apps.analytics.forecast.factor_ahead import FactorAhead, FactorPoint
from apps.analytics.forecast.outlook import HORIZON_DAYS, CurvePoint, Outlook, Standing, foresee
from apps.analytics.forecast.past import PACE_DAYS, LevelPast

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
