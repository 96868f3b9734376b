"""Shadow mode of one scheduler: agreement over time, the largest differences, and switching partitions on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from apps.contrib.schedulers.agreement import pairs_in_order
from apps.contrib.schedulers.figures import DAYS, agreement_figure
from apps.contrib.schedulers.orders import orders_of, tag_of
from apps.contrib.schedulers.selectors import get_shadow, list_agreement, list_partitions, newest_tau
from apps.contrib.schedulers.shadow_differences import Comparison, Difference
from apps.contrib.schedulers.switch_on import SchedulerScope
from apps.contrib.schedulers.switch_on import switch_on as switch_scheduler_on
from apps.core import clock
from apps.core.errors import Conflict, DomainError, Invalid, Stale, status_of
from apps.priorities.sentences import numbers
from apps.web.figures import Figure
from apps.web.figures.figure import read_days
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.forms import read_action
from apps.web.shell.requests import SeeOther, actor_of

MOST_SHADOW_ROWS = 20
_DIGITS = 6  # as sshare prints them
REASONS: dict[str, Any] = {
    "usage": gettext_lazy("usage differs"),
    "tree": gettext_lazy("tree differs"),
    "both": gettext_lazy("usage and tree differ"),
    "restart": gettext_lazy("Slurm’s EffectvUsage doesn’t follow its RawUsage: after a restart, until jobs run"),
    "rule": gettext_lazy("another algorithm of Slurm"),
    "unexplained": gettext_lazy("unexplained"),
    "rounding": gettext_lazy("rounding"),
    "none": gettext_lazy("equal"),
}


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """A difference of one Slurm association, of factors or of usage. parts: of factors, which add up to it."""

    row: Any
    difference: str
    reason: Any
    parts: str = ""


def difference_lines(comparison: Comparison) -> list[DifferenceLine]:
    return [_line(difference) for difference in comparison.ordered()[:MOST_SHADOW_ROWS]]


def _line(difference: Difference) -> DifferenceLine:
    parts = _("usage %(usage)s, tree %(tree)s, rule %(rule)s") % {
        "usage": signed(difference.by_usage),
        "tree": signed(difference.by_tree),
        "rule": signed(difference.by_rule),
    }
    has_parts = difference.reason not in ("none", "rounding")
    return DifferenceLine(
        difference, signed(difference.difference), REASONS[difference.reason], parts if has_parts else ""
    )


def signed(value: float, digits: int = _DIGITS) -> str:
    text = numbers.number(abs(value), digits) if digits else numbers.count(abs(value))
    if not text.strip("0.,"):
        return "0"
    return f"{numbers.MINUS if value < 0 else '+'}{text}"


def headline(comparison: Comparison, tau: float | None = None) -> str:
    """One sentence on how many users differ, and by how much. tau: Kendall's, of both orders."""
    of = len(comparison.differences)
    if not of:
        return _("None of its users has an entry here.")
    n = of - comparison.n_equal
    values = {"n": numbers.count(n), "of": numbers.count(of)}
    if not n:
        text = ngettext("%(of)s user agrees with the scheduler", "All %(of)s users agree with the scheduler", of)
        return text % values
    if comparison.scale == "factor":
        text = ngettext(
            "%(n)s of %(of)s factor differs from the scheduler’s, by %(most)s at most",
            "%(n)s of %(of)s factors differ from the scheduler’s, by %(most)s at most",
            of,
        )
        return text % {**values, "most": numbers.number(comparison.largest, 3)}
    if tau is not None:
        text = ngettext(
            "%(n)s of %(of)s rank differs from the scheduler’s; %(pairs)s of 100 pairs have the same order",
            "%(n)s of %(of)s ranks differ from the scheduler’s; %(pairs)s of 100 pairs have the same order",
            of,
        )
        return text % {**values, "pairs": pairs_in_order(tau)}
    text = ngettext(
        "%(n)s of %(of)s rank differs from the scheduler’s, by %(most)s of the order at most",
        "%(n)s of %(of)s ranks differ from the scheduler’s, by %(most)s of the order at most",
        of,
    )
    return text % {**values, "most": numbers.percent(comparison.largest)}


