"""Addresses that the plug-in of schedulers no longer has."""

from __future__ import annotations

from apps.web.rest.removed import RemovedRoute

REMOVED_ROUTES = (
    RemovedRoute(
        "schedulers/<slug:scheduler>/figures/agreement",
        "Use GET /api/v1/schedulers/{scheduler}/differences for the comparison of today. "
        "The page of shadow mode offers the agreement by day as CSV.",
    ),
)
