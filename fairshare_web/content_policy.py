"""The Content-Security-Policy of each response: one text, made once, unless a view says another one."""

from __future__ import annotations

from collections.abc import Callable

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.http import HttpRequest, HttpResponseBase

_OWN = {"_csp_config", "_csp_update", "_csp_replace", "_csp_exempt"}  # as django-csp's decorators leave them


class ContentPolicyMiddleware(CSPMiddleware):
    """Without nonces, which nothing here uses. django-csp makes the text anew for each response, which is a quarter of
    the time of a look-up.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        super().__init__(get_response)
        self._next = get_response
        self._policy = build_policy()

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._next(request)
        if not _OWN.isdisjoint(vars(response)):
            return self.process_response(request, response)
        response.setdefault(HEADER, self._policy)
        return response
