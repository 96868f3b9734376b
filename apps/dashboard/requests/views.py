"""What waits for me, each with its effect; and the answers to requests from below."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.error_status import status_of
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound, Stale
from apps.dashboard.requests import pages
from apps.dashboard.requests.forms import AnswerForm
from apps.dashboard.requests.words import group_url, ranks_words
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import SeeOther, fragment
from apps.policies.changesets.lifecycle import comment_on
from apps.policies.models import ChangeSet
from apps.policies.requests.inbox import get_inbox
from apps.policies.requests.share_requests import decline_request, grant_request
from apps.policies.selectors import get_change_set
from apps.policies.services import withdraw_change_set
from apps.priorities.change_effects.requests import get_request_evidence


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:inbox")


@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    return pages.show(request)


@require_safe
@fragment(page_url)
def news(request: HttpRequest) -> HttpResponse:
    """Whether something came since the page was made: said, not moved under somebody's pointer."""
    found = get_inbox(at=clock.now(), actor=actor_of(request))
    seen = request.GET.get("seen", "")
    context = {"mark": seen, "is_new": pages.mark_of(found) != seen, "n": found.n_waiting}
    return render(request, "dashboard/requests/_news.html", context)


@require_safe
@fragment(page_url)
def ranks(request: HttpRequest, change_set: int) -> HttpResponse:
    """Who would go sooner and who later: worked out after the page is there."""
    found = _request(request, change_set)
    story = get_request_evidence(found, actor=actor_of(request))
    key, words = ("problem", story.problem) if story.problem else ranks_words(story)
    context = {"request_id": found.pk, "key": key, "words": words, "story": story}
    return render(request, "dashboard/requests/_ranks.html", context)


@require_POST
def answer(request: HttpRequest, change_set: int) -> HttpResponse:
    """Grant, grant another amount, ask back or answer, decline, withdraw."""
    found = _request(request, change_set)
    mine = found.author_id == request.user.pk
    back = group_url(found.policy.slug, found.asks_entry_uid) + "#ask" if mine else reverse("dashboard:inbox")
    form = AnswerForm(request.POST)
    try:
        if not form.is_valid():
            where = next(iter(form.errors))
            raise _wrong(where, str(form.errors[where][0]))
        said = _take(request, found, form)
    except (Invalid, Conflict, Stale) as error:
        if mine:
            messages.warning(request, error.message)
            return SeeOther(back)
        status = status_of(error)
        return pages.show(request, status=status, answer=form, at_request=found.pk, refusal=error)
    messages.success(request, said)
    return SeeOther(back)


def _take(request: HttpRequest, found: ChangeSet, form: AnswerForm) -> str:
    given, step, at, actor = form.cleaned_data, request.POST.get("step", ""), clock.now(), actor_of(request)
    text, version = given["text"], given["version"]
    if step == "grant":
        revision = grant_request(id=found.pk, version=version, at=at, actor=actor)
        return _("Granted: published as revision %(n)s.") % {"n": revision.number}
    if step == "grant-other":
        if given["shares"] is None:
            raise _wrong("shares", _("Enter the shares."))
        revision = grant_request(
            id=found.pk, version=version, shares=given["shares"], until=given["until"], text=text, at=at, actor=actor
        )
        return _("Another amount is granted: published as revision %(n)s.") % {"n": revision.number}
    if step == "decline":
        if not text.strip():
            raise _wrong("text", _("Enter a reason: the requester reads it."))
        decline_request(id=found.pk, version=version, text=text, at=at, actor=actor)
        return _("Declined, with your message.")
    if step == "say":
        if not text.strip():
            raise _wrong("text", _("Enter your message."))
        comment_on(id=found.pk, text=text, at=at, actor=actor)
        return _("Sent. The request stays open.")
    if step == "withdraw":
        withdraw_change_set(id=found.pk, version=version, at=at, actor=actor)
        return _("Withdrawn. You can ask again.")
    raise _wrong("step", _("Unknown answer. Reload the page."))


def _wrong(where: str, message: str) -> Invalid:
    return Invalid(message, fields=[FieldProblem(where, message)])


def _request(request: HttpRequest, id: int) -> ChangeSet:
    found = get_change_set(id=id, actor=actor_of(request), at=clock.now())
    if found.origin != ChangeSet.Origin.REQUEST:
        raise NotFound(f"There is no change set {id}.")
    return found
