"""One figure of convergence by its name, for pages and REST: the query is read, one selector asked with the actor, and
the numbers drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import QueryDict

from apps.accounts.actor import Actor
from apps.accounts.request_cache import once_per_request
from apps.errors import NotFound
from apps.figures.convergence.asked import (
    TODAY,
    FocusAsked,
    is_by_hour,
    read_counting_asked,
    read_focus,
    read_period_asked,
)
from apps.figures.convergence.focus import focus_figure, too_many_picks
from apps.figures.convergence.heat import heat_figure
from apps.figures.convergence.panels import panels_figure
from apps.figures.convergence.stack import stack_figure
from apps.figures.convergence.words import NO_LINKS, Links
from apps.figures.figure import Figure
from apps.figures.traces import MOST_SERIES
from apps.policies.selectors import READ
from apps.priorities.convergence.latest import get_convergence_until_now
from apps.priorities.convergence.period import today_of
from apps.priorities.convergence.picked import Picked, get_picked
from apps.priorities.convergence.reading import Convergence, get_series_state


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, of which part of which policy. uid: the entry whose children are meant; None is the root."""

    policy_slug: str
    uid: UUID | None
    actor: Actor
    now: datetime
    links: Links = NO_LINKS
    scope: str = READ


def make_figure(name: str, query: QueryDict, asker: Asker) -> Figure:
    """Raises NotFound for a figure that doesn't exist, Invalid for a query that can't be drawn."""
    if name not in _MAKERS:
        raise NotFound(f"There is no figure {name[:80]!r} of convergence; there are {', '.join(FIGURES)}.")
    return _MAKERS[name](query, asker)


def _focus(query: QueryDict, asker: Asker) -> Figure:
    state = get_series_state(policy_slug=asker.policy_slug, actor=asker.actor, scope=asker.scope)
    asked = read_focus(query, state, today_of(asker.now))
    if len(asked.picks) > MOST_SERIES:
        is_one_over = len(asked.picks) == MOST_SERIES + 1
        names = _picked(asked, asker, asked.picks).paths if is_one_over else []
        return too_many_picks(asked, query, list(zip(asked.picks, names, strict=False)))
    return focus_figure(_picked(asked, asker, asked.picks), asked, query, asker.links)


def _panels(query: QueryDict, asker: Asker) -> Figure:
    return panels_figure(read_convergence(query, asker), query, asker.links)


def _own(query: QueryDict, asker: Asker) -> Figure:
    """The entry itself, beside its own target."""
    return panels_figure(read_convergence(query, asker, itself=True), query, asker.links, "own")


def _stack(query: QueryDict, asker: Asker) -> Figure:
    return stack_figure(read_convergence(query, asker), asker.links)


def _heat(query: QueryDict, asker: Asker) -> Figure:
    return heat_figure(read_convergence(query, asker), asker.links)


def _picked(asked: FocusAsked, asker: Asker, picks: tuple[str, ...]) -> Picked:
    return get_picked(
        policy_slug=asker.policy_slug, actor=asker.actor, picks=picks, period=asked.period, whole=asked.whole,
        counting=asked.counting, below=asker.uid, by_hour=asked.by_hour, scope=asker.scope,
    )  # fmt: skip


def read_convergence(query: QueryDict, asker: Asker, *, itself: bool = False) -> Convergence:
    """The children of the entry, or it alone, over the period of the page, up to the newest snapshot.

    A page draws several figures of the same numbers: they are read once.
    """
    user = asker.actor.user
    who = (None if user is None else user.pk, asker.actor.token, asker.scope)
    key = ("convergence", asker.policy_slug, asker.uid, itself, query.urlencode(), *who)
    return once_per_request(key, lambda: _read(query, asker, itself=itself))


def _read(query: QueryDict, asker: Asker, *, itself: bool) -> Convergence:
    state = get_series_state(policy_slug=asker.policy_slug, actor=asker.actor, scope=asker.scope)
    by_hour = is_by_hour(query, state)
    period, _preset = read_period_asked(query, state, today_of(asker.now))
    return get_convergence_until_now(
        policy_slug=asker.policy_slug, actor=asker.actor, uid=asker.uid, itself=itself,
        counting=read_counting_asked(query), period=period, by_hour=by_hour,
        against_today=query.get("measure") == TODAY and not by_hour, scope=asker.scope,
    )  # fmt: skip


_MAKERS: dict[str, Callable[[QueryDict, Asker], Figure]] = {
    "focus": _focus, "panels": _panels, "own": _own, "stack": _stack, "heat": _heat,
}  # fmt: skip
FIGURES = tuple(_MAKERS)
