"""Routes of plug-ins that are answered before sessions, in the threads of look-ups: they must not wait for pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from django.http import HttpRequest, HttpResponseBase

from apps.core.plugins import plugins

_GetResponse = Callable[[HttpRequest], HttpResponseBase]


class EarlyAnswer(NamedTuple):
    """middleware: answers the route, and passes on all other requests; it may answer `NeedsWorkerThread`, as look-ups
    do. is_for: whether a request with a token belongs to the threads of look-ups, by its path and method.
    """

    middleware: Callable[[_GetResponse], _GetResponse]
    is_for: Callable[[str, str], bool]


@cache
def _early_answers() -> Sequence[EarlyAnswer]:
    return tuple(answer for plugin in plugins() for answer in plugin.early_answers())


def answer_early(get_response: _GetResponse) -> _GetResponse:
    """Middleware: that of each plug-in, so that none of them costs a call more than it would in the settings."""
    for answer in _early_answers():
        get_response = answer.middleware(get_response)
    return get_response


def is_early(path: str, method: str) -> bool:
    return any(answer.is_for(path, method) for answer in _early_answers())
