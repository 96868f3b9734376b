"""Fields of answers of first steps that have another name now."""

from __future__ import annotations

from apps.web.rest.deprecations import ONE_NAME, Renamed

RENAMED = (
    Renamed(
        "SshareComparison",
        {"users": "n_users", "equal": "n_equal", "unknown": "n_unknown"},
        (
            "GET setup",
            "POST setup",
        ),
        *ONE_NAME,
    ),
)
