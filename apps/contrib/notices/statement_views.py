"""Monthly statements of a group in the policy's metric and in its units, as a page and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from apps.contrib.notices.statements.month_close import GRACE
from apps.contrib.notices.statements.selectors import AMOUNTS, StatementLine, StatementPage, get_statements
from apps.core.errors import Invalid
from apps.priorities.sentences import numbers
from apps.series.months import Month
from apps.web.shell import lines, presentation
from apps.web.shell.requests import actor_of, csv_response

HOUR_S = 3600.0
# Amount and formula, as in docs/.
FORMULAS = (
    ("entitled", gettext_lazy("Entitled"), gettext_lazy("Its target, each day, of the usage of all its competitors")),
    ("used", gettext_lazy("Used"), ""),
    ("lent", gettext_lazy("Lent"), gettext_lazy("Unused on days without waiting jobs")),
    ("missed", gettext_lazy("Missed"), gettext_lazy("Unused on days with waiting jobs")),
    ("unclear", gettext_lazy("No data"), gettext_lazy("Unused on days without data on waiting jobs")),
    ("borrowed", gettext_lazy("Borrowed"), gettext_lazy("Used beyond its entitlement, by day")),
)
HEADER = (
    "month",
    "path",
    "unit",
    *(f"{name}_h" for name in AMOUNTS),
    "adjusted_h",
    "target_first",
    "target_last",
    "n_days",
    "missing_days",
    "n_unclear",
    "n_before_first",
    "is_closed",
    "suppressed",
    "rounded",
)


@dataclass(frozen=True, slots=True)
class DrawnStatement:
    line: StatementLine
    month_text: str
    url: str
    amounts: Sequence[tuple[str, str]]  # label, hours of the metric
    in_units: str  # usage in each unit of the policy; empty in one with the core-hour alone
    note: str
    is_chosen: bool


def draw(page: StatementPage, line: StatementLine, *, is_part: bool = False) -> DrawnStatement:
    amounts = [
        (str(label), presentation.hours(getattr(line.figures, name)) if line.figures else numbers.UNKNOWN)
        for name, label, _formula in FORMULAS
    ]
    return DrawnStatement(
        line=line,
        month_text=month_text(line.month),
        url=page_url(page.policy_slug, line) + f"?month={line.month.text}",
        amounts=amounts,
        in_units=units_text(line),
        note=note(line),
        is_chosen=not is_part and line.month == page.chosen.month,
    )


def units_text(line: StatementLine) -> str:
    """Usage of the month in each unit, such as 1,200 core-h · 64 GPU-h."""
    return " · ".join(
        f"{presentation.hours(each.delivered * HOUR_S)}{numbers.NBSP}{each.unit}" for each in line.in_units
    )


def page_url(policy_slug: str, line: StatementLine) -> str:
    name = lines.name_slug(line.name)
    return reverse("pages:statements", kwargs={"policy": policy_slug, "uid": line.uid, "name": name})


def month_text(month: Month) -> str:
    return str(formats.date_format(month.first_on, "F Y"))


def note(line: StatementLine) -> str:
    """Remark on a row."""
    if line.suppressed:
        return _("not shown: fewer than five active users")
    if line.figures is None:
        return _("no days yet") if line.is_pending else _("nothing to divide")
    remarks = []
    if line.missing_days:
        remarks.append(
            ngettext("no data for %(n)s day", "no data for %(n)s days", line.missing_days) % {"n": line.missing_days}
        )
    if line.figures.n_before_first:
        n = line.figures.n_before_first
        remarks.append(
            ngettext("%(n)s day from before the first policy", "%(n)s days from before the first policy", n) % {"n": n}
        )
    if line.corrections:
        remarks.append(_("corrected since"))
    if line.rounded:
        remarks.append(_("rounded"))
    return ", ".join(remarks)


def verdict(line: StatementLine, *, is_root: bool = False) -> str:
    """Summary of the month in one sentence."""
    values = {"name": line.name, "month": month_text(line.month)}
    if line.suppressed:
        return _("%(name)s, %(month)s: not shown: fewer than five active users") % values
    figures = line.figures
    if line.is_pending and not is_root:
        return _("No statement for %(name)s in %(month)s.") % values
    if figures is None or not figures.n_days or not figures.target_last:
        return _("%(name)s had no target in %(month)s.") % values
    if figures.entitled <= 0:
        return _("Nothing to divide: neither %(name)s nor its siblings used anything in %(month)s.") % values
    values["part"] = numbers.percent(figures.used / figures.entitled, 0)
    return _("%(name)s used %(part)s of its entitlement in %(month)s.") % values


def target_change(line: StatementLine) -> str:
    """How its target moved within the month, which changes of other entries' shares do as well."""
    figures = line.figures
    if line.suppressed or figures is None or figures.target_first is None or figures.target_last is None:
        return ""
    shares = numbers.change_shares(figures.target_first, figures.target_last)
    if shares.before == shares.after:
        return ""
    words = {"before": shares.before, "after": shares.after}
    if line.share_changes:
        return _("Its target went from %(before)s to %(after)s.") % words
    return _("Its target went from %(before)s to %(after)s, because shares of others changed.") % words


