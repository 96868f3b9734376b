"""Charges of jobs in a policy: the list of one's own or of readable jobs, and the arithmetic of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core.typed_numbers import read_whole
from apps.priorities.charges import HEADER, ChargedJob, ChargesPage, charge_rows, get_charge, list_charges
from apps.priorities.job_charge import HourLine
from apps.priorities.sentences import unit_of as unit_of_resource
from apps.web import value_texts
from apps.web.charge_lines import hours, line_of, lines_of, number_of, unit_of
from apps.web.shell import presentation
from apps.web.shell.requests import actor_of, csv_response, fragment, private

_SHOWN_HOURS = 48


@dataclass(frozen=True, slots=True)
class HourRow:
    at: datetime
    charged: str
    age: str
    weight: str
    counted: str
    note: str


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """One resource: 4 cores × 2 h = 8 core-hours, × weight = weighted amount."""

    unit: str
    rate: str
    amount: str
    weight: str
    weighed: str


def draw(job: ChargedJob, page: ChargesPage) -> dict[str, Any]:
    """Template context of one job with its complete arithmetic."""
    charge = job.charge
    shown = list(reversed(charge.hours))[:_SHOWN_HOURS]
    older = charge.hours[: -_SHOWN_HOURS or None] if len(charge.hours) > _SHOWN_HOURS else ()
    return {
        "line": line_of(page.policy.slug, job),
        "unit": unit_of(page.settings),
        "resources": [
            ResourceRow(
                unit_of_resource(row.resource),
                presentation.shares_short(row.rate),
                hours(row.amount_s),
                presentation.shares_short(row.weight),
                hours(row.weighed),
            )
            for row in charge.lines
        ],
        "weighed": hours(sum(row.weighed for row in charge.lines)),
        "rules": [value_texts.value_text([rule], "class_factors") for rule in charge.class_rules],
        "class_factor": presentation.shares_short(charge.class_factor),
        "site_factor": presentation.shares_short(charge.site_factor),
        "charged": hours(charge.charged),
        "hours": [_hour(row) for row in shown],
        "n_older": len(older),
        "older_counted": hours(sum(row.counted for row in older)),
        "counted": hours(charge.active),
        "predicted": hours(charge.predicted) if job.record.state == "running" else "",
        "scopes": _scopes(job, unit_of(page.settings)),
        "window": page.settings.window,
        "as_of": page.as_of,
        "run_text": _run_text(job),
    }


def _run_text(job: ChargedJob) -> str:
    record = job.record
    if record.state == "pending":
        return _("Waiting: demand, not usage.")
    if record.state == "withdrawn":
        return _("Cancelled: counts nothing.")
    if not job.charge.run_s and record.state == "running":
        return _("It started after the time of these numbers.")
    return ""


def _hour(row: HourLine) -> HourRow:
    notes = {
        "counts": "",
        "after": _("upcoming"),
        "old": _("outside the window"),
        "held": _("held: another source has this hour too"),
    }
    return HourRow(
        at=datetime.fromtimestamp(row.hour_s, UTC),
        charged=hours(row.charged),
        age=presentation.age(row.age_s),
        weight=presentation.number(row.weight, 4),
        counted=hours(row.counted),
        note=notes[row.why],
    )


def _scopes(job: ChargedJob, unit: str) -> Sequence[tuple[str, str, str]]:
    """(scope, amount with its unit, components) of the job’s usage."""
    labels = {
        "historical": _("finished jobs"),
        "active": _("running jobs so far"),
        "predictive": _("running jobs so far, and the rest of their request"),
    }
    found = []
    if job.approach_local is None or job.counted_local is None:
        found.append((_("local usage"), _("none"), _("it ran at another site")))
    else:
        found.append((_("local usage"), f"{hours(job.counted_local)} {unit}", labels[job.approach_local]))
    found.append((_("global usage"), f"{hours(job.counted_global)} {unit}", labels[job.approach_global]))
    return found


_MOST_CSV = 1_000


def page_url(policy: str) -> str:
    return reverse("dashboard:charges", kwargs={"policy": policy})


@require_safe
def charges(request: HttpRequest, policy: str) -> HttpResponse:
    """The list. `?job=`, `?account=` and `?source=` find jobs of others."""
    return private(render(request, "pages/charges/charges.html", _listed(request, policy)))


@require_safe
@fragment(page_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """The list as a fragment."""
    return private(render(request, "pages/charges/_rows.html", _listed(request, policy)))


@require_safe
def table(request: HttpRequest, policy: str) -> HttpResponseBase:
    """The list as CSV with unrounded numbers."""
    found = _found(request, policy, limit=_MOST_CSV)
    return csv_response(f"{policy}-charges.csv", HEADER, charge_rows(found.jobs))


@require_safe
def charge(request: HttpRequest, policy: str, record: int) -> HttpResponse:
    """The arithmetic of one job."""
    job, page = get_charge(policy_slug=policy, record_id=record, actor=actor_of(request))
    number = number_of(job)
    crumbs = [*_crumbs(page), {"label": _("Job %(number)s") % {"number": number}}]
    crumbs[-2]["url"] = page_url(policy)
    context = {"job": job, "policy": policy, "crumbs": crumbs, **draw(job, page)}
    return private(render(request, "pages/charges/charge.html", context))


def _listed(request: HttpRequest, policy: str) -> dict[str, Any]:
    page = _found(request, policy)
    requested = {name: _asked(request, name) for name in ("job", "account", "source")}
    query = request.GET.copy()
    query.pop("before", None)
    return {
        "page": page,
        "policy": policy,
        "lines": lines_of(page),
        "asked": requested,
        "is_search": any(requested.values()),
        "unit": unit_of(page.settings),
        "query": query.urlencode(),
        "crumbs": _crumbs(page),
    }


def _found(request: HttpRequest, policy: str, limit: int = 50) -> ChargesPage:
    text = _asked(request, "before")
    before = read_whole(text)
    requested = {name: _asked(request, name) for name in ("job", "account", "source")}
    return list_charges(policy_slug=policy, before=before, limit=limit, actor=actor_of(request), **requested)


def _asked(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "")[:1024].replace("\0", "").strip()


def _crumbs(page: ChargesPage) -> list[dict[str, Any]]:
    tree = reverse("dashboard:policy", kwargs={"policy": page.policy.slug})
    return [{"label": page.policy.name, "url": tree}, {"label": _("Job charges")}]
