"""Pages to change or withdraw an allocation, to convert a group's allocations to shares, and to record capacity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from apps.accounts.selectors import display_name
from apps.contrib.allocations import capacities as capacity_services
from apps.contrib.allocations import services
from apps.contrib.allocations.capacities import CapacityChange, CapacityTerms
from apps.contrib.allocations.conversion import (
    RESTS,
    Conversion,
    ConversionQuery,
    ConvertedLine,
    draft_shares,
    get_conversion,
)
from apps.contrib.allocations.pages import presenters as allocation_presenters
from apps.contrib.allocations.pages.forms import (
    AllocationForm,
    CapacityForm,
    DraftForm,
    NewCapacityForm,
    WithdrawForm,
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
from apps.contrib.allocations.pages.views import crumbs_of, page_url
from apps.contrib.allocations.periods import Period, whole_year
from apps.contrib.allocations.services import AllocationChange
from apps.contrib.allocations.terms import may_decide
from apps.contrib.allocations.units import policy_units
from apps.core import clock
from apps.core.errors import Conflict, Invalid, Stale
from apps.mapping.permissions import load_visibility
from apps.policies.access.scope import list_own_levels
from apps.policies.models import Allocation, Capacity, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences import numbers
from apps.web.links.addresses import draft_url
from apps.web.shell import presentation
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of

_REFUSALS = (Invalid, Conflict, Stale)
_BASES = {"allocated": "", "rest": gettext_lazy("Remainder"), "none": gettext_lazy("not allocated")}


@require_http_methods(["GET", "HEAD", "POST"])
def allocation(request: HttpRequest, policy: str, allocation: UUID) -> HttpResponse:
    """Change or withdraw one allocation; `tag` identifies the state of it that the page showed."""
    now, actor = clock.now(), actor_of(request)
    allocation_row, path = services.get_allocation(
        policy_slug=policy, allocation_uid=allocation, at=now, actor=actor, visibility=load_visibility
    )
    changed, gone = AllocationForm(initial=_initial(allocation_row)), WithdrawForm()
    if request.method != "POST":
        return _allocation_page(request, allocation_row, path, changed, gone)
    action = read_action(request)
    row = {"policy_slug": policy, "allocation_uid": allocation, "tag": action.tag, "visibility": load_visibility}
    form: AllocationForm | WithdrawForm
    service: Callable[..., Any]
    if action.step == "withdraw":
        form, service, message = (gone := WithdrawForm(request.POST)), services.withdraw_allocation, _("Withdrawn")
    else:
        form, service, message = (changed := AllocationForm(request.POST)), services.change_allocation, _("Saved")
    if _submit(form, service, at=now, actor=actor, **row):
        messages.success(request, message)
        return SeeOther(page_url(policy))
    return _allocation_page(request, allocation_row, path, changed, gone, status=form.status)


def _submit(form: AllocationForm | CapacityForm | WithdrawForm, service: Callable[..., Any], **row: Any) -> bool:
    """Call the service with the form's values; False if form or service rejects them, with the errors in the form."""
    if not form.is_valid():
        return False
    arguments = form.cleaned_data
    if isinstance(form, AllocationForm):
        arguments = {"change": AllocationChange(**arguments)}
    elif isinstance(form, CapacityForm):
        arguments = {"change": CapacityChange(**arguments)}
    try:
        service(**row, **arguments)
    except _REFUSALS as refusal:
        form.add_refusal(refusal)
        return False
    return True


def _initial(allocation: Allocation) -> dict[str, Any]:
    return {"amount": typed_amount(allocation.amount), "starts_on": allocation.starts_on, "ends_on": allocation.ends_on}


