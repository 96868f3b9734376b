"""Fields of answers about experiments that have another name now."""

from __future__ import annotations

from apps.web.rest.deprecations import ONE_NAME, Renamed

_POLICY = "policies/<slug:policy>"
RENAMED = (
    Renamed(
        "Curve",
        {"core_hours": "core_h", "core_hours_was": "core_h_was"},
        (
            f"GET {_POLICY}/experiments/<int:experiment>/history",
            f"GET {_POLICY}/experiments/<int:experiment>/variants/<int:variant>",
        ),
        *ONE_NAME,
    ),
    Renamed(
        "EntryNumbers",
        {"core_hours": "core_h", "core_hours_was": "core_h_was"},
        (
            f"GET {_POLICY}/experiments/<int:experiment>/history",
            f"GET {_POLICY}/experiments/<int:experiment>/variants/<int:variant>",
        ),
        *ONE_NAME,
    ),
    Renamed(
        "Headline",
        {"core_hours": "core_h"},
        (
            f"GET {_POLICY}/experiments/<int:experiment>",
            f"GET {_POLICY}/experiments/<int:experiment>/history",
            f"GET {_POLICY}/experiments/<int:experiment>/variants/<int:variant>",
            f"POST {_POLICY}/experiments",
            f"POST {_POLICY}/experiments/<int:experiment>/cancel",
            f"POST {_POLICY}/experiments/<int:experiment>/evidence",
        ),
        *ONE_NAME,
    ),
    Renamed(
        "LeftOut",
        {"core_hours": "core_h"},
        (
            f"GET {_POLICY}/experiments/traces",
            f"GET {_POLICY}/experiments/<int:experiment>",
            f"POST {_POLICY}/experiments",
            f"POST {_POLICY}/experiments/traces",
            f"POST {_POLICY}/experiments/<int:experiment>/cancel",
            f"POST {_POLICY}/experiments/<int:experiment>/evidence",
        ),
        *ONE_NAME,
    ),
)
