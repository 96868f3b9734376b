"""Operators and resolution of a policy: what they do to its tree, and the operators paper's figures."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.accounts.actor import Actor
from apps.analytics.operators.figure_query import NAMES, READINGS, FigureQuery, read_query
from apps.analytics.operators.policy_query import OperatorQuery
from apps.analytics.operators.selectors import OperatorsPage, ask, page_of
from apps.core.errors import Invalid
from apps.dashboard.algorithm import operator_figures
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.figure_frames import answer_figure

# What the controls of the figures set stays as it is when the form is sent.
_SET_BY_FIGURES = ("target", "region", "count", "entry")


@require_safe
def operators(request: HttpRequest, policy: str) -> HttpResponse:
    """Everything that can be asked is in the address; what cannot be read is named at its field and in each figure."""
    actor, problem = actor_of(request), None
    asked: OperatorQuery | None = None
    try:
        asked = _asked(request, policy, actor)
        page = page_of(asked)
    except Invalid as error:
        asked, problem = None, error
        page = _own(policy, actor)
    problems = {} if problem is None else {each.where: each.message for each in problem.fields}
    context = {
        "page": page,
        "frames": operator_figures.frames(request, policy, asked, problem),
        "fields": _fields(page, request, problems),
        "kept": [(name, request.GET[name]) for name in _SET_BY_FIGURES if request.GET.get(name)],
        "readings": [(reading.name, reading.text) for reading in READINGS.values()],
        "reading": page.query.reading,
        "problem": problem,
        "operator_names": [choice.name for choice in page.choices],
        "rest_url": reverse("api:policy-operators", kwargs={"policy": policy}),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            {"label": _("Operators and resolution")},
        ],
        "policy": policy,
    }
    return render(request, "dashboard/operators/operators.html", context, status=422 if problem else 200)


@require_safe
def figure(request: HttpRequest, policy: str, figure: str, form: str = "json") -> HttpResponseBase:
    """One figure for the page's own query, as JSON or CSV."""
    asked = _asked(request, policy, actor_of(request))
    return answer_figure(request, operator_figures.drawn(asked, figure, request.GET), form)


def _asked(request: HttpRequest, policy: str, actor: Actor) -> OperatorQuery:
    query = read_query({name: request.GET.get(name, "") for name in NAMES})
    return ask(policy_slug=policy, query=query, actor=actor)


def _own(policy: str, actor: Actor) -> OperatorsPage:
    """The policy's own; where its operator is of a package that fails or is gone, relative."""
    try:
        return page_of(ask(policy_slug=policy, query=FigureQuery(), actor=actor))
    except Invalid:
        return page_of(ask(policy_slug=policy, query=FigureQuery(operator="relative"), actor=actor))


def _fields(page: OperatorsPage, request: HttpRequest, problems: dict[str, str]) -> list[dict[str, str]]:
    """Text fields of the form, as they were typed or as they are."""
    check, query = page.check, page.query
    shown: dict[str, tuple[str, object]] = {
        "operator": (_("Operator"), check.operator),
        "resolution": (_("Resolution"), check.resolution),
        "k": (_("Weight of absolute, k"), "" if check.k is None else f"{check.k:g}"),
        "bits": (_("Bits in profiles"), query.bits),
        "nodes": (_("Nodes"), f"{query.nodes:g}"),
        "window_days": (_("Window in days"), f"{query.window_days:g}"),
        "job_h": (_("Job in hours"), f"{query.job_h:g}"),
    }
    return [
        {"name": name, "label": label, "value": request.GET.get(name) or str(value), "error": problems.get(name, "")}
        for name, (label, value) in shown.items()
    ]
