"""The line of ranks beside the answer: 30 days as coordinates, and sentences that compare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from apps.core import clock
from apps.explain.my_priority import get_my_priority
from apps.explain.rank_change import RankChange, change_since_yesterday
from apps.pages.my_priority.numbers.rank_history import get_my_rank_history
from apps.pages.my_priority.numbers.records import RankHistory, RankOnDay
from apps.priorities.sentences import Message, build_message
from apps.web.shell.requests import actor_of

TREND_DAYS = 30
TREND_WIDTH, TREND_HEIGHT = 328, 160
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 318.0, 10.0, 138.0
_BESIDE, _BELOW = 8.0, 16.0  # of the number of a day ago, above or below its point
_WEEK = timedelta(days=7)
_LONGEST_TREND_AGE = timedelta(days=10)  # oldest day that counts as a week ago


@dataclass(frozen=True, slots=True)
class Mark:
    """A revision published in the shown days."""

    number: int
    x: float


@dataclass(frozen=True, slots=True)
class Step:
    """The rank of a day ago. text_y: of its number, on the side away from the line."""

    x: float
    y: float
    text_y: float
    rank: int


@dataclass(frozen=True)
class Trend:
    """Coordinates of the rank line.

    points: one polyline per run of days with a rank. scale: (rank, y) of grid lines. step: the rank of a day ago,
    if it was another one.
    """

    sentences: Sequence[Message]
    points: Sequence[str]
    end: tuple[float, float]
    marks: Sequence[Mark]
    scale: Sequence[tuple[int, float]]
    first_on: date
    rank: int
    step: Step | None = None
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
    actor = actor_of(request)
    requested: dict[str, Any] = {"policy_slug": policy, "entry_uid": entry, "n_days": TREND_DAYS}
    history = get_my_rank_history(**requested, actor=actor, at=clock.now())
    accounts = get_my_priority(actor=actor, policy_slug=policy)
    now = next((each for each in accounts if (each.account, each.entry_uid) == (history.account, entry)), None)
    return draw_trend(history, None if now is None else change_since_yesterday(now, actor=actor))


def draw_trend(history: RankHistory, change: RankChange | None = None) -> Trend | None:
    ranked = [day for day in history.days if day.rank is not None]
    if len(ranked) < 2 or history.days[-1].rank is None:
        return None
    before = 1 if change is None else change.rank
    lowest = max(max(day.rank or 1 for day in ranked), history.days[-1].of, before, 2)
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
    step = None
    if change is not None:
        at = y(change.rank)
        step = Step(x(change.as_of), at, at + (-_BESIDE if change.rank < rank else _BELOW), change.rank)
    return Trend(
        sentences=[*([] if change is None else [change.message]), *_sentences(ranked, history.as_of)],
        points=[" ".join(stretch) for stretch in stretches if stretch],
        end=(x(history.as_of), y(rank)),
        marks=[Mark(revision.number, x(revision.at)) for revision in history.published],
        scale=[(each, y(each)) for each in sorted({1, (lowest + 1) // 2, lowest})],
        first_on=since.date(),
        rank=rank,
        step=step,
    )


def _sentences(ranked: Sequence[RankOnDay], as_of: datetime) -> list[Message]:
    """The sentence that compares the rank with the last one of a week ago."""
    now = ranked[-1].rank or 1
    before = [day for day in ranked if _WEEK <= as_of - day.as_of <= _LONGEST_TREND_AGE]
    sentences = []
    if before:
        then = before[-1].rank or 1
        word = "better" if now < then else "worse" if now > then else "same"
        sentences.append(build_message(f"trend.{word}", n=abs(then - now), other_rank=then))
    return sentences
