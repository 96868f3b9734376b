"""My priority for templates: its figures, and the rank over 30 days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse

from apps.core import clock
from apps.core.errors import NotFound
from apps.pages.my_priority.numbers.rank_history import get_my_rank_history
from apps.pages.my_priority.numbers.records import RankHistory, RankOnDay
from apps.pages.my_priority.own_figures import MyFigure, MyLinks, OwnAccount, my_figures
from apps.priorities.sentences import Message, build_message
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
    diff = reverse("dashboard:diff", kwargs={"policy": policy})
    links = MyLinks(
        moment=f"{reverse('dashboard:my-priority')}?{here}&{DAY}={{at}}",
        revision=lambda number: f"{diff}?from={number - 1}&to={number}" if number > 1 else "",
    )
    account = OwnAccount(policy, entry, actor_of(request), clock.now())
    return figure.draw(account, options, request.GET, links)


def source_of(name: str, policy: str, entry: UUID) -> str:
    named = {"policy": policy, "entry": str(entry)}
    return f"{reverse('dashboard:my-figure', kwargs={'figure': name})}?{urlencode(named)}"


def frame_of(request: HttpRequest, name: str, policy: str, entry: UUID) -> FigureFrame:
    """A figure with its frame, for the page's query.

    Raises:
        NotFound: there is no such figure, or no such account of the actor.
        Unavailable: nothing has been computed yet.
    """
    figure = _known_figure(name)
    return framed(request, source_of(name, policy, entry), partial(_draw, request, figure, policy, entry))


TREND_DAYS = 30
TREND_WIDTH, TREND_HEIGHT = 340, 132
_LEFT, _RIGHT, _TOP, _BOTTOM = 30.0, 326.0, 10.0, 104.0
_WEEK = timedelta(days=7)
_LONGEST = timedelta(days=10)  # oldest day that counts as a week ago


@dataclass(frozen=True, slots=True)
class Mark:
    """A revision published in the shown days."""

    number: int
    x: float


@dataclass(frozen=True)
class Trend:
    """Coordinates of the rank line.

    points: one polyline per run of days with a rank. scale: (rank, y) of grid lines.
    """

    sentences: Sequence[Message]
    points: Sequence[str]
    end: tuple[float, float]
    marks: Sequence[Mark]
    scale: Sequence[tuple[int, float]]
    first_on: date
    rank: int
    width: int = TREND_WIDTH
    height: int = TREND_HEIGHT
    left: float = _LEFT
    right: float = _RIGHT
    top: float = _TOP
    bottom: float = _BOTTOM


def trend_of(request: HttpRequest, policy: str, entry: UUID) -> Trend | None:
    """None with fewer than two days with a stored rank.

    Raises:
        NotFound: no such account of the actor.
        Unavailable: nothing has been computed yet.
    """
    requested: dict[str, Any] = {"policy_slug": policy, "entry_uid": entry, "n_days": TREND_DAYS}
    return draw_trend(get_my_rank_history(**requested, actor=actor_of(request), at=clock.now()))


def draw_trend(history: RankHistory) -> Trend | None:
    ranked = [day for day in history.days if day.rank is not None]
    if len(ranked) < 2 or history.days[-1].rank is None:
        return None
    lowest = max(max(day.rank or 1 for day in ranked), history.days[-1].of, 2)
    since = history.as_of - timedelta(days=TREND_DAYS)

    def x(at: datetime) -> float:
        return round(_LEFT + max((at - since) / timedelta(days=TREND_DAYS), 0.0) * (_RIGHT - _LEFT), 1)

    def y(rank: int) -> float:
        return round(_TOP + (rank - 1) / (lowest - 1) * (_BOTTOM - _TOP), 1)

    stretches: list[list[str]] = [[]]
    for day in history.days:
        if day.rank is not None:
            stretches[-1].append(f"{x(day.as_of):g},{y(day.rank):g}")
        elif stretches[-1]:
            stretches.append([])
    rank = history.days[-1].rank
    return Trend(
        sentences=_sentences(ranked, history.as_of),
        points=[" ".join(one) for one in stretches if one],
        end=(x(history.as_of), y(rank)),
        marks=[Mark(one.number, x(one.at)) for one in history.published],
        scale=[(each, y(each)) for each in sorted({1, (lowest + 1) // 2, lowest})],
        first_on=since.date(),
        rank=rank,
    )


def _sentences(ranked: Sequence[RankOnDay], as_of: datetime) -> list[Message]:
    """Sentences comparing the rank with the last one of a week ago, and with the best day."""
    now = ranked[-1].rank or 1
    before = [day for day in ranked if _WEEK <= as_of - day.as_of <= _LONGEST]
    sentences = []
    if before:
        then = before[-1].rank or 1
        word = "better" if now < then else "worse" if now > then else "same"
        sentences.append(build_message(f"trend.{word}", n=abs(then - now), other_rank=then))
    best = min(ranked, key=lambda day: (day.rank or 1, -day.as_of.timestamp()))
    if best.rank is not None and best.rank < now:
        sentences.append(build_message("trend.best", rank=best.rank, on=best.as_of))
    return sentences
