"""Form to upload a file of job records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _

from apps.web import bounds
from apps.web.shell.forms import FILE_CODES, FILE_ERRORS, RefusableForm, TimeZoneField, name_input, text_input

Choices = Sequence[tuple[str, str]]
NEW_SOURCE = "+"


class UploadForm(RefusableForm):
    """File of job records and its usage source: `source` is a slug, or NEW_SOURCE with a name in `new_source`."""

    field_names = FILE_CODES | dict.fromkeys(("source_exists", "slug", "name"), "new_source")
    file = forms.FileField(label=_("File"), max_length=bounds.FILE_NAME, error_messages=FILE_ERRORS)
    source = forms.ChoiceField(label=_("Source"), error_messages={"required": _("Choose a source")})
    new_source = forms.CharField(
        label=_("New source"), required=False, max_length=bounds.SOURCE_NAME, widget=text_input()
    )
    format = forms.ChoiceField(label=_("Format"))
    time_zone = TimeZoneField(
        required=False, help_text=_("Leave empty to use the source’s time zone."), widget=name_input()
    )
    all_or_nothing = forms.BooleanField(label=_("Reject the file"), required=False)
    mode = forms.ChoiceField(choices=[("dry", _("Dry run")), ("real", _("Import at once"))], initial="dry")

    def __init__(self, *args: Any, sources: Choices, formats: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        first = [("", _("Choose a source"))] if len(sources) > 1 else []
        self.offer("source", [*first, *sources, (NEW_SOURCE, _("New source"))])
        self.offer("format", formats)
        if not sources:
            self.fields["source"].initial = NEW_SOURCE

    @property
    def new_slug(self) -> str:
        return str(slugify(self.cleaned_data["new_source"]))[:64]

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.cleaned_data.get("source") == NEW_SOURCE:
            if not self.cleaned_data.get("new_source"):
                self.add_error("new_source", forms.ValidationError(_("Enter a name."), code="required"))
            elif not self.new_slug:
                message = _("The name needs at least one letter a–z or digit.")
                self.add_error("new_source", forms.ValidationError(message, code="no_letter"))
        return cleaned
