"""Forms of the set-up: a scheduler's tree, its accounting log, and the first policy from both."""

from __future__ import annotations

import re
from typing import Any, ClassVar, cast

from django import forms
from django.utils.text import slugify
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.contrib.onboarding import bounds as of_onboarding
from apps.contrib.onboarding.first_policy_draft import settings_with
from apps.contrib.onboarding.rest_site import RestSite
from apps.contrib.schedulers import bounds as of_schedulers
from apps.core.typed_numbers import read_number
from apps.policies.formats.registry import list_formats as list_tree_formats
from apps.policies.settings import PolicySettings
from apps.usage.parsers.registry import AUTO
from apps.usage.parsers.registry import list_formats as list_log_formats
from apps.web import bounds
from apps.web.shell.forms import (
    FILE_CODES,
    FILE_ERRORS,
    RefusableForm,
    TimeZoneField,
    name_field,
    name_input,
    text_input,
)
from apps.web.texts.algorithm_text import describe

Choices = list[tuple[str, str]]
# Algorithms offered for a first policy; its Algorithm page offers all of them afterwards.
OFFERED = ("slurm-fair-tree", "aequus", "gridwide", "slurm-classic", "slurm-depth-oblivious")
_LONGEST_RECORD_DAYS = 3_650
_UNITS_S = {"h": 3_600, "min": 60, "s": 1}


def _require_slug(name: str) -> str:
    """Return a name from which a slug can be made; raise ValidationError for any other."""
    if not slugify(name):
        raise forms.ValidationError(_("The name needs at least one letter a–z or digit."), code="no_letter")
    return name


