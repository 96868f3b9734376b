"""The policy tree as a picture, its numbers as JSON and CSV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core.errors import Invalid
from apps.pages.tree.presenters import panel_context
from apps.priorities.records import IciclePage
from apps.priorities.selectors.icicle import get_icicle
from apps.web.figures import Figure
from apps.web.figures.tree import tree_figure
from apps.web.figures.tree_options import TreeOptions, read_tree_options
from apps.web.shell import lines, time_travel
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.requests import SeeOther, actor_of


@require_safe
def icicle(request: HttpRequest, policy: str) -> HttpResponse:
    """The tree as a picture. Errors of the query are shown instead of the picture.

    `?entry=`: the selected entry; `?kind=treemap|icicle`; `?size=target|actual`; `?color=balance|share`; `?at=`: a
    revision or an instant.
    """
    if elsewhere := time_travel.day_redirect(request):
        return SeeOther(elsewhere)
    problem = None
    try:
        page, requested = _read(request, policy, request.GET)
    except Invalid as refused:
        problem = refused
        page, requested = _read(request, policy, QueryDict())

    def make() -> Figure:
        if problem:
            raise problem
        return tree_figure(page, requested, request.GET, _entry_of(request, policy))

    source = reverse("pages:tree-figure", kwargs={"policy": policy})
    context: dict[str, Any] = {
        "page": page,
        "frame": framed(request, source, make),
        "policy": policy,
        "live": page.moment is None,
        "time_bar": time_travel.time_bar(request, page.moment, policy),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": _("Treemap")},
        ],
        **panel_context(request, policy, requested.entry),
    }
    return render(request, "pages/convergence/icicle.html", context, status=422 if problem else 200)


@require_safe
def figure(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The picture as JSON, or its entries as CSV, for the page's query."""
    page, requested = _read(request, policy, request.GET)
    return answer_figure(request, tree_figure(page, requested, request.GET, _entry_of(request, policy)), form)


def _read(request: HttpRequest, policy: str, query: QueryDict) -> tuple[IciclePage, TreeOptions]:
    """Page and query of the picture.

    Raises Invalid for a wrong query, NotFound for an entry that the actor may not see.
    """
    requested = read_tree_options(query)
    page = get_icicle(
        policy_slug=policy,
        actor=actor_of(request),
        chosen_uid=requested.entry,
        sizes=requested.size,
        levels=requested.levels,
        smallest=requested.smallest,
        at=time_travel.read_moment_param(request),
    )
    return page, requested


def _entry_of(request: HttpRequest, policy: str) -> Callable[[UUID, str], str]:
    """Function that returns the URL of an entry's page at the same moment."""
    suffix = time_travel.moment_query(time_travel.read_moment_param(request))
    return lambda uid, name: f"{lines.entry_url(policy, uid, name, suffix)}#children"
