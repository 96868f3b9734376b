"""Operators and resolution of a policy: what they do to its tree, and the operators paper's figures."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.accounts.actor import Actor
from apps.analytics.operators.figures import OperatorQuery
from apps.analytics.operators.records import NAMES, READINGS, FigureQuery, read_query
from apps.analytics.operators.selectors import FIGURES, OperatorsPage, ask, figure_of, page_of
from apps.core.errors import Invalid
from apps.dashboard.shell import presentation
from apps.dashboard.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.dashboard.shell.requests import actor_of
from apps.figures import Figure
from apps.figures.operators import DRAWN, Shown


def drawn(asked: OperatorQuery, name: str, address: QueryDict) -> Figure:
    """One figure; NotFound for a name that there isn't."""
    view = asked.view
    found = figure_of(name).table(asked)
    shown = Shown(
        found=found,
        query=asked.query,
        address=address,
        policy=view.policy.slug,
        caption=_caption(asked),
        own=asked.operator.name,
        resolution=int(asked.settings["resolution"]),
        target=asked.target,
        targets=asked.targets,
    )
    return DRAWN[name](shown)


def _caption(asked: OperatorQuery) -> str:
    view = asked.view
    caption = _("%(policy)s, revision %(n)s") % {"policy": view.policy.name, "n": view.revision}
    if view.as_of is None:
        return caption
    return _("%(caption)s, usage as of %(at)s") % {
        "caption": caption,
        "at": presentation.clock_time(view.as_of, view.now),
    }


def frames(
    request: HttpRequest, policy: str, asked: OperatorQuery | None, problem: Exception | None
) -> list[FigureFrame]:
    """All figures of the page; what the address asks for in vain is said in the place of each picture."""

    def make(name: str) -> Figure:
        if asked is None:
            raise problem or LookupError(name)
        return drawn(asked, name, request.GET)

    return [framed(request, source_of(policy, name), lambda name=name: make(name)) for name in FIGURES]  # type: ignore[misc]


def source_of(policy: str, name: str) -> str:
    return reverse("dashboard:operators-figure", kwargs={"policy": policy, "figure": name})


def address_of(query: FigureQuery) -> str:
    """What of a query isn't as it is by default, behind a question mark."""
    plain = FigureQuery()
    given = {name: getattr(query, name) for name in NAMES if getattr(query, name) != getattr(plain, name)}
    return f"?{urlencode(given)}" if given else ""


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
        "frames": frames(request, policy, asked, problem),
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
    return answer_figure(request, drawn(asked, figure, request.GET), form)


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
