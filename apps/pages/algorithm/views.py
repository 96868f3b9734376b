"""Pages of a policy's algorithm: description, comparison, choice; and operators with their figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.actor import Actor
from apps.core.errors import Invalid, NotFound
from apps.engine.algorithms import all_algorithms
from apps.pages.algorithm import presenters
from apps.pages.algorithm.comparison import (
    MOST_ALGORITHMS,
    AlgorithmSide,
    Comparison,
    PolicyAlgorithm,
    compare_algorithms,
    get_algorithm_page,
)
from apps.pages.algorithm.figures import DRAWN, FigureContext
from apps.pages.algorithm.forms import ParametersForm, bound, unbound
from apps.pages.algorithm.operators.figure_numbers import OperatorQuery
from apps.pages.algorithm.operators.records import NAMES, READINGS, FigureQuery, read_query
from apps.pages.algorithm.operators.selectors import (
    FIGURES,
    OperatorsPage,
    build_page,
    check_tree,
    get_figure_definition,
    open_query,
)
from apps.pages.algorithm.operators.sentences import verdict
from apps.web import setting_texts as algorithm_text
from apps.web import settings_change
from apps.web.figures import Figure
from apps.web.figures.curves import policy_profile_figure
from apps.web.shell import presentation
from apps.web.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.web.shell.requests import actor_of

_SHOWN_MOVERS = 8
_OPERATOR_SETTINGS = ("operator", "k")


def page_url(policy: str) -> str:
    return reverse("dashboard:algorithm", kwargs={"policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def algorithm(request: HttpRequest, policy: str) -> HttpResponse:
    """`?algorithm=` shows one that isn't active. POST first previews it, then publishes it."""
    if request.method == "POST":
        return _decide(request, policy)
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    name = request.GET.get("algorithm") or str(current.settings.algorithm["name"])
    return _show(request, current, name)


