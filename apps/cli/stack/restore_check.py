"""System check: no restore was interrupted here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

UNFINISHED = "restore.unfinished"  # in FAIRSHARE_VAR, from the first change of a restore to its last


def check_unfinished_restore(**_more: Any) -> list[CheckMessage]:
    """Refuse to work with what an interrupted restore left: its secrets may be missing."""
    if not Path(settings.VAR, UNFINISHED).exists():
        return []
    return [Error("A restore was interrupted.", hint="Run it again, with the same backup.", id="fairshare.E006")]
