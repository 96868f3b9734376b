"""Pages of a policy's allocations: the table of core-hours, the calendar of dates, and a trial of an allocation."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.contrib.allocations.conversion import ConversionQuery, preview_core_hours
from apps.contrib.allocations.core_hour_weeks import CoreHourWeeks
from apps.contrib.allocations.figures.by_name import CORE_HOUR_FIGURES, FIGURE_STATE, draw_core_hour_figure
from apps.contrib.allocations.pages import presenters as allocation_presenters
from apps.contrib.allocations.pages.calendar import calendar_context, plan_context, soon_context
from apps.contrib.allocations.pages.forms import (
    NewAllocationForm,
    neighbours,
    period_from_query,
    period_text,
    query_of,
    uid_from_query,
    zone,
)
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.contrib.allocations.table import AllocationTable, get_allocation_table
from apps.contrib.allocations.usage import get_core_hour_weeks
from apps.core import clock
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed
from apps.core.typed_numbers import read_amount
from apps.mapping.permissions import load_visibility, rights_in
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.web.shell import presentation
from apps.web.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.web.shell.requests import SeeOther, actor_of, csv_response, fragment


def page_url(policy: str, **_kwargs: Any) -> str:
    return reverse("dashboard:allocations", kwargs={"policy": policy})


def calendar_url(policy: str, **_kwargs: Any) -> str:
    return reverse("dashboard:allocations-calendar", kwargs={"policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def allocations(request: HttpRequest, policy: str) -> HttpResponse:
    """The table for a period (`?from=&to=`) and group (`?of=`); POST allocates core-hours to an entry by its path."""
    now = clock.now()
    if request.method != "POST":
        return _page(request, policy, None)
    form = NewAllocationForm(request.POST)
    if form.is_valid():
        cleaned_data = form.cleaned_data
        try:
            create_allocation(
                policy_slug=policy,
                entry_uid=_entry(request, policy, cleaned_data["entry"]),
                terms=AllocationTerms(
                    starts_on=cleaned_data["starts_on"],
                    ends_on=cleaned_data["ends_on"],
                    core_h=cleaned_data["core_h"],
                    reason=cleaned_data["reason"],
                ),
                at=now,
                actor=actor_of(request),
                visibility=load_visibility,
            )
        except (Invalid, Conflict) as refusal:
            form.add_refusal(refusal)
        except NotAllowed as refusal:
            if not table_of(request, policy).may_allocate_below:
                raise
            form.add_refusal(refusal)
        else:
            words = {"n": allocation_presenters.core_h(cleaned_data["core_h"]), "entry": cleaned_data["entry"]}
            messages.success(request, _("%(n)s core-hours are allocated to %(entry)s.") % words)
            return SeeOther(page_url(policy))
    return _page(request, policy, form, status=422)


@require_safe
@fragment(page_url)
def table(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with headline, numbers and table of a period and group."""
    return render(request, "contrib/allocations/_table.html", table_context(request, policy))


