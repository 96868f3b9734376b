"""My priority for templates: the path to the account level by level, figures, the rank over 30 days, the job
comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse

from apps.contrib.forecast.what_if import RankRange, read_scenario
from apps.core import clock
from apps.core.errors import Invalid, NotFound, TooOften, Unavailable
from apps.explain.messages import reason_in_short
from apps.explain.my_priority import MyPriority
from apps.explain.verdict import runs_where
from apps.pages.my_priority.figures.by_name import MY_FIGURES, MyLinks, draw_my_figure, read_my_figure
from apps.pages.my_priority.numbers.outlook import DEFAULT_CORE_H, ranks_after_job
from apps.pages.my_priority.numbers.position import get_my_numbers
from apps.pages.my_priority.numbers.rank_history import get_my_rank_history
from apps.pages.my_priority.numbers.records import RankHistory, RankOnDay
from apps.priorities.sentences import Message, build_message
from apps.priorities.sentences.numbers import as_typed
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
    requested = read_my_figure(name, request.GET)
    found = get_my_numbers(
        name,
        policy_slug=policy,
        entry_uid=entry,
        n_days=requested.n_days,
        share=requested.share,
        actor=actor_of(request),
        at=clock.now(),
    )
    # Links of a figure: an instant opens this page at that time, a revision its comparison.
    here = urlencode({"policy": policy, "entry": str(entry)})
    diff = reverse("dashboard:diff", kwargs={"policy": policy})
    return draw_my_figure(
        requested,
        found,
        MyLinks(
            moment=f"{reverse('dashboard:my-priority')}?{here}&{DAY}={{at}}",
            revision=lambda number: f"{diff}?from={number - 1}&to={number}" if number > 1 else "",
        ),
    )


def frames_of(request: HttpRequest, policy: str, entry: UUID | None) -> dict[str, Any]:
    """Every figure of the page by name; none for an account without an entry."""
    if entry is None:
        return {"figures": {}}
    frames = {}
    for name in MY_FIGURES:
        frame = frame_of(request, name, policy, entry)
        if frame is not None:
            frames[name] = frame
    return {"figures": frames}


def source_of(name: str, policy: str, entry: UUID) -> str:
    named = {"policy": policy, "entry": str(entry)}
    return f"{reverse('dashboard:my-figure', kwargs={'figure': name})}?{urlencode(named)}"


def frame_of(request: HttpRequest, name: str, policy: str, entry: UUID) -> FigureFrame | None:
    """None while the numbers are temporarily unavailable."""
    try:
        return framed(request, source_of(name, policy, entry), partial(figure_of, request, name, policy, entry))
    except (NotFound, Unavailable):
        return None


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


def trend_of(request: HttpRequest, policy: str, entry: UUID | None) -> Trend | None:
    """None without an entry, and with fewer than two days with a stored rank."""
    if entry is None:
        return None
    requested: dict[str, Any] = {"policy_slug": policy, "entry_uid": entry, "n_days": TREND_DAYS}
    try:
        found = get_my_rank_history(**requested, actor=actor_of(request), at=clock.now())
    except (NotFound, Unavailable):
        return None
    return draw_trend(found)


def draw_trend(found: RankHistory) -> Trend | None:
    ranked = [day for day in found.days if day.rank is not None]
    if len(ranked) < 2 or found.days[-1].rank is None:
        return None
    lowest = max(max(day.rank or 1 for day in ranked), found.days[-1].of, 2)
    since = found.as_of - timedelta(days=TREND_DAYS)

    def x(at: datetime) -> float:
        return round(_LEFT + max((at - since) / timedelta(days=TREND_DAYS), 0.0) * (_RIGHT - _LEFT), 1)

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
        sentences=_sentences(ranked, found.as_of),
        points=[" ".join(one) for one in stretches if one],
        end=(x(found.as_of), y(rank)),
        marks=[Mark(one.number, x(one.at)) for one in found.published],
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


_MOST_SHOWN = 8
_MOST_TYPED = 40


@dataclass(frozen=True)
class SubmitRow:
    """One account. after: its rank after the job; None if unknown."""

    mine: MyPriority
    url: str
    reason: str
    is_shown: bool
    is_first: bool
    after: RankRange | None


@dataclass(frozen=True)
class SubmitCard:
    """core_h: as typed; problem: why it is invalid. option: of Slurm's sbatch, for the first account."""

    policy: str
    entry: str
    account: str
    rows: Sequence[SubmitRow]
    core_h: str
    problem: str = ""
    option: str = ""


def submit_card(
    request: HttpRequest, mine: MyPriority, known: Sequence[MyPriority], urls: Mapping[int, str]
) -> SubmitCard | None:
    """Comparison of the user's accounts for a job; None for an account without a rank.

    known: all accounts, best first. urls: their pages, by id().
    """
    able = [other for other in known if runs_where(mine, other) and other.rank is not None][:_MOST_SHOWN]
    if mine.rank is None or mine.entry_uid is None or not able:
        return None
    typed = request.GET.get("job_core_h", "").strip()[:_MOST_TYPED] or as_typed(DEFAULT_CORE_H)
    after: dict[UUID, RankRange] = {}
    problem = ""
    try:
        requested = read_scenario({"core_h": typed}).core_h or 0.0
        uids = [other.entry_uid for other in able if other.entry_uid is not None]
        after = ranks_after_job(
            policy_slug=mine.policy_slug,
            entry_uids=list(dict.fromkeys(uids)),
            core_h=requested,
            actor=actor_of(request),
            at=clock.now(),
        )
    except Invalid as error:
        problem = error.fields[0].message if error.fields else error.message
    except TooOften as error:
        problem = error.message
    except (NotFound, Unavailable):
        pass  # a newer snapshot has just arrived: show the present ranks only
    rows = [
        SubmitRow(
            mine=other,
            url=urls[id(other)],
            reason=reason_in_short(other),
            is_shown=other is mine,
            is_first=place == 0 and len(able) > 1,
            after=None if other.entry_uid is None else after.get(other.entry_uid),
        )
        for place, other in enumerate(able)
    ]
    return SubmitCard(
        policy=mine.policy_slug,
        entry=str(mine.entry_uid),
        account=mine.account,
        rows=rows,
        core_h=typed,
        problem=problem,
        option=f"--account={able[0].group}" if able[0].group and len(able) > 1 else "",
    )