def _allocation_page(
    request: HttpRequest,
    allocation: Allocation,
    path: str,
    form: AllocationForm,
    gone: WithdrawForm,
    *,
    status: int = 200,
) -> HttpResponse:
    policy, actor = allocation.policy, actor_of(request)
    tree = load_tree(policy)
    i = tree.index_of_uid(allocation.entry_uid) or 0
    words = {"n": allocation_presenters.quantity(allocation.amount, allocation.unit), "entry": tree.name[i]}
    context = {
        "policy": policy.slug,
        "policy_name": policy.name,
        "allocation": allocation,
        "path": path,
        "form": form,
        "gone": gone,
        "tag": services.tag_of(allocation),
        "period": period_text(services.period_of(allocation)),
        "title": _("%(n)s for %(entry)s") % words,
        "may_change": may_decide(policy=policy, tree=tree, i=i, at=clock.now(), actor=actor),
        "entry_url": allocation_presenters.tab_url(policy.slug, allocation.entry_uid, tree.name[i]),
        "crumbs": [*crumbs_of(policy.slug, policy.name), {"label": tree.name[i]}],
    }
    return render(request, "contrib/allocations/allocation.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def shares(request: HttpRequest, policy: str) -> HttpResponse:
    """Allocations of a group (`?of=`) in a period (`?from=&to=`, `?rest=`) as shares; POST adds them to a draft."""
    now, actor = clock.now(), actor_of(request)
    policy_row = get_policy(slug=policy, actor=actor)
    parent, rest = _group(request, policy_row), request.GET.get("rest", "")
    rest = rest if rest in RESTS else RESTS[0]
    queried = period_from_query(request, now)
    unit, n_units = unit_from_query(request), len(policy_units(policy_row))
    query = ConversionQuery(parent_uid=parent, period=queried.period, zone=zone(), rest=rest, unit=unit)
    whole: dict[str, Any] = {
        "policy_slug": policy,
        "query": query,
        "at": now,
        "actor": actor,
        "visibility": load_visibility,
    }
    form = DraftForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        at_end = form.cleaned_data["at_end"] or None
        try:
            draft = draft_shares(**whole, at_end=at_end, reason=form.cleaned_data["reason"])
        except (Invalid, Conflict) as refusal:
            form.add_refusal(refusal)
        else:
            messages.success(request, _("Changes take effect only when published."))
            return SeeOther(draft_url(draft.pk))
    conversion, problem = _conversion(whole)
    unit = conversion.unit if conversion else unit
    tree = load_tree(policy_row)
    group = f"&of={parent}{unit_query(unit, n_units) if unit else ''}"
    context = {
        "policy": policy,
        "policy_name": policy_row.name,
        "conversion": conversion,
        "refusal": problem,
        "problem": problem.message if problem else "",
        "form": form,
        "lines": [_line(conversion, line) for line in conversion.lines] if conversion else [],
        "group_name": tree.name[tree.index_of_uid(parent) or 0],
        "period_text": period_text(queried.period),
        "period": queried.period,
        "period_problem": queried.problem,
        "rest": rest,
        "of": parent,
        "query": f"{query_of(queried.period)}{group}&rest={rest}",
        "page_query": query_of(queried.period) + group,
        "years": [{**year, "query": f"{year['query']}{group}&rest={rest}"} for year in neighbours(queried.period, now)],
        "facts": _facts(conversion) if conversion else [],
        "unit": unit,
        "has_taker": _has_recipient(conversion),
        "begins_later": queried.period.instants(zone())[0] > now,
        "crumbs": [*crumbs_of(policy, policy_row.name), {"label": _("Convert to shares")}],
    }
    return render(request, "contrib/allocations/shares.html", context, status=form.status)


def _conversion(whole: dict[str, Any]) -> tuple[Conversion | None, Invalid | None]:
    try:
        return get_conversion(**whole), None
    except Invalid as refusal:
        return None, refusal.with_traceback(None)  # whose frames would hold the columns of the tree


def _group(request: HttpRequest, policy: Policy) -> UUID:
    """UID of the entry whose children are converted: the visible entry in `?of=`, else the first that the reader
    divides, because the others of the policy's top level may be hidden from them.
    """
    tree, text, now, actor = load_tree(policy), request.GET.get("of", ""), clock.now(), actor_of(request)
    i: int | None
    if not text:
        i = next(iter(list_own_levels(policy=policy, tree=tree, actor=actor, at=now)), 0)
    else:
        try:
            i = tree.index_of_uid(UUID(text))
        except ValueError:
            i = None
    sees = load_visibility(policy=policy, tree=tree, at=now, actor=actor)
    return tree.uuid(sees.require(i))


def _facts(conversion: Conversion) -> list[tuple[str, str]]:
    """Labels and amounts of the steps from the group's allocation to the sum of shares."""
    facts = [(_("Sub-allocated"), conversion.allocated)]
    if conversion.available is not None:
        facts.insert(0, (_("Allocated: %(name)s") % {"name": conversion.parent_name}, conversion.available))
        if conversion.over_committed:
            facts.append((_("Over-allocated"), conversion.over_committed))
        else:
            facts.append((_("Remainder"), conversion.unallocated))
    facts.append((_("Distributed"), conversion.divided))
    amounts = [(label, allocation_presenters.quantity(amount, conversion.unit)) for label, amount in facts]
    return [*amounts, (_("Shares"), presentation.shares_short(conversion.sum_of_shares))]


def _has_recipient(conversion: Conversion | None) -> bool:
    """Whether a line receives what is unallocated; otherwise all lines grow in proportion."""
    return conversion is None or not conversion.unallocated or any(line.basis == "rest" for line in conversion.lines)


def _line(conversion: Conversion, line: ConvertedLine) -> dict[str, Any]:
    """One line of the conversion as shown, with its formula, such as `219,000 ÷ 876,000 × 100 = 25`."""
    amount, divided = allocation_presenters.amount(line.amount), allocation_presenters.amount(conversion.divided)
    part, after = numbers.percent(line.part, 2), presentation.shares_short(line.shares_after)
    whole = presentation.shares_short(conversion.sum_of_shares)
    return {
        "name": line.name,
        "kind": line.kind,
        "key": line.basis,
        "basis": _BASES[line.basis],
        "amount": amount,
        "part": part,
        "sum": f"{amount} ÷ {divided} × {whole} = {after}",
        "after": after,
        "before": presentation.shares_short(line.shares_before) if line.shares_before is not None else _("new"),
        "is_changed": line.is_changed,
        "is_nothing": line.basis == "none" and line.kind != "reserve",
    }


@require_http_methods(["GET", "HEAD", "POST"])
def capacities(request: HttpRequest, policy: str) -> HttpResponse:
    """List all capacities, with a form to add one."""
    now, actor = clock.now(), actor_of(request)
    policy_row = get_policy(slug=policy, actor=actor)
    tree = load_tree(policy_row)
    load_visibility(policy=policy_row, tree=tree, at=now, actor=actor).require(0)
    units = policy_units(policy_row)
    typed, initial = request.POST if request.method == "POST" else None, {"starts_on": today(now)}
    form = NewCapacityForm(typed, initial=initial, units=units)
    if form.is_valid():
        try:
            capacity_services.add_capacity(
                policy_slug=policy, terms=CapacityTerms(**form.cleaned_data), at=now, actor=actor
            )
        except (Invalid, Conflict) as refusal:
            form.add_refusal(refusal)
        else:
            messages.success(request, _("Saved"))
            return SeeOther(_capacities_url(policy))
    rows = capacity_services.list_capacities(policy_slug=policy, at=now, actor=actor, visibility=load_visibility)
    year = whole_year(today(now))
    context = {
        "policy": policy,
        "policy_name": policy_row.name,
        "form": form,
        "rows": [_capacity_row(policy, each) for each in rows],
        "year": year.starts_on.year,
        "amount": _capacity_in(rows, year),
        "may_add_capacity": capacity_services.may_add_capacity(policy=policy_row, tree=tree, at=now, actor=actor),
        "crumbs": [*crumbs_of(policy, policy_row.name), {"label": _("Capacity")}],
    }
    return render(request, "contrib/allocations/capacities.html", context, status=form.status)


@require_http_methods(["GET", "HEAD", "POST"])
def capacity(request: HttpRequest, policy: str, capacity_id: int) -> HttpResponse:
    """Change or remove one capacity; a removed one no longer applies to its past days either."""
    now, actor = clock.now(), actor_of(request)
    capacity = capacity_services.get_capacity(
        policy_slug=policy, capacity_id=capacity_id, at=now, actor=actor, visibility=load_visibility
    )
    changed, gone = CapacityForm(initial=_capacity_initial(capacity)), WithdrawForm()
    if request.method != "POST":
        return _capacity_page(request, capacity, changed, gone)
    action = read_action(request)
    form: CapacityForm | WithdrawForm
    service: Callable[..., Any]
    if action.step == "remove":
        form, service, message = (gone := WithdrawForm(request.POST)), capacity_services.remove_capacity, _("Removed")
    else:
        form, service, message = (changed := CapacityForm(request.POST)), capacity_services.change_capacity, _("Saved")
    if _submit(form, service, policy_slug=policy, capacity_id=capacity_id, tag=action.tag, at=now, actor=actor):
        messages.success(request, message)
        return SeeOther(_capacities_url(policy))
    return _capacity_page(request, capacity, changed, gone, status=form.status)


def _capacity_page(
    request: HttpRequest, capacity: Capacity, form: CapacityForm, gone: WithdrawForm, *, status: int = 200
) -> HttpResponse:
    policy: Policy = capacity.policy
    context = {
        "policy": policy.slug,
        "policy_name": policy.name,
        "capacity": capacity,
        "form": form,
        "gone": gone,
        "row": _capacity_row(policy.slug, capacity),
        "tag": capacity_services.tag_of(capacity),
        "may_add_capacity": capacity_services.may_add_capacity(
            policy=policy, tree=load_tree(policy), at=clock.now(), actor=actor_of(request)
        ),
        "crumbs": [
            *crumbs_of(policy.slug, policy.name),
            {"label": _("Capacity"), "url": _capacities_url(policy.slug)},
            {"label": capacity.site or _("This site")},
        ],
    }
    return render(request, "contrib/allocations/capacity.html", context, status=status)


def _capacity_in(rows: Sequence[Capacity], year: Period) -> str:
    """What all rows have in a year, by unit, such as 8,760,000 core-h, 35,040 GPU-h."""
    sums = {
        unit: capacity_services.capacity_in([row for row in rows if row.unit == unit], year, zone())
        for unit in dict.fromkeys(row.unit for row in rows)
    }
    return ", ".join(allocation_presenters.quantity(total, unit) for unit, total in sums.items())


def _capacity_row(policy: str, each: Capacity) -> dict[str, Any]:
    now = clock.now()
    return {
        "site": each.site or _("This site"),
        "per_hour": allocation_presenters.per_hour_text(each.per_hour, each.unit),
        "note": each.note,
        "first": day_text(each.starts_on, now),
        "last": day_text(each.ends_on, now) if each.ends_on else _("no end"),
        "author": display_name(each.author_name),
        "is_over": each.ends_on is not None and each.ends_on < today(now),
        "url": reverse("pages:capacity", kwargs={"policy": policy, "capacity_id": each.pk}),
    }


def _capacity_initial(capacity: Capacity) -> dict[str, Any]:
    return {
        "per_hour": typed_amount(capacity.per_hour),
        "site": capacity.site,
        "starts_on": capacity.starts_on,
        "ends_on": capacity.ends_on,
        "note": capacity.note,
    }


def _capacities_url(policy: str) -> str:
    return reverse("pages:capacities", kwargs={"policy": policy})
