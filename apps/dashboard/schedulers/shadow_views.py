"""Shadow mode of one scheduler: agreement over time, the largest differences, and switching on what is trusted."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, Stale
from apps.dashboard.schedulers import differences
from apps.dashboard.shell.figure_frames import answer_figure, framed
from apps.dashboard.shell.requests import SeeOther, actor_of
from apps.figures import Figure
from apps.figures.agreement import DAYS, PERIODS_DAYS, agreement_figure
from apps.figures.figure import read_days
from apps.schedulers.orders import orders_of, tag_of
from apps.schedulers.selectors import get_shadow, list_agreement, list_partitions
from apps.schedulers.services import switch_on as switch_scheduler_on

_STATUS: tuple[tuple[type[DomainError], int], ...] = ((Stale, 412), (Conflict, 409), (Invalid, 422))


@require_safe
def shadow(request: HttpRequest, name: str) -> HttpResponse:
    """How far the scheduler's own order and numbers are from ours."""
    return _page(request, name)


@require_safe
def agreement(request: HttpRequest, name: str, form: str = "json") -> HttpResponseBase:
    """The figure, for the page's own query."""
    return answer_figure(request, _figure(request, name), form)


@require_POST
def switch_on(request: HttpRequest, name: str) -> HttpResponse:
    """`partition` (several), `subtree`, `reason`, and `tag`: the state that was read."""
    given = {
        "partitions": request.POST.getlist("partition"),
        "subtree": request.POST.get("subtree", "").strip(),
        "everything": request.POST.get("everything") == "1",
        "reason": request.POST.get("reason", "").strip()[:1_000],
        "tag": request.POST.get("tag", ""),
    }
    try:
        switch_scheduler_on(name=name, **given, at=clock.now(), actor=actor_of(request))  # type: ignore[arg-type]
    except (Invalid, Conflict, Stale) as refusal:
        status = next(status for kind, status in _STATUS if isinstance(refusal, kind))
        return _page(request, name, refusal=refusal, status=status)
    messages.success(request, _("Switched on. The agent sends values in its next pass."))
    return SeeOther(reverse("dashboard:scheduler-shadow", kwargs={"name": name}))


def _page(request: HttpRequest, name: str, *, refusal: DomainError | None = None, status: int = 200) -> HttpResponse:
    found = get_shadow(name=name, at=clock.now(), actor=actor_of(request))
    scheduler, compared = found.scheduler, found.comparison
    source = reverse("dashboard:scheduler-agreement", kwargs={"name": name})
    context: dict[str, Any] = {
        "scheduler": scheduler,
        "orders": orders_of(scheduler),
        "tag": tag_of(scheduler),
        "taken_at": found.taken_at,
        "compared": compared,
        "partitions": [one for one in list_partitions(scheduler) if not _is_on(scheduler, one)],
        "problem": _problem(refusal),
        "typed": request.POST if refusal else {},
        "agreement": framed(request, source, lambda: _figure(request, name)),
        "crumbs": [
            {"label": _("Schedulers"), "url": reverse("dashboard:schedulers")},
            {"label": name, "url": reverse("dashboard:scheduler", kwargs={"name": name})},
            {"label": _("Shadow")},
        ],
    }
    if compared is not None:
        context |= {
            "headline": differences.headline(compared),
            "lines": differences.difference_lines(compared),
            "reasons": differences.by_reason(compared.differences),
        }
    return render(request, "dashboard/schedulers/shadow.html", context, status=status)


def _is_on(scheduler: Any, partition: str) -> bool:
    return scheduler.mode == scheduler.Mode.ON and (scheduler.partitions is None or partition in scheduler.partitions)


def _problem(refusal: DomainError | None) -> str:
    if refusal is None:
        return ""
    return " ".join(dict.fromkeys([refusal.message, *(one.message for one in refusal.fields)]))


def _figure(request: HttpRequest, name: str) -> Figure:
    n_days = read_days(request.GET, DAYS, PERIODS_DAYS)
    found = list_agreement(name=name, n_days=n_days, at=clock.now(), actor=actor_of(request))
    return agreement_figure(found, request.GET)
