"""Cards of *My priority*: fragments that follow the answer, those of the page itself and those of plug-ins."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal, get_args

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.core.plugins import Words, plugins
from apps.explain.my_priority import MyPriority
from apps.pages.my_priority.account_choice import names_of, page_url
from apps.priorities.selectors.rows import newest_or_none
from apps.web.shell import time_travel
from apps.web.shell.requests import is_htmx, private

# The answer's sentence about when, beside the answer, a row of two below it, beside the path, behind "More".
Place = Literal["when", "answer", "jobs", "path", "more"]
# What a card will take, roughly, so that nothing moves when it comes: a class of static/css/me.css.
Height = Literal[
    "line", "trend", "text", "rows", "jobs", "job-sizes", "form", "search", "figure", "forecast", "small-figure"
]
MOST_CARD_ROWS = 8  # that height counts
NUMBERS = "numbers"  # parameter: the snapshot of the answer above the card


@dataclass(frozen=True, slots=True, kw_only=True)
class MyCard:
    """A card of the shown account. Its content is the fragment of a route, which answers by `answer_card`.

    order: among the cards of its place. route, names: of the fragment, and parts of its address. anchor: id of its
    section. note: what it holds, beside its title behind "More". n_rows: on which its height depends. is_early: it
    comes with the page; others come when they are opened, or near the window. follows_numbers: it comes again with each
    recompute. of_past: shown for a moment of the past, too. of_unmapped: also of accounts that no rule maps. is_shown:
    whether an account has the card. The functions take it and all accounts of the reader, best first. scripts: modules
    in `static`.
    """

    place: Place
    order: int
    route: str
    anchor: str
    title: Words
    height: Height
    note: Words = ""
    n_rows: Callable[[MyPriority, Sequence[MyPriority]], int] = lambda _account, _known: 1
    names: Mapping[str, str] = field(default_factory=dict)
    is_early: bool = False
    follows_numbers: bool = False
    of_past: bool = False
    of_unmapped: bool = False
    is_shown: Callable[[MyPriority, Sequence[MyPriority]], bool] = lambda _account, _known: True
    scripts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ShownCard:
    card: MyCard
    url: str
    n_rows: int


@dataclass(frozen=True, slots=True)
class ShownCards:
    """by_place: in order."""

    by_place: Mapping[str, Sequence[ShownCard]]
    scripts: Sequence[str] = ()


def cards_of(
    request: HttpRequest,
    own: Sequence[MyCard],
    priority: MyPriority,
    known: Sequence[MyPriority],
    at: int | datetime | None,
) -> ShownCards:
    """The cards of one account. own: those of the page itself. known: all accounts of the reader, best first.

    Addresses carry the state of the page, the account that it shows, and its moment.
    """
    query = request.GET.copy()
    for name, text in names_of(priority).items():
        query[name] = text
    if at is not None:
        query[time_travel.AT] = time_travel.moment_text(at)
    state = query.urlencode()
    by_place: dict[str, list[ShownCard]] = {place: [] for place in get_args(Place)}
    scripts: dict[str, None] = {}
    for card in sorted(_all_cards(own), key=attrgetter("order")):
        if not _is_of(card, priority, is_past=at is not None):
            continue
        if card.is_shown(priority, known):
            url = reverse(f"pages:{card.route}", kwargs=dict(card.names))
            n_rows = min(card.n_rows(priority, known), MOST_CARD_ROWS)
            by_place[card.place].append(ShownCard(card, f"{url}?{state}", n_rows))
            scripts |= dict.fromkeys(card.scripts)
    return ShownCards(by_place, list(scripts))


def _is_of(card: MyCard, priority: MyPriority, *, is_past: bool) -> bool:
    """Whether the card is of such an account, and of such a moment."""
    is_of_account = not priority.error or (priority.error == "unmapped" and card.of_unmapped)
    return is_of_account and (card.of_past or not is_past)


def _all_cards(own: Sequence[MyCard]) -> list[MyCard]:
    return [*own, *(card for plugin in plugins() for card in plugin.my_priority_cards())]


def answer_card(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, title: Words, status: int = 200
) -> HttpResponse:
    """The content of a card. Opened by itself, as without scripts, it is a page with this card alone.

    A card of other numbers than the answer above it says so, and has the page ask for new ones.
    """
    shown = {**context, "card_template": template, "other_as_of": _other_as_of(request)}
    if not is_htmx(request):
        shown |= {
            "card_title": title,
            "card_scripts": sorted({script for card in _all_cards(()) for script in card.scripts}),
            "page_url": f"{page_url()}?{request.GET.urlencode()}",
            "crumbs": [{"label": _("My priority"), "url": page_url()}, {"label": title}],
        }
        return private(render(request, "pages/my_priority/_card_page.html", shown, status=status))
    response = render(request, "pages/my_priority/_content.html", shown, status=status)
    if shown["other_as_of"]:
        response["HX-Trigger"] = json.dumps({"live:ask": ""})
    return private(response)


def _other_as_of(request: HttpRequest) -> datetime | None:
    """End of the usage of the card's numbers, if they aren't those of the answer above it."""
    numbers = request.GET.get(NUMBERS)
    if not numbers or time_travel.AT in request.GET:
        return None
    snapshot = newest_or_none(request.GET.get("policy", ""))
    return None if snapshot is None or str(snapshot.snapshot_id) == numbers else snapshot.as_of
