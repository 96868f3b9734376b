"""Shares as people type them: a number with a decimal point or comma, or the word *inherit*."""

from __future__ import annotations

from typing import Literal

from django import forms
from django.utils.translation import gettext_lazy

from apps.core.typed_numbers import AmbiguousNumber, read_number

MOST = 1e15
INHERIT_WORDS = frozenset({"inherit", "parent"})
Shares = float | Literal["parent"]


def read_shares(text: str) -> Shares:
    """A number ≥ 0 with a decimal point or comma, or the word *inherit*."""
    if text.strip().lower() in INHERIT_WORDS:
        return "parent"
    try:
        value = read_number(text)
    except AmbiguousNumber as error:
        raise forms.ValidationError(str(error), code="number") from None
    except ValueError:
        raise forms.ValidationError(
            gettext_lazy("Enter a number, such as 20 or 0.5, or inherit."), code="number"
        ) from None
    if value < 0:
        raise forms.ValidationError(gettext_lazy("Shares can’t be negative."), code="negative")
    if value > MOST:
        raise forms.ValidationError(gettext_lazy("That is too large"), code="large")
    return value
