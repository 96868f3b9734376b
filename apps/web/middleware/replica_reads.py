"""Pages and exports are read from the replica, unless the caller must see what the replica doesn't have yet.

Each answer that the primary gave sets a cookie with its WAL position: until the replica has replayed it, the next
requests of this browser go to the primary, too. So nobody misses an own change, and no page goes back in time. Callers
with a token have no cookies: those whose token may write always read from the primary.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import FileResponse, HttpRequest, HttpResponseBase, StreamingHttpResponse
from prometheus_client import Counter

from apps.accounts.request_cache import separate_cache
from apps.accounts.token_cache import tokens
from apps.core import clock
from apps.core.errors import DomainError
from apps.core.postgresql import may_repeat
from apps.core.postgresql.replica import has_replica, reading_replica, replica, written_position
from apps.web.middleware.lookup_metrics import registry
from apps.web.rest.authentication import POLICIES_READ, PRIORITIES_READ, SELF_READ, bearer_text

log = logging.getLogger(__name__)

COOKIE = "fairshare_seen"
_POSITION = re.compile(r"[0-9a-f]{1,16}")
_NOWHERE = 2**63  # a position that no replica reaches
_READING = frozenset({SELF_READ, PRIORITIES_READ, POLICIES_READ})
_KEPT_S = 60  # beyond the lag at which the replica isn't used at all
# Those of Django itself and of signing in write, or call other hosts, also for a GET.
_ROOM, _WRITING = "apps.", "apps.pages.sign_in."
_reads = Counter(
    "fairshare_replica_reads",
    "Requests read from the replica, by this process",
    ["outcome"],
    registry=registry,
)


class ReplicaMiddleware:
    """Runs the view of a GET with the replica as its database, and on the primary again where that fails."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        if not has_replica():
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_read = getattr(response, "is_of_replica", False)
        if not is_read and "HTTP_AUTHORIZATION" not in request.META and response.status_code < 500:
            _remember_position(response)
        return response

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> HttpResponseBase | None:
        if not _may_read(request, view) or not replica.serves(after=_seen_position(request)):
            return None
        try:
            with separate_cache(), reading_replica():
                response = _begun(view(request, *args, **kwargs))
        except (DatabaseError, InterfaceError) as error:
            if isinstance(error, OperationalError | InterfaceError) and not may_repeat(error):
                replica.lose(error)
            log.info("%s is read from the primary: %s", request.path, error)
            response = None
        except Exception:  # from the primary the same, or of what the replica doesn't have yet
            response = None
        if response is None or response.status_code >= 400:
            _reads.labels("repeated").inc()
            return None
        _reads.labels("served").inc()
        response.is_of_replica = True  # type: ignore[attr-defined]
        return response


def _may_read(request: HttpRequest, view: Callable[..., HttpResponseBase]) -> bool:
    if request.method not in ("GET", "HEAD") or not view.__module__.startswith(_ROOM):
        return False
    if view.__module__.startswith(_WRITING):
        return False
    try:
        text = bearer_text(request)
        if text is None:
            return request.user.is_authenticated
        return tokens.verify(text, at=clock.now())[1].scopes <= _READING  # the view verifies it in the replica as well
    except DomainError:
        return False


def _seen_position(request: HttpRequest) -> int:
    text = request.COOKIES.get(COOKIE, "0")
    return int(text, 16) if _POSITION.fullmatch(text) else _NOWHERE


def _remember_position(response: HttpResponseBase) -> None:
    try:
        position = written_position()
    except (DatabaseError, InterfaceError):  # the answer was made without it
        return
    response.set_cookie(
        COOKIE,
        f"{position:x}",
        max_age=settings.FAIRSHARE_REPLICA_LAG_S + _KEPT_S,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


def _begun(response: HttpResponseBase) -> HttpResponseBase:
    """The response, rendered; of a stream the first piece has been made, and the others are made of the replica."""
    render = getattr(response, "render", None)
    if callable(render):
        return render()  # type: ignore[no-any-return]
    if isinstance(response, StreamingHttpResponse) and not isinstance(response, FileResponse):
        pieces: Iterator[bytes] = iter(response)
        first = next(pieces, b"")
        response.streaming_content = chain([first], _pieces_of_replica(pieces))
    return response


def _pieces_of_replica(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Each with the replica as the database; between them the thread has its own."""
    while True:
        with reading_replica():
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece
