"""The forms to send a request for shares, and to answer one."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from apps.web import bounds
from apps.web.changes.share_input import Percentage, read_typed_shares
from apps.web.shell.forms import Form

SHARES, PERCENT = "shares", "percent"


def _amount(text: str, *, is_percent: bool = False) -> float | Percentage:
    amount = read_typed_shares(text, is_percent=is_percent)
    if isinstance(amount, str):
        raise forms.ValidationError(gettext_lazy("Enter a number (20 or 0.5) or a percentage."), code="number")
    return amount


class AskForm(Form):
    """A request for a number of shares or a percentage of the parent, with an end and a reason."""

    unit = forms.ChoiceField(
        choices=[(SHARES, gettext_lazy("Shares")), (PERCENT, gettext_lazy("Percent"))], required=False
    )
    amount = forms.CharField(
        max_length=bounds.NUMBER,
        error_messages={"required": gettext_lazy("Enter a number (20 or 0.5) or a percentage.")},
    )
    until = forms.DateField(
        required=False, error_messages={"invalid": gettext_lazy("Enter a date, such as 2027-03-31.")}
    )
    reason = forms.CharField(
        max_length=bounds.REASON,
        error_messages={"required": gettext_lazy("Enter a reason.")},
    )

    def clean_amount(self) -> float | Percentage:
        is_percent = self.cleaned_data.get("unit") == PERCENT
        return _amount(str(self.cleaned_data["amount"]), is_percent=is_percent)

    @property
    def wish(self) -> dict[str, Any]:
        """The requested amount and end in the form of the service."""
        amount = self.cleaned_data["amount"]
        wanted = dict(amount) if isinstance(amount, dict) else {SHARES: amount}
        return {**wanted, "until": self.cleaned_data["until"]}


class AnswerForm(Form):
    """Answer to a request: another amount or end, and a comment; `step` of the POST says which answer it is."""

    version = forms.IntegerField(min_value=1, max_value=bounds.REVISION)
    shares = forms.CharField(max_length=bounds.NUMBER, required=False)
    until = forms.DateField(
        required=False, error_messages={"invalid": gettext_lazy("Enter a date, such as 2027-03-31.")}
    )
    text = forms.CharField(max_length=bounds.REASON, required=False)

    def clean_shares(self) -> float | Percentage | None:
        text = str(self.cleaned_data["shares"])
        return _amount(text) if text.strip() else None
