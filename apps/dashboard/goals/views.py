"""The page of a goal: a form, the options side by side, and one of them as a draft."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.analytics.goals import Goal
from apps.analytics.goals.selectors import get_solution, read_goal, take_over
from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, TooOften, status_of
from apps.dashboard.goals.presenters import draw
from apps.dashboard.shell import lines
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.policies.changesets.drafts import may_edit
from apps.priorities.selectors.rows import PolicyView, open_view

_NAMES = ("by", "most_lost", "least_target", "most_target")
_USUAL_DAYS = 21


@require_http_methods(["GET", "HEAD", "POST"])
def goal(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """`?by=`, `?most_lost=`, `?least_target=` and `?most_target=`; POST with `lever` takes that option over."""
    view = open_view(policy_slug=policy, actor=actor_of(request))
    i = view.require(uid)
    given = request.POST if request.method == "POST" else request.GET
    if "by" not in given:
        return _show(request, view, i, {})
    try:
        asked = read_goal({name: given.get(name, "") for name in _NAMES}, entry=uid, today=_today())
        if request.method == "POST":
            return _take(request, policy, asked)
        context = draw(get_solution(policy_slug=policy, goal=asked, actor=actor_of(request)))
    except (Invalid, Conflict, TooOften) as error:
        return _show(request, view, i, _problems(error), status=status_of(error))
    return _show(request, view, i, context)


def _take(request: HttpRequest, policy: str, asked: Goal) -> HttpResponse:
    lever = request.POST.get("lever", "")
    draft = take_over(policy_slug=policy, goal=asked, lever=lever, actor=actor_of(request), at=clock.now())
    messages.success(request, _("Added to your draft. Changes take effect only when published."))
    return SeeOther(reverse("dashboard:draft", kwargs={"change_set": draft.pk}))


def _today() -> Any:
    return timezone.localtime(clock.now()).date()


def _problems(error: DomainError) -> dict[str, Any]:
    by_field = {one.where: one.message for one in error.fields}
    refusal = "" if set(by_field) & set(_NAMES) else by_field.get("entry", error.message)
    return {"errors": by_field, "refusal": refusal, "code": error.code}


def _show(
    request: HttpRequest, view: PolicyView, i: int, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    entry, slug = view.row(i), view.policy.slug
    given = request.POST if request.method == "POST" else request.GET
    usual = {"by": (_today() + timedelta(days=_USUAL_DAYS)).isoformat(), "most_lost": "1"}
    tree, url = reverse("dashboard:policy", kwargs={"policy": slug}), lines.entry_url(slug, entry.uid, entry.name)
    values = {name: given.get(name, usual.get(name, "")) for name in _NAMES}
    whole = {
        "policy": slug,
        "uid": entry.uid,
        "entry": entry,
        "entry_url": url,
        "values": values,
        "may_draft": may_edit(view.policy, view.actor, view.now),
        "crumbs": [{"label": view.policy.name, "url": tree}, {"label": entry.name, "url": url}, {"label": _("Goal")}],
        **context,
    }
    return render(request, "dashboard/goals/goal.html", whole, status=status)
