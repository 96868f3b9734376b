"""My priority as a page draws it: the walk with bars, balances and addresses, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.analytics.my_priority.numbers import get_my_numbers
from apps.core import clock
from apps.core.errors import NotFound, Unavailable
from apps.dashboard.algorithm.words import OwnNumber, own_number
from apps.dashboard.figures import bars
from apps.dashboard.figures.bars import USUAL_TOLERANCE, Bullet, State
from apps.dashboard.shell import lines, presentation
from apps.dashboard.shell.figure_frames import FigureFrame, framed
from apps.dashboard.shell.presentation import Balance
from apps.dashboard.shell.requests import actor_of
from apps.dashboard.shell.time_travel import DAY
from apps.explain.messages import AccountMessages, LevelMessages, Outlook, messages_of
from apps.explain.my_priority import MyPriority
from apps.explain.walk import WalkStep
from apps.figures import Figure
from apps.figures.by_name import MY_FIGURES, MyLinks, draw_my_figure, read_my_figure
from apps.priorities.sentences import text_of

# --- Walk -------------------------------------------------------------------------------------------------------------
WIDTH = 210


@dataclass(frozen=True, slots=True)
class Level:
    """One step from the whole to the person."""

    number: int
    heading: str
    sentence: str
    actual: str
    target: str
    balance: Balance | None
    bar: Bullet | None
    label: str
    decides: bool
    ahead: str
    fallen: str  # that others' usage doesn't count here, since when and why
    step: WalkStep
    vector: str
    own: Sequence[OwnNumber | None]
    own_names: Sequence[str]
    url: str


@dataclass(frozen=True, slots=True)
class Story:
    """Everything the page says about one account in one policy."""

    mine: MyPriority
    told: AccountMessages  # keys and values of all of it
    verdict: str
    reason: str
    own: str
    levels: Sequence[Level]
    total: str
    entry_url: str


def tell(
    mine: MyPriority, others: Sequence[MyPriority] = (), outlook: Outlook | None = None, moment: str = ""
) -> Story:
    """moment: what addresses of the same moment end with."""
    told = messages_of(mine, others, outlook)
    return Story(
        mine=mine,
        told=told,
        verdict=told.verdict.text,
        reason=text_of(told.reason),
        own=told.own.text if told.own else "",
        levels=[_level(mine, level, at, moment) for at, level in enumerate(told.levels)],
        total=told.number.text if told.number else "",
        entry_url=lines.entry_url(mine.policy_slug, mine.entry_uid, mine.entry_name, moment) if mine.entry_uid else "",
    )


def _level(mine: MyPriority, level: LevelMessages, index: int, moment: str) -> Level:
    step = level.step
    balance = bar = None
    known = None if step.state == "unknown" else step.actual
    if step.target is not None:
        balance = balance_of(step, known)
        scale = bars.share_scale([(known or 0.0, step.target)])
        bar = bars.draw(actual=known, target=step.target, maximum=scale, state=balance.state, width=WIDTH)
    whom = _("you") if level.is_you else step.name
    return Level(
        number=index + 1,
        heading=_("%(first)s to %(last)s") % {"first": step.parent_name, "last": whom},
        sentence=text_of([level.standing, *level.effects]),
        actual=presentation.percent(known),
        target=presentation.percent(step.target),
        balance=balance,
        bar=bar,
        label=lines.bar_label(known, step.target, USUAL_TOLERANCE),
        decides=level.decides,
        ahead=text_of([level.ahead, *level.equal]),
        fallen=level.fallen.text if level.fallen else "",
        step=step,
        vector=str(mine.vector[index]) if index < len(mine.vector) else presentation.UNKNOWN,
        own=_own_numbers(mine, step),
        own_names=_own_names(mine),
        url=lines.entry_url(mine.policy_slug, step.uid, step.name, moment),
    )


def _own_numbers(mine: MyPriority, step: WalkStep) -> list[OwnNumber | None]:
    """The same columns on every level: what doesn't exist on this one is None."""
    about = {"name": mine.algorithm}
    return [own_number(step.columns, name, about, USUAL_TOLERANCE) for name in _own_names(mine)]


def _own_names(mine: MyPriority) -> list[str]:
    return list({name: None for each in mine.walk for name, value in each.columns.items() if value is not None})


def balance_of(step: WalkStep, known: float | None) -> Balance:
    """Over, under, on target or idle, with the points."""
    if known is not None and step.target is not None and step.state in {"over", "under"}:
        word = _("over") if step.state == "over" else _("under")
        return Balance(State(step.state), presentation.points(known - step.target), word)
    return presentation.balance(known, step.target, has_usage=step.state != "idle")


# --- Figures ----------------------------------------------------------------------------------------------------------
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
