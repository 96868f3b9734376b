"""What an open page fetches when something has changed: its frame, and which parts to load again."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.dashboard.live.middleware import unchanged
from apps.dashboard.live.state import PageState, age_of, get_page_state
from apps.dashboard.shell import presentation
from apps.dashboard.shell.navigation import Shell
from apps.dashboard.shell.requests import actor_of
from apps.policies.selectors import get_policy, get_revision


@require_safe
def live(request: HttpRequest, policy: str) -> HttpResponse:
    """304 without a body while nothing has changed. Writes nothing, not even the session."""
    state = get_page_state(policy_slug=policy, actor=actor_of(request))
    return unchanged(request, state) or _news(request, policy, state)


def _news(request: HttpRequest, policy: str, state: PageState) -> HttpResponse:
    shell = Shell(request)
    response = JsonResponse(
        {
            "revision": state.revision,
            "age_s": age_of(state.computed_at),
            "parts": state.parts,
            "fresh": render_to_string("dashboard/_freshness.html", {"fresh": shell.freshness}, request),
            "counts": shell.counts,
            "published": _published(request, policy),
        }
    )
    response["ETag"] = f'"{state.tag}"'
    return response


def _published(request: HttpRequest, policy: str) -> dict[str, Any]:
    """The newest revision, for pages that still show the one before."""
    actor = actor_of(request)
    revision = get_revision(policy=get_policy(slug=policy, actor=actor))
    return {
        "by": revision.author_name,
        "reason": revision.reason,
        "at": presentation.clock_time(revision.published_at, clock.now()),
    }
