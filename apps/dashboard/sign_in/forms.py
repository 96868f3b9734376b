"""The one field of the second step."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.core.errors import DomainError


class CodeForm(forms.Form):
    """A code, with the blanks that apps show in it."""

    code = forms.CharField(
        label=_("Code"),
        max_length=20,
        widget=forms.TextInput(
            attrs={"class": "input", "autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound and self.errors:
            self.fields["code"].widget.attrs["aria-invalid"] = "true"

    def add_refusal(self, refusal: DomainError) -> None:
        message = "; ".join(problem.message for problem in refusal.fields) or refusal.message
        self.add_error("code", forms.ValidationError(message, code=refusal.code))
