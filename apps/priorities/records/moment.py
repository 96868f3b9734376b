"""A state of affairs of the past, as a page shows it, and what it says about its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from apps.policies.history.revision_lookup import read_instant
from apps.priorities.sentences import Message, say


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
    def said(self) -> Message:
        """The one sentence for it beside numbers of an instant."""
        key = "fallback.below" if self.path else "fallback.above"
        named = {"name": self.path, "reason": self.reason} if self.path else {}
        return say(f"{key}_then" if self.was_then else key, **named, at=self.since)

    @property
    def title(self) -> Message:
        """Without the reason, for a line above it."""
        return say("fallback.since", name=self.path, at=self.since)

    @property
    def key(self) -> str:
        return self.said.key

    def __str__(self) -> str:
        return self.said.text


@dataclass(frozen=True)
class Moment:
    """A revision, from when to when it was current (None: it is), and its numbers; without `as_of` there are none.

    snapshot_revision: the revision of the numbers, which may be an earlier one. is_reconstructed: computed later
    for that instant, from today's records.
    """

    asked: int | datetime
    revision: int
    reason: str
    author: str
    since: datetime
    until: datetime | None
    head: int
    as_of: datetime | None
    snapshot_revision: int | None
    is_reconstructed: bool
    stops: tuple[tuple[int, datetime], ...]  # revisions and when each was published, the newest few hundred
    known_later: Mapping[str, Any] | None = None  # of a reconstruction, see past_inputs.known_later

    @property
    def is_now(self) -> bool:
        """The revision is the current one."""
        return self.until is None

    @property
    def notes(self) -> list[Message]:
        """The origin of past numbers, and what became known later, for pages, REST and the terminal client."""
        if self.as_of is None:
            return [say("past.none")]
        is_other = self.snapshot_revision != self.revision
        earlier = [say("past.earlier_revision", at=self.as_of, revision=self.snapshot_revision)] if is_other else []
        if not self.is_reconstructed:
            return earlier or [say("past.as_computed", at=self.as_of)]
        return [*earlier, say("past.reconstructed", at=self.as_of), *notes_of(self.known_later)]


def notes_of(later: Mapping[str, Any] | None) -> Iterator[Message]:
    """What `past_inputs.known_later` found. None: of snapshots that were stored without it."""
    if later is None:
        return
    reported_after, usage_from, first_at, mapping_at = (
        None if later[name] is None else read_instant(later[name])
        for name in ("reported_after", "usage_from", "first_usage_at", "mapping_at")
    )
    if first_at is not None:
        yield say("past.before_first_usage", at=first_at)
    elif not later["has_usage"]:
        yield say("past.no_usage")
    elif reported_after is None:
        yield say("past.later_unknown")
    elif usage_from is not None:
        yield say("past.usage_later", since_at=usage_from, at=reported_after)
    if later["corrections"]:
        yield say("past.corrections_later", n=later["corrections"])
    if not later["has_mapping"]:
        yield say("past.no_mapping")
    elif mapping_at is not None:
        yield say("past.oldest_mapping", at=mapping_at)
