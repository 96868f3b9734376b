"""Fields of answers about forecasts that have another name now."""

from __future__ import annotations

from apps.web.rest.deprecations import ONE_NAME, Renamed

_POLICY = "policies/<slug:policy>"
RENAMED = (
    Renamed(
        "ForecastLevel",
        {"days": "n_days", "entry": "path"},
        (
            "GET me/forecast",
            f"GET {_POLICY}/forecast",
        ),
        *ONE_NAME,
    ),
    Renamed("Forecast", {"entry": "path"}, ("GET me/forecast", f"GET {_POLICY}/forecast"), *ONE_NAME),
    Renamed("AfterJob", {"entry": "path"}, ("GET me/submit",), *ONE_NAME),
    Renamed("GoalSolution", {"entry": "path"}, (f"GET {_POLICY}/goal",), *ONE_NAME),
    Renamed("GoalMoved", {"entry": "path"}, (f"GET {_POLICY}/goal",), *ONE_NAME),
)
