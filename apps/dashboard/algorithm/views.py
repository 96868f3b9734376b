"""By which algorithm a policy decides: what it is, how another would do on the same tree, and the choice itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.analytics.comparison import (
    MOST_ALGORITHMS,
    Comparison,
    PolicyAlgorithm,
    Side,
    compare_algorithms,
    get_algorithm_page,
)
from apps.analytics.operators.records import FigureQuery
from apps.analytics.operators.selectors import check_tree
from apps.analytics.operators.sentences import verdict
from apps.core.errors import Invalid, NotFound
from apps.dashboard.algorithm import comparison, forms, operators
from apps.dashboard.algorithm import words as algorithm_words
from apps.dashboard.algorithm.forms import ParametersForm
from apps.dashboard.drafts import table_views
from apps.dashboard.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.dashboard.shell.requests import actor_of
from apps.engine.algorithms import all_algorithms
from apps.figures.curves import profile_of

_SHOWN_MOVERS = 8


def page_url(policy: str) -> str:
    return reverse("dashboard:algorithm", kwargs={"policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def algorithm(request: HttpRequest, policy: str) -> HttpResponse:
    """`?algorithm=` shows one that isn't in force; POST first shows what it would change, then publishes it."""
    if request.method == "POST":
        return _decide(request, policy)
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    name = request.GET.get("algorithm") or str(current.settings.algorithm["name"])
    return _show(request, current, name)


@require_safe
def profile(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The figure of the page: operators over actual, for the page's own query."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    return answer_figure(request, profile_of(current.settings.algorithm, policy, request.GET), form)


@require_safe
def compare(request: HttpRequest, policy: str) -> HttpResponse:
    """`?with=&resolution=&k=` once for each column, up to four; `?sort=rank` in the order of the first one."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request)).settings.algorithm
    places = comparison.read_places(request.GET)
    found = compare_algorithms(
        policy_slug=policy,
        algorithms=[comparison.settings_of(place, current) for place in places],
        by_rank=request.GET.get("sort") == "rank",
        actor=actor_of(request),
    )
    query = [pair for place in places for pair in place.query]
    empty = [comparison.Place("")] * (MOST_ALGORITHMS - len(places))
    context = {
        "found": found,
        "verdict": comparison.verdict(found),
        "furthest": comparison.furthest(found),
        "columns": comparison.columns(found, places),
        "rows": comparison.rows(found),
        "options": comparison.options(found.settings.algorithm),
        "places": list(enumerate([*places, *empty], start=1)),
        "by_movers_url": f"?{urlencode(query)}",
        "by_rank_url": f"?{urlencode([*query, ('sort', 'rank')])}",
        "crumbs": [*_crumbs(found), {"label": _("Compare")}],
        "policy": policy,
    }
    return render(request, "dashboard/algorithm/compare.html", context)


def _decide(request: HttpRequest, policy: str) -> HttpResponse:
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    name = request.POST.get("algorithm", "")
    form = forms.bound(_known(name), request.POST)

    def show(*, status: int = 200, **more: Any) -> HttpResponse:
        if "stated" in more:
            more["effect"] = _effect(request, policy, form)
        return _show(request, current, name, status=status, form=form, **more)

    return table_views.decide(request, policy, "algorithm", form.settings, show=show, back=page_url(policy))


def _show(request: HttpRequest, current: PolicyAlgorithm, name: str, *, status: int = 200, **more: Any) -> HttpResponse:
    in_force = current.settings.algorithm
    is_known = str(in_force["name"]) in all_algorithms()
    chosen = _known(name) if is_known or name != in_force["name"] else None
    shown = _shown_settings(more, in_force, name)
    context = {
        "found": current,
        "in_force": in_force,
        "label": algorithm_words.label_of(in_force),
        "described": algorithm_words.describe(str(in_force["name"]), in_force),
        "parameters": [] if shown is None else algorithm_words.parameters_in_words(shown),
        "chosen": None if chosen is None else algorithm_words.describe(chosen.name, shown),
        "is_other": name != in_force["name"],
        "is_preview": shown is not None and shown != in_force,
        "others": [algorithm_words.describe(each) for each in all_algorithms()],
        "misfit": current.misfits.get(name, "") if name != in_force["name"] else "",
        "profile": _profile(request, current, chosen),
        "form": None if chosen is None else forms.unbound(chosen, in_force),
        "may_change": current.may_change,
        "policy": current.policy_slug,
        **_resolution_check(request, current.policy_slug, chosen, shown),
        "compare_url": _compare_url(current.policy_slug, name),
        "crumbs": [*_crumbs(current)[:1], {"label": _("Algorithm")}],
        **more,
    }
    return render(request, "dashboard/algorithm/algorithm.html", context, status=status)


def _resolution_check(
    request: HttpRequest, policy: str, chosen: Any, shown: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What the resolution of the form does to this tree; nothing for algorithms that do not round."""
    if chosen is None or chosen.name != "aequus":
        return {}
    settings = shown or {}
    query = FigureQuery(
        operator=settings.get("operator", ""), resolution=settings.get("resolution"), k=settings.get("k")
    )
    address = reverse("dashboard:operators", kwargs={"policy": policy})
    try:
        check = check_tree(policy_slug=policy, query=query, actor=actor_of(request))
    except Invalid:  # an operator of a package that fails, or is gone: the page says so elsewhere
        check = None
    return {
        "check": check,
        "operators_url": f"{address}{operators.address_of(query)}",
        "operators_verdict": verdict(),
    }


def _profile(request: HttpRequest, current: PolicyAlgorithm, chosen: Any) -> FigureFrame | None:
    """For algorithms that have an operator."""
    if chosen is None or all(parameter.name != "operator" for parameter in chosen.parameters):
        return None
    policy = current.policy_slug
    source = reverse("dashboard:algorithm-operator", kwargs={"policy": policy})
    return framed(request, source, lambda: profile_of(current.settings.algorithm, policy, request.GET))


def _shown_settings(more: dict[str, Any], in_force: dict[str, Any], name: str) -> Any:
    form = more.get("form")
    if isinstance(form, ParametersForm) and form.settings is not None:
        return form.settings
    return in_force if in_force["name"] == name else None


def _effect(request: HttpRequest, policy: str, form: ParametersForm) -> dict[str, Any]:
    """What the chosen settings would change on the newest usage."""
    found = compare_algorithms(policy_slug=policy, algorithms=[{}, form.settings or {}], actor=actor_of(request))
    movers = [row for row in comparison.rows(found) if row.leaf.spread or row.cells[0].rank != row.cells[1].rank]
    return {
        "found": found,
        "verdict": comparison.verdict(found),
        "movers": movers[:_SHOWN_MOVERS],
        "refused": found.sides[1].refused,
        "parted": _moves(found.sides[1]),
    }


def _moves(side: Side) -> str:
    """Of what moves, the part of the operator and that of rounding."""
    return f"{comparison.parted(side)}." if side.n_moved and not side.refused else ""


def _known(name: str) -> Any:
    found = all_algorithms().get(name)
    if found is None:
        raise NotFound(_("Unknown algorithm."))
    return found


def _compare_url(policy: str, name: str) -> str:
    query = urlencode([("with", comparison.IN_FORCE), ("with", name)])
    return f"{reverse('dashboard:compare', kwargs={'policy': policy})}?{query}"


def _crumbs(found: Comparison | PolicyAlgorithm) -> list[dict[str, str]]:
    tree = reverse("dashboard:policy", kwargs={"policy": found.policy_slug})
    return [
        {"label": found.policy_name, "url": tree},
        {"label": _("Algorithm"), "url": page_url(found.policy_slug)},
    ]