def by_reason(differences: Sequence[Difference]) -> list[tuple[str, str, int]]:
    """Key, words and count of each reason for a difference that occurs."""
    counted = [
        (key, str(words), sum(difference.reason == key for difference in differences)) for key, words in REASONS.items()
    ]
    return [row for row in counted if row[2] and row[0] != "none"]


@require_safe
def shadow(request: HttpRequest, name: str) -> HttpResponse:
    """Difference between the scheduler's own priorities and ours."""
    return _page(request, name)


@require_safe
def agreement(request: HttpRequest, name: str, form: str = "json") -> HttpResponseBase:
    """Figure of the agreement over time, for the page's query."""
    return answer_figure(request, _figure(request, name), form)


@require_POST
def switch_on(request: HttpRequest, name: str) -> HttpResponse:
    """Switch the chosen partitions of a subtree on; `tag` identifies the state that the page showed."""
    action = read_action(request)
    scope = SchedulerScope(
        partitions=request.POST.getlist("partition"),
        subtree=request.POST.get("subtree", "").strip(),
        everything=request.POST.get("everything") == "1",
    )
    try:
        switch_scheduler_on(
            scope,
            name=name,
            reason=action.reason.strip()[:1_000],
            tag=action.tag,
            at=clock.now(),
            actor=actor_of(request),
        )
    except (Invalid, Conflict, Stale) as refusal:
        return _page(request, name, refusal=refusal, status=status_of(refusal))
    messages.success(request, _("Switched on. The agent sends values in its next pass."))
    return SeeOther(reverse("pages:scheduler-shadow", kwargs={"name": name}))


def _page(request: HttpRequest, name: str, *, refusal: DomainError | None = None, status: int = 200) -> HttpResponse:
    shadow_view = get_shadow(name=name, at=clock.now(), actor=actor_of(request))
    scheduler, compared = shadow_view.scheduler, shadow_view.comparison
    source = reverse("pages:scheduler-agreement", kwargs={"name": name})
    context: dict[str, Any] = {
        "scheduler": scheduler,
        "orders": orders_of(scheduler),
        "tag": tag_of(scheduler),
        "taken_at": shadow_view.taken_at,
        "compared": compared,
        "partitions": [partition for partition in list_partitions(scheduler) if not _is_on(scheduler, partition)],
        "problem": _problem(refusal),
        "typed": request.POST if refusal else {},
        "agreement": framed(request, source, lambda: _figure(request, name)),
        "crumbs": [
            {"label": _("Schedulers"), "url": reverse("pages:schedulers")},
            {"label": name, "url": reverse("pages:scheduler", kwargs={"name": name})},
            {"label": _("Compare")},
        ],
    }
    if compared is not None:
        context |= {
            "headline": headline(compared, newest_tau(scheduler, clock.now())),
            "lines": difference_lines(compared),
            "reasons": by_reason(compared.differences),
        }
    return render(request, "contrib/schedulers/shadow.html", context, status=status)


def _is_on(scheduler: Any, partition: str) -> bool:
    return scheduler.mode == scheduler.Mode.ON and (scheduler.partitions is None or partition in scheduler.partitions)


def _problem(refusal: DomainError | None) -> str:
    if refusal is None:
        return ""
    return " ".join(dict.fromkeys([refusal.message, *(field.message for field in refusal.fields)]))


def _figure(request: HttpRequest, name: str) -> Figure:
    n_days = read_days(request.GET, DAYS)
    agreement_days = list_agreement(name=name, n_days=n_days, at=clock.now(), actor=actor_of(request))
    return agreement_figure(agreement_days, request.GET)
