"""Pages of packs that the product no longer has."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.web.removed_pages import RemovedPage

_PRINT = gettext_lazy("Print the page Allocations for the board. GET policies/{policy}/pack has its numbers, signed.")
_ENDED = gettext_lazy("Links without sign-in have ended. Ask the sender for a printed or signed copy.")

REMOVED_PAGES = (
    RemovedPage("policy/<slug:policy>/pack/<uuid:uid>/", _PRINT, page="allocations", keeps=("policy",)),
    RemovedPage("policy/<slug:policy>/pack/<uuid:uid>/pack.<str:form>", _PRINT, page="allocations", keeps=("policy",)),
    RemovedPage("shared/packs/<str:token>/", _ENDED, is_public=True),
    RemovedPage("shared/packs/<str:token>/pack.<str:form>", _ENDED, is_public=True),
)
