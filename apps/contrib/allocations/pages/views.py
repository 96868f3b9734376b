"""Pages of a policy's allocations: the board of now, the table of a period, and the calendar of dates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.contrib.allocations.board import MOST_BOARD_ROWS, AllocationBoard, BoardRow, get_allocation_board
from apps.contrib.allocations.loaded import Loaded, open_allocations
from apps.contrib.allocations.pages import board_presenters
from apps.contrib.allocations.pages import presenters as allocation_presenters
from apps.contrib.allocations.pages.calendar import calendar_context, soon_context
from apps.contrib.allocations.pages.forms import (
    NewAllocationForm,
    neighbours,
    period_from_query,
    period_text,
    query_of,
    uid_from_query,
    unit_from_query,
    unit_query,
    units_in,
    zone,
)
from apps.contrib.allocations.pages.typed_warnings import typed_warnings
from apps.contrib.allocations.periods import day_of, whole_year
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.contrib.allocations.table import AllocationTable, get_allocation_table
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed
from apps.mapping.permissions import load_visibility, rights_in
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.web.shell.requests import SeeOther, actor_of, csv_response, fragment


def page_url(policy: str, **_kwargs: Any) -> str:
    return reverse("pages:allocations", kwargs={"policy": policy})


def periods_url(policy: str, **_kwargs: Any) -> str:
    return reverse("pages:allocations-periods", kwargs={"policy": policy})


def calendar_url(policy: str, **_kwargs: Any) -> str:
    return reverse("pages:allocations-calendar", kwargs={"policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def allocations(request: HttpRequest, policy: str) -> HttpResponseBase:
    """The board of now (`?unit=`, `?of=`); POST allocates to an entry by its path. A period has its own page."""
    if request.method != "POST":
        if request.GET.get("from") or request.GET.get("to"):
            return SeeOther(f"{periods_url(policy)}?{request.GET.urlencode()}")
        return _board_page(request, policy, None)
    form = NewAllocationForm(request.POST, units=units_in(policy, actor_of(request)))
    if form.is_valid():
        cleaned_data = form.cleaned_data
        try:
            create_allocation(
                policy_slug=policy,
                entry_uid=_entry(request, policy, cleaned_data["entry"]),
                terms=AllocationTerms(
                    starts_on=cleaned_data["starts_on"],
                    ends_on=cleaned_data["ends_on"],
                    amount=cleaned_data["amount"],
                    unit=cleaned_data["unit"],
                    reason=cleaned_data["reason"],
                ),
                at=clock.now(),
                actor=actor_of(request),
                visibility=load_visibility,
            )
        except (Invalid, Conflict) as refusal:
            form.add_refusal(refusal)
        except NotAllowed as refusal:
            if not board_of(request, policy).may_allocate_below:
                raise
            form.add_refusal(refusal)
        else:
            amount = allocation_presenters.quantity(cleaned_data["amount"], cleaned_data["unit"])
            words = {"n": amount, "entry": cleaned_data["entry"]}
            messages.success(request, _("%(n)s are allocated to %(entry)s.") % words)
            return SeeOther(f"{page_url(policy)}?{urlencode({'unit': cleaned_data['unit']})}")
    return _board_page(request, policy, form, status=422)


@require_safe
def download_board(request: HttpRequest, policy: str) -> HttpResponseBase:
    """All rows of the board as CSV."""
    board = board_of(request, policy, limit=None)
    rows = (board_presenters.board_csv_row(row, board.unit.symbol) for row in _all_rows(board))
    day = day_of(board.now, board.zone)
    return csv_response(f"{policy}-allocations-{day}.csv", board_presenters.board_csv_header(), rows)


@require_safe
def periods(request: HttpRequest, policy: str) -> HttpResponse:
    """The table of a period (`?from=&to=`, else this year) and group (`?of=`), also of entries without allocation."""
    context = table_context(request, policy)
    context["crumbs"] = _own_crumbs(context["table"])
    return render(request, "contrib/allocations/periods.html", context)


@require_safe
@fragment(periods_url)
def table(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with headline, numbers and table of a period and group."""
    return render(request, "contrib/allocations/_table.html", table_context(request, policy))


