"""How many cores there are, from when to when: stated, changed, removed."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from apps.accounts.selectors import display_name
from apps.core import clock
from apps.core.errors import Conflict, Invalid, Stale
from apps.dashboard.allocations import presenters as allocation_lines
from apps.dashboard.allocations.days import day_words, today, zone
from apps.dashboard.allocations.forms import CapacityForm, WithdrawForm, typed_amount
from apps.dashboard.allocations.views import crumbs_of
from apps.dashboard.shell import presentation
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.mapping.permissions import see
from apps.policies.allocations import capacities as services
from apps.policies.allocations.records import whole_year
from apps.policies.models import Capacity, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree

_REFUSALS = (Invalid, Conflict, Stale)


@require_http_methods(["GET", "HEAD", "POST"])
def capacities(request: HttpRequest, policy: str) -> HttpResponse:
    """All rows, and a form for one more."""
    now, actor = clock.now(), actor_of(request)
    found = get_policy(slug=policy, actor=actor)
    tree = load_tree(found)
    see(policy=found, tree=tree, at=now, actor=actor).require(0)
    form = CapacityForm(request.POST if request.method == "POST" else None, initial={"starts_on": today(now)})
    if request.method == "POST" and form.is_valid():
        try:
            services.state_capacity(policy_slug=policy, **form.cleaned_data, at=now, actor=actor)
        except (Invalid, Conflict) as refusal:
            form.add_refusal(refusal)
        else:
            messages.success(request, _("Capacity added."))
            return SeeOther(_url(policy))
    rows = services.list_capacities(policy_slug=policy, at=now, actor=actor, visibility=see)
    year = whole_year(today(now))
    context = {
        "policy": policy,
        "policy_name": found.name,
        "form": form,
        "rows": [_row(policy, each) for each in rows],
        "year": year.starts_on.year,
        "core_h": allocation_lines.core_h(services.core_hours(rows, year, zone())) if rows else "",
        "may_state": services.may_state(policy=found, tree=tree, at=now, actor=actor),
        "crumbs": [*crumbs_of(policy, found.name), {"label": _("Capacity")}],
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "dashboard/allocations/capacities.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def capacity(request: HttpRequest, policy: str, capacity_id: int) -> HttpResponse:
    """One row: changed, or removed as if it had never been there."""
    now, actor = clock.now(), actor_of(request)
    found = services.get_capacity(policy_slug=policy, capacity_id=capacity_id, at=now, actor=actor, visibility=see)
    changed, gone = CapacityForm(initial=_initial(found)), WithdrawForm()
    if request.method != "POST":
        return _page(request, found, changed, gone)
    whole: dict[str, Any] = {"policy_slug": policy, "capacity_id": capacity_id, "at": now, "actor": actor}
    whole["tag"] = request.POST.get("tag", "")
    form: CapacityForm | WithdrawForm
    if request.POST.get("step") == "remove":
        form = gone = WithdrawForm(request.POST)
        done, told = form.is_valid() and _try(form, services.remove_capacity, whole), _("Capacity removed.")
    else:
        form = changed = CapacityForm(request.POST)
        done, told = form.is_valid() and _try(form, services.change_capacity, whole), _("Capacity changed.")
    if done:
        messages.success(request, told)
        return SeeOther(_url(policy))
    return _page(request, found, changed, gone, status=412 if form.is_stale else 422)


def _try(form: CapacityForm | WithdrawForm, step: Any, whole: dict[str, Any]) -> bool:
    """Whether it was done; if not, the form says why."""
    try:
        step(**whole, **form.cleaned_data)
    except _REFUSALS as refusal:
        form.add_refusal(refusal)
        return False
    return True


def _page(
    request: HttpRequest, found: Capacity, form: CapacityForm, gone: WithdrawForm, *, status: int = 200
) -> HttpResponse:
    policy: Policy = found.policy
    context = {
        "policy": policy.slug,
        "policy_name": policy.name,
        "capacity": found,
        "form": form,
        "gone": gone,
        "row": _row(policy.slug, found),
        "tag": services.tag_of(found),
        "may_state": services.may_state(policy=policy, tree=load_tree(policy), at=clock.now(), actor=actor_of(request)),
        "crumbs": [
            *crumbs_of(policy.slug, policy.name),
            {"label": _("Capacity"), "url": _url(policy.slug)},
            {"label": found.site or _("The site")},
        ],
    }
    return render(request, "dashboard/allocations/capacity.html", context, status=status)


def _row(policy: str, each: Capacity) -> dict[str, Any]:
    now = clock.now()
    return {
        "site": each.site or _("The site"),
        "cores": presentation.core_hours(each.cores * 3600),
        "note": each.note,
        "first": day_words(each.starts_on, now),
        "last": day_words(each.ends_on, now) if each.ends_on else _("no end"),
        "author": display_name(each.author_name),
        "is_over": each.ends_on is not None and each.ends_on < today(now),
        "url": reverse("dashboard:capacity", kwargs={"policy": policy, "capacity_id": each.pk}),
    }


def _initial(found: Capacity) -> dict[str, Any]:
    return {
        "cores": typed_amount(found.cores),
        "site": found.site,
        "starts_on": found.starts_on,
        "ends_on": found.ends_on,
        "note": found.note,
    }


def _url(policy: str) -> str:
    return reverse("dashboard:capacities", kwargs={"policy": policy})
