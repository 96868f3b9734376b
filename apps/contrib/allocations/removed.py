"""Addresses of packs and of figures that the product no longer has."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.web.links.removed_pages import RemovedPage
from apps.web.rest.removed import RemovedRoute

_POLICY = "policies/<slug:policy>"
_SIGNED_PACK = "Use GET /api/v1/policies/{policy}/pack for the signed numbers, and send them yourself."
_PRINT = gettext_lazy("Print the page Allocations for the board. GET policies/{policy}/pack has its numbers, signed.")
_FIGURE = "policy/<slug:policy>/allocations/figures/<slug:figure>"
_TABLE = gettext_lazy("The page Allocations offers its table as CSV.")
_ENDED = gettext_lazy("Links without sign-in have ended. Ask the sender for a printed or signed copy.")

REMOVED_PAGES = (
    *(RemovedPage(f"{_FIGURE}{form}", _TABLE, page="allocations", keeps=("policy",)) for form in ("", ".<str:form>")),
    RemovedPage("policy/<slug:policy>/pack/<uuid:uid>/", _PRINT, page="allocations", keeps=("policy",)),
    RemovedPage("policy/<slug:policy>/pack/<uuid:uid>/pack.<str:form>", _PRINT, page="allocations", keeps=("policy",)),
    RemovedPage("shared/packs/<str:token>/", _ENDED, is_public=True),
    RemovedPage("shared/packs/<str:token>/pack.<str:form>", _ENDED, is_public=True),
)
REMOVED_ROUTES = (
    RemovedRoute(f"{_POLICY}/pack/links", _SIGNED_PACK),
    RemovedRoute(f"{_POLICY}/pack/links/<int:link>/revoke", _SIGNED_PACK),
    RemovedRoute(
        f"{_POLICY}/allocations/figures/<slug:figure>",
        "Use GET /api/v1/policies/{policy}/allocations/table for allocated and delivered core-hours.",
    ),
)
