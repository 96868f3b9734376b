"""Asking for more, and answering: an amount, until when, and why."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from apps.dashboard.entry.forms import read_shares

SHARES, PERCENT = "shares", "percent"


def _amount(text: str) -> float:
    value = read_shares(text.strip().removesuffix("%"))
    if isinstance(value, str):
        raise forms.ValidationError(_("Write a number, such as 20 or 0.5."), code="number")
    return value


class AskForm(forms.Form):
    """How much is asked for: a number of shares, or a percentage of the parent."""

    amount = forms.CharField(max_length=40, error_messages={"required": _("How much?")})
    unit = forms.ChoiceField(choices=[(SHARES, _("shares")), (PERCENT, _("percent"))], required=False)
    until = forms.DateField(required=False, error_messages={"invalid": _("Enter a date, such as 2027-03-31.")})
    reason = forms.CharField(
        max_length=4_000,
        error_messages={"required": _("Enter a reason: the managers above and the history show it.")},
    )

    def clean_amount(self) -> float:
        return _amount(str(self.cleaned_data["amount"]))

    @property
    def wish(self) -> dict[str, Any]:
        """As the service takes it."""
        key = PERCENT if self.cleaned_data["unit"] == PERCENT else SHARES
        return {key: self.cleaned_data["amount"], "until": self.cleaned_data["until"]}


class AnswerForm(forms.Form):
    """Another amount, or words."""

    version = forms.IntegerField(min_value=1, max_value=2**31 - 1)
    shares = forms.CharField(max_length=40, required=False)
    until = forms.DateField(required=False, error_messages={"invalid": _("Enter a date, such as 2027-03-31.")})
    text = forms.CharField(max_length=4_000, required=False)

    def clean_shares(self) -> float | None:
        text = str(self.cleaned_data["shares"])
        return _amount(text) if text.strip() else None
