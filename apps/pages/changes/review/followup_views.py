"""The strip on a published change set's page that follows the recompute, and its action: undo."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import DomainError, NotFound
from apps.pages.changes.review import followup as presenters
from apps.pages.changes.review.moved_ranks import followup_of
from apps.pages.changes.review.pages import open_page, tab_url
from apps.policies import services
from apps.policies.publishing import revert
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of, fragment


def page_url(change_set: int, **_kwargs: Any) -> str:
    return tab_url(change_set)


@require_safe
@fragment(page_url)
def followup(request: HttpRequest, change_set: int) -> HttpResponse:
    """Fragment that is polled every two seconds until the recompute is done; 304 while it is unchanged."""
    page = open_page(request, change_set)
    tag = f'"{presenters.tag_of(followup_of(page))}"'
    if request.headers.get("If-None-Match") == tag:
        response = HttpResponse(status=304)
        del response["Content-Type"]
    else:
        context = {"change_set": page.review.change_set, **presenters.context_of(page)}
        if "followup" not in context:
            raise NotFound(f"Nothing follows change set {change_set} any more.")
        response = render(request, "pages/changes/review/_followup.html", context)
    response["ETag"] = tag
    return response


@require_POST
def undo(request: HttpRequest, change_set: int) -> HttpResponse:
    """Publish the inverse of the revision; if it conflicts with later changes, it remains a draft."""
    page = open_page(request, change_set)
    refusal = page.review.why_not_publish(page.actor)
    if refusal is not None:
        raise refusal
    number = followup_of(page).revision.number
    actor, now = actor_of(request), clock.now()
    draft = revert.revert_revision(
        policy_slug=page.review.policy.slug, number=number, reason=read_action(request).reason, at=now, actor=actor
    )
    try:
        revision = services.publish_change_set(
            id=draft.pk, version=draft.version, reason=draft.reason, at=now, actor=actor, at_once=True
        )
    except DomainError as error:
        messages.warning(
            request, _("Not undone yet: %(why)s The change that undoes it is a draft.") % {"why": error.message}
        )
    else:
        add_published_message(request, revision, has_link=False, has_undo=False)
    return SeeOther(reverse("pages:change", kwargs={"change_set": draft.pk}))
