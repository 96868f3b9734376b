"""The page of now: who waits how long, by the groups of a level."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.contrib.starts.now.records import LevelNow
from apps.contrib.starts.now.selectors import get_level_now
from apps.contrib.starts.pages.now_rows import (
    free_rows,
    free_sentence,
    furthest_shares,
    headline,
    hurt_sentence,
    lending_sentences,
    longest_waits,
    share_rows,
    unlimited_sentence,
    wait_rows,
)
from apps.core import clock
from apps.policies.selectors import get_policy
from apps.web.shell.requests import actor_of


@require_safe
def level_now(request: HttpRequest, policy: str) -> HttpResponse:
    """Waits by group at `?entry=`, a uid; by default the reader's own group, or the top. `?all` lists every group."""
    actor, at = actor_of(request), clock.now()
    policy_row = get_policy(slug=policy, actor=actor)
    level = get_level_now(policy_slug=policy, uid=_uid(request.GET.get("entry", "")), at=at, actor=actor)
    is_whole, waits = "all" in request.GET, wait_rows(level)
    first_waits = waits if is_whole else longest_waits(waits)
    titles = {"cores": _("Running on unused shares: cores"), "gpus": _("Running on unused shares: GPUs")}
    context: dict[str, Any] = {
        "policy": policy_row,
        "level": level,
        "headline": headline(level),
        "waits": first_waits,
        "n_more_waits": len(waits) - len(first_waits),
        "resources": [_resource(level, of, title, is_whole) for of, title in titles.items() if share_rows(level, of)],
        "all_query": urlencode({**({"entry": level.uid} if level.path != "/" else {}), "all": ""}),
        "free": free_rows(level),
        "free_sentence": free_sentence(level),
        "unlimited": unlimited_sentence(level),
        "unread": [each for each in level.schedulers if not each.is_counted],
        "crumbs": _crumbs(policy_row.name, policy, level),
    }
    return render(request, "contrib/starts/now.html", context)


def _resource(level: LevelNow, of: str, title: str, is_whole: bool) -> dict[str, Any]:
    rows = share_rows(level, of)
    first = rows if is_whole else furthest_shares(rows)
    return {
        "of": of,
        "title": title,
        "rows": first,
        "n_more": len(rows) - len(first),
        "hurt": hurt_sentence(level, of),
        "lending": lending_sentences(level, of),
    }


def _uid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _crumbs(name: str, slug: str, level: LevelNow) -> list[dict[str, str]]:
    first = {"label": name, "url": reverse("pages:policy", kwargs={"policy": slug})}
    page = {"label": _("Now")}
    if level.path == "/":
        return [first, page]
    return [first, {**page, "url": reverse("pages:now", kwargs={"policy": slug})}, {"label": level.path}]
