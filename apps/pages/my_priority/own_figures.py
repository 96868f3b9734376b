"""The figures of *My priority* by name: the options in a query, and how each is drawn for an account of the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import QueryDict

from apps.accounts.actor import Actor
from apps.core.plugins import keyed
from apps.pages.my_priority.figures.rank import RankOptions, places_figure, rank_figure, read_rank
from apps.pages.my_priority.figures.waits import WaitsOptions, read_waits, waits_figure
from apps.pages.my_priority.numbers.position import get_my_position, get_my_waits
from apps.pages.my_priority.numbers.rank_history import get_my_rank_history
from apps.web.figures.figure import Figure


@dataclass(frozen=True, slots=True)
class MyLinks:
    """Links of the `rank` figure. moment: see Figure; revision: by number; "" if the page has none."""

    moment: str = ""
    revision: Callable[[int], str] = lambda _number: ""


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """An account of the actor: the one that is mapped to this entry."""

    policy_slug: str
    entry_uid: UUID
    actor: Actor
    at: datetime

    @property
    def asked(self) -> dict[str, Any]:
        """As selectors take it."""
        return {"policy_slug": self.policy_slug, "entry_uid": self.entry_uid, "actor": self.actor, "at": self.at}


@dataclass(frozen=True, slots=True)
class MyFigure:
    """read: the options in a query; raises Invalid for those that can't be drawn.

    draw: the figure of an account; raises NotFound if the actor has none at this entry, or it has no such figure, and
    Unavailable if nothing has been computed yet.
    """

    read: Callable[[QueryDict], Any]
    draw: Callable[[OwnAccount, Any, QueryDict, MyLinks], Figure]


def no_options(_query: QueryDict) -> None:
    """Of a figure without options."""


def my_figures() -> Mapping[str, MyFigure]:
    """In the order of the page: the past, what plug-ins add about the future, then the others and the jobs."""
    return {"rank": MyFigure(read_rank, _rank), **keyed("my_figures"), **_REST}


def _rank(account: OwnAccount, options: RankOptions, query: QueryDict, links: MyLinks) -> Figure:
    history = get_my_rank_history(**account.asked, n_days=options.days)
    return rank_figure(history, options, query, moment_url=links.moment, mark_url=links.revision)


def _places(account: OwnAccount, _options: None, _query: QueryDict, _links: MyLinks) -> Figure:
    return places_figure(get_my_position(**account.asked))


def _waits(account: OwnAccount, options: WaitsOptions, query: QueryDict, _links: MyLinks) -> Figure:
    return waits_figure(get_my_waits(**account.asked, n_days=options.days), options, query)


_REST = {"places": MyFigure(no_options, _places), "waits": MyFigure(read_waits, _waits)}
