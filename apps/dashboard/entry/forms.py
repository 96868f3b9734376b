"""Changing one number of shares: what was typed, kept as it was typed until it is right."""

from __future__ import annotations

from math import isfinite
from typing import Literal

from django import forms
from django.utils.translation import gettext_lazy as _

MOST = 1e15
INHERIT_WORDS = frozenset({"inherit", "parent"})
Shares = float | Literal["parent"]


def read_shares(text: str) -> Shares:
    """A number ≥ 0, with a decimal point or comma, or the word *inherit*."""
    plain = text.strip().replace("\u00a0", "").replace(" ", "")
    if plain.lower() in INHERIT_WORDS:
        return "parent"
    if plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    try:
        value = float(plain) if plain.isascii() and "_" not in plain else float("nan")
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise forms.ValidationError(_("Enter a number, such as 20 or 0.5, or the word inherit."), code="number")
    if value < 0:
        raise forms.ValidationError(_("Shares can’t be negative. With 0 the target is 0."), code="negative")
    if value > MOST:
        raise forms.ValidationError(_("Too large. Shares only matter relative to those of the siblings."), code="large")
    return value


class SharesForm(forms.Form):
    """One entry's shares, with the reason and the revision the change was thought out on."""

    shares = forms.CharField(max_length=40, label=_("Shares"), error_messages={"required": _("Enter the shares.")})
    reason = forms.CharField(
        max_length=2000,
        label=_("Reason"),
        error_messages={"required": _("Enter a reason: it is shown in the history to those affected.")},
    )
    base_revision = forms.IntegerField(min_value=1)
    previewed = forms.CharField(max_length=40, required=False)

    def clean_shares(self) -> Shares:
        return read_shares(str(self.cleaned_data["shares"]))

    @property
    def is_previewed(self) -> bool:
        """Whether the effect that was shown is the effect of what is now typed."""
        return bool(self.data.get("previewed")) and self.data.get("previewed") == self.data.get("shares")
