"""Look-ups with a token: middleware that answers from memory, before sessions, even without the database.

`priorities.visibility.readable_now` decides what a token may read, as for all routes and formats. Look-ups avoid the
database, so the decision is cached as long as the verification of the token: a withdrawn right ends within the same
seconds as a revoked token. While the database is down, the last decision stays valid, like the token.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from time import perf_counter
from typing import NamedTuple

from cachetools import FIFOCache
from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from apps.accounts.actor import Actor, TokenBounds
from apps.accounts.models import User
from apps.accounts.token_cache import DatabaseProbe, tokens
from apps.api import answers, errors
from apps.api.authentication import PRIORITIES_READ, bearer_text, require_policy
from apps.api.inputs import refuse_unknown
from apps.api.monitoring import views
from apps.core import clock
from apps.core.errors import DomainError
from apps.policies.models import Policy
from apps.priorities.serving import store
from apps.priorities.serving.lookup import Readable
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import readable_now

# --- Visibility for tokens --------------------------------------------------------------------------------------------
_CACHE_SIZE = 1_000
_Key = tuple[str, str, str]  # prefix of the token, slug of the policy, digest of its tree


class _Cached(NamedTuple):
    user: User  # the object of one verification: another verification gives another object
    readable: Readable | None


class TokenVisibility:
    """Cache of the entries that tokens may read in served policies."""

    def __init__(self) -> None:
        self._known: FIFOCache[_Key, _Cached] = FIFOCache(_CACHE_SIZE)  # reads need no lock
        self._lock = threading.Lock()
        self._probe = DatabaseProbe()

    def readable(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot, at: datetime) -> Readable | None:
        """What of the snapshot the token may read; None for all.

        Raises:
            OperationalError: the database is down, and nothing is cached for this token and tree.
        """
        row = store.state().policies[snapshot.policy_slug]
        actor = Actor(user=user, via="api", token=bounds)
        if _reads_all(actor, row.visibility):
            return None if actor.top_uid is None else Readable(snapshot.subtree_mask(actor.top_uid), None)
        key = _key(bounds, snapshot)
        known = self._known.get(key)
        if known is not None and known.user is user:
            return known.readable
        policy = Policy(pk=row.id, slug=row.slug, visibility=row.visibility)  # an unsaved object: no query
        try:
            found = self._with_timeout(lambda: readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor))
        except (OperationalError, InterfaceError):
            if not connection.in_atomic_block:
                connection.close()
            if known is None:
                raise
            return known.readable
        with self._lock:
            self._known[key] = _Cached(user, found)
        return found

    def is_known(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot) -> bool:
        """Whether `readable` needs no query."""
        row = store.state().policies[snapshot.policy_slug]
        if _reads_all(Actor(user=user, via="api", token=bounds), row.visibility):
            return True
        known = self._known.get(_key(bounds, snapshot))
        return known is not None and known.user is user

    def _with_timeout(self, query: Callable[[], Readable | None]) -> Readable | None:
        timeout_s = settings.FAIRSHARE_TOKEN_PATIENCE_S
        return query() if timeout_s <= 0 else self._probe.run(query, timeout_s=timeout_s)


def _key(bounds: TokenBounds, snapshot: ServedSnapshot) -> _Key:
    return bounds.prefix, snapshot.policy_slug, snapshot.tree.digest


def _reads_all(actor: Actor, visibility: str) -> bool:
    """Whether the actor may read all entries within the bounds of the token."""
    return actor.administers or visibility == Policy.Visibility.TREE


visibility = TokenVisibility()


# --- Look-ups ---------------------------------------------------------------------------------------------------------
log = logging.getLogger(__name__)
#: Key of the WSGI environment: the server sets what the thread may use.
ANSWER_FROM = "fairshare.answer_from"


class AnswerFrom(Enum):
    """Resources that a look-up may use in this thread. Without it, views may use all resources."""

    MEMORY = "tokens verified a moment ago and the snapshot in memory"
    SNAPSHOTS = "the database for tokens and kept snapshots"


class NeedsWorkerThread(HttpResponse):
    """Not an answer: the server repeats the request in a thread that may use more resources."""


_START = "/api/v1/policies/"
_ROUTE = re.compile(r"/api/v1/policies/([-a-zA-Z0-9_]+)/priorities(/lookup|/all|)")
_METHODS = {"": ("GET", "HEAD"), "/lookup": ("POST",), "/all": ("GET", "HEAD")}


#: Query parameters of look-ups; `format` of `/all` leads to a view.
PARAMETERS = {"": ("account", "namespace", "group", "columns"), "/lookup": ("columns",), "/all": ("since", "format")}


def is_lookup(path: str, method: str) -> bool:
    match = _ROUTE.fullmatch(path) if path.startswith(_START) else None
    return match is not None and method in _METHODS[match[2]]


class LookupMiddleware:
    """Answers look-ups with a token; passes on all other requests."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        if settings.FAIRSHARE_SNAPSHOT_POLL_S > 0:
            store.start()  # loads snapshots before the first request

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "HTTP_AUTHORIZATION" in request.META and request.path_info.startswith(_START):
            match = _ROUTE.fullmatch(request.path_info)
            if match and request.method in _METHODS[match[2]]:
                if "format" in request.GET:  # tables are made by a view
                    return self._pass_on(request)
                return self._measured(request, match[1], match[2])
        return self.get_response(request)

    def _measured(self, request: HttpRequest, policy_slug: str, suffix: str) -> HttpResponseBase:
        started_s = perf_counter()
        response = self._answer(request, policy_slug, suffix)
        if not isinstance(response, NeedsWorkerThread):
            views.count_lookup(response.status_code, perf_counter() - started_s)
        return response

    def _pass_on(self, request: HttpRequest) -> HttpResponseBase:
        return NeedsWorkerThread() if ANSWER_FROM in request.META else self.get_response(request)

    def _answer(self, request: HttpRequest, policy_slug: str, suffix: str) -> HttpResponseBase:
        try:
            text = bearer_text(request)
            if text is None:
                return self._pass_on(request)
            is_from_memory = request.META.get(ANSWER_FROM) is AnswerFrom.MEMORY
            if is_from_memory and not _is_in_memory(policy_slug, suffix, text):
                return NeedsWorkerThread()
            user, bounds = tokens.verify(text, at=clock.now(), refresh=not is_from_memory)
            if not may_look_up(user, bounds):  # self:read needs the database for the user's accounts
                return self._pass_on(request)
            if is_from_memory and not visibility.is_known(user, bounds, store.newest(policy_slug)):
                return NeedsWorkerThread()
            return look_up(request, policy_slug, suffix, user, bounds)
        except DomainError as error:
            return errors.domain_problem(request, error)
        except (OperationalError, InterfaceError):
            return errors.database_problem(request)
        except (RequestDataTooBig, SuspiciousOperation) as error:
            return errors.bad_request(request, error)
        except Exception:
            log.exception("%s %s failed", request.method, request.path_info)
            return errors.server_error(request)


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
