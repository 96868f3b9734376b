"""Orders of agents over REST, also while the database doesn't answer: then the last of the same token on this host.

An agent looks factors up from memory (`lookup`), so its orders must not be what stops it. `answer_agents` answers
them in the threads of look-ups; its queries run in a thread of their own, whose answer is waited for a moment only.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from cachetools import FIFOCache
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from apps.accounts import token_files
from apps.accounts.actor import Actor
from apps.accounts.services import look_up_token, prefix_of
from apps.accounts.token_cache import OUTAGE_S, DatabaseProbe
from apps.contrib.schedulers.selectors import get_orders
from apps.core import clock
from apps.core.derived_state import in_memory
from apps.core.errors import DomainError
from apps.web.middleware.early_answers import EarlyAnswer
from apps.web.middleware.lookup import ANSWER_FROM, AnswerFrom, NeedsWorkerThread, pass_on
from apps.web.rest import errors
from apps.web.rest.authentication import SCHEDULERS, bearer_text, require_scope
from apps.web.rest.rendering import dumps, is_known
from apps.web.rest.requests import client_address, request_id

DERIVED_STATE = (
    in_memory(
        "last_orders",
        holds="last orders that an agent read, for an outage of the database",
        key="digest of the token, scheduler",
        inputs="scheduler, policy, rights of the token",
        range="one answer",
        ends="a later answer, or a day",
    ),
)

_ROUTE = re.compile(r"/api/v1/schedulers/([-a-zA-Z0-9_]+)/(orders|passes)")
_METHODS = {"orders": "GET", "passes": "POST"}
_PLAIN = ("", "*/*", "application/json")
_MOST_KNOWN_ORDERS = 1_000
_WRITE_AGAIN = timedelta(minutes=10)
T = TypeVar("T")


class _Orders(NamedTuple):
    body: bytes
    tag: str
    valid_until: datetime
    prefix: str = ""  # of the token
    state: str = ""  # of its rows


def _is_orders(match: re.Match[str], method: str) -> bool:
    return match[2] == "orders" and method == "GET"


class LastOrders:
    """The last orders by token and scheduler; secrets are not stored."""

    def __init__(self) -> None:
        self._known: FIFOCache[tuple[bytes, str], _Orders] = FIFOCache(_MOST_KNOWN_ORDERS)
        self._lock = threading.Lock()
        self._probe = DatabaseProbe()

    def read(self, request: HttpRequest, text: str, name: str) -> _Orders:
        """The orders now; or, while the database doesn't answer, the last that this token got within a day.

        Raises:
            OperationalError: the database doesn't answer, and there are none.
            DomainError: the token isn't valid, lacks the scope or the right, or there is no such scheduler.
        """
        key = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), name)
        try:
            orders = self.ask(lambda: _read(request, text, name))
        except DomainError:
            with self._lock:
                self._known.pop(key, None)
            if prefix := prefix_of(text):
                token_files.remove(prefix, token_files.ORDERS, _name(text, name))
            raise
        except (OperationalError, InterfaceError):
            at = clock.now()
            known = self._known.get(key) or _from_file(text, name, at)
            if known is None or at >= known.valid_until:
                raise
            return known
        before = self._known.get(key)
        if before is None or (before.tag, before.state) != (orders.tag, orders.state) or _is_old(before, orders):
            _write(text, name, orders)
        else:
            orders = orders._replace(valid_until=before.valid_until)  # until the file is written again
        with self._lock:
            self._known[key] = orders
        return orders

    def ask(self, query: Callable[[], T]) -> T:
        """Raises OperationalError if the database doesn't answer in time."""
        timeout_s = settings.FAIRSHARE_TOKEN_PATIENCE_S
        return query() if timeout_s <= 0 else self._probe.run(query, timeout_s=timeout_s)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()


def _read(request: HttpRequest, text: str, name: str) -> _Orders:
    at = clock.now()
    verified = look_up_token(text, at=at)
    require_scope(verified.bounds, frozenset({SCHEDULERS}))
    actor = Actor(
        user=verified.user,
        via="api",
        token=verified.bounds,
        request_id=request_id(request),
        address=client_address(request),
    )
    orders, tag = get_orders(name=name, at=at, actor=actor)
    valid_until = min(verified.valid_until, at + timedelta(seconds=OUTAGE_S))
    return _Orders(dumps(orders), tag, valid_until, verified.bounds.prefix, verified.state)


def _is_old(before: _Orders, orders: _Orders) -> bool:
    return orders.valid_until - before.valid_until >= _WRITE_AGAIN


def _write(text: str, name: str, orders: _Orders) -> None:
    content = {"body": orders.body.decode(), "tag": orders.tag, "valid_until": orders.valid_until.isoformat()}
    kept = token_files.TokenFile(
        orders.prefix, token_files.ORDERS, _name(text, name), orders.state, clock.now(), content
    )
    token_files.write(kept)


def _from_file(text: str, name: str, at: datetime) -> _Orders | None:
    """What another process of this host read."""
    prefix = prefix_of(text)
    kept = None if prefix is None else token_files.read(prefix, token_files.ORDERS, _name(text, name), at=at)
    if kept is None:
        return None
    content = kept.content
    return _Orders(content["body"].encode(), content["tag"], datetime.fromisoformat(content["valid_until"]))


def _name(text: str, name: str) -> str:
    return f"{token_files.secret_name(text)} {name}"


last_orders = LastOrders()


def answer_agents(request: HttpRequest, match: re.Match[str]) -> HttpResponseBase | None:
    """Answers orders asked with a token; refuses reports at once while the database doesn't answer."""
    if "HTTP_AUTHORIZATION" not in request.META or request.method != _METHODS[match[2]]:
        return None
    if request.META.get(ANSWER_FROM) is AnswerFrom.MEMORY:
        return NeedsWorkerThread()
    is_plain = not request.META.get("QUERY_STRING") and request.META.get("HTTP_ACCEPT", "") in _PLAIN
    try:
        text = bearer_text(request)
        if match[2] == "passes":
            last_orders.ask(_has_answer)
        elif text is not None and is_plain:
            return _answer(request, last_orders.read(request, text, match[1]))
    except DomainError as error:
        return errors.domain_problem(request, error)
    except (OperationalError, InterfaceError):
        return errors.database_problem(request)
    return pass_on(request)


EARLY = EarlyAnswer(_ROUTE, answer_agents, is_for_lookups=_is_orders)


def _has_answer() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _answer(request: HttpRequest, orders: _Orders) -> HttpResponse:
    if is_known(request, orders.tag):
        response = HttpResponse(status=304)
    else:
        response = HttpResponse(orders.body, content_type="application/json")
    response["ETag"] = f'"{orders.tag}"'
    return response
