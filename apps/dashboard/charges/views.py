"""What jobs count in a policy: a list of one's own or of those that one may read, and the arithmetic of each."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.dashboard.charges import presenters as charge_lines
from apps.dashboard.shell.requests import actor_of, csv_response, fragment
from apps.priorities.charges import HEADER, ChargesPage, charge_rows, get_charge, list_charges

_MOST_CSV = 1_000


def page_url(policy: str) -> str:
    return reverse("dashboard:charges", kwargs={"policy": policy})


@require_safe
def charges(request: HttpRequest, policy: str) -> HttpResponse:
    """`?job=`, `?account=` and `?source=` choose others than one's own."""
    return _private(render(request, "dashboard/charges/charges.html", _listed(request, policy)))


@require_safe
@fragment(page_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """The list of what was searched for."""
    return _private(render(request, "dashboard/charges/_rows.html", _listed(request, policy)))


@require_safe
def table(request: HttpRequest, policy: str) -> HttpResponseBase:
    """The same list as CSV: numbers unrounded."""
    found = _found(request, policy, limit=_MOST_CSV)
    return csv_response(f"{policy}-charges.csv", HEADER, charge_rows(found.jobs))


@require_safe
def charge(request: HttpRequest, policy: str, record: int) -> HttpResponse:
    """One job, worked out."""
    job, page = get_charge(policy_slug=policy, record_id=record, actor=actor_of(request))
    number = charge_lines.number_of(job)
    crumbs = [*_crumbs(page), {"label": _("Job %(number)s") % {"number": number}}]
    crumbs[-2]["url"] = page_url(policy)
    context = {"job": job, "policy": policy, "crumbs": crumbs, **charge_lines.draw(job, page)}
    return _private(render(request, "dashboard/charges/charge.html", context))


def _listed(request: HttpRequest, policy: str) -> dict[str, Any]:
    page = _found(request, policy)
    asked = {name: _asked(request, name) for name in ("job", "account", "source")}
    query = request.GET.copy()
    query.pop("before", None)
    return {
        "page": page,
        "policy": policy,
        "lines": charge_lines.lines_of(page),
        "asked": asked,
        "is_search": any(asked.values()),
        "unit": charge_lines.unit_of(page.settings),
        "query": query.urlencode(),
        "crumbs": _crumbs(page),
    }


def _found(request: HttpRequest, policy: str, limit: int = 50) -> ChargesPage:
    text = _asked(request, "before")
    before = int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None
    asked = {name: _asked(request, name) for name in ("job", "account", "source")}
    return list_charges(policy_slug=policy, before=before, limit=limit, actor=actor_of(request), **asked)


def _asked(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "")[:1024].replace("\0", "").strip()


def _crumbs(page: ChargesPage) -> list[dict[str, Any]]:
    tree = reverse("dashboard:policy", kwargs={"policy": page.policy.slug})
    return [{"label": page.policy.name, "url": tree}, {"label": _("Charges of jobs")}]


def _private(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "private, no-store"
    return response
