"""Planned waits under a draft, as a card of its review; a page of its own for each group, and without scripts."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.contrib.starts.draft_waits.records import DraftWaits
from apps.contrib.starts.draft_waits.selectors import get_draft_waits, has_queues
from apps.contrib.starts.pages.draft_wait_rows import queue_texts, why_none
from apps.core.plugins import Words
from apps.pages.changes.review.pages import open_page
from apps.pages.changes.review.reviewed_change import ReviewPage
from apps.web.changes.change_titles import title_of
from apps.web.links.addresses import review_url
from apps.web.shell.requests import is_htmx

TEMPLATE = "contrib/starts/_draft_waits.html"


def is_shown(page: ReviewPage) -> bool:
    """On reviews of drafts of a policy that has a queue, for those who see all numbers."""
    return page.review.is_open and page.sees_all_numbers and has_queues(page.review.policy)


@require_safe
def draft_waits(request: HttpRequest, change_set: int) -> HttpResponse:
    """`?entry=`: the group whose children are compared, a uid."""
    page = open_page(request, change_set)
    waits = get_draft_waits(page, _uid(request.GET.get("entry", "")))
    policy = page.review.policy
    title = title_of(page.review.change_set, actor=page.actor, at=page.now).text
    context: dict[str, Any] = {
        "part": waits_context(
            waits,
            _("Planned waits under this draft"),
            page.now,
            url=reverse("pages:change-planned-waits", kwargs={"change_set": change_set}),
        ),
        "change_set": page.review.change_set,
        "title": title,
        "crumbs": [
            {"label": policy.name, "url": reverse("pages:policy", kwargs={"policy": policy.slug})},
            {"label": title, "url": review_url(page.review.change_set.pk)},
            {"label": _("Planned waits")},
        ],
    }
    return render(request, TEMPLATE if is_htmx(request) else "contrib/starts/draft_waits.html", context)


def waits_context(waits: DraftWaits, title: Words, at: datetime, *, url: str = "") -> dict[str, Any]:
    """What TEMPLATE shows. url: of the page of a group, without its query; empty where there is none."""
    texts = {"queues": queue_texts(waits, at), "why_none": why_none(waits)}
    return {"waits": waits, "title": title, "url": url, **texts}


def _uid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
