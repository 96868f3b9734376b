"""Which state of affairs a page of the past shows: the revision that was current, and where its numbers are from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.policies.history.moments import read_instant
from apps.policies.models import Revision
from apps.priorities.models import Snapshot
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.sentences import Said, say

_MOST_STOPS = 400


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


def moment_of(view: PolicyView) -> Moment | None:
    """None while the page shows now."""
    if view.asked is None:
        return None
    revisions = Revision.objects.filter(policy=view.policy).defer("tree", "settings")
    shown = revisions.get(number=view.revision)
    after = revisions.filter(number=view.revision + 1).values_list("published_at", flat=True).first()
    snapshot = view.snapshot
    live = snapshot and Snapshot.objects.filter(pk=snapshot.snapshot_id).values_list("is_live", flat=True).first()
    return Moment(
        asked=view.asked,
        revision=view.revision,
        reason=shown.reason,
        author=shown.author_name,
        since=shown.published_at,
        until=after,
        head=view.policy.head_number,
        as_of=view.as_of,
        snapshot_revision=snapshot.revision if snapshot else None,
        is_reconstructed=live is False,
        known_later=snapshot.meta.get("known_later") if snapshot else None,
        stops=tuple(revisions.order_by("-number").values_list("number", "published_at")[:_MOST_STOPS])[::-1],
    )
