"""Which pages are lists, what of their address a view keeps, and how a default view opens."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve

from apps.accounts.saved_views import default_query
from apps.dashboard.shell.requests import SeeOther, actor_of, is_htmx

WHOLE = "view=all"  # the list as it is without a default view
LISTS: set[str] = set()  # names of pages whose views can be saved, filled by `keeps_views`
_NOT_KEPT = {"after", "cursor", "page", "entry", "toggle", "view", "csrfmiddlewaretoken"}  # places, not views

View = Callable[..., HttpResponse]


def keeps_views(name: str) -> Callable[[View], View]:
    """Mark the page of a list: its views can be saved, and it opens with the default one."""
    LISTS.add(name)

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            if request.method == "GET" and not request.META.get("QUERY_STRING") and not is_htmx(request):
                query = default_query(page=request.path, actor=actor_of(request))
                if query:
                    return SeeOther(f"{request.path}?{query}")
            return view(request, **kwargs)

        return answer

    return decorate


def list_path(text: str) -> str:
    """The path if it is that of a list; empty otherwise, so that nobody is led elsewhere."""
    if not text.startswith("/") or len(text) > 200:
        return ""
    try:
        found = resolve(text)
    except Resolver404:
        return ""
    return text if found.app_name == "dashboard" and found.url_name in LISTS else ""


def kept_query(text: str) -> str:
    """What of an address makes the view."""
    pairs = parse_qsl(text.removeprefix("?"), max_num_fields=500)
    return urlencode([pair for pair in pairs if pair[0] not in _NOT_KEPT])
