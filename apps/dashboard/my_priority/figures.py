"""The figures of *My priority* on its page."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse

from apps.analytics.my_priority.numbers import get_my_numbers
from apps.core import clock
from apps.core.errors import NotFound, Unavailable
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.figure_frames import FigureFrame, framed
from apps.dashboard.shell.time_travel import DAY
from apps.figures import Figure
from apps.figures.my_priority.by_name import MY_FIGURES, MyLinks, draw_my_figure, read_my_figure


def account_asked(request: HttpRequest) -> tuple[str, UUID]:
    """Policy and entry in the address."""
    try:
        return request.GET.get("policy", ""), UUID(request.GET.get("entry", ""))
    except ValueError as error:
        raise NotFound("There is no such account in this policy.") from error


def figure_of(request: HttpRequest, name: str, policy: str, entry: UUID) -> Figure:
    """
    Raises:
        NotFound: there is no such figure, or no such account of the actor.
        Invalid: the query asks for what can't be drawn.
    """
    asked = read_my_figure(name, request.GET)
    found = get_my_numbers(
        name,
        policy_slug=policy,
        entry_uid=entry,
        n_days=asked.n_days,
        share=asked.share,
        actor=actor_of(request),
        at=clock.now(),
    )
    return draw_my_figure(asked, found, _links(policy, entry))


def frames_of(request: HttpRequest, policy: str, entry: UUID | None) -> dict[str, Any]:
    """Every figure of the page, by name; none for an account without an entry."""
    if entry is None:
        return {"figures": {}}
    frames = {name: frame_of(request, name, policy, entry) for name in MY_FIGURES}
    return {"figures": {name: frame for name, frame in frames.items() if frame is not None}}


def source_of(name: str, policy: str, entry: UUID) -> str:
    named = {"policy": policy, "entry": str(entry)}
    return f"{reverse('dashboard:my-figure', kwargs={'figure': name})}?{urlencode(named)}"


def frame_of(request: HttpRequest, name: str, policy: str, entry: UUID) -> FigureFrame | None:
    """None while its numbers are away for a moment."""
    try:
        return framed(request, source_of(name, policy, entry), lambda: figure_of(request, name, policy, entry))
    except (NotFound, Unavailable):
        return None


def _links(policy: str, entry: UUID) -> MyLinks:
    """A moment opens the same page as it was then, a revision its change set."""
    here = urlencode({"policy": policy, "entry": str(entry)})
    diff = reverse("dashboard:diff", kwargs={"policy": policy})
    return MyLinks(
        moment=f"{reverse('dashboard:my-priority')}?{here}&{DAY}={{at}}",
        revision=lambda number: f"{diff}?from={number - 1}&to={number}" if number > 1 else "",
    )
