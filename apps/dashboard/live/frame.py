"""What the frame of a page says about its state, so that the page can follow it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from apps.core import clock
from apps.dashboard.live.state import get_page_state
from apps.dashboard.shell.requests import actor_of
from apps.priorities.serving import store


@dataclass(frozen=True, slots=True)
class LivePage:
    """Where an open page asks for news, and what it has; tag "" asks for all. age_s: of the snapshot, None without."""

    url: str
    tag: str
    parts: str  # JSON: the tag of each part
    revision: int
    age_s: float | None


def live_page(request: HttpRequest, policy_slug: str) -> LivePage:
    state = get_page_state(policy_slug=policy_slug, actor=actor_of(request))
    is_older = _changed_since_start(request, policy_slug)
    tag, parts = ("", {}) if is_older else (state.tag, dict(state.parts))
    url = reverse("dashboard:live", kwargs={"policy": policy_slug})
    return LivePage(url, tag, json.dumps(parts), state.revision, age_of(state.computed_at))


def age_of(computed_at: datetime | None) -> float | None:
    """Seconds."""
    return None if computed_at is None else max(round((clock.now() - computed_at).total_seconds(), 1), 0.0)


def _changed_since_start(request: HttpRequest, slug: str) -> bool:
    """Whether the page may show numbers of before: a snapshot came while it was made."""
    began = getattr(request, "served_at_start", None)
    if began is None or settings.FAIRSHARE_SNAPSHOT_POLL_S <= 0:
        return False
    now = store.last_state()
    has_same_snapshot = began.snapshots.get(slug) is now.snapshots.get(slug)
    return not (has_same_snapshot and began.policies.get(slug) == now.policies.get(slug))