@require_safe
@fragment(page_url)
def soon(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with the allocations and shares that end within 7, 30 or 90 days."""
    return render(request, "contrib/allocations/_soon.html", soon_context(request, policy))


@require_safe
@fragment(page_url)
def trial(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with the share that an amount of core-hours would be of a group; stores nothing."""
    context = trial_context(request, policy, table_of(request, policy))
    status = 422 if context["trial_problem"] else 200
    return render(request, "contrib/allocations/_trial.html", context, status=status)


@require_safe
def download(request: HttpRequest, policy: str) -> HttpResponseBase:
    """All rows of the table as CSV; text that a spreadsheet would read as a formula is escaped."""
    table = table_of(request, policy, limit=None)
    name = f"{policy}-core-hours-{table.period.starts_on}-{table.period.ends_on}.csv"
    return csv_response(name, allocation_presenters.csv_header(), map(allocation_presenters.csv_row, table.rows))


@require_safe
def figure(request: HttpRequest, policy: str, figure: str, form: str = "json") -> HttpResponseBase:
    """Figure of core-hours by week, or of the remainder of allocations, for the page's query."""
    return answer_figure(request, draw_core_hour_figure(figure, _weeks(request, policy), request.GET), form)


@require_safe
def calendar(request: HttpRequest, policy: str) -> HttpResponse:
    """A month as a table, and the dates on which allocations and shares start and end."""
    context = calendar_context(request, policy)
    crumbs = [*crumbs_of(policy, context["upcoming"].policy_name), {"label": _("Calendar")}]
    return render(request, "contrib/allocations/calendar.html", {**context, "crumbs": crumbs})


@require_safe
@fragment(calendar_url)
def month(request: HttpRequest, policy: str) -> HttpResponse:
    return render(request, "contrib/allocations/_calendar.html", calendar_context(request, policy))


def _page(request: HttpRequest, policy: str, form: NewAllocationForm | None, *, status: int = 200) -> HttpResponse:
    context = table_context(request, policy)
    table: AllocationTable = context["table"]
    initial = {"starts_on": table.period.starts_on, "ends_on": table.period.ends_on}
    context |= soon_context(request, policy)
    context |= plan_context(request, policy)
    context |= trial_context(request, policy, table)
    context |= {"form": form or NewAllocationForm(initial=initial), "crumbs": _own_crumbs(table)}
    return render(request, "contrib/allocations/allocations.html", context, status=status)


def _figures(request: HttpRequest, policy: str) -> list[FigureFrame]:
    """Frames of all figures; their data is loaded once, and only if a figure is drawn."""

    @cache
    def weeks() -> CoreHourWeeks:
        return _weeks(request, policy)

    def frame(name: str) -> FigureFrame:
        source = reverse("dashboard:allocations-figure", kwargs={"policy": policy, "figure": name})
        return framed(request, source, lambda: draw_core_hour_figure(name, weeks(), request.GET))

    return [frame(name) for name in CORE_HOUR_FIGURES]


def _weeks(request: HttpRequest, policy: str) -> CoreHourWeeks:
    """Core-hours by week; raises Invalid for an invalid period, which the page reports above this year's table."""
    queried = period_from_query(request, clock.now())
    if queried.problem:
        raise Invalid(queried.problem, fields=[FieldProblem("from", queried.problem)])
    period, of = queried.period, uid_from_query(request.GET.get("of", ""))
    return get_core_hour_weeks(policy_slug=policy, period=period, zone=zone(), of=of, actor=actor_of(request))


def _own_crumbs(table: AllocationTable) -> list[dict[str, Any]]:
    crumbs = crumbs_of(table.policy_slug, table.policy_name)
    if not table.above:
        return [crumbs[0], {"label": crumbs[1]["label"]}]
    page = page_url(table.policy_slug)
    period = query_of(table.period)
    crumbs[1]["url"] = f"{page}?{period}"
    inner = [{"label": name, "url": f"{page}?{period}&of={uid}"} for uid, name in table.above[1:]]
    return [*crumbs, *inner, {"label": table.group.name}]


def crumbs_of(policy: str, name: str) -> list[dict[str, Any]]:
    tree = {"label": name, "url": reverse("dashboard:policy", kwargs={"policy": policy})}
    return [tree, {"label": _("Allocations"), "url": page_url(policy)}]


def table_of(request: HttpRequest, policy: str, *, limit: int | None = 200) -> AllocationTable:
    """The table for the period, group and cursor in the query."""
    return get_allocation_table(
        policy_slug=policy,
        period=period_from_query(request, clock.now()).period,
        zone=zone(),
        of=uid_from_query(request.GET.get("of", "")),
        cursor=request.GET.get("cursor") or None,
        limit=limit,
        actor=actor_of(request),
    )


def table_context(request: HttpRequest, policy: str) -> dict[str, Any]:
    now = clock.now()
    queried, table = period_from_query(request, now), table_of(request, policy)
    group = f"&of={table.group.entry}" if table.above else ""
    state = urlencode([(name, request.GET[name]) for name in FIGURE_STATE if request.GET.get(name)])
    drawn, shown = allocation_presenters.draw_lines(table), f"&{state}" if state else ""
    return {
        "policy": policy,
        "policy_name": table.policy_name,
        "table": table,
        "lines": drawn,
        "columns": {
            "days": any(line.period or line.ended for line in drawn),
            "share": any(line.share for line in drawn),
            "below": any(line.sub_allocated or line.over or line.unallocated for line in drawn),
        },
        "verdict": allocation_presenters.verdict(table),
        "kpis": allocation_presenters.kpis(table),
        "period": table.period,
        "period_text": period_text(table.period),
        "period_problem": queried.problem,
        "years": [{**year, "query": year["query"] + group + shown} for year in neighbours(table.period, now)],
        "figures": _figures(request, policy),
        "figure_state": " ".join(FIGURE_STATE),
        "query": queried.query + group,
        "gap": allocation_presenters.gap_text(table),
        "places": [line.row.path for line in drawn if line.row.may_allocate],
        "unmapped": allocation_presenters.core_h(table.unmapped_core_h) if table.unmapped_core_h else "",
        "may_read_accounts": bool(table.unmapped_core_h)
        and rights_in(policy, at=now, actor=actor_of(request)).reads_anywhere,
    }


def trial_context(request: HttpRequest, policy: str, table: AllocationTable) -> dict[str, Any]:
    typed = request.GET.get("core_h", "").strip()[:40]
    groups = [{"value": str(table.group.entry), "label": _group_label(table.group.name, table.group.allocated_core_h)}]
    groups += [
        {"value": str(row.entry), "label": _group_label(row.path, row.allocated_core_h)}
        for row in table.rows
        if row.allocated_core_h is not None and row.has_sub_allocations
    ]
    chosen = request.GET.get("part_of") or groups[0]["value"]
    context: dict[str, Any] = {
        "trial": None,
        "trial_problem": "",
        "trial_code": "",
        "typed_core_h": typed,
        "groups": groups,
        "chosen": chosen,
        "policy": policy,
        "period": table.period,
    }
    if not typed:
        return context
    try:
        parent_uid = uid_from_query(chosen) or table.group.entry
        trial = preview_core_hours(
            policy_slug=policy,
            query=ConversionQuery(parent_uid=parent_uid, period=table.period, zone=zone()),
            core_h=read_amount(typed),
            at=clock.now(),
            actor=actor_of(request),
            visibility=load_visibility,
        )
    except ValueError as problem:
        return {**context, "trial_problem": str(problem), "trial_code": "number"}
    except DomainError as refusal:
        return {**context, "trial_problem": refusal.message, "trial_code": refusal.code}
    return {**context, "trial": trial, "trial_lines": _trial_lines(trial, table)}


def _trial_lines(trial: Any, table: AllocationTable) -> list[tuple[str, str]]:
    """Labels and values of a trial."""
    unknown = _("No capacity is recorded")
    part = presentation.percent(trial.part) if trial.part is not None else unknown
    if trial.part is not None and trial.part_of_whole is not None and trial.part != trial.part_of_whole:
        whole = presentation.percent(trial.part_of_whole)
        part = _("%(part)s of its group, %(whole)s of the policy") % {"part": part, "whole": whole}
    beside = {"shares": presentation.shares(trial.shares), "others": presentation.shares_short(trial.sum_of_shares)}
    shares = _("%(shares)s beside %(others)s") % beside if trial.shares is not None else _("unknown")
    return [
        (_("Share"), part),
        (_("As shares, others unchanged"), shares),
        (_("Cores"), f"{presentation.cores_text(trial.cores)}, {period_text(table.period)}"),
    ]


def _group_label(name: str, own: float | None) -> str:
    return (
        _("%(name)s: %(n)s core-h") % {"name": name, "n": allocation_presenters.core_h(own)}
        if own is not None
        else name
    )


def _entry(request: HttpRequest, policy: str, text: str) -> UUID:
    """UID of the entry with a path; raises Invalid if the actor sees no such entry."""
    actor, path = actor_of(request), "/" + text.strip().strip("/")
    policy_row = get_policy(slug=policy, actor=actor)
    tree = load_tree(policy_row)
    i = tree.index_of_path(path)
    if i is None or not load_visibility(policy=policy_row, tree=tree, at=clock.now(), actor=actor).may_see(i):
        message = _("No visible entry %(path)s.") % {"path": path[:200]}
        raise Invalid(message, fields=[FieldProblem("entry", message)])
    return tree.uuid(i)
