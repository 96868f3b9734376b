"""The overview of a policy: whether targets are met, and recent publications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from apps.policies.selectors import list_revisions
from apps.policies.settings import PolicySettings
from apps.priorities.models import Snapshot
from apps.priorities.selectors.rows import EntryRow, PolicyView

_MOST_PUBLISHES = 5
_MOST_TOP = 100


@dataclass(frozen=True)
class Publish:
    """One published revision, as a row."""

    revision: int
    at: datetime
    author: str
    reason: str
    n_changed: int


@dataclass(frozen=True)
class Overview:
    """The overview of one policy."""

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    n_entries: int
    n_ranked: int  # users among the visible entries
    n_out_of_tolerance: int
    n_unmapped: int
    unmapped_core_s: float | None  # for readers of the whole tree
    usage: float | None  # None where it is hidden
    computed_at: datetime | None
    duration_s: float | None
    settings: PolicySettings
    top: list[EntryRow]
    n_hidden: int  # top-level entries that the actor may not see
    publishes: list[Publish]
    asked_core_s: dict[UUID, float] = field(default_factory=dict)  # requested by waiting jobs, by entry


def _count_ranked(view: PolicyView) -> int:
    """Ranked users among the visible entries."""
    mask = view.visibility.mask
    if view.snapshot is None:
        return int((view.tree.engine_tree().is_ranked & mask).sum())
    places = view.snapshot_index[mask]
    return int(view.snapshot.values.is_ranked[places[places >= 0]].sum())


def overview_of(view: PolicyView) -> Overview:
    """The overview of an open view."""
    children = view.visible_children(0)
    snapshot = view.snapshot
    revisions = list_revisions(policy=view.policy, sees=view.visibility, limit=_MOST_PUBLISHES)
    return Overview(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        n_entries=int(view.visibility.mask.sum()),
        n_ranked=_count_ranked(view),
        n_out_of_tolerance=view.count_out_of_tolerance(),
        n_unmapped=int(snapshot.meta["n_unmapped"]) if snapshot else 0,
        unmapped_core_s=_unmapped(view),
        usage=float(snapshot.values.usage[0]) if snapshot and view.shows_numbers[0] else None if snapshot else 0.0,
        computed_at=snapshot.computed_at if snapshot else None,
        duration_s=_duration(snapshot.snapshot_id) if snapshot else None,
        settings=view.settings,
        top=[view.row(i, position=(at, len(children))) for at, i in enumerate(children[:_MOST_TOP], start=1)],
        n_hidden=int(view.tree.n_children[0]) - len(children),
        publishes=[
            Publish(revision.number, revision.published_at, revision.author_name, revision.reason, revision.n_changed)
            for revision in revisions
            if not revision.is_outside_view
        ],
        asked_core_s=_demand_of(view, children[:_MOST_TOP]),
    )


def _demand_of(view: PolicyView, entries: Sequence[int]) -> dict[UUID, float]:
    """Demand of entries with visible numbers, without zeros."""
    if view.snapshot is None:
        return {}
    demand, index = view.snapshot.values.demand_core_s, view.snapshot_index
    shown = [(i, int(index[i])) for i in entries if index[i] >= 0]
    return {view.tree.uuid(i): float(demand[at]) for i, at in shown if demand[at] > 0}


def _unmapped(view: PolicyView) -> float | None:
    """Unmapped usage; None unless the actor sees the whole tree, because it is often that of one person."""
    if view.snapshot is None:
        return 0.0
    return float(view.snapshot.meta["unmapped_usage"]) if view.visibility.outright.all() else None


def _duration(snapshot_id: int) -> float | None:
    return Snapshot.objects.filter(pk=snapshot_id).values_list("duration_s", flat=True).first()
