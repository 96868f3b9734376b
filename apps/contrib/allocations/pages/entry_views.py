"""Pages for one entry: its allocations in core-hours, and the dates between which it has its shares."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.selectors import display_name
from apps.contrib.allocations.pages import presenters as allocation_presenters
from apps.contrib.allocations.pages.calendar import end_text, soon_context
from apps.contrib.allocations.pages.forms import (
    NUMBER,
    AllocationForm,
    DatesForm,
    RemoveDatesForm,
    day_text,
    neighbours,
    period_from_query,
    period_text,
    today,
    zone,
)
from apps.contrib.allocations.services import AllocationTerms, change_dates, create_allocation, period_of
from apps.contrib.allocations.table import EntryCoreHours, get_entry_core_hours
from apps.core import clock
from apps.core.errors import Conflict, Invalid
from apps.mapping.permissions import load_visibility
from apps.policies.models import Allocation
from apps.policies.tree.terms import AT_END, Dates
from apps.web.shell import lines, presentation
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of, is_htmx


@require_safe
def entry(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    """Allocations, the core-hours that its shares amount to, and the dates of its shares."""
    core_hours = _read_core_hours(request, policy, uid)
    if name != lines.name_slug(core_hours.entry.name):
        return SeeOther(allocation_presenters.tab_url(policy, uid, core_hours.entry.name))
    return _page(request, core_hours)


@require_safe
def summary(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Fragment of an entry's page; redirects to the full page unless htmx requests it."""
    core_hours = _read_core_hours(request, policy, uid)
    if not is_htmx(request):
        return SeeOther(allocation_presenters.tab_url(policy, uid, core_hours.entry.name))
    line = allocation_presenters.draw_line(core_hours.table, core_hours.row)
    context = {
        "core_hours": core_hours,
        "line": line,
        "policy": policy,
        "period": period_text(core_hours.table.period),
        "dates": _dates_text(core_hours),
        "url": allocation_presenters.tab_url(policy, uid, core_hours.entry.name),
    }
    return render(request, "contrib/allocations/_entry.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def allocate(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Allocate core-hours to this entry."""
    core_hours = _read_core_hours(request, policy, uid)
    back = allocation_presenters.tab_url(policy, uid, core_hours.entry.name)
    if request.method != "POST":
        return SeeOther(back)
    form = AllocationForm(request.POST)
    if form.is_valid():
        cleaned_data = form.cleaned_data
        try:
            terms, actor = AllocationTerms(**cleaned_data), actor_of(request)
            create_allocation(
                policy_slug=policy, entry_uid=uid, terms=terms, at=clock.now(), actor=actor, visibility=load_visibility
            )
        except (Invalid, Conflict) as refusal:
            form.add_refusal(refusal)
        else:
            words = {"n": allocation_presenters.core_h(cleaned_data["core_h"]), "entry": core_hours.entry.name}
            messages.success(request, _("%(n)s core-hours are allocated to %(entry)s.") % words)
            return SeeOther(back)
    return _page(request, core_hours, allocation_form=form, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
def dates(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Publish the first and last day of the entry's shares; `step=remove` removes both."""
    core_hours = _read_core_hours(request, policy, uid)
    back = allocation_presenters.tab_url(policy, uid, core_hours.entry.name)
    if request.method != "POST":
        return SeeOther(f"{back}#dates")
    form = RemoveDatesForm(request.POST) if read_action(request).step == "remove" else DatesForm(request.POST)
    if form.is_valid():
        try:
            revision = change_dates(
                policy_slug=policy,
                entry_uid=uid,
                dates=form.dates,
                reason=form.cleaned_data["reason"],
                base_revision=form.cleaned_data["base_revision"],
                at=clock.now(),
                actor=actor_of(request),
            )
        except Invalid as refusal:
            form.add_refusal(refusal)
        except Conflict as refusal:
            form.add_refusal(refusal)
            return _page(request, _read_core_hours(request, policy, uid), dates_form=form, status=409)
        else:
            add_published_message(request, revision)
            return SeeOther(f"{back}#dates")
    return _page(request, core_hours, dates_form=form, status=422)


def _read_core_hours(request: HttpRequest, policy: str, uid: UUID) -> EntryCoreHours:
    period = period_from_query(request, clock.now()).period
    return get_entry_core_hours(policy_slug=policy, uid=uid, period=period, zone=zone(), actor=actor_of(request))


def _page(
    request: HttpRequest,
    core_hours: EntryCoreHours,
    *,
    allocation_form: AllocationForm | None = None,
    dates_form: DatesForm | None = None,
    status: int = 200,
) -> HttpResponse:
    now, policy, name = clock.now(), core_hours.table.policy_slug, core_hours.entry.name
    url = allocation_presenters.tab_url(policy, core_hours.entry.uid, name)
    lines.show_tabs_of(request, core_hours.entry.uid, name)
    tree = reverse("dashboard:policy", kwargs={"policy": policy})
    context = {
        "policy": policy,
        "policy_name": core_hours.table.policy_name,
        "core_hours": core_hours,
        "entry": core_hours.entry,
        "url": url,
        "line": allocation_presenters.draw_line(core_hours.table, core_hours.row),
        "period_text": period_text(core_hours.table.period),
        "period": core_hours.table.period,
        "years": neighbours(core_hours.table.period, now),
        "title": _title(core_hours),
        "allocations": [_allocation(policy, each) for each in core_hours.allocations],
        "steps": _steps(core_hours),
        "capacity": allocation_presenters.core_h(core_hours.table.capacity_core_h),
        "dates": _dates_text(core_hours),
        "allocation_form": allocation_form or AllocationForm(initial=_allocation_initial(request, core_hours)),
        "dates_form": dates_form or DatesForm(initial=_dates_initial(core_hours)),
        "entry_url": lines.entry_url(policy, core_hours.entry.uid, name),
        "crumbs": [
            {"label": core_hours.table.policy_name, "url": tree},
            {"label": name, "url": lines.entry_url(policy, core_hours.entry.uid, name)},
            {"label": _("Core-hours")},
        ],
        **soon_context(request, policy, core_hours.entry.uid),
    }
    return render(request, "contrib/allocations/entry.html", context, status=status)


def _title(core_hours: EntryCoreHours) -> str:
    row, when = core_hours.row, period_text(core_hours.table.period)
    words = {"name": core_hours.entry.name, "n": allocation_presenters.core_h(row.allocated_core_h), "when": when}
    if row.allocated_core_h is not None:
        if not core_hours.table.above:
            return _("There are %(n)s core-hours in %(when)s") % words
        return _("%(name)s has an allocation of %(n)s core-hours in %(when)s") % words
    return _("%(name)s has no allocation in %(when)s") % words


def _allocation(policy: str, each: Allocation) -> dict[str, Any]:
    return {
        "core_h": allocation_presenters.core_h(each.core_h),
        "period": period_text(period_of(each)),
        "reason": each.reason,
        "author": display_name(each.author_name),
        "is_over": each.ends_on < today(clock.now()),
        "url": reverse("dashboard:allocation", kwargs={"policy": policy, "allocation": each.uid}),
    }


def _steps(core_hours: EntryCoreHours) -> list[dict[str, str]]:
    """Steps from the root to the entry: `30 of 100 shares`, the percentage, and the remaining core-hours."""
    return [
        {
            "name": step.name,
            "shares": _("%(own)s of %(all)s shares")
            % {"own": presentation.shares_short(step.shares), "all": presentation.shares_short(step.of_shares)},
            "part": presentation.percent(step.part),
            "core_h": allocation_presenters.core_h(step.core_h),
        }
        for step in core_hours.steps
    ]


def _allocation_initial(request: HttpRequest, core_hours: EntryCoreHours) -> dict[str, Any]:
    """Initial values: the page's period, or the values in the query of a link that renews an allocation."""
    period = core_hours.table.period
    return {
        "starts_on": _day(request.GET.get("starts", "")) or period.starts_on,
        "ends_on": _day(request.GET.get("ends", "")) or period.ends_on,
        "core_h": request.GET.get("core_h", "")[:40],
    }


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _dates_initial(core_hours: EntryCoreHours) -> dict[str, Any]:
    dates = core_hours.dates or Dates()
    is_number = dates.at_end not in AT_END
    return {
        "starts_on": dates.starts_on,
        "ends_on": dates.ends_on,
        "shares": "" if dates.shares is None else presentation.shares(dates.shares),
        "at_end": NUMBER if is_number else dates.at_end,
        "shares_then": presentation.shares(float(dates.at_end)) if is_number else "",
        "base_revision": core_hours.revision,
    }


def _dates_text(core_hours: EntryCoreHours) -> str:
    """Sentences on the dates of the entry's shares, and on what happens after the last day."""
    dates, now = core_hours.dates, clock.now()
    if dates is None:
        return _("No end date")
    sentences = []
    if dates.starts_on is not None:
        sentences.append(_("From %(day)s.") % {"day": day_text(dates.starts_on, now)})
    if dates.shares is not None:
        sentences.append(_("They become %(n)s on that day.") % {"n": presentation.shares(dates.shares)})
    if dates.ends_on is not None:
        sentences.append(_("Until %(day)s.") % {"day": day_text(dates.ends_on, now)})
        sentences.append(end_text(core_hours.entry.shares, dates))
    return " ".join(sentences)