@require_safe
@fragment(calendar_url)
def soon(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with the allocations and shares that end within 7, 30 or 90 days."""
    return render(request, "contrib/allocations/_soon.html", soon_context(request, _loaded(request, policy)))


@require_safe
def download(request: HttpRequest, policy: str) -> HttpResponseBase:
    """All rows of the table as CSV; text that a spreadsheet would read as a formula is escaped."""
    table = table_of(request, policy, limit=None)
    name = f"{policy}-allocations-{table.period.starts_on}-{table.period.ends_on}.csv"
    rows = (allocation_presenters.csv_row(row, table.unit.symbol) for row in table.rows)
    return csv_response(name, allocation_presenters.csv_header(), rows)


@require_safe
def calendar(request: HttpRequest, policy: str) -> HttpResponse:
    """A month as a table, and the dates on which allocations and shares start and end."""
    loaded = _loaded(request, policy)
    context = calendar_context(request, loaded) | soon_context(request, loaded)
    crumbs = [*crumbs_of(policy, context["upcoming"].policy_name), {"label": _("Calendar")}]
    return render(request, "contrib/allocations/calendar.html", {**context, "crumbs": crumbs})


@require_safe
@fragment(calendar_url)
def month(request: HttpRequest, policy: str) -> HttpResponse:
    return render(request, "contrib/allocations/_calendar.html", calendar_context(request, _loaded(request, policy)))


@require_safe
@fragment(page_url)
def board_warnings(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with what the form of the board warns of, for what is typed so far; stores nothing."""
    texts = _warnings(request, board_of(request, policy, limit=0), request.GET)
    return render(request, "contrib/allocations/_warnings.html", {"warnings": texts})


def _warnings(request: HttpRequest, board: AllocationBoard, typed: Mapping[str, Any]) -> list[str]:
    """Nothing before a visible entry is named."""
    try:
        entry_uid = _entry(request, board.policy_slug, str(typed.get("entry") or ""))
    except Invalid:
        return []
    return typed_warnings(_loaded(request, board.policy_slug), entry_uid=entry_uid, unit=board.unit, typed=typed)


def _board_page(
    request: HttpRequest, policy: str, form: NewAllocationForm | None, *, status: int = 200
) -> HttpResponse:
    board = board_of(request, policy)
    today = day_of(board.now, board.zone)
    year = whole_year(today)
    last = board.to_give.days.ends_on if board.to_give is not None else year.ends_on
    initial = {"starts_on": today, "ends_on": max(today, last), "unit": board.unit.symbol}
    unit = unit_query(board.unit.symbol, len(board.units)).removeprefix("&")
    group = f"&of={board.group_uid}"
    own = board_presenters.draw_board_line(board, board.own) if board.own is not None else None
    may_read = bool(board.unmapped) and rights_in(policy, at=board.now, actor=actor_of(request)).reads_anywhere
    context = {
        "policy": policy,
        "policy_name": board.policy_name,
        "board": board,
        "own": own,
        "groups": board_presenters.board_groups(board),
        "without": [
            {"url": allocation_presenters.tab_url(policy, uid, name), "name": name} for uid, name in board.without
        ],
        "title": board_presenters.board_title(board),
        "without_title": board_presenters.without_text(board.n_without),
        "n_more_without": board.n_without - len(board.without),
        "verdict": board_presenters.board_verdict(board),
        "kpis": board_presenters.board_figures(board),
        "unit": board.unit,
        "units": board_presenters.board_unit_choices(board, group),
        "query": f"{unit}{group}".removeprefix("&"),
        "cursor_query": f"{unit}{group}&cursor={board.next_cursor}".removeprefix("&"),
        "is_continued": bool(request.GET.get("cursor")),
        "period_query": f"{query_of(year)}{group}{'&' if unit else ''}{unit}",
        "unmapped": allocation_presenters.quantity(board.unmapped, board.unit.symbol) if board.unmapped else "",
        "may_read_accounts": may_read,
        "ask_url": _ask_url(board) if board.may_ask else "",
        "places": [row.path for row in _all_rows(board) if row.may_allocate],
        "form": form or NewAllocationForm(initial=initial, units=board.units),
        "warnings": _warnings(request, board, form.data) if form is not None else [],
        "crumbs": _board_crumbs(board),
    }
    return render(request, "contrib/allocations/allocations.html", context, status=status)


def _loaded(request: HttpRequest, policy: str) -> Loaded:
    return open_allocations(policy_slug=policy, actor=actor_of(request))


def _ask_url(board: AllocationBoard) -> str:
    url = allocation_presenters.tab_url(board.policy_slug, board.group_uid, board.group_name)
    return f"{url}?{urlencode({'unit': board.unit.symbol})}#requests"


def board_of(request: HttpRequest, policy: str, *, limit: int | None = MOST_BOARD_ROWS) -> AllocationBoard:
    """The board for the unit, group and cursor in the query."""
    return get_allocation_board(
        policy_slug=policy,
        zone=zone(),
        actor=actor_of(request),
        of=uid_from_query(request.GET.get("of", "")),
        unit=unit_from_query(request),
        cursor=request.GET.get("cursor") or None,
        limit=limit,
    )


def _all_rows(board: AllocationBoard) -> list[BoardRow]:
    return [*([board.own] if board.own is not None else []), *board.rows]


def _board_crumbs(board: AllocationBoard) -> list[dict[str, Any]]:
    crumbs = crumbs_of(board.policy_slug, board.policy_name)
    if not board.above:
        return [crumbs[0], {"label": crumbs[1]["label"]}]
    page = page_url(board.policy_slug)
    root, *inner = board.above
    crumbs[1]["url"] = f"{page}?of={root[0]}"
    return [*crumbs, *({"label": name, "url": f"{page}?of={uid}"} for uid, name in inner), {"label": board.group_name}]


def _own_crumbs(table: AllocationTable) -> list[dict[str, Any]]:
    crumbs = crumbs_of(table.policy_slug, table.policy_name)
    if not table.above:
        return [crumbs[0], {"label": crumbs[1]["label"]}]
    page = periods_url(table.policy_slug)
    period = query_of(table.period)
    crumbs[1]["url"] = f"{page}?{period}"
    inner = [{"label": name, "url": f"{page}?{period}&of={uid}"} for uid, name in table.above[1:]]
    return [*crumbs, *inner, {"label": table.group.name}]


def crumbs_of(policy: str, name: str) -> list[dict[str, Any]]:
    tree = {"label": name, "url": reverse("pages:policy", kwargs={"policy": policy})}
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
        unit=unit_from_query(request),
    )


