"""Figures of *My priority* in a request: the account in the query string, the frame of a figure, its links."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse

from apps.core import clock
from apps.core.errors import NotFound
from apps.pages.my_priority.own_figures import MyFigure, MyLinks, OwnAccount, my_figures
from apps.web.figures import Figure
from apps.web.shell.figure_frames import FigureFrame, framed
from apps.web.shell.requests import actor_of
from apps.web.shell.time_travel import DAY


def read_account(request: HttpRequest) -> tuple[str, UUID]:
    """Policy and entry in the query string. Raises NotFound."""
    try:
        return request.GET.get("policy", ""), UUID(request.GET.get("entry", ""))
    except ValueError as error:
        raise NotFound("There is no such account in this policy.") from error


def figure_of(request: HttpRequest, name: str, policy: str, entry: UUID) -> Figure:
    """One figure of an account.

    Raises:
        NotFound: there is no such figure, or no such account of the actor.
        Invalid: the query can't be drawn.
    """
    return _draw(request, _known_figure(name), policy, entry)


def _known_figure(name: str) -> MyFigure:
    known = my_figures()
    if name not in known:
        raise NotFound(f"There is no such figure; known: {', '.join(known)}.")
    return known[name]


def _draw(request: HttpRequest, figure: MyFigure, policy: str, entry: UUID) -> Figure:
    options = figure.read(request.GET)
    # Links of a figure: an instant opens this page at that time, a revision its comparison.
    here = urlencode({"policy": policy, "entry": str(entry)})
    diff = reverse("pages:diff", kwargs={"policy": policy})
    links = MyLinks(
        moment=f"{reverse('pages:my-priority')}?{here}&{DAY}={{at}}",
        revision=lambda number: f"{diff}?from={number - 1}&to={number}" if number > 1 else "",
    )
    account = OwnAccount(policy, entry, actor_of(request), clock.now())
    return figure.draw(account, options, request.GET, links)


def source_of(name: str, policy: str, entry: UUID) -> str:
    named = {"policy": policy, "entry": str(entry)}
    return f"{reverse('pages:my-figure', kwargs={'figure': name})}?{urlencode(named)}"


def frame_of(request: HttpRequest, name: str, policy: str, entry: UUID) -> FigureFrame:
    """A figure with its frame, for the page's query.

    Raises:
        NotFound: there is no such figure, or no such account of the actor.
        Unavailable: nothing has been computed yet.
    """
    figure = _known_figure(name)
    return framed(request, source_of(name, policy, entry), partial(_draw, request, figure, policy, entry))
