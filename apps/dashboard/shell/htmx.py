"""Fragments have URLs of their own; opened directly they lead to the page they belong to."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django_htmx.middleware import HtmxDetails

View = Callable[..., HttpResponse]


class SeeOther(HttpResponseRedirect):
    """303: go there with GET, whatever brought you here."""

    status_code = 303


def is_htmx(request: HttpRequest) -> bool:
    return bool(cast("HtmxDetails | None", getattr(request, "htmx", None)))


def fragment(page: Callable[..., str]) -> Callable[[View], View]:
    """Mark a view that answers with a part of a page; `page(**kwargs)` names the whole one."""

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            if request.method in {"GET", "HEAD"} and not is_htmx(request):
                return SeeOther(page(**kwargs))
            return view(request, **kwargs)

        return answer

    return decorate
