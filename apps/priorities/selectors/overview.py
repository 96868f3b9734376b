"""One level of a policy at a glance: an entry, its children with their numbers, and recent publications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import numpy as np

from apps.policies.selectors import list_revisions
from apps.policies.settings import PolicySettings
from apps.priorities.level_facts import LevelFacts, level_facts
from apps.priorities.selectors.rows import EntryRow, PolicyView

_MOST_PUBLISHES = 5
_MOST_OVERVIEW_CHILDREN = 100


@dataclass(frozen=True)
class Publish:
    """One published revision, as a row."""

    revision: int
    at: datetime
    author: str
    reason: str
    n_changed: int


@dataclass(frozen=True, slots=True)
class LargestUser:
    """The entry without children that used most below another. part: its fraction of that usage, 0..1."""

    name: str
    part: float


@dataclass(frozen=True)
class Overview:
    """One level: `entry` and its visible children. whole_name: of the entry above it; empty for the root.

    facts: of all visible children; children: of these at most a hundred, those furthest from their targets.
    """

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    settings: PolicySettings
    entry: EntryRow
    whole_name: str
    n_unmapped: int
    unmapped_core_s: float | None  # for readers of the whole tree
    usage: float | None  # of the entry; None where it is hidden
    facts: LevelFacts
    children: list[EntryRow]
    n_children: int  # that the actor may see, also those beyond the first hundred
    n_hidden: int  # children that the actor may not see
    n_people: int  # visible users at and below the entry
    publishes: list[Publish]
    asked_core_s: Mapping[UUID, float] = field(default_factory=dict)  # requested by waiting jobs, by child


def overview_of(view: PolicyView, at: int = 0) -> Overview:
    """The overview of entry `at` of an open view. The caller checks that it may be seen."""
    facts = level_facts(view, at)
    seen = facts.entries
    shown = sorted(facts.furthest_first[:_MOST_OVERVIEW_CHILDREN])
    place_of = {i: n for n, i in enumerate(seen, start=1)}
    snapshot = view.snapshot
    place = int(view.snapshot_index[at]) if snapshot else -1
    return Overview(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        settings=view.settings,
        entry=view.row(at),
        whole_name=view.tree.name[int(view.tree.parent[at])] if at else "",
        n_unmapped=int(snapshot.meta["n_unmapped"]) if snapshot else 0,
        unmapped_core_s=_unmapped(view),
        usage=float(snapshot.values.usage[place]) if snapshot and place >= 0 else None if snapshot else 0.0,
        facts=facts,
        children=[view.row(i, position=(place_of[i], len(seen))) for i in shown],
        n_children=len(seen),
        n_hidden=int(view.tree.n_children[at]) - len(seen),
        n_people=_count_people(view, at),
        publishes=_publishes(view, at),
        asked_core_s=_demand_of(view, shown),
    )


def largest_user_below(view: PolicyView, i: int) -> LargestUser | None:
    """The user below entry i with the most usage; None unless the actor sees all of them and two have usage."""
    if view.snapshot is None:
        return None
    below = view.tree.subtree_mask(i) & (view.tree.n_children == 0)
    below[i] = False
    at = np.flatnonzero(below)
    place = view.snapshot_index[at]
    sees_all = bool((view.visibility.mask[at] & view.visibility.outright[at] & (place >= 0)).all())
    if not len(at) or not sees_all:
        return None
    usage = view.snapshot.values.usage[place]
    largest, whole = int(np.argmax(usage)), float(usage.sum())
    if whole <= 0 or int((usage > 0).sum()) < 2:
        return None
    return LargestUser(view.tree.name[int(at[largest])], float(usage[largest]) / whole)


def _count_people(view: PolicyView, at: int) -> int:
    tree = view.tree
    return int((tree.subtree_mask(at) & view.visibility.mask & tree.engine_tree().is_ranked).sum())


def _publishes(view: PolicyView, at: int) -> list[Publish]:
    """The latest revisions; below the root, those that changed the entry or its children."""
    uid = view.tree.uuid(at) if at else None
    revisions = list_revisions(policy=view.policy, sees=view.visibility, at=uid, limit=_MOST_PUBLISHES)
    return [
        Publish(revision.number, revision.published_at, revision.author_name, revision.reason, revision.n_changed)
        for revision in revisions
        if not revision.is_outside_view
    ]


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
