"""Form with the settings of a usage source: identity, collection and schedule."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.text import slugify
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.usage.models import Source
from apps.usage.parsers.registry import AUTO, FORMATS
from apps.usage.parsers.sacct_header import COLLECTED
from apps.usage.sources.source_settings import PREFIX
from apps.web import bounds
from apps.web.shell.forms import RefusableForm, choice_field, name_field, name_input, number_field, text_area

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_IN_UNITS = {
    "expected_every": ("expected_every_s", _MINUTE_S),
    "collect_every": ("collect_every_s", _MINUTE_S),
    "overlap": ("overlap_s", _MINUTE_S),
    "look_back": ("look_back_s", _DAY_S),
    "timeout": ("timeout_s", 1),
    "settle": ("settle_s", 1),
}
_OWN = ("name", "time_zone", "origin", "namespace", "site", "cluster", "skew_tolerance_s", "names_people")
_TERMS = ("folder", "pattern", "files", "format", "address", "version", "user", "accounting", "queue", "reservations")
_SPLITS = re.compile(r"[\s'\"\\]")
_COMMANDS = ("command", "listing")


def _tick(label: Any) -> forms.BooleanField:
    return forms.BooleanField(label=label, required=False)


class SourceForm(RefusableForm):
    """Settings of a source of one kind; a new source also needs a `slug`."""

    field_names = {setting: name for name, (setting, _unit) in _IN_UNITS.items()} | {"source_exists": "slug"}

    def __init__(self, *args: Any, kind: str, is_new: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind, self.is_new = kind, is_new
        self.fields |= _about(is_new)
        self.fields |= _FIELDS[kind]()
        if kind != Source.Kind.PUSH:
            self.fields["collect_every"] = number_field(
                _("Interval (minutes)"), _("Leave empty to run only manually."), required=False
            )
        if kind in (Source.Kind.COMMAND, Source.Kind.SLURM_REST):
            overlap_help = _("Collected again each time for late records; duplicates are ignored.")
            self.fields |= {
                "overlap": number_field(_("Overlap (minutes)"), overlap_help),
                "look_back": number_field(_("First period (days)")),
                "timeout": number_field(_("Timeout (seconds)")),
            }
        self.fields["expected_every"] = number_field(
            _("Usage expected every (minutes)"),
            _("The source is late when no usage arrives for longer. Leave empty if irregular."),
            required=False,
        )
        widget = forms.NumberInput(attrs={"class": "input", "min": "0"})
        self.fields["skew_tolerance_s"] = forms.IntegerField(
            label=_("Clock tolerance (seconds)"),
            min_value=0,
            widget=widget,
            help_text=_("Jobs that end further in the future are rejected."),
        )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.is_new and "slug" not in self.errors and not cleaned.get("slug"):
            cleaned["slug"] = slugify(cleaned.get("name", ""))[:64]
            if cleaned.get("name") and not cleaned["slug"]:
                self.add_error("slug", forms.ValidationError(_("Use letters a–z or digits."), code="required"))
        return cleaned

    def clean_command(self) -> list[str]:
        return _arguments(self.cleaned_data["command"])

    def clean_listing(self) -> list[str]:
        return _arguments(self.cleaned_data["listing"])

    def settings(self) -> dict[str, Any]:
        """Settings in the form and units of the usage services."""
        source_settings = {name: self.cleaned_data[name] for name in _OWN if name in self.fields}
        terms = {name: self.cleaned_data[name] for name in (*_TERMS, *_COMMANDS) if name in self.fields}
        for name, (setting, unit) in _IN_UNITS.items():
            if name not in self.fields:
                continue
            typed = self.cleaned_data[name]
            target = source_settings if name in ("expected_every", "collect_every") else terms
            target[setting] = None if typed is None else round(typed * unit)
        if not source_settings.get("namespace"):
            source_settings.pop("namespace", None)
        return {**source_settings, "kind": self.kind, "collecting": terms}

    def form_field(self, where: str) -> str:
        return super().form_field(where.removeprefix(PREFIX))


def initial_of(source: Source) -> dict[str, Any]:
    """Initial values of the form for an existing source."""
    terms: Mapping[str, Any] = source.collecting
    shown = own_values(source) | {name: terms[name] for name in _TERMS if name in terms}
    shown |= {name: typed_command(terms[name]) for name in _COMMANDS if name in terms}
    for name, (setting, unit) in _IN_UNITS.items():
        value = terms.get(setting, getattr(source, setting, None))
        shown[name] = None if value is None else _plain(value / unit)
    return shown


def own_values(source: Source) -> dict[str, Any]:
    """Initial values that don't depend on the kind."""
    return {name: getattr(source, name) for name in _OWN}


