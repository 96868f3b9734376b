"""Operators, resolutions and what rounding does, as texts."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.priorities.sentences.numbers import count


def resolution_text(resolution: int) -> str:
    """Return 2^n for a power of two, else the number."""
    is_power = resolution & (resolution - 1) == 0
    return f"2^{resolution.bit_length() - 1}" if is_power else count(resolution)


def operator_text(name: str, k: float | None) -> str:
    return name if k is None or name != "combined" else _("%(name)s with k = %(k)s") % {"name": name, "k": f"{k:g}"}


def misplaced_text(n: int) -> str:
    """Return the text about leaves whose rank changes by rounding, with placeholders resolution, operator,
    n and all.
    """
    return ngettext(
        "At resolution %(resolution)s (%(operator)s), rounding changes the rank of %(n)s of %(all)s users",
        "At resolution %(resolution)s (%(operator)s), rounding changes the rank of %(n)s of %(all)s users",
        n,
    )


def safe_bits_text(bits: int | None) -> str:
    """Describe which resolution gives every leaf its exact rank."""
    if bits is None:
        return _("No resolution up to 2^31 gives every leaf its exact rank.")
    return _("2^%(bits)s gives every leaf its exact rank.") % {"bits": bits}
