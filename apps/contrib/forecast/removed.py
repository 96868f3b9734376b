"""Addresses of forecasts that the product no longer has."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.web.links.removed_pages import RemovedPage
from apps.web.rest.removed import RemovedRoute

_POLICY = "policies/<slug:policy>"
REMOVED_PAGES = (
    RemovedPage(
        "me/priority/_whatif",
        gettext_lazy(
            "“Submit under” on My priority shows your rank after a job. Other shares are tried in a draft, and a whole "
            "past in the lab."
        ),
        page="my-priority",
        keeps_query=True,
    ),
)
REMOVED_ROUTES = (
    RemovedRoute(
        f"{_POLICY}/what-if",
        "Use GET /api/v1/me/submit for ranks after a job, GET /api/v1/policies/{policy}/forecast for the days to come, "
        "and GET /api/v1/policies/{policy}/goal for shares that reach a target.",
    ),
)