def corrections(line: StatementLine) -> list[tuple[str, str]]:
    labels = {name: str(label) for name, label, _formula in FORMULAS}
    return [(labels[name], presentation.signed_hours(amount)) for name, amount in line.corrections.items()]


def table_rows(statement_lines: Sequence[StatementLine], unit: str) -> Iterator[tuple[Any, ...]]:
    """CSV rows, amounts in hours of the policy's metric (unit); hidden numbers are empty with `suppressed`."""
    for line in statement_lines:
        figures = line.figures
        amounts = [None if figures is None else getattr(figures, name) / HOUR_S for name in AMOUNTS]
        target: tuple[Any, ...] = (
            (figures.target_first, figures.target_last, figures.n_days) if figures else (None,) * 3
        )
        doubts: tuple[Any, ...] = (figures.n_unclear, figures.n_before_first) if figures else (None,) * 2
        yield (
            line.month.text,
            line.path,
            unit,
            *amounts,
            None if line.adjusted is None else line.adjusted / HOUR_S,
            *target,
            line.missing_days,
            *doubts,
            "yes" if line.is_closed else "no",
            "yes" if line.suppressed else "no",
            "yes" if line.rounded else "no",
        )


@require_safe
def statements(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    """Twelve months, and one of them with formulas, children and changes of shares."""
    actor, problem = actor_of(request), ""
    try:
        page = get_statements(policy_slug=policy, uid=uid, month=request.GET.get("month", ""), actor=actor)
    except Invalid as error:
        page, problem = get_statements(policy_slug=policy, uid=uid, actor=actor), error.message
    chosen = page.chosen
    drawn = draw(page, chosen)
    tree = reverse("pages:policy", kwargs={"policy": policy})
    entry = lines.entry_url(policy, uid, page.name)
    lines.show_tabs_of(request, uid, page.name)
    context = {
        "page": page,
        "policy": policy,
        "name": lines.name_slug(page.name),
        "problem": problem,
        "verdict": verdict(chosen, is_root=page.is_root),
        "chosen": drawn,
        "closes_on": formats.date_format(chosen.month.last_on + GRACE, "j F"),
        "amounts": [
            (*amount, formula) for (_key, _label, formula), amount in zip(FORMULAS, drawn.amounts, strict=True)
        ],
        "unit": presentation.hour_unit(page.metric),
        "labels": [label for _key, label, _formula in FORMULAS],
        "months": [draw(page, line) for line in page.months if _is_worth_a_row(line, chosen)],
        "parts": [draw(page, line, is_part=True) for line in page.children],
        "corrections": corrections(chosen),
        "target_change": target_change(chosen),
        "here": page_url(policy, chosen),
        "crumbs": [
            {"label": page.policy_name, "url": tree},
            {"label": page.name, "url": entry},
            {"label": _("Statements")},
        ],
    }
    return render(request, "contrib/notices/statements.html", context, status=422 if problem else 200)


@require_safe
def table(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponseBase:
    """CSV: with a month, that month of the group and its children; without, twelve months of the group."""
    month = request.GET.get("month", "")
    page = get_statements(policy_slug=policy, uid=uid, month=month, actor=actor_of(request))
    shown = [page.chosen, *page.children] if month else list(page.months)
    file_name = f"statement-{policy}-{lines.name_slug(page.name)}{'-' + page.chosen.month.text if month else ''}.csv"
    return csv_response(file_name, HEADER, table_rows(shown, presentation.hour_unit(page.metric)))


def _is_worth_a_row(line: StatementLine, chosen: StatementLine) -> bool:
    """Whether to show the month: the chosen one, and months with figures or adjustments, also hidden ones."""
    return line.month == chosen.month or line.figures is not None or line.suppressed or bool(line.adjusted)
