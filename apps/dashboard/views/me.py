"""What is my priority, and why: for each account of mine, the best first."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps import clock
from apps.dashboard.actor import actor_of
from apps.dashboard.forms.members import ClaimForm
from apps.dashboard.htmx import SeeOther
from apps.dashboard.walk import tell
from apps.errors import Conflict, Invalid
from apps.priorities import claims, selectors
from apps.priorities.selectors import MyPriority


@require_safe
def my_priority(request: HttpRequest) -> HttpResponse:
    """`?account=` and `?policy=` choose one when there are several."""
    return _show(request)


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
        return _show(request, claim_form=form, status=409 if isinstance(error, Conflict) else 422)
    waiting = _("Whoever leads the group in which this account counts is asked to confirm that it is yours.")
    messages.success(request, _("This account is yours.") if settled else waiting)
    return SeeOther(reverse("dashboard:my-priority") + "#accounts")


@require_POST
def take_back(request: HttpRequest) -> HttpResponse:
    text = request.POST.get("claim", "")
    claim_id = int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0
    claims.take_back_claim(claim_id=claim_id, at=clock.now(), actor=actor_of(request))
    messages.success(request, _("Taken back."))
    return SeeOther(reverse("dashboard:my-priority") + "#accounts")


def _show(request: HttpRequest, *, status: int = 200, claim_form: ClaimForm | None = None) -> HttpResponse:
    found = selectors.get_my_priority(actor=actor_of(request))
    ranked = [mine for mine in found if not mine.error]
    chosen = _chosen(request, ranked) or next(iter(ranked), None)
    context = {
        "story": tell(chosen) if chosen else None,
        "others": [mine for mine in ranked if mine is not chosen],
        "n_accounts": len(ranked),
        "unmapped": [mine for mine in found if mine.error == "unmapped"],
        "waiting": [mine for mine in found if mine.error == "no_snapshot"],
        "my_accounts": claims.list_my_accounts(actor=actor_of(request)),
        "claim_form": claim_form or ClaimForm(),
        "crumbs": [{"label": _("My priority")}],
    }
    response = render(request, "dashboard/me/priority.html", context, status=status)
    response["Cache-Control"] = "private, no-store"
    return response


def _chosen(request: HttpRequest, ranked: list[MyPriority]) -> MyPriority | None:
    account, policy = request.GET.get("account"), request.GET.get("policy")
    namespace, entry = request.GET.get("namespace"), request.GET.get("entry")
    return next(
        (
            mine
            for mine in ranked
            if account in (None, mine.account)
            and policy in (None, mine.policy_slug)
            and namespace in (None, mine.namespace)
            and entry in (None, str(mine.entry_uid))
        ),
        None,
    )
