"""A file of job records, and where it belongs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from zoneinfo import available_timezones

from django import forms
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError

Choices = Sequence[tuple[str, str]]
NEW_SOURCE = "+"
_BLAMED = {
    "archive": "file",
    "corrupt_gzip": "file",
    "corrupt_zstd": "file",
    "empty_file": "file",
    "expands_too_much": "file",
    "not_text": "file",
    "too_large": "file",
    "unknown_format": "format",
    "source_exists": "new_source",
    "slug": "new_source",
    "name": "new_source",
}


def _text(**attributes: str) -> forms.TextInput:
    return forms.TextInput(attrs={"class": "input", "autocomplete": "off", **attributes})


class UploadForm(forms.Form):
    """`source` is a slug, or NEW_SOURCE with a name for it."""

    file = forms.FileField(
        label=_("File"),
        allow_empty_file=False,
        max_length=255,
        error_messages={
            "required": _("Choose a file"),
            "empty": _("This file is empty."),
            "max_length": _("The name is too long: at most 255 characters."),
        },
    )
    source = forms.ChoiceField(label=_("Source"), error_messages={"required": _("Choose a source")})
    new_source = forms.CharField(
        label=_("New source"),
        required=False,
        max_length=128,
        widget=_text(),
    )
    format = forms.ChoiceField(label=_("Format"))
    time_zone = forms.CharField(
        label=_("Time zone"),
        required=False,
        max_length=64,
        help_text=_("Leave empty to use the source’s time zone."),
        widget=_text(spellcheck="false"),
    )
    all_or_nothing = forms.BooleanField(label=_("All or nothing"), required=False)
    mode = forms.ChoiceField(choices=[("dry", _("Dry run")), ("real", _("Import at once"))], initial="dry")

    def __init__(self, *args: Any, sources: Choices, formats: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        first = [("", _("Choose a source"))] if len(sources) > 1 else []
        self._choices("source").choices = [*first, *sources, (NEW_SOURCE, _("New source"))]
        self._choices("format").choices = formats
        for name in ("source", "format"):
            self.fields[name].widget.attrs["class"] = "input"
        if not sources:
            self.fields["source"].initial = NEW_SOURCE

    @property
    def makes_a_source(self) -> bool:
        return bool(self["source"].value() == NEW_SOURCE)

    @property
    def new_slug(self) -> str:
        return str(slugify(self.cleaned_data["new_source"]))[:64]

    def clean_time_zone(self) -> str:
        name = str(self.cleaned_data["time_zone"]).strip()
        if name and name not in available_timezones():
            raise forms.ValidationError(
                _("Unknown time zone. Write it as Europe/Stockholm or UTC."), code="no_such_zone"
            )
        return name

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("source") == NEW_SOURCE:
            if not self.cleaned_data.get("new_source"):
                self.add_error("new_source", forms.ValidationError(_("Enter a name."), code="required"))
            elif not self.new_slug:
                said = _("The name needs a letter a–z or a digit.")
                self.add_error("new_source", forms.ValidationError(said, code="no_letter"))
        return cleaned

    def add_refusal(self, error: DomainError) -> None:
        """What a room refused, at the field that is to blame."""
        problems = [(problem.where, problem.message) for problem in error.fields] or [(error.code, error.message)]
        for where, message in problems:
            name = _BLAMED.get(where, where)
            told = forms.ValidationError(message, code=error.code)
            self.add_error(name if name in self.fields else None, told)

    def _choices(self, name: str) -> forms.ChoiceField:
        return cast("forms.ChoiceField", self.fields[name])
