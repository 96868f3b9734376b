"""The line of ranks beside the answer: 30 days as coordinates, and sentences that compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from apps.core import clock
from apps.pages.my_priority.numbers.rank_history import get_my_rank_history
from apps.pages.my_priority.numbers.records import RankHistory, RankOnDay
from apps.priorities.sentences import Message, build_message
from apps.web.shell.requests import actor_of

TREND_DAYS = 30
TREND_WIDTH, TREND_HEIGHT = 328, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 318.0, 10.0, 138.0
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
        points=[" ".join(stretch) for stretch in stretches if stretch],
        end=(x(history.as_of), y(rank)),
        marks=[Mark(revision.number, x(revision.at)) for revision in history.published],
        scale=[(each, y(each)) for each in sorted({1, (lowest + 1) // 2, lowest})],
        first_on=since.date(),
        rank=rank,
    )


def _sentences(ranked: Sequence[RankOnDay], as_of: datetime) -> list[Message]:
    """The sentence that compares the rank with the last one of a week ago."""
    now = ranked[-1].rank or 1
    before = [day for day in ranked if _WEEK <= as_of - day.as_of <= _LONGEST]
    sentences = []
    if before:
        then = before[-1].rank or 1
        word = "better" if now < then else "worse" if now > then else "same"
        sentences.append(build_message(f"trend.{word}", n=abs(then - now), other_rank=then))
    return sentences
