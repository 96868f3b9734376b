"""System check: this process has in common with the others of its site what all must have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.db import DatabaseError, InterfaceError

from apps.runs.presence import find_differences

DIFFERENT_IDS = _OTHER_KEYS, _OTHER_SETTINGS = "fairshare.E005", "fairshare.W005"
_HINT = 'See "Several hosts and processes" in docs/operate.md.'


def check_shared(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Error for other keys, which make what the others wrote unreadable; warning for other settings and releases."""
    if not databases:
        return []
    try:
        differences = find_differences()
    except (DatabaseError, InterfaceError):  # before the first migration there is nothing to compare with
        return []
    errors = sorted({f"{each}." for each in differences if each.is_refused})
    warnings = sorted({f"{each}." for each in differences if not each.is_refused})
    return [
        *(Error(text, hint=_HINT, id=_OTHER_KEYS) for text in errors),
        *(Warning(text, hint=_HINT, id=_OTHER_SETTINGS) for text in warnings),
    ]
