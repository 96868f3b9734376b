"""Forms that upload a policy's file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.policies.formats.registry import list_formats
from apps.web import bounds
from apps.web.shell.forms import FILE_ERRORS, RefusableForm, choice_field

AUTO = "auto"


class AgainstForm(RefusableForm):
    """Dump of a scheduler's current state to compare with the policy. cluster: empty for that of the last import."""

    file = forms.FileField(label=gettext_lazy("Current dump"), error_messages=FILE_ERRORS)
    format = choice_field(gettext_lazy("Format"))
    cluster = forms.CharField(
        label=gettext_lazy("Cluster"),
        required=False,
        max_length=bounds.CLUSTER,
        widget=forms.TextInput(attrs={"class": "input"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.auto_id = "against-%s"  # the form of an import is on the same page
        self.offer("format", [(each.name, _(each.label)) for each in list_formats() if each.against])


class PolicyFileForm(RefusableForm):
    """File to import; `missing`: whether entries that it leaves out are archived or kept. `shares`: whose are taken."""

    file = forms.FileField(label=gettext_lazy("File"), error_messages=FILE_ERRORS)
    format = choice_field(gettext_lazy("Format"))
    missing = forms.ChoiceField(
        choices=[("archive", gettext_lazy("Archive them")), ("keep", gettext_lazy("Keep them"))], initial="keep"
    )
    shares = forms.ChoiceField(
        choices=[("file", gettext_lazy("From the file")), ("published", gettext_lazy("As published"))],
        initial="file",
        required=False,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        formats = [(each.name, _(each.label)) for each in list_formats()]
        self.offer("format", [(AUTO, _("Detect automatically")), *formats])
