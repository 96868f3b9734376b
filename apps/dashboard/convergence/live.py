"""Whether the numbers of a policy have changed since a page was drawn: one conditional request a page."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from apps.analytics.live import LiveState, get_live_state
from apps.core import clock
from apps.dashboard.shell.actor import actor_of


@dataclass(frozen=True, slots=True)
class LiveBadge:
    """What `dashboard/_live.html` shows; age_s: of the snapshot that is served, None before the first one."""

    url: str
    tag: str
    age_s: float | None


@require_safe
def live(request: HttpRequest, policy: str) -> HttpResponse:
    """304 without a body while nothing has changed. Writes nothing, not even the session."""
    state = get_live_state(policy_slug=policy, actor=actor_of(request))
    response = unchanged(request, state)
    if response is None:
        response = JsonResponse({"revision": state.revision, "age_s": _age_s(state)})
        response["ETag"] = f'"{state.tag}"'
    return response


def unchanged(request: HttpRequest, state: LiveState) -> HttpResponse | None:
    """The 304 of a page that has this state; None where it has another one."""
    tag = f'"{state.tag}"'
    if request.headers.get("If-None-Match") != tag:
        return None
    response = HttpResponse(status=304)
    del response["Content-Type"]
    response["ETag"] = tag
    return response


def live_badge(request: HttpRequest, policy: str) -> LiveBadge:
    state = get_live_state(policy_slug=policy, actor=actor_of(request))
    url = reverse("dashboard:live", kwargs={"policy": policy})
    return LiveBadge(url, state.tag, _age_s(state))


def _age_s(state: LiveState) -> float | None:
    if state.computed_at is None:
        return None
    return max(round((clock.now() - state.computed_at).total_seconds(), 1), 0.0)
