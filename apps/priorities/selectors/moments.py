"""Which state of affairs a page of the past shows: the revision in force then, and where its numbers are from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.policies.models import Revision
from apps.priorities.models import Snapshot
from apps.priorities.selectors.rows import PolicyView

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

    @property
    def is_now(self) -> bool:
        """The revision is the one in force."""
        return self.until is None


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
        stops=tuple(revisions.order_by("-number").values_list("number", "published_at")[:_MOST_STOPS])[::-1],
    )
