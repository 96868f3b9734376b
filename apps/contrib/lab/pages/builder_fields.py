"""Fields of the builder for its template: label, control, choices, what was typed, and its problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.spec import SCOPES
from apps.contrib.lab.pages.builder_form import BuilderForm
from apps.engine.algorithms import all_algorithms
from apps.engine.operators import all_operators
from apps.policies.settings import APPROACHES

Control = Literal["text", "number", "whole", "date", "select", "lines"]
Choices = Sequence[tuple[str, str]]
MOST_FIELD_ROWS = 12


@dataclass(frozen=True)
class Field:
    name: str
    label: str
    control: Control
    value: str
    problem: str
    hint: str = ""
    choices: Choices = ()
    placeholder: str = ""

    @property
    def n_rows(self) -> int:
        """Of a field of lines."""
        return min(MOST_FIELD_ROWS, max(2, self.value.count("\n") + 1))

    @property
    def html_id(self) -> str:
        return f"id_{self.name}"

    @property
    def described_by(self) -> str:
        parts = [f"{self.html_id}_hint"] if self.hint else []
        return " ".join([*parts, *([f"{self.html_id}_error"] if self.problem else [])])


@dataclass(frozen=True)
class VariantFields:
    """prefix: of the names of its fields. rest: fields that few need, which are closed while they are empty."""

    prefix: str
    title: str
    fields: Sequence[Field]
    rest: Sequence[Field]

    @property
    def is_base(self) -> bool:
        return self.prefix == "base-"

    @property
    def has_rest(self) -> bool:
        return any(each.value or each.problem for each in self.rest)

    @property
    def has_any(self) -> bool:
        return self.has_rest or any(each.value or each.problem for each in self.fields)


def workload_fields(form: BuilderForm, traces: Choices) -> dict[str, list[Field]]:
    """By kind of workload. traces: logs that were uploaded."""
    return {
        "replay": [
            _field(form, "days", _("Days"), "whole", _("1 to 365, up to the last one that has ended")),
            _field(form, "until_on", _("Last day"), "date", _("empty: yesterday")),
            _field(
                form,
                "cpus",
                _("Processors by site"),
                "lines",
                _("one site a line, such as cluster 128; empty: each day the most that ran at once"),
            ),
        ],
        "trace": [
            _field(form, "trace", _("Log"), "select", choices=traces or [("", _("none is uploaded yet"))]),
            _field(form, "trace_hours", _("Hours of it"), "number", _("empty: all")),
            _field(form, "trace_sites", _("Sites"), "lines", _("one a line with its processors, such as cluster 128")),
            _field(
                form,
                "map",
                _("Entries of its jobs"),
                "lines",
                _("one rule a line: /{group}/{user}, or of some, /physics = group:3 user:5"),
            ),
        ],
        "synthetic": [
            _field(form, "hours", _("Hours"), "number"),
            _field(form, "sites", _("Sites"), "lines", _("one a line with its processors, such as cluster 128")),
            _field(form, "load", _("Load of all users together"), "number", _("1: as much as all processors can do")),
            _field(form, "run_from_h", _("Run time from (hours)"), "number"),
            _field(form, "run_to_h", _("Run time to (hours)"), "number"),
            _field(form, "requested_from", _("Requested from (× run time)"), "number", placeholder="1"),
            _field(form, "requested_to", _("Requested to (× run time)"), "number", placeholder="1"),
            _field(form, "job_cpus", _("Processors of a job"), "whole"),
            _field(
                form,
                "streams",
                _("Jobs by entry"),
                "lines",
                _(
                    "instead of all users: one entry a line with its load, such as /physics 0.6, or seconds between "
                    "jobs, such as /physics every 15 (at random: poisson 15). What differs from the fields above "
                    "follows: run 0.5 to 1.5, requested 1 to 2, cpus 2, from 0, until 24 (hours), at R1, R2 (sites)."
                ),
            ),
        ],
    }


def head_fields(form: BuilderForm) -> dict[str, Field]:
    return {
        "name": _field(form, "name", _("Name"), "text"),
        "seed": _field(form, "seed", _("Random seed"), "whole"),
    }


def variant_fields(form: BuilderForm, drafts: Choices) -> list[VariantFields]:
    """Of the base and its variants. drafts: change sets that may be tried."""
    return [
        VariantFields(
            prefix,
            _("Base") if number == 0 else _("Variant %(n)s") % {"n": number},
            list(_main(form, prefix, drafts if number else ())),
            list(_rest(form, prefix)),
        )
        for number, prefix in enumerate(form.prefixes)
    ]


def _main(form: BuilderForm, prefix: str, drafts: Choices) -> Iterable[Field]:
    as_is = [("", _("unchanged"))]
    yield _field(form, f"{prefix}name", _("Name"), "text", placeholder=_("what it changes"))
    if drafts or form.value(f"{prefix}change_set"):
        yield _field(form, f"{prefix}change_set", _("Draft"), "select", choices=[("", _("none")), *drafts])
    yield _field(form, f"{prefix}half_life_d", _("Half-life (days)"), "number", placeholder=_("unchanged"))
    operators = [(operator.name, operator.name) for operator in all_operators()]
    yield _field(form, f"{prefix}operator", _("Operator"), "select", choices=[*as_is, *operators])
    yield _field(form, f"{prefix}resolution", _("Resolution"), "whole", placeholder=_("unchanged"))
    names = [(name, name) for name in all_algorithms()]
    yield _field(form, f"{prefix}algorithm", _("Algorithm"), "select", choices=[*as_is, *names])
    yield _field(
        form, f"{prefix}entries", _("Entries"), "lines", _("one a line, such as /physics shares 2 jobs 2: twice both")
    )


def _rest(form: BuilderForm, prefix: str) -> Iterable[Field]:
    as_is = [("", _("unchanged"))]
    yield _field(form, f"{prefix}jobs_times", _("All jobs times"), "number", placeholder="1")
    scopes = {"policy": _("as entries say"), "local": _("local usage"), "global": _("global usage")}
    scope_choices = [*as_is, *((scope, scopes[scope]) for scope in SCOPES)]
    yield _field(form, f"{prefix}scope", _("Scope"), "select", choices=scope_choices)
    yield _field(form, f"{prefix}refresh_min", _("Refresh of global usage (min)"), "number", placeholder=_("unchanged"))
    yield _field(
        form, f"{prefix}priority_refresh_min", _("Recompute of priorities (min)"), "number", placeholder=_("unchanged")
    )
    yield _field(form, f"{prefix}imbalance", _("Load imbalance (%)"), "number", placeholder="0")
    backfill = [*as_is, ("yes", _("yes")), ("no", _("no"))]
    yield _field(form, f"{prefix}backfill", _("Backfill"), "select", choices=backfill)
    yield _field(form, f"{prefix}delay_min", _("Delay of usage data (min)"), "number", placeholder="0")
    yield _field(form, f"{prefix}loss", _("Lost usage data (%)"), "number", placeholder="0")
    yield _field(form, f"{prefix}steps", _("Steps of known shares"), "whole", placeholder=_("exact"))
    approaches = [*as_is, *((name, name) for name in APPROACHES)]
    yield _field(form, f"{prefix}approach_local", _("Approach to local usage"), "select", choices=approaches)
    yield _field(form, f"{prefix}approach_global", _("Approach to global usage"), "select", choices=approaches)
    yield _field(form, f"{prefix}more", _("Further settings"), "lines", _("one a line, such as algorithm.k = 0.5"))


def _field(
    form: BuilderForm,
    name: str,
    label: str,
    control: Control,
    hint: str = "",
    choices: Choices = (),
    placeholder: str = "",
) -> Field:
    value = form.value(name)
    if choices and value not in [key for key, _label in choices]:
        choices = [*choices, (value, value)]  # such as an operator with another power
    return Field(name, label, control, value, form.problems.get(name, ""), hint, choices, placeholder)
