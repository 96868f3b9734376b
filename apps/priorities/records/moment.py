"""A state of affairs of the past, as a page shows it, and what it says about its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.policies.history.revision_lookup import read_instant
from apps.priorities.sentences import Said, say


@dataclass(frozen=True)
class Moment:
    """A revision, from when to when it was in force (None: it is), and its numbers; without `as_of` there are none.

    snapshot_revision: whose numbers they are, which may be an earlier one's. is_reconstructed: they were computed
    later, for that instant, from the records that were there by then.
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
    stops: tuple[tuple[int, datetime], ...]  # revisions and when each came into force, the newest few hundred
    known_later: Mapping[str, Any] | None = None  # of a reconstruction, see past_inputs.known_later

    @property
    def is_now(self) -> bool:
        """The revision is the one in force."""
        return self.until is None

    @property
    def notes(self) -> list[Said]:
        """Where the numbers are from, and what became known later: pages, REST and the terminal show the same."""
        if self.as_of is None:
            return [say("past.none")]
        is_other = self.snapshot_revision != self.revision
        earlier = [say("past.earlier_revision", at=self.as_of, revision=self.snapshot_revision)] if is_other else []
        if not self.is_reconstructed:
            return earlier or [say("past.as_computed", at=self.as_of)]
        return [*earlier, say("past.reconstructed", at=self.as_of), *notes_of(self.known_later)]


def notes_of(later: Mapping[str, Any] | None) -> Iterator[Said]:
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
