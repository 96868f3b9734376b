"""By which algorithm a policy decides: what it is, how another would do on the same tree, and the choice itself."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.dashboard import algorithm_words, comparison
from apps.dashboard.actor import actor_of
from apps.dashboard.forms import algorithm as forms
from apps.dashboard.forms.algorithm import ParametersForm
from apps.dashboard.views import settings_choice
from apps.engine.algorithms import all_algorithms
from apps.errors import NotFound
from apps.priorities.selectors.comparison import (
    MOST_ALGORITHMS,
    Comparison,
    PolicyAlgorithm,
    compare_algorithms,
    get_algorithm_page,
)

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
def compare(request: HttpRequest, policy: str) -> HttpResponse:
    """`?with=` once for each column, up to four; `?sort=rank` in the order of the first one."""
    asked = [key for key in request.GET.getlist("with") if key]
    keys = (list(dict.fromkeys(asked)) or list(comparison.DEFAULTS))[:MOST_ALGORITHMS]
    found = compare_algorithms(
        policy_slug=policy,
        algorithms=[comparison.read_key(key) for key in keys],
        by_rank=request.GET.get("sort") == "rank",
        actor=actor_of(request),
    )
    query = [("with", key) for key in keys]
    context = {
        "found": found,
        "verdict": comparison.verdict(found),
        "furthest": comparison.furthest(found),
        "columns": comparison.columns(found, keys),
        "rows": comparison.rows(found),
        "options": comparison.options(found.settings.algorithm),
        "places": [(n, keys[n - 1] if n <= len(keys) else "") for n in range(1, MOST_ALGORITHMS + 1)],
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

    return settings_choice.decide(request, policy, "algorithm", form.settings, show=show, back=page_url(policy))


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
        "form": None if chosen is None else forms.unbound(chosen, in_force),
        "may_change": current.may_change,
        "policy": current.policy_slug,
        "compare_url": _compare_url(current.policy_slug, name),
        "crumbs": [*_crumbs(current)[:1], {"label": _("Algorithm")}],
        **more,
    }
    return render(request, "dashboard/algorithm/algorithm.html", context, status=status)


def _shown_settings(more: dict[str, Any], in_force: dict[str, Any], name: str) -> Any:
    form = more.get("form")
    if isinstance(form, ParametersForm) and form.settings is not None:
        return form.settings
    return in_force if in_force["name"] == name else None


def _effect(request: HttpRequest, policy: str, form: ParametersForm) -> dict[str, Any]:
    """What the chosen settings would change on the newest usage."""
    found = compare_algorithms(policy_slug=policy, algorithms=[{}, form.settings or {}], actor=actor_of(request))
    movers = [row for row in comparison.rows(found) if row.leaf.spread or row.cells[0].rank != row.cells[1].rank]
    return {"found": found, "verdict": comparison.verdict(found), "movers": movers[:_SHOWN_MOVERS],
            "refused": found.sides[1].refused}  # fmt: skip


def _known(name: str) -> Any:
    found = all_algorithms().get(name)
    if found is None:
        raise NotFound(_("There is no algorithm of this name here."))
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
