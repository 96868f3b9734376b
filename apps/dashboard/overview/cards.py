"""Cards that fail alone: a broken one says so beside its last good value, and the rest of the page stays."""

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
from apps.core.errors import DomainError

logger = logging.getLogger(__name__)

KEPT_FOR = timedelta(minutes=15)  # how long a last good value is worth showing, and to the same person alone
_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Card:
    """One part of a page: its root id, where it is fetched from, and what it is filled with.

    build: None where there is nothing to show, and no card then. every_s: how often it looks for news.
    """

    name: str
    title: str
    template: str
    url: str
    build: Callable[[], Mapping[str, Any] | None]
    every_s: int = 30
    css: str = "card"


class _LastGood:
    """The last whole inside of cards, by person and address; this process's alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[Any, ...], tuple[datetime, str]] = LRUCache(_MOST_KEPT)

    def keep(self, key: tuple[Any, ...], at: datetime, inside: str) -> None:
        with self._lock:
            self._known[key] = at, inside

    def find(self, key: tuple[Any, ...], at: datetime) -> tuple[datetime, str] | None:
        with self._lock:
            found = self._known.get(key)
        return found if found is not None and at - found[0] <= KEPT_FOR else None

    def clear(self) -> None:
        with self._lock:
            self._known.clear()


last_good = _LastGood()


def draw_card(request: HttpRequest, card: Card, page_url: str) -> str:
    """Never raises: what goes wrong is said in the card. Empty where there is nothing to show."""
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
    except Exception:  # whatever it is, the other cards are still worth reading
        logger.exception("Card %s", card.name)
        problem = _("This part could not be loaded.")
        kept = last_good.find(key, now)
        if kept is not None:
            since, inside = kept
    shown = {"card": card, "inside": inside, "problem": problem, "since": since, "page_url": page_url}
    return render_to_string("dashboard/_card.html", shown, request)
