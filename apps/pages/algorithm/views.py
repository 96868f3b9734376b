"""The page of a policy's algorithm: what is advised, the choice of algorithm and operator, and who would move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.core import clock
from apps.core.errors import Invalid, NotFound
from apps.engine.algorithms import all_algorithms
from apps.pages.algorithm import presenters
from apps.pages.algorithm.advice import list_advice
from apps.pages.algorithm.comparison import PolicyAlgorithm, compare_algorithms, count_moves, get_algorithm_page
from apps.pages.algorithm.forms import ParametersForm, bound, unbound
from apps.priorities.tree_check import TreeCheck, ranks_sentence
from apps.priorities.tried_settings import TriedVector, check_tree
from apps.web.changes import settings_change
from apps.web.links.guides import address_of
from apps.web.shell.requests import actor_of, fragment
from apps.web.texts import algorithm_text

_SHOWN_MOVERS = 12


def page_url(policy: str) -> str:
    return reverse("pages:algorithm", kwargs={"policy": policy})


@require_http_methods(["GET", "HEAD", "POST"])
def algorithm(request: HttpRequest, policy: str) -> HttpResponse:
    """`?algorithm=` shows one that isn't active, its parameters fill in the form. POST previews, then publishes it."""
    if request.method == "POST":
        return _decide(request, policy)
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    name = request.GET.get("algorithm") or str(current.settings.algorithm["name"])
    return _show(request, current, name, **_filled_in(request, current, name))


@require_safe
@fragment(page_url)
def effect(request: HttpRequest, policy: str) -> HttpResponse:
    """Fragment with who would move under the typed parameters."""
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    form = bound(_known(request.GET.get("algorithm", "")), request.GET)
    return render(request, "pages/algorithm/_effect.html", _effect_context(request, current, form))


def _filled_in(request: HttpRequest, current: PolicyAlgorithm, name: str) -> dict[str, Any]:
    """The form with the parameters of the address in place of the active ones; nothing without one."""
    named_algorithm = all_algorithms().get(name)
    if named_algorithm is None or not any(each.name in request.GET for each in named_algorithm.parameters):
        return {}
    start = {field.name: field.value for field in unbound(named_algorithm, current.settings.algorithm).fields}
    return {"form": bound(named_algorithm, {**start, **request.GET.dict()})}


def _decide(request: HttpRequest, policy: str) -> HttpResponse:
    current = get_algorithm_page(policy_slug=policy, actor=actor_of(request))
    name = request.POST.get("algorithm", "")
    form = bound(_known(name), request.POST)

    def show(*, status: int = 200, **more: Any) -> HttpResponse:
        return _show(request, current, name, status=status, form=form, **more)

    return settings_change.decide(request, policy, "algorithm", form.settings, show=show, back=page_url(policy))


def _show(request: HttpRequest, current: PolicyAlgorithm, name: str, *, status: int = 200, **more: Any) -> HttpResponse:
    active = current.settings.algorithm
    is_known = str(active["name"]) in all_algorithms()
    chosen = _known(name) if is_known or name != active["name"] else None
    form = more.pop("form", None) or (None if chosen is None else unbound(chosen, active))
    shown = _shown_settings(form, active, name)
    policy = current.policy_slug
    context = {
        "found": current,
        "active": active,
        "label": algorithm_text.label_of(active),
        "described": algorithm_text.describe(str(active["name"]), active),
        "parameters": [] if shown is None else algorithm_text.parameters_in_words(shown),
        "chosen": None if chosen is None else algorithm_text.describe(chosen.name, shown),
        "is_other": name != active["name"],
        "others": [algorithm_text.describe(each) for each in all_algorithms()],
        "advice": list_advice(policy_slug=policy, at=clock.now(), actor=actor_of(request)),
        "form": form,
        "help_url": address_of("algorithms.md#tree-algorithms"),
        "crumbs": [
            {"label": current.policy_name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": _("Algorithm")},
        ],
        **_effect_context(request, current, form),
        **more,
    }
    return render(request, "pages/algorithm/algorithm.html", context, status=status)


def _shown_settings(form: ParametersForm | None, active: Mapping[str, Any], name: str) -> Any:
    """Of the form; without valid ones the active settings, if they are of this algorithm."""
    if form is not None and form.settings is not None and (form.is_typed or active["name"] != name):
        return form.settings
    return active if active["name"] == name else None


def _effect_context(request: HttpRequest, current: PolicyAlgorithm, form: ParametersForm | None) -> dict[str, Any]:
    """What the settings of the form would change on the newest usage; without any, what each choice would."""
    policy, active, actor = current.policy_slug, dict(current.settings.algorithm), actor_of(request)
    typed = None if form is None or not (form.is_typed or form.name != active["name"]) else form.settings
    context: dict[str, Any] = {
        "policy": policy,
        "may_change": current.may_change,
        "misfit": current.misfits.get(form.name, "") if form is not None and form.name != active["name"] else "",
        "is_invalid": form is not None and form.settings is None,
        "check": _misplaced(request, policy, typed or active),
    }
    if typed is None or dict(typed) == active:
        choices = presenters.other_choices(active)
        counted = count_moves(policy_slug=policy, algorithms=choices, actor=actor)
        return {
            **context,
            "choices": presenters.tried_choices(choices, counted),
            "has_usage": current.as_of is not None,
        }
    comparison = compare_algorithms(policy_slug=policy, algorithms=[{}, typed], actor=actor)
    return {
        **context,
        "effect": comparison,
        "verdict": presenters.verdict(comparison),
        "movers": presenters.movers(comparison, _SHOWN_MOVERS),
        "refused": comparison.sides[1].refused,
        "split_by_cause": presenters.split_by_cause(comparison.sides[1]),
        "publishable": settings_change.stated_text(typed),
    }


def _misplaced(request: HttpRequest, policy: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Ranks that rounding changes at the resolution of these settings; None for algorithms that do not round."""
    if settings.get("name") != "aequus":
        return None
    tried = TriedVector(settings.get("operator", ""), settings.get("resolution"), settings.get("k"))
    try:
        check: TreeCheck = check_tree(policy_slug=policy, tried=tried, actor=actor_of(request))
    except Invalid:  # the package fails or is missing: the page reports it elsewhere
        return None
    return {"n_misplaced": check.n_misplaced, "sentence": ranks_sentence(check)}


def _known(name: str) -> Any:
    named_algorithm = all_algorithms().get(name)
    if named_algorithm is None:
        raise NotFound(_("Not found"))
    return named_algorithm
