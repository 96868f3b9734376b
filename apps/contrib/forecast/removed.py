"""Pages of forecasts that the product no longer has."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.web.removed_pages import RemovedPage

REMOVED_PAGES = (
    RemovedPage(
        "me/priority/_whatif",
        gettext_lazy(
            "“Submit under” on My priority shows your rank after a job. Other shares are tried in a draft, and a whole "
            "past in the lab."
        ),
        page="my-priority",
    ),
)
