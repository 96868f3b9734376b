"""Polling by open pages: a 304 in one query, before sessions and views, or the frame and changed parts as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from threading import Lock
from typing import Any, NamedTuple

from cachetools import FIFOCache
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from apps.accounts.models import User
from apps.accounts.selectors import display_name
from apps.accounts.sign_in.sessions import SessionStore, is_signed_in
from apps.core import clock
from apps.core.errors import DomainError
from apps.core.postgresql import fetch_prepared
from apps.policies.selectors import get_policy, get_revision
from apps.priorities.serving import store
from apps.web.middleware.early_answers import EarlyAnswer
from apps.web.shell import presentation
from apps.web.shell.live_state import SERIES, PageState, age_of, get_page_state, marks_sql
from apps.web.shell.navigation import Shell
from apps.web.shell.requests import actor_of

_ROUTE = re.compile(r"/policy/([-a-zA-Z0-9_]+)/live")
_MOST_KNOWN_SESSIONS = 1024  # sessions
_USER = [field.attname for field in User._meta.concrete_fields]


def unchanged(request: HttpRequest, state: PageState) -> HttpResponse | None:
    """304 response if the request has the tag of this state, else None."""
    tag = f'"{state.tag}"'
    if request.headers.get("If-None-Match") != tag:
        return None
    response = HttpResponse(status=304)
    del response["Content-Type"]
    response["ETag"] = tag
    return response


@cache
def _live_sql() -> str:
    return f"""
SELECT session.session_data, {", ".join([*(f"series.{name}" for name in SERIES), *marks_sql().values()])},
    {", ".join(f'who."{field.column}"' for field in User._meta.concrete_fields)}
FROM accounts_session AS session
JOIN accounts_user AS who ON who.id = $1
LEFT JOIN analytics_series AS series ON series.policy_id = $2
WHERE session.session_key = $3 AND session.expire_date > clock_timestamp()
""".replace("%%", "%")  # noqa: S608 - constants only


class _LiveRow(NamedTuple):
    session_data: str
    series: tuple[Any, ...]
    marks: tuple[str, ...]
    user: User


def early_answer() -> EarlyAnswer:
    """Polls of open pages."""
    polls = Polls()
    return EarlyAnswer(_ROUTE, polls.answer, passed_on=polls.remember)


class Polls:
    """Responds with 304 if nothing changed since the page's state; other requests go to sessions and views.

    Session, user and permissions are read on every request. Only the user id of a session is cached, so that all three
    are one query; if the session then names another user, the view handles the request.
    """

    def __init__(self) -> None:
        self._known: FIFOCache[str, int] = FIFOCache(
            _MOST_KNOWN_SESSIONS
        )  # user id by session key; reading needs no lock
        self._lock = Lock()

    def answer(self, request: HttpRequest, match: re.Match[str]) -> HttpResponse | None:
        if request.method not in ("GET", "HEAD") or settings.FAIRSHARE_TRUSTED_HEADER:  # that names a user each time
            return None
        return self._unchanged(request, match[1])

    def _unchanged(self, request: HttpRequest, policy_slug: str) -> HttpResponse | None:
        key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
        user_id, policy = self._known.get(key), store.state().policies.get(policy_slug)
        if user_id is None or policy is None or "If-None-Match" not in request.headers:
            return None
        try:
            requested = _read_live_row(key, user_id, policy.id)
        except DatabaseError:  # the view reports it
            return None
        if requested is None or not is_signed_in(_decoded(requested.session_data), requested.user):
            return None
        request.user = requested.user
        try:
            state = get_page_state(
                policy_slug=policy_slug, actor=actor_of(request), series=requested.series, marks=requested.marks
            )
        except DomainError:
            return None
        return unchanged(request, state)

    def remember(self, request: HttpRequest) -> None:
        """Cache the user id of the session after the view's response."""
        user, session = getattr(request, "user", None), getattr(request, "session", None)
        if user is None or session is None or not user.is_authenticated or not session.session_key:
            return
        with self._lock:
            self._known[session.session_key] = user.pk


def _read_live_row(key: str, user_id: int, policy_id: int) -> _LiveRow | None:
    """None if the session has ended."""
    row = fetch_prepared("live_page", _live_sql(), [user_id, policy_id, key])
    if row is None:
        return None
    n = 1 + len(SERIES)
    m = n + len(marks_sql())
    return _LiveRow(row[0], row[1:n], row[n:m], User.from_db(connection.alias, _USER, row[m:]))


@lru_cache(_MOST_KNOWN_SESSIONS)
def _decoded(session_data: str) -> Mapping[str, Any]:
    """Decoded session data, cached by its text, which is read on every request."""
    data: dict[str, Any] = SessionStore().decode(session_data)
    return data


@require_safe
def live(request: HttpRequest, policy: str) -> HttpResponse:
    """304 without a body if nothing has changed. Writes nothing, not even the session."""
    state = get_page_state(policy_slug=policy, actor=actor_of(request))
    return unchanged(request, state) or _changes_response(request, policy, state)


def _changes_response(request: HttpRequest, policy: str, state: PageState) -> HttpResponse:
    shell = Shell(request)
    response = JsonResponse(
        {
            "revision": state.revision,
            "age_s": age_of(state.computed_at),
            "parts": state.parts,
            "fresh": render_to_string("web/_freshness.html", {"fresh": shell.freshness}, request),
            "counts": shell.counts,
            "published": _published(request, policy),
        }
    )
    response["ETag"] = f'"{state.tag}"'
    return response


def _published(request: HttpRequest, policy: str) -> dict[str, Any]:
    """The newest revision, for pages that show an older one."""
    actor = actor_of(request)
    revision = get_revision(policy=get_policy(slug=policy, actor=actor))
    return {
        "by": display_name(revision.author_name),
        "is_own": revision.author_id == request.user.pk,
        "reason": revision.reason,
        "at": presentation.clock_time(revision.published_at, clock.now()),
    }
