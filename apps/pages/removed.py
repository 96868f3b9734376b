"""Pages of the core that the product no longer has."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.web.links.removed_pages import RemovedPage, removed_routes

REMOVED_PAGES: tuple[RemovedPage, ...] = (
    RemovedPage(
        "changes/<int:change_set>/notify/",
        gettext_lazy("The page of the change lists whose rank it moved."),
        page="change",
        keeps=("change_set",),
    ),
    *(
        RemovedPage(
            f"policy/<slug:policy>/algorithm/figures/operator{form}",
            gettext_lazy("The page of the algorithm shows a picture of each operator."),
            page="algorithm",
            keeps=("policy",),
        )
        for form in ("", ".<str:form>")
    ),
    RemovedPage("deviation.csv", gettext_lazy("The figure of the deviation on the overview offers the same CSV.")),
)

urlpatterns = removed_routes(REMOVED_PAGES)
