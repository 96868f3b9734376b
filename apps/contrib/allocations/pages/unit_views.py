"""Page of a policy's units: what an hour of each counts, and how administrators declare, change and remove them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from apps.contrib.allocations.pages.forms import typed_amount
from apps.contrib.allocations.pages.views import crumbs_of
from apps.contrib.allocations.units import policy_units
from apps.core import clock
from apps.core.errors import Conflict, FieldProblem, Invalid, problem_sentence
from apps.core.typed_numbers import read_amount
from apps.mapping.permissions import load_visibility
from apps.policies.access.scope import administers_policies
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.services import change_settings
from apps.policies.settings import RESOURCES
from apps.policies.tree.stored import load_tree
from apps.policies.units import LONGEST_NAME, LONGEST_SYMBOL, Unit
from apps.priorities.selectors.class_factors import factor_name
from apps.priorities.selectors.kinds_in_use import kinds_in_use
from apps.priorities.sentences import numbers
from apps.usage.models import Source
from apps.usage.records.retention_start import retention_start
from apps.web import bounds
from apps.web.changes.factor_lines import (
    KIND_WEIGHTS,
    class_factor_lines,
    kind_weight_lines,
    read_class_factors,
    read_kind_weights,
)
from apps.web.shell import presentation
from apps.web.shell.forms import RefusableForm, name_field, published_reason_field, read_action, text_input
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of

_MINUTE_S = 60
_FIELD = re.compile(r"units\[\d+\]\.(?P<name>\w+)(\.(?P<resource>[^\s\[]+))?")
_LABELS = {
    "cpu_s": gettext_lazy("Core-hours"),
    "gpu_s": gettext_lazy("GPU-hours"),
    "mem_gb_s": gettext_lazy("GB-hours of memory"),
    "node_s": gettext_lazy("Node-hours"),
    "billing": gettext_lazy("Billing units, an hour"),
}


class UnitForm(RefusableForm):
    """A unit: its names, what an hour of it counts, and the minimum of a job in minutes."""

    name = name_field(gettext_lazy("Name of one"), LONGEST_NAME, gettext_lazy("Such as GPU-hour."))
    symbol = name_field(
        gettext_lazy("Symbol"), LONGEST_SYMBOL, gettext_lazy("Such as GPU-h. A known symbol changes that unit.")
    )
    minimum = forms.CharField(
        label=gettext_lazy("Minimum charge of a job, minutes"),
        max_length=bounds.NUMBER,
        required=False,
        widget=text_input(inputmode="decimal"),
        help_text=gettext_lazy("Each start of a job counts as at least so long."),
    )
    weight_kinds = forms.CharField(
        label=gettext_lazy("Weights by kind"),
        max_length=bounds.FACTOR_LINES,
        required=False,
        widget=forms.Textarea(attrs={"class": "input mono", "rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy("One line each: kind, weight. GPUs of other kinds count by the weight of all GPUs."),
    )
    class_factors = forms.CharField(
        label=gettext_lazy("Queue, partition and QOS factors"),
        max_length=bounds.FACTOR_LINES,
        required=False,
        widget=forms.Textarea(attrs={"class": "input mono", "rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy("One line each: queue, partition, QOS, factor. An empty name is any."),
    )
    reason = published_reason_field()

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for resource in RESOURCES:
            self.fields[f"weight_{resource}"] = forms.CharField(
                label=_LABELS[resource],
                max_length=bounds.NUMBER,
                required=False,
                widget=text_input(inputmode="decimal"),
            )

    @property
    def weights(self) -> list[Any]:
        return [self[f"weight_{resource}"] for resource in RESOURCES]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for name in ("minimum", *(f"weight_{resource}" for resource in RESOURCES)):
            text = cleaned.get(name, "")
            try:
                cleaned[name] = read_amount(text) if text else 0.0
            except ValueError as error:
                self.add_error(name, forms.ValidationError(problem_sentence(str(error)), code="number"))
        problems: list[FieldProblem] = []
        cleaned[KIND_WEIGHTS] = read_kind_weights(cleaned.get(KIND_WEIGHTS, ""), problems)
        cleaned["class_factors"] = read_class_factors(cleaned.get("class_factors", ""), problems)
        for problem in problems:
            self.add_error(problem.where, forms.ValidationError(problem.message, code="lines"))
        return cleaned

    def unit(self) -> dict[str, Any]:
        """The typed unit as in the settings."""
        read = self.cleaned_data
        weights = {resource: read[f"weight_{resource}"] for resource in RESOURCES}
        return {
            "name": read["name"].strip(),
            "symbol": read["symbol"].strip(),
            "weights": {**{name: weight for name, weight in weights.items() if weight}, **read[KIND_WEIGHTS]},
            "class_factors": read["class_factors"],
            "minimum_charge_s": read["minimum"] * _MINUTE_S,
        }

    def form_field(self, where: str) -> str:
        """Of a path such as settings.units[1].class_factors[0].factor or settings.units[0].weights.gpu_s."""
        path = _FIELD.search(where)
        if path is None:
            return where
        name, resource = path["name"], path["resource"]
        if resource and resource not in RESOURCES:
            return KIND_WEIGHTS
        return f"weight_{resource}" if resource else {"minimum_charge_s": "minimum"}.get(name, name)

    def field_message(self, message: str) -> str:
        return problem_sentence(message)


@require_http_methods(["GET", "HEAD", "POST"])
def units(request: HttpRequest, policy: str) -> HttpResponse:
    """List the units, with a form to declare or change one (`?unit=` fills it in); `step=remove` removes one."""
    now, actor = clock.now(), actor_of(request)
    policy_row = get_policy(slug=policy, actor=actor)
    load_visibility(policy=policy_row, tree=load_tree(policy_row), at=now, actor=actor).require(0)
    declared = settings_of(policy_row, policy_row.head_number).units
    if request.method != "POST":
        chosen = next((each for each in declared if each["symbol"] == request.GET.get("unit")), None)
        return _page(request, policy_row, UnitForm(initial=_initial(chosen) if chosen else None))
    action = read_action(request)
    symbol = request.POST.get("symbol", "").strip()
    others = [each for each in declared if each["symbol"] != symbol]
    form = UnitForm(request.POST)
    if action.step == "remove":
        changed, reason = others, action.reason.strip() or _("Unit %(symbol)s removed.") % {"symbol": symbol}
    elif form.is_valid():
        before = next((each for each in declared if each["symbol"] == symbol), None)
        unit = form.unit()
        changed = [unit if each is before else each for each in declared] if before else [*declared, unit]
        reason = form.cleaned_data["reason"]
    else:
        return _page(request, policy_row, form, status=422)
    try:
        revision = change_settings(policy_slug=policy, settings={"units": changed}, reason=reason, at=now, actor=actor)
    except (Invalid, Conflict) as refusal:
        if action.step == "remove":
            messages.error(request, refusal.message)
            return _page(request, policy_row, UnitForm(), status=422)
        form.add_refusal(refusal)
        return _page(request, policy_row, form, status=422)
    add_published_message(request, revision)
    return SeeOther(reverse("pages:allocation-units", kwargs={"policy": policy}))


def _initial(unit: dict[str, Any]) -> dict[str, Any]:
    own = ((name, weight) for name, weight in unit["weights"].items() if name in RESOURCES)
    weights = {f"weight_{name}": typed_amount(weight) for name, weight in own}
    minimum = unit["minimum_charge_s"] / _MINUTE_S
    return {
        "name": unit["name"],
        "symbol": unit["symbol"],
        "minimum": typed_amount(minimum) if minimum else "",
        KIND_WEIGHTS: kind_weight_lines(unit["weights"]),
        "class_factors": class_factor_lines(unit["class_factors"]),
        **weights,
    }


def _page(request: HttpRequest, policy: Policy, form: UnitForm, *, status: int = 200) -> HttpResponse:
    units = policy_units(policy)
    context = {
        "policy": policy.slug,
        "policy_name": policy.name,
        "rows": [_row(unit) for unit in units],
        "minimum_note": _minimum_note() if any(unit.minimum_charge_s for unit in units) else "",
        "form": form,
        "kinds": kinds_in_use(),
        "may_change": administers_policies(actor_of(request)),
        "crumbs": [*crumbs_of(policy.slug, policy.name), {"label": _("Units")}],
    }
    return render(request, "contrib/allocations/units.html", context, status=status)


def _minimum_note() -> str:
    """How far back a minimum counts: what short jobs are short of is read from their records."""
    starts = [start for source in Source.objects.all() if (start := retention_start(source, clock.now())) is not None]
    if not starts:
        return _("The minimum needs the record of a job. Usage of peers comes without records and counts as it ran.")
    day = presentation.long_day(timezone.localdate(max(starts)))
    text = _("The minimum needs the record of a job: jobs that ended before %(day)s count as they ran, as peers’ do.")
    return text % {"day": day}


def _row(unit: Unit) -> dict[str, Any]:
    """What one hour of a unit counts, such as 1 × Core-hours + 64 × GPU-hours."""
    terms = [f"{presentation.shares_short(weight)} × {_label(name)}" for name, weight in unit.weights]
    return {
        "name": unit.name,
        "symbol": unit.symbol,
        "counts": " + ".join(terms),
        "minimum": presentation.duration(unit.minimum_charge_s) if unit.minimum_charge_s else "",
        "factors": [_factor(rule) for rule in unit.rules],
        "is_built_in": unit.is_core_hour,
    }


def _label(resource: str) -> str:
    return str(_LABELS[resource]) if resource in _LABELS else numbers.unit_of(resource)


def _factor(rule: Mapping[str, Any]) -> str:
    """A factor of a class, such as fat: × 2."""
    return _("%(class)s: × %(factor)s") % {
        "class": factor_name(rule),
        "factor": presentation.shares_short(float(rule["factor"])),
    }
