"""The strip on a published change set's page that follows the recompute, and its actions: notify, watch, undo."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.analytics.publish_followup import followup_of
from apps.core import clock
from apps.core.errors import DomainError, FieldProblem, Invalid, NotFound
from apps.dashboard.review import followup as presenters
from apps.dashboard.review.pages import open_page, page_context, tab_url
from apps.dashboard.shell import presentation
from apps.dashboard.shell.forms import read_action
from apps.dashboard.shell.publishing import add_published_message
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment
from apps.notices.rank_notices import preview_rank_notices, send_rank_notices, sent_notices
from apps.notices.watches import watch_entry
from apps.policies import services
from apps.policies.publishing import revert


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
        response = render(request, "dashboard/review/_followup.html", context)
    response["ETag"] = tag
    return response


@require_http_methods(["GET", "HEAD", "POST"])
def notify(request: HttpRequest, change_set: int) -> HttpResponse:
    """Preview a notice to each person whose rank moved; POST sends them.

    `who`: everyone, or only those who moved down. `group`: only members below this entry.
    """
    page = open_page(request, change_set)
    found, query = followup_of(page), request.POST if request.method == "POST" else request.GET
    chosen: dict[str, Any] = {"only_down": query.get("who") == "down", "group": _uid(query.get("group", ""))}
    if request.method == "POST":
        n = send_rank_notices(found, **chosen, at=page.now, actor=page.actor)
        text = ngettext("%(n)s person is notified.", "%(n)s people are notified.", n)
        messages.success(request, text % {"n": presentation.count(n)})
        return SeeOther(tab_url(change_set))
    prepared = preview_rank_notices(found, **chosen)
    context = {
        "change_set": page.review.change_set,
        "prepared": prepared[: presenters.MOST_PEOPLE],
        "n_prepared": len(prepared),
        "n_moved": len(found.moves),
        "sent": sent_notices(found),
        "who": "down" if chosen["only_down"] else "all",
        "group": str(chosen["group"] or ""),
        "groups": sorted({(move.group_name, str(move.group)) for move in found.moves}),
        "crumbs": [*page_context(page, "diff")["crumbs"][:2], {"label": _("Notify"), "url": ""}],
    }
    return render(request, "dashboard/review/notify.html", context)


def _uid(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        message = _("There is no such group.")
        raise Invalid(message, fields=[FieldProblem("group", message)]) from None


@require_POST
def watch(request: HttpRequest, change_set: int) -> HttpResponse:
    """Watch one of the edited entries for some days."""
    page = open_page(request, change_set)
    try:
        wanted = UUID(request.POST.get("entry", ""))
        days = int(request.POST.get("days", ""))
    except ValueError:
        message = _("Enter a number of days, such as 14.")
        raise Invalid(message, fields=[FieldProblem("days", message)]) from None
    made = watch_entry(policy_slug=page.review.policy.slug, uid=wanted, days=days, at=page.now, actor=page.actor)
    until = presentation.day(made.ends_at, page.now)
    messages.success(request, _("Watched until %(day)s. It is listed among the notice rules.") % {"day": until})
    return SeeOther(tab_url(change_set))


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
        add_published_message(request, revision, has_link=False)
    return SeeOther(reverse("dashboard:change", kwargs={"change_set": draft.pk}))
