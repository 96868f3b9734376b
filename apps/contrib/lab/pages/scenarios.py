"""The page of the shipped scenarios: by paper and experiment, each opens the builder filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.contrib.lab.experiments.permissions import policy_to_manage
from apps.contrib.lab.experiments.presets import Preset
from apps.contrib.lab.experiments.scenario_base import compared_spec, scenario_spec
from apps.contrib.lab.experiments.scenario_titles import SCENARIO_GROUPS, ScenarioGroup, title_of_scenario
from apps.contrib.lab.pages.list_views import lab_url
from apps.contrib.lab.scenario_files import is_shipped, shipped_scenarios
from apps.contrib.lab.simulation.printed_figures import figures_of_scenario
from apps.core import clock
from apps.core.errors import NotFound
from apps.web.shell.requests import actor_of


@require_safe
def scenarios(request: HttpRequest, policy: str) -> HttpResponse:
    """All shipped scenarios. Those who make experiments see them."""
    viewed = policy_to_manage(slug=policy, at=clock.now(), actor=actor_of(request))
    builder, notes = reverse("pages:lab-new", kwargs={"policy": policy}), shipped_scenarios()
    context = {
        "policy": policy,
        "policy_name": viewed.name,
        "groups": [_group_context(group, builder, notes) for group in SCENARIO_GROUPS],
        "crumbs": [
            {"label": viewed.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": _("Lab"), "url": lab_url(policy)},
            {"label": _("Scenarios")},
        ],
    }
    return render(request, "contrib/lab/scenarios.html", context)


def _group_context(group: ScenarioGroup, builder: str, notes: Mapping[str, str]) -> dict[str, Any]:
    return {
        "key": group.key,
        "title": group.title,
        "paper": group.paper,
        "compare_url": f"{builder}?compare={group.key}" if group.compared else "",
        "scenarios": [
            {
                "name": name,
                "title": title,
                "notes": notes[name],
                "figures": figures_text(name),
                "url": f"{builder}?scenario={name}",
            }
            for name, title in group.scenarios.items()
        ],
    }


def figures_text(name: str) -> str:
    """The figures whose printed numbers are compared with this scenario: “Figures 5 to 8”; empty for none."""
    numbers = [figure.number for figure in figures_of_scenario(name)]
    if not numbers:
        return ""
    if len(numbers) == 1:
        return _("Figure %(n)s") % {"n": numbers[0]}
    if len(numbers) == 2:
        return _("Figures %(first)s and %(last)s") % {"first": numbers[0], "last": numbers[-1]}
    return _("Figures %(first)s to %(last)s") % {"first": numbers[0], "last": numbers[-1]}


def scenario_preset(query: Mapping[str, str]) -> Preset | None:
    """The preset that a link to the builder names: a scenario, or a group's comparison. Raises NotFound for another."""
    name, key = query.get("scenario", ""), query.get("compare", "")
    if name:
        if not is_shipped(name):
            raise NotFound(_("There is no such scenario."))
        return Preset(name, title_of_scenario(name), shipped_scenarios()[name], scenario_spec(name))
    if key:
        group = next((each for each in SCENARIO_GROUPS if each.key == key and each.compared), None)
        if group is None:
            raise NotFound(_("There is no such comparison."))
        titles = ", ".join(title_of_scenario(each) for each in group.compared)
        return Preset(key, _("%(title)s: comparison") % {"title": group.title}, titles, compared_spec(group.compared))
    return None
