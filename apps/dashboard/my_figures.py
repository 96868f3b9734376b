"""The figures of *My priority*: what each one reads of the account that the page shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse

from apps import clock
from apps.dashboard.actor import actor_of
from apps.dashboard.figure_frames import FigureFrame, framed
from apps.dashboard.time_travel import DAY
from apps.errors import NotFound, Unavailable
from apps.figures import Figure
from apps.figures.factor_ahead import factor_figure
from apps.figures.forecast import forecast_figure, read_forecast
from apps.figures.places import places_figure
from apps.figures.rank import rank_figure, read_rank
from apps.figures.waits import read_waits, waits_figure
from apps.priorities.forecast import get_my_forecast
from apps.priorities.selectors.queue_wait import get_my_waits
from apps.priorities.selectors.rank_distribution import get_my_place
from apps.priorities.selectors.rank_history import get_my_rank_history


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
    make = _FIGURES.get(name)
    if make is None:
        raise NotFound("There is no such figure.")
    return make(request, policy, entry)


def frames_of(request: HttpRequest, policy: str, entry: UUID | None) -> dict[str, Any]:
    """Every figure of the page, by name; none for an account without an entry."""
    if entry is None:
        return {"figures": {}}
    frames = {name: frame_of(request, name, policy, entry) for name in _FIGURES}
    return {"figures": {name: frame for name, frame in frames.items() if frame is not None}}


def source_of(name: str, policy: str, entry: UUID) -> str:
    named = {"policy": policy, "entry": str(entry)}
    return f"{reverse('dashboard:my-figure', kwargs={'figure': name})}?{urlencode(named)}"


def frame_of(request: HttpRequest, name: str, policy: str, entry: UUID) -> FigureFrame | None:
    """None while its numbers are away for a moment."""
    try:
        return framed(request, source_of(name, policy, entry), lambda: _FIGURES[name](request, policy, entry))
    except (NotFound, Unavailable):
        return None


def _rank(request: HttpRequest, policy: str, entry: UUID) -> Figure:
    asked = read_rank(request.GET)
    found = get_my_rank_history(
        policy_slug=policy, entry_uid=entry, n_days=asked.days, actor=actor_of(request), at=clock.now()
    )
    here = urlencode({"policy": policy, "entry": str(entry)})
    diff = reverse("dashboard:diff", kwargs={"policy": policy})
    return rank_figure(
        found, asked, request.GET, moment_url=f"{reverse('dashboard:my-priority')}?{here}&{DAY}={{at}}",
        mark_url=lambda number: f"{diff}?from={number - 1}&to={number}" if number > 1 else "",
    )  # fmt: skip


def _forecast(request: HttpRequest, policy: str, entry: UUID) -> Figure:
    asked = read_forecast(request.GET)
    found = get_my_forecast(
        policy_slug=policy, entry_uid=entry, share=asked.share, actor=actor_of(request), at=clock.now()
    )
    if found is None:
        raise NotFound("There is no such account in this policy.")
    return forecast_figure(found, asked, request.GET)


def _factor(request: HttpRequest, policy: str, entry: UUID) -> Figure:
    found = get_my_forecast(policy_slug=policy, entry_uid=entry, actor=actor_of(request), at=clock.now())
    figure = None if found is None else factor_figure(found)
    if figure is None:
        raise NotFound("There is no factor to foresee: there is no such account, or levels decide the order.")
    return figure


def _places(request: HttpRequest, policy: str, entry: UUID) -> Figure:
    return places_figure(get_my_place(policy_slug=policy, entry_uid=entry, actor=actor_of(request), at=clock.now()))


def _waits(request: HttpRequest, policy: str, entry: UUID) -> Figure:
    asked = read_waits(request.GET)
    found = get_my_waits(
        policy_slug=policy, entry_uid=entry, n_days=asked.days, actor=actor_of(request), at=clock.now()
    )
    return waits_figure(found, asked, request.GET)


_FIGURES: dict[str, Callable[[HttpRequest, str, UUID], Figure]] = {
    "rank": _rank,
    "forecast": _forecast,
    "factor": _factor,
    "places": _places,
    "waits": _waits,
}
