"""What the forms of all features share: a base that shows refusals, fields and widgets, and the action of a button."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from zoneinfo import available_timezones

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError, Stale
from apps.core.typed_numbers import read_number, read_whole
from apps.web import bounds

FILE_ERRORS = {
    "required": _("Choose a file"),
    "empty": _("This file is empty."),
    "max_length": _("The name is too long: at most 255 characters."),
}
# Errors of an uploaded file that services raise by code alone.
FILE_CODES = {
    **dict.fromkeys(("archive", "bad_encoding", "corrupt_gzip", "corrupt_zstd", "empty_file", "not_text"), "file"),
    **dict.fromkeys(("expands_too_much", "too_large"), "file"),
    "unknown_format": "format",
}


class Form(forms.Form):
    """A form whose errors are freed with it: tracebacks would hold the frame of the view, which holds the form."""

    def add_error(self, field: str | None, error: Any) -> None:
        super().add_error(field, error)
        for problems in self.errors.values():
            for problem in cast("list[forms.ValidationError]", problems.data):
                problem.__traceback__ = problem.__cause__ = problem.__context__ = None


class RefusableForm(Form):
    """A form that shows the refusal of a service at the fields that the refusal names.

    field_names: from a service's field, or a refusal's code, to a field of this form.
    default_field: the field for refusals that name none of this form; None shows them above the form.
    """

    field_names: ClassVar[Mapping[str, str]] = {}
    default_field: ClassVar[str | None] = None
    is_stale = False

    def add_refusal(self, error: DomainError) -> None:
        self.is_stale = isinstance(error, Stale)
        problems = [(self.form_field(problem.where), self.field_message(problem.message)) for problem in error.fields]
        for name, message in problems or [(self.field_names.get(error.code, ""), error.message)]:
            refused = forms.ValidationError(message, code=error.code)
            self.add_error(name if name in self.fields else self.default_field, refused)

    def form_field(self, where: str) -> str:
        """Name of the field of this form for a field of the service."""
        return self.field_names.get(where, where)

    def field_message(self, message: str) -> str:
        """Text at a field for a problem that a service reports."""
        return message

    @property
    def status(self) -> int:
        """HTTP status of the page that shows the form: 412 if the edited row changed meanwhile, 422 with errors."""
        return 412 if self.is_stale else 422 if self.errors else 200

    def offer(self, name: str, choices: Any) -> None:
        """Set the choices of a field that depend on the request."""
        field = cast("forms.ChoiceField", self.fields[name])
        field.choices = choices
        field.widget.attrs["class"] = "input"


def text_input(**attributes: str) -> forms.TextInput:
    """One line of prose or a number."""
    return forms.TextInput(attrs={"class": "input", "autocomplete": "off", **attributes})


def name_input(**attributes: str) -> forms.TextInput:
    """One line with a name, path or address, which browsers must not correct."""
    return text_input(**{"spellcheck": "false", "autocapitalize": "none", **attributes})


def select() -> forms.Select:
    return forms.Select(attrs={"class": "input"})


def text_area(css: str, **attributes: str) -> forms.Textarea:
    """Four lines that browsers must not correct."""
    shown = {"class": f"input {css}", "rows": "4", "autocomplete": "off", "spellcheck": "false", **attributes}
    return forms.Textarea(attrs=shown)


def date_input() -> forms.DateInput:
    return forms.DateInput(attrs={"class": "input", "type": "date"}, format="%Y-%m-%d")


def name_field(
    label: Any, max_length: int, help_text: Any = "", *, required: bool = True, **attributes: str
) -> forms.CharField:
    widget = name_input(**attributes)
    return forms.CharField(label=label, max_length=max_length, required=required, help_text=help_text, widget=widget)


class NumberField(forms.FloatField):
    """A number that a person typed, read as everywhere: Python's `1_0` is none."""

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        try:
            return read_number(str(value))
        except ValueError as error:
            raise forms.ValidationError(str(error), "invalid") from error


def number_field(label: Any, help_text: Any = "", *, step: str = "any", **more: Any) -> NumberField:
    widget = forms.NumberInput(attrs={"class": "input", "step": step, "min": "0"})
    return NumberField(label=label, help_text=help_text, widget=widget, **more)


def whole_field(label: Any, help_text: Any, **more: Any) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"class": "input", "autocomplete": "off"})
    return forms.IntegerField(label=label, help_text=help_text, widget=widget, **more)


def choice_field(label: Any, choices: Any = (), help_text: Any = "", **more: Any) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=choices, help_text=help_text, widget=select(), **more)


def reason_field(max_length: int, *, required: bool = True, **attributes: str) -> forms.CharField:
    """Reason of an action, which only the audit log shows."""
    help_text, widget = _("Recorded in the audit log."), text_input(**attributes)
    return forms.CharField(
        label=_("Reason"), max_length=max_length, required=required, help_text=help_text, widget=widget
    )


def published_reason_field(*, required: bool = True) -> forms.CharField:
    """Reason of a change set, which everyone it affects can read."""
    return forms.CharField(
        label=_("Reason"),
        max_length=bounds.REASON,
        required=required,
        widget=name_input(),
        help_text=_("Shown in the history to those affected."),
        error_messages={"required": _("Enter a reason to publish.")},
    )


class TimeZoneField(forms.CharField):
    """Name of a time zone, such as Europe/Stockholm."""

    def __init__(self, **more: Any) -> None:
        super().__init__(label=_("Time zone"), max_length=bounds.TIME_ZONE, **more)

    def clean(self, value: Any) -> Any:
        name = super().clean(value)
        if name and name not in available_timezones():
            message = _("Unknown time zone. Write it as Europe/Stockholm or UTC.")
            raise forms.ValidationError(message, code="no_such_zone")
        return name


@dataclass(frozen=True, slots=True)
class Action:
    """The action of a form that has one button for each, with the state of the row that its page showed."""

    step: str
    reason: str
    tag: str
    version: int  # 0, which no row has, where it is missing or no number


def read_action(request: HttpRequest, button: str = "step") -> Action:
    """Read the action that was posted. button: the name that the form's buttons share."""
    post = request.POST
    version = read_whole(post.get("version", ""), 9) or 0
    return Action(post.get(button, ""), post.get("reason", ""), post.get("tag", ""), version)
