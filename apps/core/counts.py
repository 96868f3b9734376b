"""Counts in messages that are not translated: commands, logs, stored results. Pages use ngettext."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str = "") -> str:
    """Return "1 record" or "2,000 records". plural: where it is not the noun with an s."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
