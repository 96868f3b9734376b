"""Cards that plug-ins add to *My priority*."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, get_args

from django.http import HttpRequest

from apps.core.plugins import plugins
from apps.explain.my_priority import MyPriority

Place = Literal["jobs", "ahead", "side"]  # a row of two below the answer, below the walk, beside it


@dataclass(frozen=True, slots=True)
class CardContent:
    """values: join the template context of the page, for this card and others. scripts: modules in `static`."""

    values: Mapping[str, Any]
    scripts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MyCard:
    """order: among the cards of all plug-ins. template: draws nothing if what it needs is not in the context.

    content: of the shown account, with all accounts of the reader, best first; None: nothing to show. Without it the
    template reads what another card or a figure has loaded. It is not asked for a past moment.
    """

    place: Place
    order: int
    template: str
    content: Callable[[HttpRequest, MyPriority, Sequence[MyPriority]], CardContent | None] | None = None


@dataclass(frozen=True, slots=True)
class ShownCards:
    """templates: by place, in order."""

    templates: Mapping[str, Sequence[str]]
    values: Mapping[str, Any] = field(default_factory=dict)
    scripts: Sequence[str] = ()


def cards_of(request: HttpRequest, priority: MyPriority, known: Sequence[MyPriority], *, is_past: bool) -> ShownCards:
    """The cards of one account. known: all accounts of the reader, best first."""
    templates: dict[str, list[str]] = {place: [] for place in get_args(Place)}
    values: dict[str, Any] = {}
    scripts: list[str] = []
    cards: list[MyCard] = [card for plugin in plugins() for card in plugin.my_priority_cards()]
    for card in sorted(cards, key=attrgetter("order")):
        content = None if is_past or card.content is None else card.content(request, priority, known)
        if content is not None:
            values |= content.values
            scripts += content.scripts
        if content is not None or card.place != "jobs":  # the row is drawn only around cards that show something
            templates[card.place].append(card.template)
    return ShownCards(templates, values, scripts)
