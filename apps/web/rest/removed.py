"""Routes that REST v1 no longer has: a script gets 410 and a problem document that names the alternative.

Those of plug-ins are in their `removed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.csrf import csrf_exempt

from apps.core.code_paths import command_name
from apps.web.rest.errors import problem


class RemovedRoute(NamedTuple):
    """`instead` is a whole sentence that names the route to use."""

    route: str
    instead: str


_POLICY = "policies/<slug:policy>"
_BOOKMARKS = "The address of a list carries its filter and its order: keep it as a bookmark."
_CHANGE_SET = f"{_POLICY}/changesets/<int:change_set>"
_FOLLOWUP = (
    "Use GET /api/v1/policies/{policy}/changesets/{change_set}/followup for the ranks that the publication changed."
)

REMOVED_ROUTES: tuple[RemovedRoute, ...] = (
    RemovedRoute("me/views", _BOOKMARKS),
    RemovedRoute("me/views/<int:view>", _BOOKMARKS),
    RemovedRoute(f"{_CHANGE_SET}/rank-notices", _FOLLOWUP),
    RemovedRoute(f"{_CHANGE_SET}/watch", _FOLLOWUP),
    RemovedRoute(
        f"{_POLICY}/window/figures/decay",
        "Use GET /api/v1/decay-functions for the formula of each decay function, and GET /api/v1/policies/{policy} "
        "for the policy's own.",
    ),
    RemovedRoute(
        f"{_POLICY}/algorithm/figures/operator",
        f"Use GET /api/v1/operators for the formula of each operator, or `{command_name('analyse POLICY profiles')}`.",
    ),
    RemovedRoute(
        f"{_POLICY}/icicle/figures/tree",
        "Use GET /api/v1/policies/{policy}/tree for the numbers of all entries.",
    ),
    RemovedRoute(
        "me/figures/<slug:figure>",
        "Use GET /api/v1/me for ranks (`at` selects a past instant). The page My priority offers each figure as CSV.",
    ),
    RemovedRoute(
        f"{_POLICY}/convergence/figures/<slug:figure>",
        "Use GET /api/v1/policies/{policy}/convergence for actual shares, targets and states by day, week or hour.",
    ),
    RemovedRoute(
        "federation/grid/figures/flow",
        "Use GET /api/v1/federation/grid for core-seconds by site and entry.",
    ),
    RemovedRoute(
        "usage/figures/coverage",
        "Use GET /api/v1/usage/quality for days without usage, and GET /api/v1/usage/buckets for usage by day.",
    ),
)


def _view(removed: RemovedRoute) -> Callable[..., HttpResponse]:
    @csrf_exempt
    @login_not_required
    def gone(request: HttpRequest, **parts: str) -> HttpResponse:
        return problem(request, 410, "removed", f"This route was removed. {removed.instead}")

    gone.removed = removed  # type: ignore[attr-defined]
    return gone


def removed_of(pattern: URLPattern) -> RemovedRoute | None:
    """What a route was, if it was removed."""
    return getattr(pattern.callback, "removed", None)


def is_removed(pattern: URLPattern) -> bool:
    return removed_of(pattern) is not None


def removed_rest(routes: Iterable[RemovedRoute]) -> list[URLPattern]:
    return [path(removed.route, _view(removed)) for removed in routes]
