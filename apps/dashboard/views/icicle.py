"""Where in the tree is the imbalance, now or then: the whole as one picture."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.dashboard import lines, time_travel
from apps.dashboard.actor import actor_of
from apps.dashboard.figure_frames import answer_figure, framed
from apps.dashboard.htmx import SeeOther
from apps.dashboard.views.live import live_badge
from apps.dashboard.views.policy import panel_context
from apps.errors import Invalid
from apps.figures import Figure
from apps.figures.tree.figure import TreeAsker, make_tree_figure, read_tree, tree_figure


@require_safe
def icicle(request: HttpRequest, policy: str) -> HttpResponse:
    """`?entry=` is chosen, `?kind=icicle|treemap`, `?size=target|actual`, `?color=balance|share`, `?at=` a revision or
    an instant. What can't be drawn is said in the picture's place."""
    if elsewhere := time_travel.day_asked(request):
        return SeeOther(elsewhere)
    asker, problem = _asker(request, policy), None
    try:
        page, asked = read_tree(request.GET, asker)
    except Invalid as refused:
        problem = refused
        page, asked = read_tree(QueryDict(), asker)

    def make() -> Figure:
        if problem:
            raise problem
        return tree_figure(page, asked, request.GET, asker.entry)

    source = reverse("dashboard:tree-figure", kwargs={"policy": policy})
    context: dict[str, Any] = {
        "page": page,
        "frame": framed(request, source, make),
        "policy": policy,
        "live": live_badge(request, policy) if page.moment is None else None,
        "time_bar": time_travel.time_bar(request, page.moment),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            {"label": _("Icicle")},
        ],
        **panel_context(request, policy, asked.entry),
    }
    return render(request, "dashboard/convergence/icicle.html", context, status=422 if problem else 200)


@require_safe
def figure(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The picture as JSON, its entries as CSV, for the page's own query."""
    return answer_figure(request, make_tree_figure(request.GET, _asker(request, policy)), form)


def _asker(request: HttpRequest, policy: str) -> TreeAsker:
    at = time_travel.moment_asked(request)
    suffix = time_travel.suffix(at)
    return TreeAsker(
        policy, actor_of(request), at, lambda uid, name: f"{lines.entry_url(policy, uid, name, suffix)}#children"
    )
