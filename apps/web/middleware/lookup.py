"""Look-ups with a token: answered early from memory, before sessions, even without the database.

`priorities.visible_entries.readable_now` decides what a token may read, as for all routes and formats. Look-ups avoid
the database, so the decision is cached as long as the verification of the token: a withdrawn right ends within the same
seconds as a revoked token. While the database is down, the last decision stays valid, like the token.
"""

from __future__ import annotations

import logging
import re
from enum import Enum
from math import inf
from time import monotonic, perf_counter

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import User
from apps.accounts.token_cache import FRESH_S, tokens
from apps.core import clock
from apps.core.errors import DomainError
from apps.priorities.serving import store
from apps.web.middleware import lookup_metrics
from apps.web.middleware.early_answers import EarlyAnswer
from apps.web.rest import answers, errors
from apps.web.rest.authentication import PRIORITIES_READ, bearer_text, require_policy
from apps.web.rest.inputs import refuse_unknown
from apps.web.rest.token_visibility import visibility

log = logging.getLogger(__name__)
#: Key of the WSGI environment: the server sets what the thread may use.
ANSWER_FROM = "fairshare.answer_from"


class AnswerFrom(Enum):
    """Resources that a look-up may use in this thread. Without it, views may use all resources."""

    MEMORY = "tokens verified a moment ago and the snapshot in memory"
    SNAPSHOTS = "the database for tokens and kept snapshots"


class NeedsWorkerThread(HttpResponse):
    """Not an answer: the server repeats the request in a thread that may use more resources."""


_ROUTE = re.compile(r"/api/v1/policies/([-a-zA-Z0-9_]+)/priorities(/lookup|/all|)")
_METHODS = {"": ("GET", "HEAD"), "/lookup": ("POST",), "/all": ("GET", "HEAD")}


#: Query parameters of look-ups; `format` of `/all` leads to a view.
PARAMETERS = {
    "": ("account", "namespace", "group", "partition", "columns"),
    "/lookup": ("columns",),
    "/all": ("since", "format"),
}


def is_lookup(match: re.Match[str], method: str) -> bool:
    return method in _METHODS[match[2]]


class TokenChecks:
    """Ends what is kept of tokens whose rows or rights have changed, every few seconds."""

    def __init__(self) -> None:
        self._checked_s = -inf

    def check(self) -> None:
        """Raises OperationalError without a database."""
        if monotonic() - self._checked_s < FRESH_S:
            return
        self._checked_s, at = monotonic(), clock.now()
        tokens.forget_changed(at=at)
        visibility.forget_changed(at=at)


def early_answer() -> EarlyAnswer:
    """Look-ups; loads snapshots before the first request."""
    if settings.FAIRSHARE_SNAPSHOT_POLL_S > 0:
        store.call_after_polls(TokenChecks().check)
        store.start()
    return EarlyAnswer(_ROUTE, answer_lookup, is_for_lookups=is_lookup)


def answer_lookup(request: HttpRequest, match: re.Match[str]) -> HttpResponseBase | None:
    if "HTTP_AUTHORIZATION" not in request.META or request.method not in _METHODS[match[2]]:
        return None
    if "format" in request.GET:  # tables are made by a view
        return pass_on(request)
    started_s, policy_slug, suffix = perf_counter(), match[1], match[2]
    try:
        text = bearer_text(request)
        if text is None:
            return pass_on(request)
        is_from_memory = request.META.get(ANSWER_FROM) is AnswerFrom.MEMORY
        if is_from_memory and not _is_in_memory(policy_slug, suffix, text):
            return NeedsWorkerThread()
        user, bounds = tokens.verify(text, at=clock.now(), refresh=not is_from_memory)
        if not may_look_up(user, bounds):  # self:read needs the database for the user's accounts
            return pass_on(request)
        if is_from_memory and not visibility.is_known(user, bounds, store.newest(policy_slug)):
            return NeedsWorkerThread()
        response = look_up(request, policy_slug, suffix, user, bounds)
    except DomainError as error:
        response = errors.domain_problem(request, error)
    except (OperationalError, InterfaceError):
        response = errors.database_problem(request)
    except (RequestDataTooBig, SuspiciousOperation) as error:
        response = errors.bad_request(request, error)
    except Exception:
        log.exception("%s %s failed", request.method, request.path_info)
        response = errors.server_error(request)
    lookup_metrics.count_lookup(response.status_code, perf_counter() - started_s)
    return response


def pass_on(request: HttpRequest) -> NeedsWorkerThread | None:
    """To the views, in a thread that may use all resources."""
    return NeedsWorkerThread() if ANSWER_FROM in request.META else None


def _is_in_memory(policy_slug: str, suffix: str, token_text: str) -> bool:
    """Whether verification and snapshot are in memory and the answer is short."""
    return suffix != "/all" and store.is_in_memory(policy_slug) and tokens.is_fresh(token_text)


def may_look_up(user: User, bounds: TokenBounds) -> bool:
    return PRIORITIES_READ in bounds.scopes or ("admin" in bounds.scopes and Actor(user, via="api").administers)


def look_up(request: HttpRequest, policy_slug: str, suffix: str, user: User, bounds: TokenBounds) -> HttpResponseBase:
    require_policy(bounds, policy_slug)
    if request.META["QUERY_STRING"]:
        refuse_unknown(request.GET, PARAMETERS[suffix])
    snapshot = store.newest(policy_slug)
    at = clock.now()
    readable = visibility.readable(user, bounds, snapshot, at)
    if suffix == "/all":
        return answers.answer_all(request, snapshot, answers.snapshot_since(request, policy_slug), readable, at)
    queries = answers.queries_of_body(request) if suffix == "/lookup" else answers.queries_of_address(request)
    return answers.answer_accounts(request, snapshot, queries, readable, at)