@require_safe
def profile(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """Figure of operators over the actual share, for the page's query; `?operator=&k=` of a preview."""
    active = get_algorithm_page(policy_slug=policy, actor=actor_of(request)).settings.algorithm
    previewed = {name: request.GET[name] for name in _OPERATOR_SETTINGS if request.GET.get(name)}
    return answer_figure(request, policy_profile_figure({**active, **previewed}, policy, request.GET), form)


@require_safe
def compare(request: HttpRequest, policy: str) -> HttpResponse:
    """Compare up to four columns: `?with=&resolution=&k=`, repeated; `?sort=rank` orders by the first one."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request)).settings.algorithm
    places = presenters.read_columns(request.GET)
    found = compare_algorithms(
        policy_slug=policy,
        algorithms=[presenters.settings_of(place, current) for place in places],
        by_rank=request.GET.get("sort") == "rank",
        actor=actor_of(request),
    )
    query = [pair for place in places for pair in place.query]
    empty = [presenters.RequestedColumn("")] * (MOST_ALGORITHMS - len(places))
    context = {
        "found": found,
        "verdict": presenters.verdict(found),
        "furthest": presenters.furthest(found),
        "columns": presenters.columns(found, places),
        "rows": presenters.rows(found),
        "options": presenters.options(found.settings.algorithm),
        "places": [
            (n, place, presenters.fields_of(place, current)) for n, place in enumerate([*places, *empty], start=1)
        ],
        "by_movers_url": f"?{urlencode(query)}",
        "by_rank_url": f"?{urlencode([*query, ('sort', 'rank')])}",
        "crumbs": [*_crumbs(found), {"label": _("Compare")}],
        "policy": policy,
    }
    return render(request, "pages/algorithm/compare.html", context)


def _decide(request: HttpRequest, policy: str) -> HttpResponse:
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    name = request.POST.get("algorithm", "")
    form = bound(_known(name), request.POST)

    def show(*, status: int = 200, **more: Any) -> HttpResponse:
        if "stated" in more:
            more["effect"] = _effect(request, policy, form)
        return _show(request, current, name, status=status, form=form, **more)

    return settings_change.decide(request, policy, "algorithm", form.settings, show=show, back=page_url(policy))


def _show(request: HttpRequest, current: PolicyAlgorithm, name: str, *, status: int = 200, **more: Any) -> HttpResponse:
    active = current.settings.algorithm
    is_known = str(active["name"]) in all_algorithms()
    chosen = _known(name) if is_known or name != active["name"] else None
    shown = _shown_settings(more, active, name)
    query = urlencode([("with", presenters.ACTIVE), ("with", name)])
    context = {
        "found": current,
        "active": active,
        "label": algorithm_text.label_of(active),
        "described": algorithm_text.describe(str(active["name"]), active),
        "parameters": [] if shown is None else algorithm_text.parameters_in_words(shown),
        "chosen": None if chosen is None else algorithm_text.describe(chosen.name, shown),
        "is_other": name != active["name"],
        "is_preview": shown is not None and shown != active,
        "others": [algorithm_text.describe(each) for each in all_algorithms()],
        "misfit": current.misfits.get(name, "") if name != active["name"] else "",
        "profile": _profile(request, current, chosen, shown),
        "form": None if chosen is None else unbound(chosen, active),
        "may_change": current.may_change,
        "policy": current.policy_slug,
        **_resolution_check(request, current.policy_slug, chosen, shown),
        "compare_url": f"{reverse('dashboard:compare', kwargs={'policy': current.policy_slug})}?{query}",
        "crumbs": [*_crumbs(current)[:1], {"label": _("Algorithm")}],
        **more,
    }
    return render(request, "pages/algorithm/algorithm.html", context, status=status)


def _resolution_check(
    request: HttpRequest, policy: str, chosen: Any, shown: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Effect of the typed resolution on this tree; empty for algorithms that do not round."""
    if chosen is None or chosen.name != "aequus":
        return {}
    settings = shown or {}
    query = FigureQuery(
        operator=settings.get("operator", ""), resolution=settings.get("resolution"), k=settings.get("k")
    )
    address = reverse("dashboard:operators", kwargs={"policy": policy})
    try:
        check = check_tree(policy_slug=policy, query=query, actor=actor_of(request))
    except Invalid:  # the package fails or is missing: the page reports it elsewhere
        check = None
    return {
        "check": check,
        "operators_url": f"{address}{address_of(query)}",
        "operators_verdict": verdict(),
    }


def _profile(
    request: HttpRequest, current: PolicyAlgorithm, chosen: Any, shown: Mapping[str, Any] | None
) -> FigureFrame | None:
    """Figure of the shown operator, previewed or active; None for algorithms without one."""
    if chosen is None or all(parameter.name != "operator" for parameter in chosen.parameters):
        return None
    policy, active = current.policy_slug, current.settings.algorithm
    settings = active if shown is None else shown
    source = reverse("dashboard:algorithm-operator", kwargs={"policy": policy})
    if settings != active:
        previewed = {name: settings[name] for name in _OPERATOR_SETTINGS if settings.get(name) is not None}
        source = f"{source}?{urlencode(previewed)}"
    return framed(request, source, lambda: policy_profile_figure(settings, policy, request.GET))


def _shown_settings(more: dict[str, Any], active: dict[str, Any], name: str) -> Any:
    form = more.get("form")
    if isinstance(form, ParametersForm) and form.settings is not None:
        return form.settings
    return active if active["name"] == name else None


def _effect(request: HttpRequest, policy: str, form: ParametersForm) -> dict[str, Any]:
    """What the chosen settings would change, computed from the newest usage."""
    found = compare_algorithms(policy_slug=policy, algorithms=[{}, form.settings or {}], actor=actor_of(request))
    movers = [row for row in presenters.rows(found) if row.leaf.spread or row.cells[0].rank != row.cells[1].rank]
    return {
        "found": found,
        "verdict": presenters.verdict(found),
        "movers": movers[:_SHOWN_MOVERS],
        "refused": found.sides[1].refused,
        "split_by_cause": _moves(found.sides[1]),
    }


def _moves(side: AlgorithmSide) -> str:
    """Parts of the differences caused by the operator and by rounding."""
    return f"{presenters.split_by_cause(side)}." if side.n_moved and not side.refused else ""


def _known(name: str) -> Any:
    found = all_algorithms().get(name)
    if found is None:
        raise NotFound(_("Not found"))
    return found


def _crumbs(found: Comparison | PolicyAlgorithm) -> list[dict[str, str]]:
    tree = reverse("dashboard:policy", kwargs={"policy": found.policy_slug})
    return [
        {"label": found.policy_name, "url": tree},
        {"label": _("Algorithm"), "url": page_url(found.policy_slug)},
    ]


def drawn(requested: OperatorQuery, name: str, address: QueryDict) -> Figure:
    """One figure. Raises NotFound for an unknown name."""
    view = requested.view
    found = get_figure_definition(name).table(requested)
    shown = FigureContext(
        found=found,
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


def address_of(query: FigureQuery) -> str:
    """Query string with "?" of the values that differ from defaults."""
    plain = FigureQuery()
    given = {name: getattr(query, name) for name in NAMES if getattr(query, name) != getattr(plain, name)}
    return f"?{urlencode(given)}" if given else ""


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
    return render(request, "pages/algorithm/operators.html", context, status=422 if problem else 200)


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
