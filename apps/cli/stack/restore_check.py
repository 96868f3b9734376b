"""System check: no restore was interrupted here; and the file that says so, with what it was restoring."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

UNFINISHED = "restore.unfinished"  # in FAIRSHARE_VAR, from the first change of a restore to its last


@dataclass(frozen=True, slots=True)
class UnfinishedRestore:
    """What an interrupted restore was restoring. digest: of the backup's content; "" where a release noted none.

    database: its identity. files: that it wrote, or was about to write.
    """

    digest: str
    site: str
    made_at: str
    database: str
    files: Sequence[str] = ()

    @property
    def name(self) -> str:
        """As operators see it."""
        of_the_site = f" of {self.site}" if self.site else ""
        return f"the backup{of_the_site} made at {self.made_at}" if self.made_at else "a backup"


def marker_path() -> Path:
    return Path(settings.VAR, UNFINISHED)


def unfinished_restore() -> UnfinishedRestore | None:
    """None without an interrupted restore. A release before wrote only the instant of the backup."""
    try:
        text = marker_path().read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    try:
        return UnfinishedRestore(**json.loads(text))
    except (ValueError, TypeError):
        return UnfinishedRestore("", "", text[:40], "")


def text_of(unfinished: UnfinishedRestore) -> str:
    return f"{json.dumps(asdict(unfinished))}\n"


def check_unfinished_restore(**_more: Any) -> list[CheckMessage]:
    """Refuse to work with what an interrupted restore left: its secrets may be missing."""
    unfinished = unfinished_restore()
    if unfinished is None:
        return []
    hint = "Run it again with the same backup, or `restore --start-over FILE` with another one."
    return [Error(f"A restore was interrupted, of {unfinished.name}.", hint=hint, id="fairshare.E006")]
