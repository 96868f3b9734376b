"""The figures of the convergence pages, for the page's own query."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps import clock
from apps.dashboard import lines
from apps.dashboard.actor import actor_of
from apps.dashboard.figure_frames import FigureFrame, answer_figure, framed
from apps.figures.convergence.answers import Asker, make_figure
from apps.figures.convergence.words import Links


@require_safe
def figure(
    request: HttpRequest, policy: str, figure: str, uid: UUID | None = None, name: str = "", form: str = "json"
) -> HttpResponseBase:
    return answer_figure(request, make_figure(figure, request.GET, _asker(request, policy, uid)), form)


def frame_of(request: HttpRequest, policy: str, figure: str, uid: UUID | None = None, name: str = "") -> FigureFrame:
    """The figure on its page; uid and name: of the entry that the page is about, if any."""
    source = figure_url(policy, figure, uid, name)
    asker = _asker(request, policy, uid)
    return framed(request, source, lambda: make_figure(figure, request.GET, asker))


def figure_url(policy: str, figure: str, uid: UUID | None = None, name: str = "") -> str:
    kwargs: dict[str, object] = {"policy": policy, "figure": figure}
    if uid is None:
        return reverse("dashboard:convergence-figure", kwargs=kwargs)
    return reverse("dashboard:entry-convergence-figure", kwargs=kwargs | {"uid": uid, "name": name})


def _asker(request: HttpRequest, policy: str, uid: UUID | None) -> Asker:
    return Asker(policy, uid, actor_of(request), clock.now(), _links(policy))


def _links(policy: str) -> Links:
    """A click on a day opens the tree as it was at its end, one on a revision its change set."""
    tree = reverse("dashboard:policy", kwargs={"policy": policy})
    diff = reverse("dashboard:diff", kwargs={"policy": policy})
    return Links(
        moment=f"{tree}?day={{at}}",
        revision=lambda number: f"{diff}?to={number}",
        entry=lambda uid, name: f"{lines.entry_url(policy, UUID(uid), name)}convergence/",
    )
