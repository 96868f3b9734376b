"""Shares as people type them: a number with a decimal point or comma, a percentage of the parent, or *inherit*."""

from __future__ import annotations

from typing import Literal, TypedDict

from django import forms
from django.utils.translation import gettext as _

from apps.core.typed_numbers import AmbiguousNumber, read_number
from apps.policies.tree.names import MOST_ENTRY_SHARES

INHERIT_WORDS = frozenset({"inherit", "parent"})
Shares = float | Literal["parent"]


class Percentage(TypedDict):
    """A percentage of the parent, 0–100, in the form of the operation `set_shares`."""

    percent: float


def read_shares(text: str) -> Shares:
    """A number ≥ 0 with a decimal point or comma, or the word *inherit*."""
    if text.strip().lower() in INHERIT_WORDS:
        return "parent"
    return _read_positive(text, _("Enter a number, such as 20 or 0.5."))


def read_typed_shares(text: str, *, is_percent: bool = False) -> Shares | Percentage:
    """Shares as everywhere that they are typed for an entry: `20`, `25 %` or *inherit*.

    is_percent: whether a number without a sign is a percentage, too.
    """
    plain = text.strip()
    if plain.lower() in INHERIT_WORDS:
        return "parent"
    value = _read_positive(plain.removesuffix("%"), _("Enter a number (20 or 0.5) or a percentage."))
    if not plain.endswith("%") and not is_percent:
        return value
    if value > 100:
        raise forms.ValidationError(_("Enter a percentage from 0 to 100."), code="percent")
    return {"percent": value}


def _read_positive(text: str, message: str) -> float:
    try:
        value = read_number(text)
    except AmbiguousNumber as error:
        raise forms.ValidationError(str(error), code="number") from None
    except ValueError:
        raise forms.ValidationError(message, code="number") from None
    if value < 0:
        raise forms.ValidationError(_("Shares can’t be negative."), code="negative")
    if value > MOST_ENTRY_SHARES:
        raise forms.ValidationError(_("That is too large"), code="large")
    return value
