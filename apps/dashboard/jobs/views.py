"""Why does this job stand where it stands: a listing or a case, taken apart. Nothing that is pasted is kept."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.core import clock
from apps.core.errors import DomainError, Invalid, TooLarge
from apps.dashboard.jobs.forms import JobsForm
from apps.dashboard.jobs.reading import read_table
from apps.dashboard.jobs.shipped import EXAMPLES, example
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import fragment
from apps.engine.jobs import all_job_algorithms
from apps.policies.selectors import list_policies
from apps.priorities.sam_case import sam_case

_MOST_POLICIES = 5


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def jobs(request: HttpRequest) -> HttpResponse:
    """The form and, below it, what it gave; `?example=` fills it in with something to look at, `?sam=` with the books
    of a policy.
    """
    form = JobsForm(request.POST) if request.method == "POST" else _filled_in(request)
    found = _result(form) if form.is_bound else {}
    context = {
        **found,
        "form": form,
        "examples": EXAMPLES,
        "policies": list_policies(actor=actor_of(request))[:_MOST_POLICIES],
        "algorithms": all_job_algorithms().values(),
        "crumbs": [{"label": _("Job priorities")}],
    }
    return render(request, "dashboard/jobs/jobs.html", context, status=_status(found))


def _filled_in(request: HttpRequest) -> JobsForm:
    if policy := request.GET.get("sam", ""):
        path = request.GET.get("path", "/")
        case = sam_case(policy_slug=policy, path=path, actor=actor_of(request), at=clock.now())
        return JobsForm({"text": json.dumps(case, ensure_ascii=False, indent=1)})
    chosen = example(request.GET.get("example", ""))
    return JobsForm(chosen.data) if chosen else JobsForm()


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@fragment(lambda: reverse("dashboard:jobs"))
def result(request: HttpRequest) -> HttpResponse:
    """What the form gives, alone."""
    found = _result(JobsForm(request.POST or None))
    return render(request, "dashboard/jobs/_result.html", found, status=_status(found))


def _result(form: JobsForm) -> dict[str, Any]:
    """The table, or what is wrong and where."""
    if not form.is_valid():
        problems = [(str(form[name].label), error) for name, errors in form.errors.items() for error in errors]
        return {"problems": problems or [("", _("Paste something first."))]}
    try:
        table = read_table(form.cleaned_data["text"], form.weights, form.cleaned_data["variants"])
    except (Invalid, TooLarge) as refusal:
        return {"problems": _places(refusal)}
    return {"table": table}


def _places(refusal: DomainError) -> list[tuple[str, str]]:
    return [(place.where, place.message) for place in refusal.fields] or [("", refusal.message)]


def _status(found: dict[str, Any]) -> int:
    return 422 if "problems" in found else 200
