"""Addresses of pages that the product no longer has: a bookmark gets 410, what to use instead and a link to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.dashboard.shell.errors import Refusal, refuse


class RemovedPage(NamedTuple):
    """`instead` is a whole sentence, lazily translated; `page` the name of the page that the answer links to.

    The link keeps those parts of the old address that `keeps` names, such as the policy.
    """

    route: str
    instead: str | Promise
    page: str = "overview"
    keeps: tuple[str, ...] = ()


REMOVED_PAGES: tuple[RemovedPage, ...] = (
    RemovedPage(
        "changes/<int:change_set>/notify/",
        gettext_lazy("The page of the change lists whose rank it moved."),
        page="change",
        keeps=("change_set",),
    ),
    RemovedPage("deviation.csv", gettext_lazy("The figure of the deviation on the overview offers the same CSV.")),
)


def _view(removed: RemovedPage) -> Callable[..., HttpResponse]:
    def gone(request: HttpRequest, **parts: str) -> HttpResponse:
        url = reverse(f"dashboard:{removed.page}", kwargs={name: parts[name] for name in removed.keeps})
        title = _("This page was removed")
        return refuse(request, Refusal(410, title, str(removed.instead), "removed", instead_url=url))

    return gone


urlpatterns: list[URLPattern] = [path(removed.route, _view(removed)) for removed in REMOVED_PAGES]
