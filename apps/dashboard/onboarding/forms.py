"""A scheduler's tree, its accounting log, and the first policy made of both."""

from __future__ import annotations

from typing import Any, cast
from zoneinfo import available_timezones

from django import forms
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError
from apps.core.typed_numbers import read_number
from apps.dashboard.algorithm.text import describe
from apps.onboarding.first_policy_draft import settings_with
from apps.policies.formats.registry import list_formats as list_tree_formats
from apps.policies.settings import PolicySettings
from apps.usage.parsers.registry import AUTO
from apps.usage.parsers.registry import list_formats as list_log_formats

Choices = list[tuple[str, str]]
# What a first policy is offered; all others can be chosen on its Algorithm page afterwards.
OFFERED = ("slurm-fair-tree", "aequus", "gridwide", "slurm-classic", "slurm-depth-oblivious")
_LONGEST_DAYS = 3_650


def _text(**attributes: str) -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input", "autocomplete": "off", "spellcheck": "false", **attributes})


def _zone(name: str) -> str:
    wanted = name.strip()
    if wanted and wanted not in available_timezones():
        raise forms.ValidationError(_("Unknown time zone. Write it as Europe/Stockholm or UTC."), code="no_such_zone")
    return wanted


class RefusableForm(forms.Form):
    """Shows what a room refused at the field that is to blame, else above the form."""

    blamed: dict[str, str] = {}  # noqa: RUF012 - read only

    def add_refusal(self, error: DomainError) -> None:
        for where, message in [(one.where, one.message) for one in error.fields] or [(error.code, error.message)]:
            name = self.blamed.get(where, where)
            self.add_error(name if name in self.fields else None, forms.ValidationError(message, code=error.code))

    def _offer(self, name: str, choices: Choices) -> None:
        field = cast("forms.ChoiceField", self.fields[name])
        field.choices = choices
        field.widget.attrs["class"] = "input"


