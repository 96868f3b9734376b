"""Where in the tree is the imbalance, now or then: the whole as one picture."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.dashboard import icicle_lines, time_travel
from apps.dashboard.actor import actor_of
from apps.dashboard.downloads import csv_response
from apps.dashboard.htmx import SeeOther
from apps.dashboard.views.policy import panel_context
from apps.errors import FieldProblem, Invalid
from apps.priorities.selectors import EntryRow
from apps.priorities.selectors.icicle import SIZES, IciclePage, get_icicle


@require_safe
def icicle(request: HttpRequest, policy: str) -> HttpResponse:
    """`?entry=` fills the picture, `?size=target|actual` its heights, `?at=` a revision or an instant."""
    if elsewhere := time_travel.day_asked(request):
        return SeeOther(elsewhere)
    page = _read(request, policy)
    top = page.top.row
    link = _links(request, policy, page)
    chosen = _uid(request.GET.get("entry", ""))
    context = {
        "page": page,
        "figures": icicle_lines.figures(page, link, None),
        "label": icicle_lines.picture_label(page),
        "legend": icicle_lines.legend(),
        "rows": icicle_lines.table_rows(page, link),
        "way": [(row.name, link(row)) for row in page.way],
        "top": top,
        "sizes": [(size, _address(request, policy, size=size), size == page.sizes) for size in SIZES],
        "query": _carried(request, entry=str(chosen) if chosen else ""),
        "policy": policy,
        "time_bar": time_travel.time_bar(request, page.moment),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            {"label": _("Icicle")},
        ],
        **panel_context(request, policy, chosen),
    }
    return render(request, "dashboard/convergence/icicle.html", context)


@require_safe
def entries_csv(request: HttpRequest, policy: str) -> HttpResponseBase:
    """The entries of the picture as numbers."""
    page = _read(request, policy)
    return csv_response(f"{policy}-icicle.csv", icicle_lines.CSV_HEADER, icicle_lines.csv_rows(page))


def _read(request: HttpRequest, policy: str) -> IciclePage:
    sizes = request.GET.get("size", SIZES[0])
    if sizes not in SIZES:
        message = _("“%(text)s” is no size; there are %(known)s.") % {"text": sizes[:40], "known": ", ".join(SIZES)}
        raise Invalid(message, fields=[FieldProblem("size", message)])
    return get_icicle(
        policy_slug=policy, actor=actor_of(request), top_uid=_uid(request.GET.get("entry", "")), sizes=sizes,
        at=time_travel.moment_asked(request),
    )  # fmt: skip


def _uid(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        message = _("The address names an entry that can’t be one. Open the picture again and choose it there.")
        raise Invalid(message, fields=[FieldProblem("entry", text[:64])]) from None


def _links(request: HttpRequest, policy: str, page: IciclePage) -> Any:
    def link(row: EntryRow) -> str:
        """Into the entry; the one that fills the picture leads out again."""
        if page.top.row is not None and row.uid == page.top.row.uid and page.way:
            row = page.way[-1]
        return _address(request, policy, entry="" if row.parent_uid is None else str(row.uid))

    return link


def _carried(request: HttpRequest, **changes: str) -> str:
    state = {name: request.GET[name] for name in ("entry", "size", time_travel.AT) if request.GET.get(name)}
    state |= changes
    return urlencode({name: value for name, value in state.items() if value})


def _address(request: HttpRequest, policy: str, **changes: str) -> str:
    query, here = _carried(request, **changes), reverse("dashboard:icicle", kwargs={"policy": policy})
    return f"{here}?{query}" if query else here
