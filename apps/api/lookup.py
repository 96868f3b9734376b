"""Look-ups with a token: answered from memory, before sessions, and without the database while it is away."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from time import perf_counter

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponseBase

from apps import clock
from apps.accounts.actor import TokenBounds
from apps.accounts.models import User
from apps.accounts.token_cache import tokens
from apps.api import errors, metrics
from apps.api.authentication import PRIORITIES_READ, bearer_text, require_policy
from apps.api.token_sight import sights
from apps.api.v1 import answers
from apps.errors import DomainError
from apps.priorities import served

log = logging.getLogger(__name__)
_START = "/api/v1/policies/"
_ROUTE = re.compile(r"/api/v1/policies/([-a-zA-Z0-9_]+)/priorities(/lookup|/all|)")
_METHODS = {"": ("GET", "HEAD"), "/lookup": ("POST",), "/all": ("GET", "HEAD")}


class LookupMiddleware:
    """Takes what it can answer by itself; everything else goes on to sessions and views."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        if settings.FAIRSHARE_SNAPSHOT_POLL_S > 0:
            served.start()  # so that the first request finds the snapshots there

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "HTTP_AUTHORIZATION" in request.META and request.path_info.startswith(_START):
            match = _ROUTE.fullmatch(request.path_info)
            if match and request.method in _METHODS[match[2]] and "format" not in request.GET:  # tables are a view's
                started_s = perf_counter()
                response = self._answer(request, match[1], match[2])
                metrics.count_lookup(response.status_code, perf_counter() - started_s)
                return response
        return self.get_response(request)

    def _answer(self, request: HttpRequest, policy_slug: str, what: str) -> HttpResponseBase:
        try:
            text = bearer_text(request)
            if text is None:
                return self.get_response(request)
            user, bounds = tokens.verify(text, at=clock.now())
            if not looks_up(user, bounds):  # self:read: whose accounts these are is asked of the database
                return self.get_response(request)
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


def looks_up(user: User, bounds: TokenBounds) -> bool:
    return PRIORITIES_READ in bounds.scopes or ("admin" in bounds.scopes and user.is_superuser)


def look_up(request: HttpRequest, policy_slug: str, what: str, user: User, bounds: TokenBounds) -> HttpResponseBase:
    require_policy(bounds, policy_slug)
    snapshot = served.newest(policy_slug)
    at = clock.now()
    mask = sights.mask(user, bounds, snapshot, at)
    if what == "/all":
        return answers.answer_all(request, snapshot, answers.snapshot_since(request, policy_slug), mask, at)
    queries = answers.queries_of_body(request) if what == "/lookup" else answers.queries_of_address(request)
    return answers.answer_accounts(request, snapshot, queries, mask, at)
