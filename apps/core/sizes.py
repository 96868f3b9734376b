"""The unit in which a number of bytes is shown."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


def in_shown_unit(n_bytes: float) -> tuple[float, str]:
    """The size in the first unit, of powers of 1,000, in which it is below 1,000 once it is rounded to a whole."""
    size = float(n_bytes)
    for unit in _UNITS[:-1]:
        if round(size) < 1000:
            return size, unit
        size /= 1000
    return size, _UNITS[-1]
