"""Why does this job stand where it stands; and Grid Engine's policies to try. Nothing that is pasted is kept."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import DomainError, Invalid, TooLarge
from apps.dashboard.jobs.forms import EXAMPLES, JobsForm, amendments, example
from apps.dashboard.jobs.play import STARTS, case_of, layout_of
from apps.dashboard.jobs.play_forms import MOST_JOBS, PlayForm
from apps.dashboard.jobs.reading import read_table
from apps.dashboard.jobs.tables import grid_engine_table
from apps.dashboard.shell.requests import actor_of, fragment
from apps.engine.jobs import all_job_algorithms
from apps.policies.selectors import list_policies
from apps.priorities.jobs import sam_case

# --- Listings and cases -----------------------------------------------------------------------------------------------
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


# --- Grid Engine's policies -------------------------------------------------------------------------------------------
MOST_SHOWN = 200  # jobs of a case that is shown as JSON


@never_cache
@require_safe
def play(request: HttpRequest) -> HttpResponse:
    """The whole page; without a query the first state to start from."""
    query = request.GET if request.GET else QueryDict(STARTS[0].query)
    form = PlayForm(query)
    chosen = [variant for variant, _label, _changes in amendments() if variant in form.variants]
    context = {
        **_played(form),
        **layout_of(form, adding=query.get("add", "")),
        "form": form,
        "starts": STARTS,
        "choices": [(*each, each[0] in chosen) for each in amendments()],
        "crumbs": [
            {"label": _("Job priorities"), "url": reverse("dashboard:jobs")},
            {"label": _("Try Grid Engine’s policies")},
        ],
    }
    return render(request, "dashboard/jobs/play.html", context)


@never_cache
@require_safe
@fragment(lambda: reverse("dashboard:jobs-play"))
def play_result(request: HttpRequest) -> HttpResponse:
    """The numbers alone; the address of the page follows what was typed."""
    response = render(request, "dashboard/jobs/_play_result.html", _played(PlayForm(request.GET)))
    response["HX-Replace-Url"] = f"{reverse('dashboard:jobs-play')}?{request.GET.urlencode()}"
    return response


def _played(form: PlayForm) -> dict[str, Any]:
    """The table and its case, or what is wrong and where. A form that isn't filled in yet is no error: 200."""
    if form.problems:
        return {"problems": form.problems, "is_live": True}
    case = case_of(form)
    known = [variant for variant, _label, _changes in amendments()]
    variants = [variant for variant in form.variants if variant in known]
    try:
        table = grid_engine_table(case, variants, most_jobs=MOST_JOBS, with_tickets=True)
    except (Invalid, TooLarge) as refusal:
        places = [(place.where, place.message) for place in refusal.fields] or [("", refusal.message)]
        return {"problems": places, "is_live": True}
    text = json.dumps(case, ensure_ascii=False, indent=1) if len(case["jobs"]) <= MOST_SHOWN else ""
    return {"table": table, "case": text, "is_live": True}
