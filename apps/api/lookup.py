"""Look-ups with a token: answered from memory, before sessions, and without the database while it is away.

Every format of every route asks one function what a token reads (`priorities.sight.readable_now`). Look-ups don't query
the database, so its result is cached while the verification of the token is valid: a withdrawn right is gone within the
seconds in which a revoked token is. While the database is away the last result stays valid, as the token does.
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
from apps.api.monitoring import views
from apps.core import clock
from apps.core.errors import DomainError
from apps.policies.models import Policy
from apps.policies.tree.columns import Mask
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visibility import readable_now

# --- Reach of a token -------------------------------------------------------------------------------------------------
_MOST = 1_000
_Key = tuple[str, str, str]  # the token's prefix, the policy, the digest of its tree


class _Known(NamedTuple):
    user: User  # the very object of one verification
    mask: Mask | None


class TokenVisibility:
    """What tokens may read of the policies that are served; None: all of it."""

    def __init__(self) -> None:
        self._known: FIFOCache[_Key, _Known] = FIFOCache(_MOST)  # reading one needs no lock
        self._lock = threading.Lock()
        self._probe = DatabaseProbe()

    def mask(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot, at: datetime) -> Mask | None:
        """
        Raises:
            OperationalError: the database is away, and this token hasn't been asked with for this tree.
        """
        row = store.state().policies[snapshot.policy_slug]
        if _reads_all(user, row.visibility):
            return None if bounds.subtree_uid is None else snapshot.subtree_mask(bounds.subtree_uid)
        key = _key(bounds, snapshot)
        known = self._known.get(key)
        if known is not None and known.user is user:
            return known.mask
        actor = Actor(user=user, via="api", token=bounds)
        policy = Policy(pk=row.id, slug=row.slug, visibility=row.visibility)  # as it is served, without the database
        try:
            mask = self._ask(lambda: readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor))
        except (OperationalError, InterfaceError):
            if not connection.in_atomic_block:
                connection.close()
            if known is None:
                raise
            return known.mask
        with self._lock:
            self._known[key] = _Known(user, mask)
        return mask

    def is_known(self, user: User, bounds: TokenBounds, snapshot: ServedSnapshot) -> bool:
        """Whether `mask` answers without the database."""
        if _reads_all(user, store.state().policies[snapshot.policy_slug].visibility):
            return True
        known = self._known.get(_key(bounds, snapshot))
        return known is not None and known.user is user

    def _ask(self, question: Callable[[], Mask | None]) -> Mask | None:
        timeout_s = settings.FAIRSHARE_TOKEN_PATIENCE_S
        return question() if timeout_s <= 0 else self._probe.run(question, timeout_s=timeout_s)


def _key(bounds: TokenBounds, snapshot: ServedSnapshot) -> _Key:
    return bounds.prefix, snapshot.policy_slug, snapshot.tree.digest


def _reads_all(user: User, visibility: str) -> bool:
    """Within the subtree of the token, if it has one."""
    return user.is_superuser or visibility == Policy.Visibility.TREE


visibility = TokenVisibility()


# --- Look-ups ---------------------------------------------------------------------------------------------------------
log = logging.getLogger(__name__)
#: Key of the WSGI environment. A server sets it to say what its thread may wait for.
ANSWER_FROM = "fairshare.answer_from"


class AnswerFrom(Enum):
    """The resources a look-up may use here; one that needs more is handed over to sessions and views, also by
    default.
    """

    MEMORY = "tokens verified a moment ago and the snapshot in memory"
    SNAPSHOTS = "the database for tokens and kept snapshots"


class HandedOver(HttpResponse):
    """No answer: the server asks again where more may be used."""


_START = "/api/v1/policies/"
_ROUTE = re.compile(r"/api/v1/policies/([-a-zA-Z0-9_]+)/priorities(/lookup|/all|)")
_METHODS = {"": ("GET", "HEAD"), "/lookup": ("POST",), "/all": ("GET", "HEAD")}


def is_lookup(path: str, method: str) -> bool:
    match = _ROUTE.fullmatch(path) if path.startswith(_START) else None
    return match is not None and method in _METHODS[match[2]]


class LookupMiddleware:
    """Answers what it can by itself; everything else goes on to sessions and views."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        if settings.FAIRSHARE_SNAPSHOT_POLL_S > 0:
            store.start()  # so that the first request finds the snapshots there

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "HTTP_AUTHORIZATION" in request.META and request.path_info.startswith(_START):
            match = _ROUTE.fullmatch(request.path_info)
            if match and request.method in _METHODS[match[2]]:
                if "format" in request.GET:  # tables are a view's
                    return self._elsewhere(request)
                return self._counted(request, match[1], match[2])
        return self.get_response(request)

    def _counted(self, request: HttpRequest, policy_slug: str, what: str) -> HttpResponseBase:
        started_s = perf_counter()
        response = self._answer(request, policy_slug, what)
        if not isinstance(response, HandedOver):
            views.count_lookup(response.status_code, perf_counter() - started_s)
        return response

    def _elsewhere(self, request: HttpRequest) -> HttpResponseBase:
        return HandedOver() if ANSWER_FROM in request.META else self.get_response(request)

    def _answer(self, request: HttpRequest, policy_slug: str, what: str) -> HttpResponseBase:
        try:
            text = bearer_text(request)
            if text is None:
                return self._elsewhere(request)
            is_from_memory = request.META.get(ANSWER_FROM) is AnswerFrom.MEMORY
            if is_from_memory and not _is_in_memory(policy_slug, what, text):
                return HandedOver()
            user, bounds = tokens.verify(text, at=clock.now(), refresh=not is_from_memory)
            if not looks_up(user, bounds):  # self:read: whose accounts these are is asked of the database
                return self._elsewhere(request)
            if is_from_memory and not visibility.is_known(user, bounds, store.newest(policy_slug)):
                return HandedOver()
            return look_up(request, policy_slug, what, user, bounds)
        except DomainError as error:
            return errors.domain_problem(request, error)
        except (OperationalError, InterfaceError):
            return errors.database_problem(request)
        except (RequestDataTooBig, SuspiciousOperation) as error:
            return errors.bad_request(request, error)
        except Exception:
            log.exception("%s %s failed", request.method, request.path_info)
            return errors.server_error(request)


def _is_in_memory(policy_slug: str, what: str, token_text: str) -> bool:
    """Whether token and snapshot are at hand and the answer is short."""
    return what != "/all" and store.is_in_memory(policy_slug) and tokens.is_fresh(token_text)


def looks_up(user: User, bounds: TokenBounds) -> bool:
    return PRIORITIES_READ in bounds.scopes or ("admin" in bounds.scopes and user.is_superuser)


def look_up(request: HttpRequest, policy_slug: str, what: str, user: User, bounds: TokenBounds) -> HttpResponseBase:
    require_policy(bounds, policy_slug)
    snapshot = store.newest(policy_slug)
    at = clock.now()
    mask = visibility.mask(user, bounds, snapshot, at)
    if what == "/all":
        return answers.answer_all(request, snapshot, answers.snapshot_since(request, policy_slug), mask, at)
    queries = answers.queries_of_body(request) if what == "/lookup" else answers.queries_of_address(request)
    return answers.answer_accounts(request, snapshot, queries, mask, at)
