"""The instant that a page or answer is of, and what is said about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from apps.policies.selectors import read_instant
from apps.priorities.sentences import Message, build_message


@dataclass(frozen=True, slots=True)
class LocalOnly:
    """An entry in local-only fallback. path, reason: "" if hidden from the reader. was_then: in a view of the past."""

    uid: UUID
    path: str
    since: datetime
    reason: str
    was_then: bool = False

    @property
    def message(self) -> Message:
        """The sentence shown beside numbers that the fallback affects."""
        key = "fallback.below" if self.path else "fallback.above"
        named = {"name": self.path, "reason": self.reason} if self.path else {}
        return build_message(f"{key}_then" if self.was_then else key, **named, at=self.since)

    @property
    def title(self) -> Message:
        """A title without the reason."""
        return build_message("fallback.since", name=self.path, at=self.since)

    @property
    def key(self) -> str:
        return self.message.key

    def __str__(self) -> str:
        return self.message.text


@dataclass(frozen=True)
class Moment:
    """A revision shown in a view of the past, and the snapshot with its numbers.

    until: when it was replaced, None if current. as_of: None without numbers. snapshot_revision: the revision that the
    numbers were computed for, which may be an earlier one. is_reconstructed: computed on request from today's records.
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
    known_later: Mapping[str, Any] | None = None  # of a reconstruction, see recompute.inputs.find_later_changes

    @property
    def notes(self) -> list[Message]:
        """Sentences about the origin of past numbers, and about later reports and corrections."""
        if self.as_of is None:
            return [build_message("past.none")]
        is_other = self.snapshot_revision != self.revision
        earlier = (
            [build_message("past.earlier_revision", at=self.as_of, revision=self.snapshot_revision)] if is_other else []
        )
        if not self.is_reconstructed:
            return earlier or [build_message("past.as_computed", at=self.as_of)]
        return [*earlier, build_message("past.reconstructed", at=self.as_of), *notes_of(self.known_later)]


def notes_of(later: Mapping[str, Any] | None) -> Iterator[Message]:
    """Sentences for the result of `recompute.inputs.find_later_changes`; none for older snapshots without it."""
    if later is None:
        return
    reported_after, usage_from, first_at, mapping_at = (
        None if later[name] is None else read_instant(later[name])
        for name in ("reported_after", "usage_from", "first_usage_at", "mapping_at")
    )
    if first_at is not None:
        yield build_message("past.before_first_usage", at=first_at)
    elif not later["has_usage"]:
        yield build_message("past.no_usage")
    elif reported_after is None:
        yield build_message("past.later_unknown")
    elif usage_from is not None:
        yield build_message("past.usage_later", since_at=usage_from, at=reported_after)
    if later["corrections"]:
        yield build_message("past.corrections_later", n=later["corrections"])
    if not later["has_mapping"]:
        yield build_message("past.no_mapping")
    elif mapping_at is not None:
        yield build_message("past.oldest_mapping", at=mapping_at)
