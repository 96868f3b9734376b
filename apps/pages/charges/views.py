"""Pages of job charges in a policy: the list of one's own or of readable jobs, and one job."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.accounts.actor import Actor
from apps.core.typed_numbers import read_whole
from apps.pages.charges.presenters import draw, draw_own_use
from apps.priorities.charges import ChargesPage, get_charge, list_charges
from apps.priorities.selectors.rows import open_view
from apps.series.days import site_zone
from apps.series.own_days import load_own_days
from apps.web.listings.charge_listing import CHARGES, number_of, unit_of
from apps.web.listings.listing import csv_rows, table_of
from apps.web.shell.requests import actor_of, csv_response, fragment, private

PAGE = 50
FIRST_PAGE = 5  # of one's own jobs, below what they used
_MOST_CSV = 1_000


def page_url(policy: str) -> str:
    return reverse("pages:charges", kwargs={"policy": policy})


@require_safe
def charges(request: HttpRequest, policy: str) -> HttpResponse:
    """The list. `?job=`, `?account=` and `?source=` find jobs of others."""
    context = _listed(request, policy)
    if not context["is_search"] and not request.GET.get("before"):
        context |= _own_use(policy, actor_of(request))
    return private(render(request, "pages/charges/charges.html", context))


@require_safe
@fragment(page_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """The list as a fragment."""
    return private(render(request, "pages/charges/_rows.html", _listed(request, policy)))


@require_safe
def table(request: HttpRequest, policy: str) -> HttpResponseBase:
    """The list as CSV with unrounded numbers."""
    page = _found(request, policy, limit=_MOST_CSV)
    return csv_response(f"{policy}-charges.csv", CHARGES.names("csv"), csv_rows(CHARGES.on("csv"), page.jobs))


@require_safe
def charge(request: HttpRequest, policy: str, record: int) -> HttpResponse:
    """The arithmetic of one job."""
    job, page = get_charge(policy_slug=policy, record_id=record, actor=actor_of(request))
    number = number_of(job)
    crumbs = [*_crumbs(page), {"label": _("Job %(number)s") % {"number": number}}]
    crumbs[-2]["url"] = page_url(policy)
    context = {"job": job, "number": number, "policy": policy, "crumbs": crumbs, **draw(job, page)}
    return private(render(request, "pages/charges/charge.html", context))


def _own_use(policy: str, actor: Actor) -> dict[str, Any]:
    """What one's own jobs used, by day; nothing without usage."""
    own = load_own_days(open_view(policy_slug=policy, actor=actor), actor=actor, zone=site_zone())
    return {} if own is None else {"own_use": draw_own_use(own)}


def _listed(request: HttpRequest, policy: str) -> dict[str, Any]:
    requested = {name: _asked(request, name) for name in ("job", "account", "source")}
    is_first = not any(requested.values()) and not request.GET.get("before")
    page = _found(request, policy, limit=FIRST_PAGE if is_first else PAGE)
    query = request.GET.copy()
    query.pop("before", None)
    return {
        "page": page,
        "policy": policy,
        "jobs": table_of(CHARGES, page.jobs),
        "asked": requested,
        "is_search": any(requested.values()),
        "unit": unit_of(page.settings),
        "query": query.urlencode(),
        "crumbs": _crumbs(page),
    }


def _found(request: HttpRequest, policy: str, limit: int) -> ChargesPage:
    text = _asked(request, "before")
    before = read_whole(text)
    requested = {name: _asked(request, name) for name in ("job", "account", "source")}
    return list_charges(policy_slug=policy, before=before, limit=limit, actor=actor_of(request), **requested)


def _asked(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "")[:1024].replace("\0", "").strip()


def _crumbs(page: ChargesPage) -> list[dict[str, Any]]:
    tree = reverse("pages:policy", kwargs={"policy": page.policy.slug})
    return [{"label": page.policy.name, "url": tree}, {"label": _("My jobs")}]
