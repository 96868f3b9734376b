"""An entry below which this site's usage alone counts, as pages and REST name it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.priorities.sentences import Said, say


@dataclass(frozen=True, slots=True)
class LocalOnly:
    """An entry in local-only fallback. Readers who don't see it get neither its path nor the reason.

    was_then: it is about the past.
    """

    uid: UUID
    path: str
    since: datetime
    reason: str
    was_then: bool = False

    @property
    def said(self) -> Said:
        """The one sentence for it beside numbers of an instant."""
        key = "fallback.below" if self.path else "fallback.above"
        named = {"name": self.path, "reason": self.reason} if self.path else {}
        return say(f"{key}_then" if self.was_then else key, **named, at=self.since)

    @property
    def title(self) -> Said:
        """Without the reason, for a line above it."""
        return say("fallback.since", name=self.path, at=self.since)

    @property
    def key(self) -> str:
        return self.said.key

    def __str__(self) -> str:
        return self.said.text
