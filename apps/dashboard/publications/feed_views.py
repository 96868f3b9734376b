"""Making, changing and dropping feeds of this site's usage."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from apps.core import clock
from apps.dashboard.publications import presenters as published_lines
from apps.dashboard.publications.edit_views import Kind, administrator, change_one, make_one, named
from apps.dashboard.publications.forms import FeedForm, whole
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import SeeOther
from apps.federation.usage_feeds.feeds import drop_feed, list_feeds, make_feed


def _feeds() -> Kind:
    return Kind(FeedForm, make_feed, _("New usage feed"), is_feed=True)


@require_http_methods(["GET", "HEAD", "POST"])
def feed_new(request: HttpRequest) -> HttpResponse:
    return make_one(request, _feeds())


@require_http_methods(["GET", "HEAD", "POST"])
def feed(request: HttpRequest, name: str) -> HttpResponse:
    """Its readers, and a form to change it."""
    row = named(list_feeds(actor=administrator(request)), name, _("There is no such usage feed."))
    line = published_lines.feed_line(row, clock.now())
    initial = {
        "name": row.name,
        "capacity": whole(row.capacity_cores),
        "keeps": row.keeps_days,
        "expires": whole(row.expires_after_s / 3_600),
        "sends_running": row.sends_running,
        "is_open": row.is_open,
    }
    return change_one(request, _feeds(), line, initial)


@require_POST
def feed_drop(request: HttpRequest, name: str) -> HttpResponse:
    drop_feed(name=name, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Feed stopped. Subscribers keep their copy, with its age."))
    return SeeOther(reverse("dashboard:federation-published"))
