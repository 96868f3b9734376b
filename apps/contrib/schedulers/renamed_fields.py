"""Fields of answers about schedulers and of waiting jobs that have another name now."""

from __future__ import annotations

from apps.web.rest.deprecations import ONE_NAME, Renamed

_POLICY = "policies/<slug:policy>"
RENAMED = (
    Renamed("WaitingJob", {"submit_at": "submit"}, ("GET me/waiting-jobs",), *ONE_NAME),
    Renamed(
        "QueuedJob",
        {"submit_at": "submit"},
        (
            f"GET {_POLICY}/why",
            "GET schedulers/<slug:scheduler>/why",
        ),
        *ONE_NAME,
    ),
    Renamed("QueuedJobStart", {"submit_at": "submit"}, ("GET schedulers/<slug:scheduler>/queue",), *ONE_NAME),
    Renamed(
        "FactorComparison",
        {"users": "n_users", "equal": "n_equal", "unknown": "n_unknown"},
        ("GET schedulers/<slug:scheduler>/differences",),
        *ONE_NAME,
    ),
)
