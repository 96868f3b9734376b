"""Pages for one entry: its allocations, and the dates between which it has its shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.selectors import display_name
from apps.contrib.allocations.board import AllocationBoard, board_of
from apps.contrib.allocations.hours_requests import (
    SeenRequest,
    decline_hours,
    grant_hours,
    list_requests_for,
    request_hours,
    withdraw_hours_request,
)
from apps.contrib.allocations.pages import board_presenters
from apps.contrib.allocations.pages import presenters as allocation_presenters
from apps.contrib.allocations.pages.calendar import end_text, soon_context
from apps.contrib.allocations.pages.forms import (
    NUMBER,
    AnswerForm,
    DatesForm,
    EntryAllocationForm,
    RemoveDatesForm,
    RequestForm,
    day_text,
    neighbours,
    period_from_query,
    period_text,
    query_of,
    today,
    typed_amount,
    unit_from_query,
    unit_query,
    zone,
)
from apps.contrib.allocations.pages.inbox import request_title, state_badge, state_css
from apps.contrib.allocations.pages.typed_warnings import read_day, typed_warnings
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.services import AllocationTerms, change_dates, create_allocation, period_of
from apps.contrib.allocations.table import EntryAllocations, get_entry_allocations
from apps.core import clock
from apps.core.errors import Conflict, Invalid
from apps.mapping.permissions import load_visibility
from apps.policies.models import Allocation
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import AT_END, Dates
from apps.priorities.sentences import numbers
from apps.web.shell import lines, presentation
from apps.web.shell.forms import read_action
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of, is_htmx

_MOST_LISTED = 100  # allocations of an entry, the last ones


@require_safe
def entry(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    """Allocations, what its shares amount to, and the dates of its shares."""
    own = _read_entry(request, policy, uid)
    if name != lines.name_slug(own.entry.name):
        return SeeOther(allocation_presenters.tab_url(policy, uid, own.entry.name))
    return _page(request, own)


@require_safe
def summary(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Fragment of an entry's page; redirects to the full page unless htmx requests it."""
    own = _read_entry(request, policy, uid)
    if not is_htmx(request):
        return SeeOther(allocation_presenters.tab_url(policy, uid, own.entry.name))
    board = _board_of(own)
    context = {
        "own": own,
        "line": allocation_presenters.draw_line(own.table, own.row),
        "current": board_presenters.draw_board_line(board, board.own) if board.own is not None else None,
        "unit": own.table.unit,
        "policy": policy,
        "period": period_text(own.table.period),
        "dates": _dates_text(own),
        "url": allocation_presenters.tab_url(policy, uid, own.entry.name),
    }
    return render(request, "contrib/allocations/_entry.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def allocate(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Allocate to this entry."""
    own = _read_entry(request, policy, uid)
    back = allocation_presenters.tab_url(policy, uid, own.entry.name)
    if request.method != "POST":
        return SeeOther(back)
    form = EntryAllocationForm(request.POST, units=own.table.units)
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
            amount = allocation_presenters.quantity(cleaned_data["amount"], cleaned_data["unit"])
            words = {"n": amount, "entry": own.entry.name}
            messages.success(request, _("%(n)s are allocated to %(entry)s.") % words)
            return SeeOther(f"{back}?{urlencode({'unit': cleaned_data['unit']})}")
    return _page(request, own, allocation_form=form, status=422)


@require_safe
def allocation_warnings(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Fragment with what a form warns of, for what is typed so far; stores nothing."""
    own = _read_entry(request, policy, uid)
    if not is_htmx(request):
        return SeeOther(allocation_presenters.tab_url(policy, uid, own.entry.name))
    return render(request, "contrib/allocations/_warnings.html", _warnings_context(own, request.GET))


def _warnings_context(own: EntryAllocations, typed: Mapping[str, Any]) -> dict[str, Any]:
    return {"warnings": typed_warnings(own.loaded, entry_uid=own.entry.uid, unit=own.table.unit, typed=typed)}


@require_http_methods(["GET", "HEAD", "POST"])
def request_allocation(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Request an allocation of this entry from the managers above it."""
    own = _read_entry(request, policy, uid)
    back = allocation_presenters.tab_url(policy, uid, own.entry.name)
    if request.method != "POST":
        return SeeOther(f"{back}#requests")
    form = RequestForm(request.POST, units=own.table.units)
    if form.is_valid():
        try:
            request_hours(
                policy_slug=policy,
                entry_uid=uid,
                terms=AllocationTerms(**form.cleaned_data),
                at=clock.now(),
                actor=actor_of(request),
                visibility=load_visibility,
            )
        except (Invalid, Conflict) as refusal:
            form.add_refusal(refusal)
        else:
            amount = allocation_presenters.quantity(form.cleaned_data["amount"], form.cleaned_data["unit"])
            messages.success(request, _("%(n)s are requested for %(entry)s.") % {"n": amount, "entry": own.entry.name})
            return SeeOther(f"{back}?{urlencode({'unit': form.cleaned_data['unit']})}#requests")
    return _page(request, own, request_form=form, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
def answer_request(request: HttpRequest, policy: str, uid: UUID, asked: UUID) -> HttpResponse:
    """Grant or decline a request, or withdraw one's own: `step` says which."""
    own = _read_entry(request, policy, uid)
    back = allocation_presenters.tab_url(policy, uid, own.entry.name)
    if request.method != "POST":
        return SeeOther(f"{back}#requests")
    form, step = AnswerForm(request.POST), read_action(request).step
    if form.is_valid():
        typed: dict[str, Any] = form.cleaned_data
        by: dict[str, Any] = {"at": clock.now(), "actor": actor_of(request), "visibility": load_visibility}
        try:
            if step == "withdraw":
                withdraw_hours_request(policy_slug=policy, request_uid=asked, **by)
                done = _("The request is withdrawn.")
            elif step == "decline":
                decline_hours(policy_slug=policy, request_uid=asked, text=typed["text"], **by)
                done = _("The request is declined.")
            else:
                made = grant_hours(policy_slug=policy, request_uid=asked, **typed, **by)
                amount = allocation_presenters.quantity(made.granted_amount, made.unit)
                done = _("%(n)s are allocated to %(entry)s.") % {"n": amount, "entry": own.entry.name}
        except (Invalid, Conflict) as refusal:
            form.add_refusal(refusal)
        else:
            messages.success(request, done)
            return SeeOther(f"{back}?{urlencode({'unit': own.table.unit.symbol})}#requests")
    return _page(request, own, answer_form=form, status=422)


@require_http_methods(["GET", "HEAD", "POST"])
def dates(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """Publish the first and last day of the entry's shares; `step=remove` removes both."""
    own = _read_entry(request, policy, uid)
    back = allocation_presenters.tab_url(policy, uid, own.entry.name)
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
            return _page(request, _read_entry(request, policy, uid), dates_form=form, status=409)
        else:
            add_published_message(request, revision)
            return SeeOther(f"{back}#dates")
    return _page(request, own, dates_form=form, status=422)


def _read_entry(request: HttpRequest, policy: str, uid: UUID) -> EntryAllocations:
    period = period_from_query(request, clock.now()).period
    unit = unit_from_query(request)
    return get_entry_allocations(
        policy_slug=policy, uid=uid, period=period, zone=zone(), actor=actor_of(request), unit=unit
    )


def _board_of(own: EntryAllocations) -> AllocationBoard:
    """The board of the entry, in the unit that is shown."""
    return board_of(own.loaded, zone=own.table.zone, of=own.entry.uid, unit=own.table.unit.symbol, limit=0)


def _page(
    request: HttpRequest,
    own: EntryAllocations,
    *,
    allocation_form: EntryAllocationForm | None = None,
    request_form: RequestForm | None = None,
    answer_form: AnswerForm | None = None,
    dates_form: DatesForm | None = None,
    status: int = 200,
) -> HttpResponse:
    now, policy, name = clock.now(), own.table.policy_slug, own.entry.name
    url = allocation_presenters.tab_url(policy, own.entry.uid, name)
    lines.show_tabs_of(request, own.entry.uid, name)
    tree = reverse("pages:policy", kwargs={"policy": policy})
    unit = unit_query(own.table.unit.symbol, len(own.table.units))
    board = _board_of(own)
    context = {
        "policy": policy,
        "policy_name": own.table.policy_name,
        "own": own,
        "current": board_presenters.draw_board_line(board, board.own) if board.own is not None else None,
        "entry": own.entry,
        "url": url,
        "line": allocation_presenters.draw_line(own.table, own.row),
        "period_text": period_text(own.table.period),
        "period": own.table.period,
        "years": [{**year, "query": year["query"] + unit} for year in neighbours(own.table.period, now)],
        "unit": own.table.unit,
        "units": allocation_presenters.unit_choices(own.table, query_of(own.table.period)),
        "unit_query": unit,
        "title": _title(own),
        "allocations": [_allocation(policy, each) for each in own.allocations[-_MOST_LISTED:]],
        "n_more": max(len(own.allocations) - _MOST_LISTED, 0),
        "steps": _steps(own),
        "capacity": allocation_presenters.amount(own.table.capacity),
        "dates": _dates_text(own),
        "allocation_form": allocation_form
        or EntryAllocationForm(initial=_allocation_initial(request, own, board), units=own.table.units),
        **_requests_context(request, own, board, request_form, answer_form),
        **_typed_warnings(request, own, board, [allocation_form, request_form]),
        "dates_form": dates_form or DatesForm(initial=_dates_initial(own)),
        "entry_url": lines.entry_url(policy, own.entry.uid, name),
        "crumbs": [
            {"label": own.table.policy_name, "url": tree},
            {"label": name, "url": lines.entry_url(policy, own.entry.uid, name)},
            {"label": _("Allocations")},
        ],
        **soon_context(request, own.loaded, own.entry.uid),
    }
    return render(request, "contrib/allocations/entry.html", context, status=status)


def _typed_warnings(
    request: HttpRequest, own: EntryAllocations, board: AllocationBoard, forms: Sequence[EntryAllocationForm | None]
) -> dict[str, Any]:
    """Of what was typed and refused, else of the initial values; nothing where no form is shown."""
    if not (own.row.may_allocate or board.may_ask):
        return {"warnings": []}
    typed = next((form.data for form in forms if form is not None), None)
    return _warnings_context(own, typed or _allocation_initial(request, own, board))


def _requests_context(
    request: HttpRequest,
    own: EntryAllocations,
    board: AllocationBoard,
    request_form: RequestForm | None,
    answer_form: AnswerForm | None,
) -> dict[str, Any]:
    """The newest requests for the entry, with a form to send one or to answer the open one."""
    actor, policy = actor_of(request), get_policy(slug=own.table.policy_slug, actor=actor_of(request))
    seen = list_requests_for(
        policy=policy, tree=load_tree(policy), entry_uid=own.entry.uid, at=own.table.now, actor=actor
    )
    first = next((each.request for each in seen if each.may_decide), None)
    if first is not None and answer_form is None:
        initial = {"amount": typed_amount(first.amount), "starts_on": first.starts_on, "ends_on": first.ends_on}
        answer_form = AnswerForm(initial=initial)
    is_open = any(each.request.state == "open" and each.request.unit == own.table.unit.symbol for each in seen)
    return {
        "requests": [
            {
                "seen": each,
                "title": request_title(each),
                "badge": state_badge(each.request),
                "css": state_css(each.request),
                "author": display_name(each.request.author_name),
                "decider": display_name(each.request.decided_name),
                "granted": _granted_text(each),
                "has_form": first is not None and each.request.pk == first.pk,
                "may_withdraw": each.is_own and each.request.state == "open",
            }
            for each in seen
        ],
        "answer_form": answer_form,
        "may_request": (board.may_ask and not is_open) or request_form is not None,
        "refused_answer": answer_form if first is None else None,  # it was decided meanwhile
        "request_form": request_form
        or RequestForm(initial=_allocation_initial(request, own, board), units=own.table.units),
    }


def _granted_text(seen: SeenRequest) -> str:
    """What was granted, if it is another amount; empty otherwise."""
    asked = seen.request
    if asked.granted_amount is None or asked.granted_amount == asked.amount:
        return ""
    return _("Granted: %(n)s") % {"n": allocation_presenters.quantity(asked.granted_amount, asked.unit)}


def _title(own: EntryAllocations) -> str:
    row, when = own.row, period_text(own.table.period)
    words = {
        "name": own.entry.name,
        "n": allocation_presenters.quantity(row.allocated, own.table.unit.symbol),
        "when": when,
    }
    if row.allocated is not None:
        if not own.table.above:
            return _("There are %(n)s in %(when)s") % words
        return _("%(name)s has an allocation of %(n)s in %(when)s") % words
    return _("%(name)s has no allocation in %(when)s") % words


def _allocation(policy: str, each: Allocation) -> dict[str, Any]:
    return {
        "amount": allocation_presenters.amount(each.amount),
        "period": period_text(period_of(each)),
        "reason": each.reason,
        "author": display_name(each.author_name),
        "is_over": each.ends_on < today(clock.now()),
        "url": reverse("pages:allocation", kwargs={"policy": policy, "allocation": each.uid}),
    }


def _steps(own: EntryAllocations) -> list[dict[str, str]]:
    """Steps from the root to the entry: `30 of 100 shares`, the percentage, and what is left."""
    return [
        {
            "name": step.name,
            "shares": _("%(own)s of %(all)s shares")
            % {"own": presentation.shares_short(step.shares), "all": presentation.shares_short(step.of_shares)},
            "part": numbers.percent(step.part),
            "amount": allocation_presenters.amount(step.amount),
        }
        for step in own.steps
    ]


def _allocation_initial(request: HttpRequest, own: EntryAllocations, board: AllocationBoard) -> dict[str, Any]:
    """Initial values: those of a link that renews an allocation, else from today to the end of its current one."""
    period, today_on = own.table.period, today(own.table.now)
    if not request.GET.get("from") and not request.GET.get("to") and today_on in period:
        last = board.own.ends_on if board.own is not None else period.ends_on
        period = Period(today_on, max(last, today_on))
    return {
        "starts_on": read_day(request.GET.get("starts", "")) or period.starts_on,
        "ends_on": read_day(request.GET.get("ends", "")) or period.ends_on,
        "amount": request.GET.get("amount", "")[:40],
        "unit": own.table.unit.symbol,
    }


def _dates_initial(own: EntryAllocations) -> dict[str, Any]:
    dates = own.dates or Dates()
    is_number = dates.at_end not in AT_END
    return {
        "starts_on": dates.starts_on,
        "ends_on": dates.ends_on,
        "shares": "" if dates.shares is None else presentation.shares(dates.shares),
        "at_end": NUMBER if is_number else dates.at_end,
        "shares_then": presentation.shares(float(dates.at_end)) if is_number else "",
        "base_revision": own.revision,
    }


def _dates_text(own: EntryAllocations) -> str:
    """Sentences on the dates of the entry's shares, and on what happens after the last day."""
    dates, now = own.dates, clock.now()
    if dates is None:
        return _("No end date")
    sentences = []
    if dates.starts_on is not None:
        sentences.append(_("From %(day)s.") % {"day": day_text(dates.starts_on, now)})
    if dates.shares is not None:
        sentences.append(_("They become %(n)s on that day.") % {"n": presentation.shares(dates.shares)})
    if dates.ends_on is not None:
        sentences.append(_("Until %(day)s.") % {"day": day_text(dates.ends_on, now)})
        sentences.append(end_text(own.entry.shares, dates))
    return " ".join(sentences)
