"""Monthly statements of a group: a page, and the same as a table."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core.errors import Invalid
from apps.dashboard.shell import lines
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.downloads import csv_response
from apps.dashboard.statements import presenters as statement_lines
from apps.notices.statements.selectors import StatementLine, get_statements


@require_safe
def statements(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    """Twelve months, and one of them with its formulas, its parts and its changes of shares."""
    actor, problem = actor_of(request), ""
    try:
        page = get_statements(policy_slug=policy, uid=uid, month=request.GET.get("month", ""), actor=actor)
    except Invalid as error:
        page, problem = get_statements(policy_slug=policy, uid=uid, actor=actor), error.message
    chosen = page.chosen
    drawn = statement_lines.draw(page, chosen)
    tree = reverse("dashboard:policy", kwargs={"policy": policy})
    entry = lines.entry_url(policy, uid, page.name)
    context = {
        "page": page,
        "policy": policy,
        "name": lines.name_slug(page.name),
        "problem": problem,
        "verdict": statement_lines.verdict(chosen),
        "chosen": drawn,
        "amounts": [
            (*amount, formula)
            for (_key, _label, formula), amount in zip(statement_lines.FORMULAS, drawn.amounts, strict=True)
        ],
        "labels": [label for _key, label, _formula in statement_lines.FORMULAS],
        "months": [statement_lines.draw(page, line) for line in page.months if _is_worth_a_row(line, chosen)],
        "parts": [statement_lines.draw(page, line, is_part=True) for line in page.children],
        "corrections": statement_lines.corrections(chosen),
        "here": statement_lines.page_url(policy, chosen),
        "crumbs": [
            {"label": page.policy_name, "url": tree},
            {"label": page.name, "url": entry},
            {"label": _("Statements")},
        ],
    }
    return render(request, "dashboard/notices/statements.html", context, status=422 if problem else 200)


@require_safe
def table(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponseBase:
    """With a month: that month of the group and its parts. Without: twelve months of the group."""
    month = request.GET.get("month", "")
    page = get_statements(policy_slug=policy, uid=uid, month=month, actor=actor_of(request))
    found = [page.chosen, *page.children] if month else list(page.months)
    file_name = f"statement-{policy}-{lines.name_slug(page.name)}{'-' + page.chosen.month.text if month else ''}.csv"
    return csv_response(file_name, statement_lines.HEADER, statement_lines.table_rows(found))


def _is_worth_a_row(line: StatementLine, chosen: StatementLine) -> bool:
    """Months from before there was anything are left out."""
    return line.month == chosen.month or line.figures is not None or line.is_suppressed or bool(line.adjusted)