def default_values(kind: str) -> dict[str, Any]:
    """Initial values of the form for a new source."""
    shown: dict[str, Any] = {"skew_tolerance_s": 300, "collect_every": 5, "format": AUTO, "pattern": "*"}
    shown |= {"files": "whole", "settle": 60, "overlap": 60, "look_back": 7, "timeout": 300}
    shown |= {"accounting": True, "queue": True}
    return shown | ({"command": COLLECTED} if kind == Source.Kind.COMMAND else {})


def typed_command(arguments: Sequence[str]) -> str:
    """A command line, with quotation marks only around arguments that would otherwise be split."""
    return " ".join(
        shlex.quote(argument) if not argument or _SPLITS.search(argument) else argument for argument in arguments
    )


def _arguments(line: str) -> list[str]:
    """Split a command line as a shell would; it is run without a shell."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise forms.ValidationError(_("A quotation mark is not closed."), code="unbalanced_quotes") from error


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) else value


def _optional(label: Any, max_length: int, help_text: Any = "") -> forms.CharField:
    return name_field(label, max_length, help_text, required=False)


def _about(is_new: bool) -> dict[str, forms.Field]:
    fields: dict[str, forms.Field] = {"name": name_field(_("Name"), bounds.SOURCE_NAME)}
    if is_new:
        fields["slug"] = forms.SlugField(
            label=_("Short name"),
            max_length=bounds.SOURCE_SLUG,
            required=False,
            help_text=_("For addresses, tokens and commands; can’t be changed. Left empty, it is made from the name."),
            widget=name_input(),
        )
    zone_help = _("For times without a zone, such as sacct’s.")
    return {
        **fields,
        "origin": _optional(
            _("Origin"), bounds.ORIGIN, _("Leave empty for this site, or enter the other site's name.")
        ),
        "time_zone": _optional(_("Time zone"), bounds.TIME_ZONE, zone_help),
        "cluster": _optional(
            _("Cluster"), bounds.CLUSTER, _("For records that name no cluster. Fixed once records exist.")
        ),
        "site": _optional(_("Site"), bounds.SITE),
        "namespace": _optional(
            _("User namespace"),
            bounds.NAMESPACE,
            _("Sources with the same namespace share user names. Leave empty for its own."),
        ),
        "names_people": _tick(_("User names are login names")),
    }


def _directory() -> dict[str, forms.Field]:
    modes: list[tuple[str, Any]] = [
        ("whole", _("Finished files, each read once")),
        ("grow", _("Growing files, read from the last position")),
    ]
    pattern_help = _("For growing files, also match rotated ones: accounting*")
    return {
        "folder": name_field(_("Folder"), bounds.FOLDER, _("Full path on the worker's machine.")),
        "pattern": name_field(_("File names"), bounds.FILE_PATTERN, pattern_help),
        "files": choice_field(_("Kind of files"), modes),
        "format": _format(),
        "settle": number_field(_("Wait (seconds)"), _("Since the last change of a file.")),
        "listing": _listing(),
    }


def _command() -> dict[str, forms.Field]:
    command_help = _("{from} and {to} are replaced by the requested period. No shell is used.")
    return {
        "command": forms.CharField(
            label=_("Command"), max_length=bounds.COMMAND, widget=text_area("mono"), help_text=command_help
        ),
        "format": _format(),
        "listing": _listing(),
    }


def _listing() -> forms.CharField:
    help_text = _("Such as squeue --json or qstat -xml: running and waiting jobs, listed after the accounting.")
    return _optional(_("Command that lists open jobs (optional)"), bounds.COMMAND, help_text)


def _slurm_rest() -> dict[str, forms.Field]:
    address_help = _("Up to the port: https://slurm.example.org:6820, or unix:/run/slurmrestd/slurmrestd.sock")
    return {
        "address": name_field(_("Address"), bounds.FOLDER, address_help, inputmode="url"),
        "version": _optional(_("Version"), bounds.NUMBER, _("Leave empty for the newest that it offers.")),
        "user": _optional(_("User"), bounds.FIELD, _("Owner of the token; optional.")),
        "accounting": _tick(_("Finished jobs, from the accounting database")),
        "queue": _tick(_("Running and waiting jobs")),
        "reservations": _tick(_("Charge the unused time of reservations")),
    }


def _format() -> forms.ChoiceField:
    choices: list[tuple[str, Any]] = [(AUTO, _("Detect automatically"))]
    return choice_field(
        _("Format"), [*choices, *((file_format.name, gettext(file_format.label)) for file_format in FORMATS.values())]
    )


_FIELDS: dict[str, Any] = {
    Source.Kind.PUSH: dict,
    Source.Kind.DIRECTORY: _directory,
    Source.Kind.COMMAND: _command,
    Source.Kind.SLURM_REST: _slurm_rest,
}
