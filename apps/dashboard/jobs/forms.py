"""What somebody pastes about jobs, how it is to be read, and examples small enough to reckon by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.engine.jobs import get_job_algorithm
from apps.engine.jobs.listing_check import TERMS

# --- Examples ---------------------------------------------------------------------------------------------------------
_FOLDER = Path(__file__).with_name("examples")


@dataclass(frozen=True, slots=True)
class Example:
    """One text of the folder, and the amendments that show something with it."""

    name: str
    label: str | Promise
    file_name: str
    variants: Sequence[str] = ()

    @property
    def data(self) -> QueryDict:
        """As the form would send it."""
        sent = QueryDict(mutable=True)
        sent["text"] = (_FOLDER / self.file_name).read_text(encoding="utf-8")
        sent.setlist("variants", list(self.variants))
        return sent


EXAMPLES = (
    Example("qstat", _("Grid Engine: qstat -ext -urg -pri"), "qstat.txt", ("exclude_running",)),
    Example("case", _("Grid Engine: a case with two amendments"), "gridengine.json", ("exclude_running", "even_split")),
    Example("worked", _("Grid Engine: the worked example of 2011"), "gridengine-2011.json", ("even_split",)),
    Example("sprio", _("Slurm: sprio -w, -l and -n -l"), "sprio.txt"),
    Example("sam", _("SAM: front or back"), "sam.json"),
    Example("sam-weighted", _("SAM: weighted benefits"), "sam-weighted.json"),
)


def example(name: str) -> Example | None:
    """The example of this name, if there is one."""
    return next((each for each in EXAMPLES if each.name == name), None)


# --- Form -------------------------------------------------------------------------------------------------------------
MOST_CHARACTERS = 2_000_000
MOST_WEIGHT = 1e9
_LABELS = {"weight_urgency": _("Urgency"), "weight_ticket": _("Tickets"), "weight_priority": _("POSIX priority")}


def amendments() -> list[tuple[str, str, str]]:
    """Setting, label and what it changes, of each amendment alone."""
    variants = get_job_algorithm("gridengine").variants
    return [(each.setting, each.label, each.changes) for each in variants[1:] if "+" not in each.setting]


class JobsForm(forms.Form):
    """`text` is a listing or a case; weights are asked for because `qstat` doesn't print them."""

    text = forms.CharField(
        label=_("Scheduler output or case"),
        strip=False,
        max_length=MOST_CHARACTERS,
        widget=forms.Textarea(attrs={"class": "input mono", "rows": 22, "spellcheck": "false", "wrap": "off"}),
        error_messages={
            "required": _("Paste scheduler output with its header line, or a case as JSON."),
            "max_length": _("Too long for a page: paste fewer jobs, or use manage.py jobs."),
        },
    )
    variants = forms.MultipleChoiceField(label=_("Variants"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["variants"].choices = [(setting, label) for setting, label, _changes in amendments()]  # type: ignore[attr-defined]
        for _term, name in TERMS:
            self.fields[name] = forms.CharField(
                label=_LABELS[name],
                required=False,
                max_length=40,
                widget=forms.TextInput(attrs={"class": "input", "inputmode": "decimal", "autocomplete": "off"}),
            )

    @property
    def weights(self) -> Mapping[str, float] | None:
        """All three, or None where none was given: then they are found from the rows."""
        given = {name: self.cleaned_data[name] for _term, name in TERMS}
        return None if all(value is None for value in given.values()) else {k: v or 0.0 for k, v in given.items()}

    @property
    def weight_fields(self) -> list[forms.BoundField]:
        return [self[name] for _term, name in TERMS]

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
        """A number with a decimal point or comma; nothing is no weight."""
        text = str(self.cleaned_data[name]).strip()
        if not text:
            return None
        plain = text.replace(",", ".") if text.count(",") == 1 and "." not in text else text
        try:
            value = float(plain) if plain.isascii() and "_" not in plain else float("nan")
        except ValueError:
            value = float("nan")
        if not isfinite(value) or not 0 <= value <= MOST_WEIGHT:
            self.add_error(name, _("Enter a weight such as 0.5, or leave all three empty."))
            return None
        return value
