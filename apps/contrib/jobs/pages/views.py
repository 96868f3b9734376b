"""Why a job has its position in a queue, from a pasted listing or case; pasted text is never stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.actor import Actor
from apps.contrib.jobs import bounds as of_jobs
from apps.contrib.jobs.algorithms import all_job_algorithms, get_job_algorithm
from apps.contrib.jobs.algorithms.gridengine.config import AS_SHIPPED, MOST_FUNCTIONAL_JOBS, PRESETS
from apps.contrib.jobs.algorithms.listing_check import TERMS
from apps.contrib.jobs.pages.calculator import (
    DEPARTMENT_FIELDS,
    MOST_CALCULATOR_JOBS,
    MOST_CALCULATOR_ROWS,
    PROJECT_FIELDS,
    STARTS,
    USER_FIELDS,
    CalculatorForm,
    Field,
    Row,
    blank_row,
    case_of,
)
from apps.contrib.jobs.pages.pasted_jobs import read_table
from apps.contrib.jobs.pages.tables import grid_engine_table, short
from apps.contrib.jobs.sam_cases import sam_case
from apps.core import clock
from apps.core.code_paths import command_name
from apps.core.errors import DomainError, Invalid, TooLarge
from apps.core.typed_numbers import read_number
from apps.policies.models import Policy
from apps.policies.selectors import list_policies
from apps.web import bounds
from apps.web.shell.forms import Form
from apps.web.shell.requests import actor_of, fragment

_FOLDER = Path(__file__).with_name("examples")
MOST_TYPED_WEIGHT = 1e9
_LABELS = {
    "weight_urgency": gettext_lazy("Urgency"),
    "weight_ticket": gettext_lazy("Tickets"),
    "weight_priority": gettext_lazy("POSIX priority"),
}
_MOST_POLICIES = 5
MOST_JOBS_AS_JSON = 200  # jobs of a case shown as JSON


@dataclass(frozen=True, slots=True)
class Example:
    """One example text, and the amendments to show with it."""

    name: str
    label: str | Promise
    file_name: str
    variants: Sequence[str] = ()

    @property
    def data(self) -> QueryDict:
        """The example as form data."""
        sent = QueryDict(mutable=True)
        sent["text"] = (_FOLDER / self.file_name).read_text(encoding="utf-8")
        sent.setlist("variants", list(self.variants))
        return sent


EXAMPLES = (
    Example("qstat", gettext_lazy("Grid Engine: qstat -ext -urg -pri"), "qstat.txt", ("exclude_running",)),
    Example(
        "case",
        gettext_lazy("Grid Engine: a case with two variants"),
        "gridengine.json",
        ("exclude_running", "even_split"),
    ),
    Example("worked", gettext_lazy("Grid Engine: the worked example of 2011"), "gridengine-2011.json", ("even_split",)),
    Example("sprio", gettext_lazy("Slurm: sprio -w, -l and -n -l"), "sprio.txt"),
    Example("htcondor", gettext_lazy("HTCondor: submitters and their jobs"), "htcondor.json"),
    Example("sam", gettext_lazy("SAM: front or back"), "sam.json"),
    Example("sam-weighted", gettext_lazy("SAM: weighted benefits"), "sam-weighted.json"),
)


def example(name: str) -> Example | None:
    """The example with this name, or None."""
    return next((each for each in EXAMPLES if each.name == name), None)


def amendments() -> list[tuple[str, str, str]]:
    """(setting, label, description) of each single amendment."""
    variants = get_job_algorithm("gridengine").variants
    return [(each.setting, each.label, each.changes) for each in variants[1:] if "+" not in each.setting]


class JobsForm(Form):
    """text: a listing or a case. Weights are inputs because `qstat` doesn't print them."""

    text = forms.CharField(
        label=gettext_lazy("Input"),
        strip=False,
        max_length=of_jobs.PASTED,
        widget=forms.Textarea(attrs={"class": "input mono", "rows": 14, "spellcheck": "false", "wrap": "off"}),
        error_messages={
            "required": gettext_lazy("Paste scheduler output with its header line, or a case as JSON."),
            "max_length": format_lazy(
                gettext_lazy("Paste fewer jobs, or use {command}."), command=command_name("jobs")
            ),
        },
    )
    variants = forms.MultipleChoiceField(label=gettext_lazy("Variants"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["variants"].choices = [(setting, label) for setting, label, _changes in amendments()]  # type: ignore[attr-defined]
        for _term, name in TERMS:
            self.fields[name] = forms.CharField(
                label=_LABELS[name],
                required=False,
                max_length=bounds.NUMBER,
                widget=forms.TextInput(attrs={"class": "input", "inputmode": "decimal", "autocomplete": "off"}),
            )

    @property
    def weights(self) -> Mapping[str, float] | None:
        """All three weights; None if none was given, so that they are estimated from the rows."""
        weights = {name: self.cleaned_data[name] for _term, name in TERMS}
        return None if all(value is None for value in weights.values()) else {k: v or 0.0 for k, v in weights.items()}

    @property
    def weight_fields(self) -> list[forms.BoundField]:
        return [self[name] for _term, name in TERMS]

    @property
    def is_set(self) -> bool:
        """Whether a variant or a weight was given, so that the settings are shown."""
        return any(self[name].value() for name in ("variants", *(name for _term, name in TERMS)))

    @property
    def choices(self) -> list[dict[str, Any]]:
        chosen = self["variants"].value() or []
        return [
            {"value": setting, "label": label, "changes": changes, "checked": setting in chosen}
            for setting, label, changes in amendments()
        ]

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        for _term, name in TERMS:
            if name in self.cleaned_data:
                self.cleaned_data[name] = self._weight(name)
        return cleaned

    def _weight(self, name: str) -> float | None:
        """The weight; None if empty."""
        text = str(self.cleaned_data[name]).strip()
        if not text:
            return None
        try:
            value = read_number(text)
        except ValueError as error:
            self.add_error(name, str(error))
            return None
        if not 0 <= value <= MOST_TYPED_WEIGHT:
            self.add_error(name, gettext_lazy("Enter a number, such as 20 or 0.5."))
            return None
        return value


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def jobs(request: HttpRequest) -> HttpResponse:
    """The form and its result. `?example=` fills in an example, `?sam=` the ledger of a policy."""
    form = JobsForm(request.POST) if request.method == "POST" else _example_form(request)
    outcome = _result(form) if form.is_bound else {}
    context = {
        **outcome,
        "form": form,
        "examples": EXAMPLES,
        "policies": _policies_with_a_case(actor_of(request)),
        "algorithms": all_job_algorithms().values(),
        "crumbs": [{"label": _("Explain a job")}],
    }
    return render(request, "contrib/jobs/jobs.html", context, status=_status(outcome))


def _policies_with_a_case(actor: Actor) -> list[Policy]:
    """Of the first policies, those of which SAM's ledger may be shown to the reader."""
    found = []
    for policy in list_policies(actor=actor)[:_MOST_POLICIES]:
        with suppress(DomainError):
            sam_case(policy_slug=policy.slug, path="/", actor=actor, at=clock.now())
            found.append(policy)
    return found


def _example_form(request: HttpRequest) -> JobsForm:
    if policy := request.GET.get("sam", ""):
        path = request.GET.get("path", "/")
        case = sam_case(policy_slug=policy, path=path, actor=actor_of(request), at=clock.now())
        return JobsForm({"text": json.dumps(case, ensure_ascii=False, indent=1)})
    chosen = example(request.GET.get("example", ""))
    return JobsForm(chosen.data) if chosen else JobsForm()


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@fragment(lambda: reverse("pages:jobs"))
def result(request: HttpRequest) -> HttpResponse:
    """The result as a fragment."""
    outcome = _result(JobsForm(request.POST or None))
    return render(request, "contrib/jobs/_result.html", outcome, status=_status(outcome))


def _result(form: JobsForm) -> dict[str, Any]:
    """The table, or the problem and its location."""
    if not form.is_valid():
        problems = [(str(form[name].label), error) for name, errors in form.errors.items() for error in errors]
        return {"problems": problems or [("", _("Paste scheduler output with its header line, or a case as JSON."))]}
    try:
        table = read_table(form.cleaned_data["text"], form.weights, form.cleaned_data["variants"])
    except (Invalid, TooLarge) as refusal:
        return {"problems": [(place.where, place.message) for place in refusal.fields] or [("", refusal.message)]}
    return {"table": table}


def _status(outcome: dict[str, Any]) -> int:
    return 422 if "problems" in outcome else 200


@never_cache
@require_safe
def calculator(request: HttpRequest) -> HttpResponse:
    """The whole page; without a query it shows the first example."""
    query = request.GET if request.GET else QueryDict(STARTS[0].query)
    form = CalculatorForm(query)
    chosen = [variant for variant, _label, _changes in amendments() if variant in form.variants]
    context = {
        **_calculated(form),
        **layout_of(form, adding=query.get("add", "")),
        "form": form,
        "starts": STARTS,
        "choices": [(*each, each[0] in chosen) for each in amendments()],
        "crumbs": [
            {"label": _("Priority calculator")},
        ],
    }
    return render(request, "contrib/jobs/calculator.html", context)


@never_cache
@require_safe
@fragment(lambda: reverse("pages:jobs-calculator"))
def calculator_result(request: HttpRequest) -> HttpResponse:
    """The result as a fragment; the page's URL is updated to the form."""
    response = render(request, "contrib/jobs/_calculator_result.html", _calculated(CalculatorForm(request.GET)))
    response["HX-Replace-Url"] = f"{reverse('pages:jobs-calculator')}?{request.GET.urlencode()}"
    return response


def _calculated(form: CalculatorForm) -> dict[str, Any]:
    """The table and its case, or the problems. An incomplete form is no error: status 200."""
    if form.problems:
        return {"problems": form.problems, "is_live": True}
    case = case_of(form)
    known = [variant for variant, _label, _changes in amendments()]
    variants = [variant for variant in form.variants if variant in known]
    try:
        table = grid_engine_table(case, variants, most_jobs=MOST_CALCULATOR_JOBS, with_tickets=True)
    except (Invalid, TooLarge) as refusal:
        places = [(place.where, place.message) for place in refusal.fields] or [("", refusal.message)]
        return {"problems": places, "is_live": True}
    text = json.dumps(case, ensure_ascii=False, indent=1) if len(case["jobs"]) <= MOST_JOBS_AS_JSON else ""
    return {"table": table, "case": text, "is_live": True}


@dataclass(frozen=True, slots=True)
class OwnerTable:
    """One table of inputs: its rows, then blank ones. name: of its first column."""

    name: str
    title: str
    fields: Sequence[Field]
    rows: Sequence[Row]
    focused: str = ""  # key of the input to focus

    @property
    def may_grow(self) -> bool:
        return len(self.rows) < MOST_CALCULATOR_ROWS


def layout_of(form: CalculatorForm, *, adding: str) -> dict[str, Any]:
    """Tables with a blank row each, and settings with their defaults. adding: the table that was extended last."""
    tables = {
        "users_table": _table(_("Jobs"), USER_FIELDS, form.users, adding),
        "departments_table": _table(_("Departments"), DEPARTMENT_FIELDS, form.departments, adding),
        "projects_table": _table(_("Projects"), PROJECT_FIELDS, form.projects, adding),
    }
    preset = PRESETS.get(form.preset, PRESETS[AS_SHIPPED])
    defaults = {**preset, "slots_urgency": preset.get("urgency", {}).get("slots", 0)}
    defaults["max_functional_jobs_to_schedule"] = MOST_FUNCTIONAL_JOBS
    groups = [
        (group.title, [(cell, short(defaults[cell.field.name])) for cell in cells]) for group, cells in form.groups
    ]
    presets = [(name, name == (form.preset or AS_SHIPPED)) for name in PRESETS]
    return {**tables, "groups": groups, "presets": presets}


def _table(title: str, fields: Sequence[Field], rows: Sequence[Row], adding: str) -> OwnerTable:
    number = len(rows) + 1
    blank = [blank_row(fields, number)] if number <= MOST_CALCULATOR_ROWS else []
    focused = blank[0].cells[0].key if blank and adding == fields[0].name else ""
    return OwnerTable(fields[0].name, title, fields, [*rows, *blank], focused)
