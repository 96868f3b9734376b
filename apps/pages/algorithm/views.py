"""Pages of a policy's algorithm: description, comparison, choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

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
from apps.pages.algorithm.forms import ParametersForm, bound, unbound
from apps.priorities.tried_settings import TriedVector, check_tree
from apps.web import setting_texts as algorithm_text
from apps.web import settings_change
from apps.web.figures.curves import policy_profile_figure
from apps.web.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.web.shell.requests import actor_of

_SHOWN_MOVERS = 8
_OPERATOR_SETTINGS = ("operator", "k")


def page_url(policy: str) -> str:
    return reverse("dashboard:algorithm", kwargs={"policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def algorithm(request: HttpRequest, policy: str) -> HttpResponse:
    """`?algorithm=` shows one that isn't active, its parameters fill in the form. POST previews, then publishes it."""
    if request.method == "POST":
        return _decide(request, policy)
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    name = request.GET.get("algorithm") or str(current.settings.algorithm["name"])
    return _show(request, current, name, **_filled_in(request, current, name))


def _filled_in(request: HttpRequest, current: PolicyAlgorithm, name: str) -> dict[str, Any]:
    """The form with the parameters of the address in place of the active ones; nothing without one."""
    named_algorithm = all_algorithms().get(name)
    if named_algorithm is None or not any(each.name in request.GET for each in named_algorithm.parameters):
        return {}
    start = {field.name: field.value for field in unbound(named_algorithm, current.settings.algorithm).fields}
    return {"form": bound(named_algorithm, {**start, **request.GET.dict()})}


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
    comparison = compare_algorithms(
        policy_slug=policy,
        algorithms=[presenters.settings_of(place, current) for place in places],
        by_rank=request.GET.get("sort") == "rank",
        actor=actor_of(request),
    )
    query = [pair for place in places for pair in place.query]
    empty = [presenters.RequestedColumn("")] * (MOST_ALGORITHMS - len(places))
    context = {
        "found": comparison,
        "verdict": presenters.verdict(comparison),
        "furthest": presenters.furthest(comparison),
        "columns": presenters.columns(comparison, places),
        "rows": presenters.rows(comparison),
        "options": presenters.options(comparison.settings.algorithm),
        "places": [
            (n, place, presenters.fields_of(place, current)) for n, place in enumerate([*places, *empty], start=1)
        ],
        "by_movers_url": f"?{urlencode(query)}",
        "by_rank_url": f"?{urlencode([*query, ('sort', 'rank')])}",
        "crumbs": [*_crumbs(comparison), {"label": _("Compare")}],
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
    tried = TriedVector(settings.get("operator", ""), settings.get("resolution"), settings.get("k"))
    try:
        check = check_tree(policy_slug=policy, tried=tried, actor=actor_of(request))
    except Invalid:  # the package fails or is missing: the page reports it elsewhere
        check = None
    typed = {name: value for name, value in asdict(tried).items() if value not in ("", None)}
    return {
        "check": check,
        "check_query": f"?{urlencode(typed)}" if typed else "",
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
    comparison = compare_algorithms(policy_slug=policy, algorithms=[{}, form.settings or {}], actor=actor_of(request))
    movers = [row for row in presenters.rows(comparison) if row.leaf.spread or row.cells[0].rank != row.cells[1].rank]
    return {
        "found": comparison,
        "verdict": presenters.verdict(comparison),
        "movers": movers[:_SHOWN_MOVERS],
        "refused": comparison.sides[1].refused,
        "split_by_cause": _moves(comparison.sides[1]),
    }


def _moves(side: AlgorithmSide) -> str:
    """Parts of the differences caused by the operator and by rounding."""
    return f"{presenters.split_by_cause(side)}." if side.n_moved and not side.refused else ""


def _known(name: str) -> Any:
    named_algorithm = all_algorithms().get(name)
    if named_algorithm is None:
        raise NotFound(_("Not found"))
    return named_algorithm


def _crumbs(subject: Comparison | PolicyAlgorithm) -> list[dict[str, str]]:
    tree = reverse("dashboard:policy", kwargs={"policy": subject.policy_slug})
    return [
        {"label": subject.policy_name, "url": tree},
        {"label": _("Algorithm"), "url": page_url(subject.policy_slug)},
    ]
