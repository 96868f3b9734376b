"""What is my priority, and why: for each account of mine, the best first."""

from __future__ import annotations

from typing import Any, TypeVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.error_status import status_of
from apps.core.errors import Conflict, Invalid
from apps.dashboard.convergence.live import live_badge
from apps.dashboard.members.forms import ClaimForm
from apps.dashboard.my_priority import figures as my_figures
from apps.dashboard.my_priority import pages as my_pages
from apps.dashboard.shell import time_travel
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.figure_frames import answer_figure
from apps.dashboard.shell.htmx import SeeOther, fragment
from apps.mapping import claims

Answer = TypeVar("Answer", bound=HttpResponseBase)


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:my-priority")


@require_safe
def my_priority(request: HttpRequest) -> HttpResponse:
    """`?account=` and `?policy=` choose one when there are several, `?at=` a moment to look back at."""
    if elsewhere := time_travel.day_asked(request):
        return SeeOther(elsewhere)
    return _show(request)


@require_safe
@fragment(page_url)
def why(request: HttpRequest) -> HttpResponse:
    """The card that sets somebody else beside me: `?who=` searches, `?other=` chooses."""
    at = time_travel.moment_asked(request)
    chosen, _found = my_pages.chosen_of(request, at)
    context = {"why": None} if chosen is None else my_pages.why_of(request, chosen, at)
    return _private(render(request, "dashboard/my_priority/_why.html", context))


@require_safe
def figure(request: HttpRequest, figure: str, form: str = "json") -> HttpResponseBase:
    """One figure of the page: `?policy=` and `?entry=` choose the account, the rest is the state of the page."""
    policy, entry = my_figures.account_asked(request)
    return _private(answer_figure(request, my_figures.figure_of(request, figure, policy, entry), form))


@require_POST
def claim(request: HttpRequest) -> HttpResponse:
    """An account is mine: settled where its source names people, else somebody confirms it."""
    form = ClaimForm(request.POST)
    if not form.is_valid():
        return _show(request, claim_form=form, status=422)
    try:
        settled = claims.claim_account(**form.cleaned_data, at=clock.now(), actor=actor_of(request))
    except (Conflict, Invalid) as error:
        form.add_error(None, error.message)
        return _show(request, claim_form=form, status=status_of(error))
    waiting = _("A manager of the account’s group is asked to confirm that it is yours.")
    messages.success(request, _("This account is yours.") if settled else waiting)
    return SeeOther(reverse("dashboard:my-priority") + "#accounts")


@require_POST
def take_back(request: HttpRequest) -> HttpResponse:
    text = request.POST.get("claim", "")
    claim_id = int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0
    claims.take_back_claim(claim_id=claim_id, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Claim withdrawn."))
    return SeeOther(reverse("dashboard:my-priority") + "#accounts")


def _show(request: HttpRequest, *, status: int = 200, claim_form: ClaimForm | None = None) -> HttpResponse:
    page = my_pages.page_of(request, time_travel.moment_asked(request))
    context = {
        **page,
        "live": live_badge(request, page["policy_slug"]) if page.get("figures") else None,
        "my_accounts": claims.list_my_accounts(actor=actor_of(request)),
        "claim_form": claim_form or ClaimForm(),
        "crumbs": [{"label": _("My priority")}],
    }
    return _private(render(request, "dashboard/my_priority/priority.html", context, status=status))


def _private(response: Answer) -> Answer:
    response["Cache-Control"] = "private, no-store"
    return response
