"""Pages of packs that the product no longer has."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.web.removed_pages import RemovedPage

REMOVED_PAGES = (
    RemovedPage(
        "policy/<slug:policy>/pack/<uuid:uid>/pack.pdf",
        gettext_lazy("The page of the pack prints itself, also as a PDF."),
        page="pack",
        keeps=("policy", "uid"),
        keeps_query=True,
    ),
    RemovedPage(
        "shared/packs/<str:token>/pack.pdf",
        gettext_lazy("The page of this link shows the pack. Print it to get a PDF."),
        page="shared-pack",
        keeps=("token",),
        is_public=True,
    ),
)
