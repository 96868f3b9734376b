"""A file with a policy in it, and what should happen to what it leaves out."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.policies.formats.registry import list_formats

AUTO = "auto"


class AgainstForm(forms.Form):
    """A file with the state of now, and what is written against it. cluster: "" is that of the last import."""

    file = forms.FileField(
        label=_("Dump of now"),
        error_messages={"required": _("Choose a file"), "empty": _("This file is empty.")},
    )
    format = forms.ChoiceField(label=_("Format"), widget=forms.Select(attrs={"class": "input"}))
    cluster = forms.CharField(
        label=_("Cluster"), required=False, max_length=128, widget=forms.TextInput(attrs={"class": "input"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.auto_id = "against-%s"  # the form of an import is on the same page
        choices = [(each.name, each.label) for each in list_formats() if each.against]
        self.fields["format"].widget.choices = choices
        self.fields["format"].choices = choices  # type: ignore[attr-defined]


class PolicyFileForm(forms.Form):
    """`missing` is what becomes of entries that the file leaves out."""

    file = forms.FileField(
        label=_("File"),
        error_messages={"required": _("Choose a file"), "empty": _("This file is empty.")},
    )
    format = forms.ChoiceField(label=_("Format"), widget=forms.Select(attrs={"class": "input"}))
    missing = forms.ChoiceField(choices=[("archive", _("Archive them")), ("keep", _("Keep them"))], initial="archive")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(AUTO, str(_("Detect automatically"))), *((each.name, each.label) for each in list_formats())]
        self.fields["format"].widget.choices = choices
        self.fields["format"].choices = choices  # type: ignore[attr-defined]
