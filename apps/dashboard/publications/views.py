"""What this site tells others: its name and key, the subtrees that it publishes, and the usage that it tells."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.core.errors import Invalid
from apps.dashboard.publications import presenters as published_lines
from apps.dashboard.shell.actor import actor_of
from apps.federation.documents.keys import list_keys
from apps.federation.publications.services import list_publications, own_name
from apps.federation.usage_feeds.feeds import list_feeds


@require_safe
def published(request: HttpRequest) -> HttpResponse:
    """For administrators, who decide what leaves the site."""
    actor, now = actor_of(request), clock.now()
    publications = [published_lines.publication_line(row, now) for row in list_publications(actor=actor)]
    feeds = [published_lines.feed_line(row, now) for row in list_feeds(actor=actor)]
    return render(
        request,
        "dashboard/grid/published.html",
        {
            "headline": published_lines.headline(publications, feeds),
            "publications": publications,
            "feeds": feeds,
            **identity(),
            "crumbs": crumbs(),
        },
    )


def identity() -> dict[str, Any]:
    """The name and the key that others know this site by."""
    keys = published_lines.key_lines(list_keys())
    try:
        name, problem = own_name(), ""
    except Invalid as error:
        name, problem = "", error.message
    return {"own_name": name, "name_problem": problem, "keys": keys, "key": keys[0] if keys else None}


def crumbs(*labels: str) -> list[dict[str, str]]:
    """Of this page, and of those below it."""
    top = {"label": _("Federation"), "url": reverse("dashboard:federation")}
    if not labels:
        return [top, {"label": _("Our publications")}]
    here = {"label": _("Our publications"), "url": reverse("dashboard:federation-published")}
    return [top, here, *({"label": label} for label in labels)]
