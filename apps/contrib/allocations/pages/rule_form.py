"""The form of one rule of allocations: what all kinds have, and the terms of the chosen kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.allocations import bounds as of_allocations
from apps.contrib.allocations.pages.forms import typed_amount
from apps.core.errors import problem_sentence
from apps.core.typed_numbers import read_amount
from apps.policies.allocation_rules import KINDS, LONGEST_LIMIT_NAME, LONGEST_RULE_NAME, MODES
from apps.policies.units import Unit
from apps.web import bounds
from apps.web.shell.forms import RefusableForm, choice_field, name_field, published_reason_field, text_input

KIND_LABELS = {
    "thresholds": gettext_lazy("Thresholds"),
    "last_when_used_up": gettext_lazy("Last when used up"),
    "carry_over": gettext_lazy("Carry-over"),
    "portions": gettext_lazy("Portions"),
    "aging": gettext_lazy("Aging: use it or lose it"),
    "pull_back": gettext_lazy("Pull-back for under-use"),
}
MODE_LABELS = {"off": gettext_lazy("Off"), "shadow": gettext_lazy("Shadow"), "on": gettext_lazy("On")}
_EVERY = (("month", gettext_lazy("Month")), ("quarter", gettext_lazy("Quarter")))
_LEAST_ROWS, _SPARE_ROWS = 4, 2
_NO_LIMIT = "-"


def _number(label: Any, help_text: Any = "") -> forms.CharField:
    return forms.CharField(
        label=label,
        max_length=bounds.NUMBER,
        required=False,
        widget=text_input(inputmode="decimal"),
        help_text=help_text,
    )


class RuleForm(RefusableForm):
    """A rule of one kind. Numbers are typed as texts; the settings say which are valid."""

    name = name_field(
        gettext_lazy("Name"), LONGEST_RULE_NAME, gettext_lazy("Author of its changes. Another name makes another rule.")
    )
    mode = choice_field(
        gettext_lazy("Mode"), [(mode, MODE_LABELS[mode]) for mode in MODES], gettext_lazy("In shadow nothing changes.")
    )
    unit = choice_field(gettext_lazy("Unit"), help_text=gettext_lazy("Of the allocations that it concerns."))
    entries = forms.CharField(
        label=gettext_lazy("Entries"),
        max_length=of_allocations.PATHS,
        required=False,
        widget=text_input(),
        help_text=gettext_lazy("Paths such as /climate, /* or /climate/**, with commas. Empty: all."),
    )
    most_percent = _number(
        gettext_lazy("Takes at most, %"), gettext_lazy("Of an amount, or of the shares. Your limit.")
    )
    most_entries = _number(gettext_lazy("Changes a day, at most"), gettext_lazy("Entries; the others follow later."))
    reason = published_reason_field()

    def __init__(self, *args: Any, kind: str, units: Sequence[Unit], n_rows: int = 0, **more: Any) -> None:
        super().__init__(*args, **more)
        self.kind = kind
        self.n_rows = max(n_rows + _SPARE_ROWS, _LEAST_ROWS)
        self.offer("unit", [(unit.symbol, f"{unit.name} ({unit.symbol})") for unit in units])
        self.fields.update(_FIELDS[kind]())
        for row in range(self.n_rows if kind in _COLUMNS else 0):
            self.fields.update({f"{name}_{row}": field() for name, field in _COLUMNS[kind].items()})

    @property
    def common(self) -> list[Any]:
        return [self[name] for name in ("name", "mode", "unit", "entries", "most_percent", "most_entries")]

    @property
    def own(self) -> list[Any]:
        return [self[name] for name in _FIELDS[self.kind]()]

    @property
    def rows(self) -> list[list[Any]]:
        names = _COLUMNS.get(self.kind, {})
        return [[self[f"{name}_{row}"] for name in names] for row in range(self.n_rows if names else 0)]

    def rule(self) -> dict[str, Any]:
        """The typed rule as in the settings; raises ValidationError at a field that isn't a number."""
        read = self.cleaned_data
        most = {"percent": read["most_percent"], "entries": read["most_entries"]}
        return {
            "name": read["name"].strip(),
            "kind": self.kind,
            "mode": read["mode"],
            "entries": [each.strip() for each in read["entries"].split(",") if each.strip()],
            "unit": read["unit"],
            "most": {key: value for key, value in most.items() if value is not None},
            self.kind: _TERMS[self.kind](self),
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for name, field in self.fields.items():
            if getattr(field.widget, "attrs", {}).get("inputmode") != "decimal":
                continue
            text = cleaned.get(name, "")
            try:
                cleaned[name] = read_amount(text) if text else None
            except ValueError as error:
                self.add_error(name, forms.ValidationError(problem_sentence(str(error)), code="number"))
        return cleaned

    def field_message(self, message: str) -> str:
        return problem_sentence(message)

    def form_field(self, where: str) -> str:
        """Field of a place in the settings, such as …rules[2].thresholds.levels[1].percent; "" for the whole."""
        place = re.sub(r"^.*rules(\[\d+\])?\.?", "", where).removeprefix(f"{self.kind}.")
        row = re.fullmatch(r"(?:levels|table)\[(\d+)\]\.(\w+).*", place)
        if row is not None:
            first = next(iter(_COLUMNS[self.kind]))
            typed = [n for n in range(self.n_rows) if self.value(f"{first}_{n}") is not None]
            name = {"below_percent": "below", "removed_percent": "removed"}.get(row[2], row[2])
            return f"{name}_{typed[int(row[1])]}" if int(row[1]) < len(typed) else ""
        place = re.sub(r"\[\d+\].*", "", place).replace(".", "_")
        return "cap" if place == "most_percent" and ".most." not in where else place

    def value(self, name: str) -> Any:
        return self.cleaned_data.get(name)


def _every() -> dict[str, forms.Field]:
    return {"every": choice_field(gettext_lazy("Every"), _EVERY)}


def _fields_of_last() -> dict[str, forms.Field]:
    return {**_every(), "least_shares": _number(gettext_lazy("Least shares"), gettext_lazy("Of a used-up entry."))}


def _fields_of_carry_over() -> dict[str, forms.Field]:
    return {
        "percent": _number(gettext_lazy("Part of the rest, %")),
        "cap": _number(gettext_lazy("Of the next amount at most, %"), gettext_lazy("Empty: no cap.")),
        "days": _number(gettext_lazy("Valid for, days")),
    }


def _fields_of_portions() -> dict[str, forms.Field]:
    keeps = _number(gettext_lazy("Unused ones stay for, periods"), gettext_lazy("Empty: for ever. 0: lost at once."))
    return {**_every(), "keeps": keeps}


def _fields_of_aging() -> dict[str, forms.Field]:
    return {"interval_days": _number(gettext_lazy("Interval, days"))}


def _fields_of_pull_back() -> dict[str, forms.Field]:
    bases = (("planned", gettext_lazy("what was planned to date")), ("unused", gettext_lazy("what is unused")))
    return {
        **_every(),
        "days_after": _number(gettext_lazy("Days after its end")),
        "plan": forms.CharField(
            label=gettext_lazy("Plan, % of the amount"),
            max_length=of_allocations.PATHS,
            required=False,
            widget=text_input(),
            help_text=gettext_lazy("By period, with commas. Empty: even."),
        ),
        "of": choice_field(gettext_lazy("Removed percent of"), bases),
    }


def _text(label: Any, help_text: Any = "") -> forms.CharField:
    return forms.CharField(
        label=label, max_length=20 * LONGEST_LIMIT_NAME, required=False, widget=text_input(), help_text=help_text
    )


_FIELDS: dict[str, Any] = {
    "thresholds": dict,
    "last_when_used_up": _fields_of_last,
    "carry_over": _fields_of_carry_over,
    "portions": _fields_of_portions,
    "aging": _fields_of_aging,
    "pull_back": _fields_of_pull_back,
}
_COLUMNS: dict[str, dict[str, Any]] = {
    "thresholds": {
        "percent": lambda: _number(gettext_lazy("From, %")),
        "notify": lambda: forms.BooleanField(label=gettext_lazy("Notify"), required=False),
        "shares": lambda: _number(gettext_lazy("Shares")),
        "qos": lambda: _text(gettext_lazy("QOS")),
        "grp_tres_mins": lambda: _text(gettext_lazy("GrpTRESMins")),
    },
    "pull_back": {
        "below": lambda: _number(gettext_lazy("Use below, %")),
        "removed": lambda: _number(gettext_lazy("Remove, %")),
    },
}


def _levels(form: RuleForm) -> dict[str, Any]:
    rows = [row for row in range(form.n_rows) if form.value(f"percent_{row}") is not None]
    return {
        "levels": [
            {
                "percent": form.value(f"percent_{row}"),
                "notify": bool(form.value(f"notify_{row}")),
                "shares": form.value(f"shares_{row}"),
                "qos": _limit(form.value(f"qos_{row}")),
                "grp_tres_mins": _minutes(form.value(f"grp_tres_mins_{row}")),
            }
            for row in rows
        ]
    }


def _limit(text: str | None) -> str | None:
    """A typed QOS; "-" for the usual one, nothing to leave it."""
    return None if not text else "" if text.strip() == _NO_LIMIT else text.strip()


def _minutes(text: str | None) -> dict[str, Any] | None:
    """Minutes as sacctmgr writes them, such as cpu=0,gres/gpu=600; "-" for no limit, nothing to leave them."""
    if not text:
        return None
    pairs = [each.partition("=") for each in text.split(",") if each.strip() and each.strip() != _NO_LIMIT]
    return {name.strip(): int(value) if value.strip().isdecimal() else value for name, _equals, value in pairs}


def _table(form: RuleForm) -> dict[str, Any]:
    rows = [row for row in range(form.n_rows) if form.value(f"below_{row}") is not None]
    plan = [each.strip() for each in (form.value("plan") or "").split(",") if each.strip()]
    return {
        "every": form.value("every"),
        "days_after": form.value("days_after") or 0,
        "plan": [_percent(each) for each in plan] or None,
        "of": form.value("of"),
        "table": [
            {"below_percent": form.value(f"below_{row}"), "removed_percent": form.value(f"removed_{row}")}
            for row in rows
        ],
    }


def _percent(text: str) -> float | str:
    try:
        return read_amount(text)
    except ValueError:
        return text  # the settings refuse it, with its place


_TERMS: dict[str, Any] = {
    "thresholds": _levels,
    "last_when_used_up": lambda form: {
        "every": form.value("every"),
        "least_shares": form.value("least_shares") or 0,
    },
    "carry_over": lambda form: {
        "percent": form.value("percent"),
        "most_percent": form.value("cap"),
        "days": form.value("days"),
    },
    "portions": lambda form: {"every": form.value("every"), "keeps": form.value("keeps")},
    "aging": lambda form: {"interval_days": form.value("interval_days")},
    "pull_back": _table,
}


def initial_of(rule: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """What the fields of a rule of the settings are filled with, and how many rows it has."""
    kind, terms = rule["kind"], rule[rule["kind"]]
    initial = {
        "name": rule["name"],
        "mode": rule["mode"],
        "unit": rule["unit"],
        "entries": ", ".join(rule["entries"]),
        "most_percent": typed_amount(rule["most"]["percent"]),
        "most_entries": str(rule["most"]["entries"]),
    }
    if kind == "thresholds":
        for row, level in enumerate(terms["levels"]):
            minutes = level["grp_tres_mins"]
            written = None if minutes is None else ",".join(f"{name}={n}" for name, n in minutes.items()) or _NO_LIMIT
            values = {
                "percent": typed_amount(level["percent"]),
                "notify": level["notify"],
                "shares": "" if level["shares"] is None else typed_amount(level["shares"]),
                "qos": _NO_LIMIT if level["qos"] == "" else level["qos"] or "",
                "grp_tres_mins": written or "",
            }
            initial |= {f"{name}_{row}": value for name, value in values.items()}
        return initial, len(terms["levels"])
    if kind == "pull_back":
        for row, each in enumerate(terms["table"]):
            initial |= {f"below_{row}": typed_amount(each["below_percent"])}
            initial |= {f"removed_{row}": typed_amount(each["removed_percent"])}
        initial["plan"] = ", ".join(typed_amount(each) for each in terms["plan"] or ())
    names = {"most_percent": "cap"} if kind == "carry_over" else {}
    for name, value in terms.items():
        if name not in ("table", "plan"):
            is_number = isinstance(value, int | float)
            initial[names.get(name, name)] = typed_amount(value) if is_number else value or ""
    return initial, len(terms.get("table", ()))


def kind_choices() -> list[dict[str, str]]:
    """Kinds of rules with what each is for, to begin one."""
    abouts = {
        "thresholds": _("From a percentage of use on: notify, lower shares, set a QOS or GrpTRESMins."),
        "last_when_used_up": _("Siblings divide their shares by what remains to each; a used-up one is last."),
        "carry_over": _("A part of the rest goes to the allocation that follows, for some days."),
        "portions": _("The amount becomes available month by month, or by quarter."),
        "aging": _("What should have been used by now and wasn’t is lost, interval by interval."),
        "pull_back": _("After each period a table says how much is removed where use is below the plan."),
    }
    return [{"kind": kind, "label": str(KIND_LABELS[kind]), "about": abouts[kind]} for kind in KINDS]
