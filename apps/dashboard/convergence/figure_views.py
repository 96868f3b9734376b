"""The figures of the convergence pages, for the page's own query."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.analytics.convergence.numbers import get_numbers
from apps.analytics.convergence.period import today_of
from apps.analytics.convergence.selectors import get_series_state
from apps.core import clock
from apps.dashboard.shell import lines
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.figures import Figure
from apps.figures.convergence.answers import draw_figure, read_figure
from apps.figures.convergence.words import Links


@require_safe
def figure(
    request: HttpRequest, policy: str, figure: str, uid: UUID | None = None, name: str = "", form: str = "json"
) -> HttpResponseBase:
    return answer_figure(request, _make(request, policy, figure, uid), form)


def frame_of(request: HttpRequest, policy: str, figure: str, uid: UUID | None = None, name: str = "") -> FigureFrame:
    """The figure on its page; uid and name: of the entry that the page is about, if any."""
    source = figure_url(policy, figure, uid, name)
    return framed(request, source, lambda: _make(request, policy, figure, uid))


def figure_url(policy: str, figure: str, uid: UUID | None = None, name: str = "") -> str:
    kwargs: dict[str, object] = {"policy": policy, "figure": figure}
    if uid is None:
        return reverse("dashboard:convergence-figure", kwargs=kwargs)
    return reverse("dashboard:entry-convergence-figure", kwargs=kwargs | {"uid": uid, "name": name})


def _make(request: HttpRequest, policy: str, name: str, uid: UUID | None) -> Figure:
    actor = actor_of(request)
    state = get_series_state(policy_slug=policy, actor=actor)
    asked = read_figure(name, request.GET, state, today_of(clock.now()))
    numbers = asked.numbers
    found = None if numbers is None else get_numbers(numbers, policy_slug=policy, uid=uid, actor=actor)
    return draw_figure(asked, found, _links(policy))


def _links(policy: str) -> Links:
    """A click on a day opens the tree as it was at its end, one on a revision its change set."""
    tree = reverse("dashboard:policy", kwargs={"policy": policy})
    diff = reverse("dashboard:diff", kwargs={"policy": policy})
    return Links(
        moment=f"{tree}?day={{at}}",
        revision=lambda number: f"{diff}?to={number}",
        entry=lambda uid, name: f"{lines.entry_url(policy, UUID(uid), name)}convergence/",
    )
