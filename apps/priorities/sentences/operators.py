"""Operators and resolutions as short texts."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.priorities.sentences.numbers import count


def resolution_text(resolution: int) -> str:
    """Return 2^n for a power of two, else the number."""
    is_power = resolution & (resolution - 1) == 0
    return f"2^{resolution.bit_length() - 1}" if is_power else count(resolution)


def operator_text(name: str, k: float | None) -> str:
    return name if k is None or name != "combined" else _("%(name)s with k = %(k)s") % {"name": name, "k": f"{k:g}"}
