"""Environment variables that the settings no longer read: an installation that still sets one gets a warning.

A removed name in the file of FAIRSHARE_CONFIG doesn't stop the start, as an unknown one does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from django.core.checks import CheckMessage, Warning

REMOVED_SETTINGS: Mapping[str, str] = {
    "FAIRSHARE_CONN_MAX_AGE": "A database connection is kept open for 60 seconds.",
    "FAIRSHARE_KEEP_AGREEMENT_DAYS": "Figures of shadow mode are kept for 400 days.",
    "FAIRSHARE_KEEP_PASSES_DAYS": "Reports of schedulers' agents are kept for 14 days.",
    "FAIRSHARE_STALL_S": "A run without progress is taken over after three times FAIRSHARE_STATEMENT_S.",
}


def check_removed_settings(**_more: Any) -> list[CheckMessage]:
    """A warning for each removed setting that is still set, also as NAME_FILE, with what holds now."""
    return [
        Warning(f"{name} is no longer a setting and has no effect.", hint=f"{holds} Remove it.", id="settings.W001")
        for name, holds in REMOVED_SETTINGS.items()
        if {name, f"{name}_FILE"} & os.environ.keys()
    ]