def table_context(request: HttpRequest, policy: str) -> dict[str, Any]:
    now = clock.now()
    queried, table = period_from_query(request, now), table_of(request, policy)
    unit = unit_query(table.unit.symbol, len(table.units))
    group = (f"&of={table.group.entry}" if table.above else "") + unit
    drawn = allocation_presenters.draw_lines(table)
    without = allocation_presenters.worst_first([line for line in drawn if line.row.allocated is None])
    return {
        "policy": policy,
        "policy_name": table.policy_name,
        "table": table,
        "lines": allocation_presenters.worst_first([line for line in drawn if line.row.allocated is not None]),
        "without": without,
        "without_title": board_presenters.without_text(len(without)),
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
        "units": allocation_presenters.unit_choices(table, queried.query + group.removesuffix(unit)),
        "unit": table.unit,
        "years": [{**year, "query": year["query"] + group} for year in neighbours(table.period, now)],
        "query": queried.query + group,
        "now_query": group.removeprefix("&"),
        "gap": allocation_presenters.gap_text(table),
        "unmapped": allocation_presenters.quantity(table.unmapped, table.unit.symbol) if table.unmapped else "",
        "may_read_accounts": bool(table.unmapped) and rights_in(policy, at=now, actor=actor_of(request)).reads_anywhere,
    }


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
