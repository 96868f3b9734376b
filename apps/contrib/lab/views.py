"""Pages of operators and resolutions: what they do to a policy's tree, with the figures of the operators paper."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.accounts.actor import Actor
from apps.contrib.lab.advisor.runs import advice_sentence
from apps.contrib.lab.experiments.permissions import sees_all_numbers
from apps.contrib.lab.figures import DRAWN, FigureContext
from apps.contrib.lab.operators.figure_numbers import OperatorQuery
from apps.contrib.lab.operators.records import NAMES, READINGS, FigureQuery, read_query
from apps.contrib.lab.operators.selectors import (
    FIGURES,
    OperatorsPage,
    build_page,
    get_figure_definition,
    open_query,
)
from apps.core import clock
from apps.core.errors import Invalid
from apps.policies.selectors import get_policy
from apps.web.figures import Figure
from apps.web.shell import presentation
from apps.web.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.web.shell.requests import actor_of


def drawn(requested: OperatorQuery, name: str, address: QueryDict) -> Figure:
    """One figure. Raises NotFound for an unknown name."""
    view = requested.view
    table = get_figure_definition(name).table(requested)
    shown = FigureContext(
        figure_table=table,
        query=requested.query,
        address=address,
        policy=view.policy.slug,
        caption=_caption(requested),
        own=requested.operator.name,
        resolution=int(requested.settings["resolution"]),
        target=requested.target,
        targets=requested.targets,
    )
    return DRAWN[name](shown)


def _caption(requested: OperatorQuery) -> str:
    view = requested.view
    caption = _("%(policy)s, revision %(n)s") % {"policy": view.policy.name, "n": view.revision}
    if view.as_of is None:
        return caption
    return _("%(caption)s, usage as of %(at)s") % {
        "caption": caption,
        "at": presentation.clock_time(view.as_of, view.now),
    }


def frames(
    request: HttpRequest, policy: str, requested: OperatorQuery | None, problem: Exception | None
) -> list[FigureFrame]:
    """All figures of the page; an error of the query is shown instead of each picture."""

    def make(name: str) -> Figure:
        if requested is None:
            raise problem or LookupError(name)
        return drawn(requested, name, request.GET)

    return [framed(request, source_of(policy, name), lambda name=name: make(name)) for name in FIGURES]  # type: ignore[misc]


def source_of(policy: str, name: str) -> str:
    return reverse("dashboard:operators-figure", kwargs={"policy": policy, "figure": name})


# Parameters of the figures' controls are unchanged when the form is sent.
_SET_BY_FIGURES = ("target", "region", "count", "entry")


@require_safe
def operators(request: HttpRequest, policy: str) -> HttpResponse:
    """The query string has the complete state; invalid values are reported at their field and in each figure."""
    actor, problem = actor_of(request), None
    requested: OperatorQuery | None = None
    try:
        requested = _asked(request, policy, actor)
        page = build_page(requested)
    except Invalid as error:
        requested, problem = None, error
        page = _own(policy, actor)
    problems = {} if problem is None else {each.where: each.message for each in problem.fields}
    context = {
        "page": page,
        "advice": advice_sentence(policy_slug=policy, at=clock.now(), actor=actor),
        "reads_advice": sees_all_numbers(get_policy(slug=policy, actor=actor), at=clock.now(), actor=actor),
        "frames": frames(request, policy, requested, problem),
        "fields": _fields(page, request, problems),
        "kept": [(name, request.GET[name]) for name in _SET_BY_FIGURES if request.GET.get(name)],
        "readings": [(reading.name, reading.text) for reading in READINGS.values()],
        "reading": page.query.reading,
        "problem": problem,
        "operator_names": [each.name for each in page.choices],
        "rest_url": reverse("api:policy-operators", kwargs={"policy": policy}),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            {"label": _("Operators")},
        ],
        "policy": policy,
    }
    return render(request, "contrib/lab/operators.html", context, status=422 if problem else 200)


@require_safe
def figure(request: HttpRequest, policy: str, figure: str, form: str = "json") -> HttpResponseBase:
    """One figure for the page's query, as JSON or CSV."""
    requested = _asked(request, policy, actor_of(request))
    return answer_figure(request, drawn(requested, figure, request.GET), form)


def _asked(request: HttpRequest, policy: str, actor: Actor) -> OperatorQuery:
    query = read_query({name: request.GET.get(name, "") for name in NAMES})
    return open_query(policy_slug=policy, query=query, actor=actor)


def _own(policy: str, actor: Actor) -> OperatorsPage:
    """The policy's own operator; `relative` if it is of a package that fails or is missing."""
    try:
        return build_page(open_query(policy_slug=policy, query=FigureQuery(), actor=actor))
    except Invalid:
        return build_page(open_query(policy_slug=policy, query=FigureQuery(operator="relative"), actor=actor))


def _fields(page: OperatorsPage, request: HttpRequest, problems: dict[str, str]) -> list[dict[str, str]]:
    """Text fields of the form, as typed or with present values."""
    check, query = page.check, page.query
    shown: dict[str, tuple[str, object]] = {
        "operator": (_("Operator"), check.operator),
        "resolution": (_("Resolution"), check.resolution),
        "k": (_("Weight of absolute (k)"), "" if check.k is None else f"{check.k:g}"),
        "bits": (_("Bits"), query.bits),
        "nodes": (_("Nodes"), f"{query.nodes:g}"),
        "window_days": (_("Window (days)"), f"{query.window_days:g}"),
        "job_h": (_("Job size (hours)"), f"{query.job_h:g}"),
    }
    return [
        {"name": name, "label": label, "value": request.GET.get(name) or str(value), "error": problems.get(name, "")}
        for name, (label, value) in shown.items()
    ]