class TreeForm(RefusableForm):
    """File with the scheduler's tree, or the same text pasted, and optionally Slurm's configuration."""

    field_names = FILE_CODES
    file = forms.FileField(label=_("File"), required=False, error_messages=FILE_ERRORS)
    pasted = forms.CharField(
        label=_("Or paste the output"),
        required=False,
        max_length=of_onboarding.PASTED,
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
        self.offer(
            "format",
            [
                (AUTO, str(_("Detect automatically"))),
                *((tree_format.name, gettext(tree_format.label)) for tree_format in list_tree_formats()),
            ],
        )

    def clean(self) -> dict[str, Any]:
        cleaned_data = super().clean() or {}
        if not cleaned_data.get("file") and not cleaned_data.get("pasted") and "file" not in self.errors:
            self.add_error("file", forms.ValidationError(_("Choose a file"), code="required"))
        return cleaned_data

    @property
    def content(self) -> tuple[bytes, str]:
        """Content and name of the file; of the pasted text without a file."""
        file = self.cleaned_data["file"]
        if file:
            return file.read(), file.name
        return str(self.cleaned_data["pasted"]).replace("\r\n", "\n").encode(), str(_("pasted output"))


class RestSiteForm(RefusableForm):
    """Address of slurmrestd, and the usage source that is made for it."""

    field_names: ClassVar[dict[str, str]] = {"collecting.address": "address", "slug": "source_name"}
    address = name_field(
        _("Address"), bounds.FOLDER, _("Up to the port: https://slurm.example.org:6820"), inputmode="url"
    )
    source_name = name_field(
        _("Usage source"),
        bounds.SOURCE_SLUG,
        _("Its token is in the file of this name in FAIRSHARE_SECRETS_DIR."),
    )

    def clean_source_name(self) -> str:
        return _require_slug(self.cleaned_data["source_name"])

    @property
    def site(self) -> RestSite:
        return RestSite(self.cleaned_data["address"], slugify(self.cleaned_data["source_name"])[:64])


class LogForm(RefusableForm):
    """The accounting log, and the name of the usage source that is created for it."""

    field_names = FILE_CODES | {"slug": "source_name"}
    file = forms.FileField(label=_("File"), max_length=bounds.FILE_NAME, error_messages=FILE_ERRORS)
    format = forms.ChoiceField(label=_("Format"), initial=AUTO)
    source_name = name_field(_("Name of the source"), bounds.SOURCE_SLUG)
    time_zone = TimeZoneField(
        required=False, widget=name_input(), help_text=_("For times without a zone, such as sacct’s.")
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        formats = [
            (log_format.name, gettext(log_format.label))
            for log_format in list_log_formats()
            if not log_format.is_listing
        ]
        self.offer("format", [(AUTO, str(_("Detect automatically"))), *formats])

    @property
    def source_slug(self) -> str:
        return str(slugify(self.cleaned_data["source_name"]))[:64]

    def clean_source_name(self) -> str:
        return _require_slug(str(self.cleaned_data["source_name"]))


class ZoneForm(RefusableForm):
    """Time zone of a log whose times have none."""

    time_zone = TimeZoneField(widget=name_input(list="zones"))


class FirstPolicyForm(RefusableForm):
    """Name, algorithm and half-life of the first policy, and optionally a scheduler to connect in shadow mode."""

    field_names = {"slug": "name", "settings.window.half_life_s": "half_life_days"}  # noqa: RUF012
    name = name_field(_("Name"), bounds.POLICY_NAME)
    algorithm = forms.ChoiceField(label=_("Priority algorithm"), widget=forms.RadioSelect)
    half_life_days = forms.CharField(
        label=_("Half-life of usage, in days"), max_length=bounds.NUMBER, widget=text_input(inputmode="decimal")
    )

    def __init__(
        self,
        *args: Any,
        allowed: Choices,
        policy_settings: PolicySettings,
        has_scheduler: bool = False,
        can_collect: bool = False,
        **kwargs: Any,
    ) -> None:
        """policy_settings: from the tree's file and Slurm's configuration. has_scheduler, can_collect: offer to connect
        one, and to collect into the source of the log.
        """
        super().__init__(*args, **kwargs)
        self._policy_settings = policy_settings
        if has_scheduler:
            help_text = _("Its numbers are compared with ours; nothing is sent to it. Leave empty for none.")
            self.fields["scheduler"] = name_field(
                _("Scheduler in shadow mode"), of_schedulers.NAME, help_text, required=False
            )
        if can_collect:
            label = _("Go on collecting with sacct, every 5 minutes, into the same source")
            self.fields["collects"] = forms.BooleanField(label=label, required=False)
        cast("forms.ChoiceField", self.fields["algorithm"]).choices = allowed

    @property
    def slug(self) -> str:
        return str(slugify(self.cleaned_data["name"]))[:64].strip("-_").replace("_", "-")

    def clean_name(self) -> str:
        return _require_slug(str(self.cleaned_data["name"]))

    def clean_half_life_days(self) -> float:
        typed = str(self.cleaned_data["half_life_days"]).strip()
        try:
            days = read_days(typed)
        except ValueError:
            days = 0.0
        is_never = days == 0 and self._is_slurm and typed == "0"
        if not is_never and not 0 < days <= _LONGEST_RECORD_DAYS:
            raise forms.ValidationError(
                _("Days above 0, at most 3650, or hours such as 2 h: usage of that age counts half."),
                code="out_of_range",
            )
        return days

    @property
    def _is_slurm(self) -> bool:
        return str(self.cleaned_data.get("algorithm", "")).startswith("slurm-")

    @property
    def settings(self) -> PolicySettings:
        half_life_s = round(self.cleaned_data["half_life_days"] * 86_400, 3)
        return settings_with(self._policy_settings, self.cleaned_data["algorithm"], half_life_s)


def read_days(typed: str) -> float:
    """Days of a number, or of a number with a unit: 7, 0.5, 2 h, 90 min, 45 s. Raises ValueError for other text."""
    match = re.fullmatch(r"(.*)(h|min|s)", typed, re.DOTALL)
    return read_number(match[1].rstrip()) * _UNITS_S[match[2]] / 86_400 if match else read_number(typed)


def typed_days(seconds: float) -> str:
    """The text from which `read_days` reads this time: days, or the first unit in which it has two decimals at most."""
    for unit, unit_s in {"": 86_400, **_UNITS_S}.items():
        amount = round(seconds / unit_s, 2)
        if round(amount * unit_s, 6) == seconds:
            return f"{amount:g} {unit}".strip()
    return f"{seconds!r} s"


def algorithms_for(*, has_inherit: bool) -> Choices:
    """Names and labels of the offered algorithms that support the tree's shares."""
    algorithms = [described for name in OFFERED if (described := describe(name)) is not None]
    return [(algorithm.name, algorithm.label) for algorithm in algorithms if algorithm.takes_inherit or not has_inherit]
