"""What is my priority, and why: for each account of mine, the best first."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.dashboard.actor import actor_of
from apps.dashboard.walk import tell
from apps.priorities import selectors
from apps.priorities.selectors import MyPriority


@require_safe
def my_priority(request: HttpRequest) -> HttpResponse:
    """`?account=` and `?policy=` choose one when there are several."""
    found = selectors.get_my_priority(actor=actor_of(request))
    ranked = [mine for mine in found if not mine.error]
    chosen = _chosen(request, ranked) or next(iter(ranked), None)
    context = {
        "story": tell(chosen) if chosen else None,
        "others": [mine for mine in ranked if mine is not chosen],
        "n_accounts": len(ranked),
        "unmapped": [mine for mine in found if mine.error == "unmapped"],
        "waiting": [mine for mine in found if mine.error == "no_snapshot"],
        "crumbs": [{"label": _("My priority")}],
    }
    response = render(request, "dashboard/me/priority.html", context)
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
