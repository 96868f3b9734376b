"""Routes that REST v1 no longer has: a script gets 410 and a problem document that names the alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.csrf import csrf_exempt

from apps.api.errors import problem


class RemovedRoute(NamedTuple):
    """`instead` is a whole sentence that names the route to use."""

    route: str
    instead: str


_BOOKMARKS = "The address of a list carries its filter and its order: keep it as a bookmark."

REMOVED_ROUTES: tuple[RemovedRoute, ...] = (
    RemovedRoute("me/views", _BOOKMARKS),
    RemovedRoute("me/views/<int:view>", _BOOKMARKS),
)


def _view(removed: RemovedRoute) -> Callable[..., HttpResponse]:
    @csrf_exempt
    @login_not_required
    def gone(request: HttpRequest, **parts: str) -> HttpResponse:
        return problem(request, 410, "removed", f"This route was removed. {removed.instead}")

    return gone


urlpatterns: list[URLPattern] = [path(removed.route, _view(removed)) for removed in REMOVED_ROUTES]