class TreeForm(RefusableForm):
    """The file that declares the tree."""

    blamed = {"corrupt_gzip": "file", "bad_encoding": "file", "too_large": "file", "unknown_format": "format"}  # noqa: RUF012 - read only
    file = forms.FileField(
        label=_("File"),
        required=False,
        error_messages={"required": _("Choose a file"), "empty": _("This file is empty.")},
    )
    pasted = forms.CharField(
        label=_("Or paste the output"),
        required=False,
        max_length=4 * 2**20,
        strip=False,
        widget=forms.Textarea(
            attrs={"class": "input mono", "rows": "4", "autocomplete": "off", "spellcheck": "false", "wrap": "off"}
        ),
    )
    format = forms.ChoiceField(label=_("Format"), initial=AUTO)
    slurm_config = forms.FileField(
        label=_("Slurm configuration"),
        required=False,
        help_text=_("Algorithm, decay and metric as in Slurm; optional."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._offer(
            "format", [(AUTO, str(_("Detect automatically"))), *((one.name, one.label) for one in list_tree_formats())]
        )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not given.get("file") and not given.get("pasted") and "file" not in self.errors:
            self.add_error("file", forms.ValidationError(_("Choose a file"), code="required"))
        return given

    @property
    def content(self) -> tuple[bytes, str]:
        """Of the file, else what was pasted; and its name."""
        file = self.cleaned_data["file"]
        if file:
            return file.read(), file.name
        return str(self.cleaned_data["pasted"]).replace("\r\n", "\n").encode(), str(_("pasted output"))


class LogForm(RefusableForm):
    """The accounting log, and the name of the source that it makes."""

    blamed = {  # noqa: RUF012 - read only
        "archive": "file",
        "corrupt_gzip": "file",
        "corrupt_zstd": "file",
        "empty_file": "file",
        "not_text": "file",
        "expands_too_much": "file",
        "too_large": "file",
        "unknown_format": "format",
        "slug": "source_name",
    }
    file = forms.FileField(
        label=_("File"),
        max_length=255,
        error_messages={
            "required": _("Choose a file"),
            "empty": _("This file is empty."),
            "max_length": _("The name is too long: at most 255 characters."),
        },
    )
    format = forms.ChoiceField(label=_("Format"), initial=AUTO)
    source_name = forms.CharField(label=_("Name of the source"), max_length=64, widget=_text())
    time_zone = forms.CharField(
        label=_("Time zone"),
        required=False,
        max_length=64,
        widget=_text(),
        help_text=_("Only for times without one, as sacct writes them."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        formats = [(one.name, one.label) for one in list_log_formats() if not one.is_listing]
        self._offer("format", [(AUTO, str(_("Detect automatically"))), *formats])

    @property
    def source_slug(self) -> str:
        return str(slugify(self.cleaned_data["source_name"]))[:64]

    def clean_source_name(self) -> str:
        name = str(self.cleaned_data["source_name"])
        if not slugify(name):
            raise forms.ValidationError(_("The name needs at least one letter a–z or digit."), code="no_letter")
        return name

    def clean_time_zone(self) -> str:
        return _zone(str(self.cleaned_data["time_zone"]))


class ZoneForm(RefusableForm):
    """The one thing that a log without zones can't tell."""

    time_zone = forms.CharField(label=_("Time zone"), max_length=64, widget=_text(list="zones"))

    def clean_time_zone(self) -> str:
        return _zone(str(self.cleaned_data["time_zone"]))


class FirstPolicyForm(RefusableForm):
    """Its name, how shares turn into order, and how fast usage is forgotten."""

    blamed = {"slug": "name", "settings.window.half_life_s": "half_life_days"}  # noqa: RUF012 - read only
    name = forms.CharField(label=_("Name"), max_length=128, widget=_text())
    algorithm = forms.ChoiceField(label=_("Priority algorithm"), widget=forms.RadioSelect)
    half_life_days = forms.CharField(
        label=_("Half-life of usage, in days"), max_length=16, widget=_text(inputmode="decimal")
    )

    def __init__(
        self, *args: Any, allowed: Choices, given: PolicySettings, has_scheduler: bool = False, **kwargs: Any
    ) -> None:
        """given: what the tree's file and Slurm's configuration say. has_scheduler: one can be connected, too."""
        super().__init__(*args, **kwargs)
        self._given = given
        if has_scheduler:
            self.fields["scheduler"] = forms.CharField(
                label=_("Scheduler in shadow mode"),
                required=False,
                max_length=64,
                widget=_text(),
                help_text=_("Its numbers are compared with ours; nothing is sent to it. Leave empty for none."),
            )
        cast("forms.ChoiceField", self.fields["algorithm"]).choices = allowed

    @property
    def slug(self) -> str:
        return str(slugify(self.cleaned_data["name"]))[:64].strip("-_").replace("_", "-")

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if not slugify(name):
            raise forms.ValidationError(_("The name needs at least one letter a–z or digit."), code="no_letter")
        return name

    def clean_half_life_days(self) -> float:
        try:
            days = read_number(str(self.cleaned_data["half_life_days"]))
        except ValueError:
            days = 0.0
        is_never = days == 0 and self._is_slurm and str(self.cleaned_data["half_life_days"]).strip() == "0"
        if not is_never and not 0 < days <= _LONGEST_DAYS:  # NaN is neither
            raise forms.ValidationError(
                _("Days above 0, at most 3650: usage of that age counts half."), code="out_of_range"
            )
        return days

    @property
    def _is_slurm(self) -> bool:
        return str(self.cleaned_data.get("algorithm", "")).startswith("slurm-")

    @property
    def settings(self) -> PolicySettings:
        return settings_with(self._given, self.cleaned_data["algorithm"], self.cleaned_data["half_life_days"] * 86_400)


def algorithms_for(*, has_inherit: bool) -> Choices:
    """Those that take this tree as it is, with their labels."""
    found = [described for name in OFFERED if (described := describe(name)) is not None]
    return [(one.name, one.label) for one in found if one.takes_inherit or not has_inherit]
