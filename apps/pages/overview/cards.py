"""Cards of a page, drawn one by one: a card that fails shows an error and the page stays."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cachetools import LRUCache
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.core import clock
from apps.core.derived_state import in_memory
from apps.core.errors import DomainError

DERIVED_STATE = (
    in_memory(
        "last_good",
        holds="last drawn cards, shown with their age where a card fails",
        key="card and its reader",
        inputs="what the card shows",
        range="one drawing",
        ends="a later drawing; the newest ones push it out",
    ),
)

logger = logging.getLogger(__name__)

KEPT_FOR = timedelta(minutes=15)  # longest age of the last good content, shown to the same user only
_MOST_KEPT_CARDS = 1_000


@dataclass(frozen=True, slots=True)
class Card:
    """One part of a page: its element id, its URL and how it is filled.

    build: returns the template context; None if there is nothing to show, and then no card. is_wrapper: what the
    template draws is a section with a heading of its own.
    """

    name: str
    title: str
    template: str
    url: str
    build: Callable[[], Mapping[str, Any] | None]
    css: str = "card"
    is_wrapper: bool = False


class _LastGood:
    """The last complete content of each card, by user and URL, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[Any, ...], tuple[datetime, str]] = LRUCache(_MOST_KEPT_CARDS)

    def keep(self, key: tuple[Any, ...], at: datetime, inside: str) -> None:
        with self._lock:
            self._known[key] = at, inside

    def find(self, key: tuple[Any, ...], at: datetime) -> tuple[datetime, str] | None:
        with self._lock:
            cached = self._known.get(key)
        return cached if cached is not None and at - cached[0] <= KEPT_FOR else None

    def clear(self) -> None:
        with self._lock:
            self._known.clear()


last_good = _LastGood()


def draw_card(request: HttpRequest, card: Card, page_url: str) -> str:
    """HTML of a card, "" if there is nothing to show. Never raises: errors are shown in the card."""
    key = (request.user.pk, card.url, get_language())
    now = clock.now()
    problem, inside, since = "", "", None
    try:
        context = card.build()
        if context is None:
            return ""
        inside = render_to_string(card.template, {"card": card, **context}, request)
        last_good.keep(key, now, inside)
    except DomainError as error:
        problem = error.message
    except Exception:  # any failure is limited to its card
        logger.exception("Card %s", card.name)
        problem = _("This part could not be loaded.")
        kept = last_good.find(key, now)
        if kept is not None:
            since, inside = kept
    shown = {"card": card, "inside": inside, "problem": problem, "since": since, "page_url": page_url}
    return render_to_string("web/_card.html", shown, request)
