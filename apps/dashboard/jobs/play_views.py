"""Try Grid Engine's policies: a form whose state is its address, and the numbers that follow from it."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.core.errors import Invalid, TooLarge
from apps.dashboard.jobs.forms import amendments
from apps.dashboard.jobs.gridengine import grid_engine_table
from apps.dashboard.jobs.play import STARTS, case_of, layout_of
from apps.dashboard.jobs.play_forms import MOST_JOBS, PlayForm
from apps.dashboard.shell.htmx import fragment

MOST_SHOWN = 200  # jobs of a case that is shown as JSON


@never_cache
@require_safe
def play(request: HttpRequest) -> HttpResponse:
    """The whole page; without a query the first state to start from."""
    query = request.GET if request.GET else QueryDict(STARTS[0].query)
    form = PlayForm(query)
    chosen = [variant for variant, _label, _changes in amendments() if variant in form.variants]
    context = {
        **_result(form),
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
def result(request: HttpRequest) -> HttpResponse:
    """The numbers alone; the address of the page follows what was typed."""
    response = render(request, "dashboard/jobs/_play_result.html", _result(PlayForm(request.GET)))
    response["HX-Replace-Url"] = f"{reverse('dashboard:jobs-play')}?{request.GET.urlencode()}"
    return response


def _result(form: PlayForm) -> dict[str, Any]:
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
