"""Addresses that the lab no longer has."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.core.code_paths import command_name
from apps.web.links.removed_pages import RemovedPage
from apps.web.rest.removed import RemovedRoute

_POLICY = "policies/<slug:policy>"
_INSTEAD = gettext_lazy("The page of the algorithm shows each operator; the command analyse prints numbers of figures.")
_FIGURE = "policy/<slug:policy>/operators/figures/<slug:figure>"
REMOVED_PAGES = (
    RemovedPage(_FIGURE, _INSTEAD, page="algorithm", keeps=("policy",)),
    RemovedPage(f"{_FIGURE}.<str:form>", _INSTEAD, page="algorithm", keeps=("policy",)),
)
REMOVED_ROUTES = (
    RemovedRoute(
        f"{_POLICY}/operators/figures/<slug:figure>",
        f"Use `{command_name('analyse POLICY bits')}`, and so for each other figure, for its numbers. "
        "GET /api/v1/policies/{policy}/operators checks an operator and a resolution on the tree.",
    ),
)
