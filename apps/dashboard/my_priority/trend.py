"""Rank over the last 30 days beside the answer: a line with 1 on top, and how it compares with a week ago."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from apps.analytics.my_priority.numbers import get_my_rank_history
from apps.analytics.my_priority.records import RankHistory, RankThen
from apps.core import clock
from apps.core.errors import NotFound, Unavailable
from apps.dashboard.shell.requests import actor_of
from apps.priorities.sentences import Message, say

DAYS = 30
WIDTH, HEIGHT = 340, 132
_LEFT, _RIGHT, _TOP, _BOTTOM = 30.0, 326.0, 10.0, 104.0
_WEEK = timedelta(days=7)
_LONGEST = timedelta(days=10)  # from now to what still counts as a week ago


@dataclass(frozen=True, slots=True)
class Mark:
    """A revision that was published within the days."""

    number: int
    x: float


@dataclass(frozen=True)
class Trend:
    """points: stretches of days with a rank. scale: (rank, y) of the lines behind them."""

    said: Sequence[Message]
    points: Sequence[str]
    end: tuple[float, float]
    marks: Sequence[Mark]
    scale: Sequence[tuple[int, float]]
    first_on: date
    rank: int
    width: int = WIDTH
    height: int = HEIGHT
    left: float = _LEFT
    right: float = _RIGHT
    top: float = _TOP
    bottom: float = _BOTTOM


def trend_of(request: HttpRequest, policy: str, entry: UUID | None) -> Trend | None:
    """None without an entry, and with fewer than two days of which the rank is stored."""
    if entry is None:
        return None
    asked: dict[str, Any] = {"policy_slug": policy, "entry_uid": entry, "n_days": DAYS}
    try:
        found = get_my_rank_history(**asked, actor=actor_of(request), at=clock.now())
    except (NotFound, Unavailable):
        return None
    return draw(found)


def draw(found: RankHistory) -> Trend | None:
    ranked = [day for day in found.days if day.rank is not None]
    if len(ranked) < 2 or found.days[-1].rank is None:
        return None
    lowest = max(max(day.rank or 1 for day in ranked), found.days[-1].of, 2)
    since = found.as_of - timedelta(days=DAYS)

    def x(at: datetime) -> float:
        return round(_LEFT + max((at - since) / timedelta(days=DAYS), 0.0) * (_RIGHT - _LEFT), 1)

    def y(rank: int) -> float:
        return round(_TOP + (rank - 1) / (lowest - 1) * (_BOTTOM - _TOP), 1)

    stretches: list[list[str]] = [[]]
    for day in found.days:
        if day.rank is not None:
            stretches[-1].append(f"{x(day.as_of):g},{y(day.rank):g}")
        elif stretches[-1]:
            stretches.append([])
    rank = found.days[-1].rank
    return Trend(
        said=_said(ranked, found.as_of),
        points=[" ".join(one) for one in stretches if one],
        end=(x(found.as_of), y(rank)),
        marks=[Mark(one.number, x(one.at)) for one in found.published],
        scale=[(each, y(each)) for each in sorted({1, (lowest + 1) // 2, lowest})],
        first_on=since.date(),
        rank=rank,
    )


def _said(ranked: Sequence[RankThen], as_of: datetime) -> list[Message]:
    """Against the last rank of a week ago, and the best day."""
    now = ranked[-1].rank or 1
    before = [day for day in ranked if _WEEK <= as_of - day.as_of <= _LONGEST]
    said = []
    if before:
        then = before[-1].rank or 1
        word = "better" if now < then else "worse" if now > then else "same"
        said.append(say(f"trend.{word}", n=abs(then - now), other_rank=then))
    best = min(ranked, key=lambda day: (day.rank or 1, -day.as_of.timestamp()))
    if best.rank is not None and best.rank < now:
        said.append(say("trend.best", rank=best.rank, on=best.as_of))
    return said
