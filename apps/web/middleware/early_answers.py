"""Routes that are answered before sessions: look-ups, probes, polls of open pages, and those of plug-ins.

One middleware for all: any other request passes one place on its way to the views.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils.module_loading import import_string

from apps.core.plugins import plugins
from apps.priorities.serving import store


def _never(_match: re.Match[str], _method: str) -> bool:
    return False


class EarlyAnswer(NamedTuple):
    """route: of whole paths. answer: takes a request and its match, and answers, or passes the request on by None; it
    may answer `NeedsWorkerThread`, as look-ups do. passed_on: called once the views have answered. is_for_lookups:
    whether a request with a token belongs to the threads of look-ups, which must not wait for pages; by its method.
    """

    route: re.Pattern[str]
    answer: Callable[[HttpRequest, re.Match[str]], HttpResponseBase | None]
    passed_on: Callable[[HttpRequest], None] | None = None
    is_for_lookups: Callable[[re.Match[str], str], bool] = _never


@cache
def _early_answers() -> Sequence[EarlyAnswer]:
    own = (import_string(name)() for name in settings.EARLY_ANSWERS)
    return (*own, *(answer for plugin in plugins() for answer in plugin.early_answers()))


class EarlyAnswersMiddleware:
    """Answers these routes. Views find on a request which snapshots were served when it came."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._answers = [(early.route.fullmatch, early) for early in _early_answers()]

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        passed_on = None
        for matches, early in self._answers:
            match = matches(request.path_info)
            if match is not None:
                answer = early.answer(request, match)
                if answer is not None:
                    return answer
                passed_on = early.passed_on
                break
        request.served_at_start = store.cached_state()  # type: ignore[attr-defined]
        response = self.get_response(request)
        if passed_on is not None:
            passed_on(request)
        return response


def is_early(path: str, method: str) -> bool:
    """Whether a request with a token belongs to the threads of look-ups."""
    for early in _early_answers():
        match = early.route.fullmatch(path)
        if match is not None:
            return early.is_for_lookups(match, method)
    return False
