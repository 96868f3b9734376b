"""Why does this job stand where it stands: a listing or a case, taken apart. Nothing that is pasted is kept."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.dashboard.forms.jobs import JobsForm
from apps.dashboard.htmx import fragment
from apps.dashboard.job_examples import EXAMPLES, example
from apps.dashboard.job_reading import read_table
from apps.engine.jobs import all_job_algorithms
from apps.errors import DomainError, Invalid, TooLarge


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def jobs(request: HttpRequest) -> HttpResponse:
    """The form and, below it, what it gave; `?example=` fills it in with something to look at."""
    if request.method == "POST":
        form = JobsForm(request.POST)
    else:
        chosen = example(request.GET.get("example", ""))
        form = JobsForm(chosen.data) if chosen else JobsForm()
    found = _result(form) if form.is_bound else {}
    context = {
        **found,
        "form": form,
        "examples": EXAMPLES,
        "algorithms": all_job_algorithms().values(),
        "crumbs": [{"label": _("Job priorities")}],
    }
    return render(request, "dashboard/jobs/jobs.html", context, status=_status(found))


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
