"""Which state of affairs a page of the past shows: the revision that was current, and where its numbers are from."""

from __future__ import annotations

from apps.policies.models import Revision
from apps.priorities.models import Snapshot
from apps.priorities.records.moment import Moment
from apps.priorities.selectors.rows import PolicyView

_MOST_STOPS = 400


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
