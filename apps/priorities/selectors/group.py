"""The page of a group for its manager: members with current and drafted numbers, and the manager's rights."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.engine.algorithms.inputs import prepare
from apps.engine.target_state import State, state_of
from apps.policies.access.authority import GrantedRights, Lineages
from apps.policies.access.scope import Verb
from apps.policies.operations.apply import Operation, tree_after
from apps.policies.operations.dated_shares import former_shares, is_boost
from apps.policies.requests.group_division import Members
from apps.policies.requests.inbox import Decider
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree, tolerance_at
from apps.policies.tree.columns import Node
from apps.policies.tree.stored import TreeColumns
from apps.policies.tree.terms import Dates
from apps.priorities.moments import LocalOnly
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.selectors.tree import offset
from apps.priorities.selectors.visible_snapshot import local_only_among

MOST_GROUP_MEMBERS = 100


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One child of the group, now and after drafted edits. place: position among the group's ranked members."""

    entry: EntryRow
    dates: Dates | None
    is_boosted: bool
    former_shares: float | None
    has_own_dates: bool  # dates other than those of a boost, which a manager doesn't change here
    target_after: float | None
    state_after: State
    place: int | None


@dataclass(frozen=True)
class GroupPage:
    """The group page. members: one page; nodes: all visible members by uid."""

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    settings: PolicySettings
    group: EntryRow
    parent: EntryRow | None
    members: list[MemberRow]
    nodes: Mapping[UUID, Node]
    n_members: int
    next_cursor: str | None
    until: datetime | None  # end of the actor's role; None without an end
    may_publish: bool
    may_reshape: bool  # may add and archive entries and publish it
    view: PolicyView
    at: datetime
    local_only: list[LocalOnly]  # fallbacks that affect the group and its members

    @property
    def algorithm(self) -> Mapping[str, object]:
        """The algorithm of the numbers, with all parameters."""
        return self.view.snapshot.algorithm if self.view.snapshot else self.settings.algorithm

    @property
    def earlier_revision(self) -> int | None:
        return self.view.earlier_revision

    @cached_property
    def decides_own_shares(self) -> bool:
        """Whether the actor decides about the group's own shares, so that no one else can grant them."""
        decider = Decider(self.view.policy, self.view.actor, self.at)
        return self.parent is not None and decider.decides_shares_of(self.group.uid)


def get_group_page(
    *,
    policy_slug: str,
    uid: UUID,
    at: datetime,
    actor: Actor,
    operations: Sequence[Operation] = (),
    cursor: str | None,
) -> GroupPage:
    """The page of a group whose children the actor manages. operations: drafted edits, shown beside current numbers."""
    view = open_view(policy_slug=policy_slug, actor=actor, is_live=True)  # a manager decides by current numbers
    i = view.require(uid)
    holding, lineage, until = _require_lead(view, uid, at)
    seen = view.visible_children(i)
    start = offset(cursor)
    shown = seen[start : start + MOST_GROUP_MEMBERS]
    return GroupPage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        settings=view.settings,
        group=view.row(i),
        parent=view.row(int(view.tree.parent[i])) if i else None,
        members=_members(view, shown, seen, operations, start),
        nodes=Members(view.tree, i, seen),
        n_members=len(seen),
        next_cursor=str(start + MOST_GROUP_MEMBERS) if len(seen) > start + MOST_GROUP_MEMBERS else None,
        until=None if until.year == 9999 else until,
        may_publish=holding.until(Verb.PUBLISH, lineage) is not None,
        may_reshape=all(holding.until(verb, lineage) for verb in (Verb.EDIT_STRUCTURE, Verb.PUBLISH)),
        view=view,
        at=at,
        local_only=local_only_among(view, [uid, *(view.tree.uuid(j) for j in shown)]),
    )


def load_members(*, policy_slug: str, uid: UUID, at: datetime, actor: Actor) -> Members:
    """Members of a group that the actor manages, without numbers: for reading a submitted form."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    i = view.require(uid)
    _require_lead(view, uid, at)
    return Members(view.tree, i, view.visible_children(i))


def _require_lead(view: PolicyView, uid: UUID, at: datetime) -> tuple[GrantedRights, tuple[UUID, ...], datetime]:
    holding = GrantedRights.of_actor(view.policy, view.actor, at)
    lineage = Lineages(view.policy, view.tree).of(uid)
    until = holding.until(Verb.EDIT_SHARES, lineage)
    if until is None:
        raise NotAllowed("Only managers of this group set its shares.", code="not_your_group")
    return holding, lineage, until


def _members(
    view: PolicyView, shown: Sequence[int], seen: Sequence[int], operations: Sequence[Operation], start: int
) -> list[MemberRow]:
    after = _after(view, operations)
    prepared = prepare(after.engine_tree())
    targets = prepared.spread(prepared.target)
    places = _positions(view, seen)
    rows = []
    for position, j in enumerate(shown, start=start + 1):
        row, node = view.row(j, position=(position, len(seen))), view.tree.node(j)
        k = after.index_of_uid(row.uid)
        target = None if k is None or after.inherit[k] else float(targets[k])
        rows.append(
            MemberRow(
                entry=row,
                dates=node.dates,
                is_boosted=is_boost(node.dates),
                former_shares=former_shares(node),
                has_own_dates=node.dates is not None and not is_boost(node.dates),
                target_after=target,
                state_after=_state(view, row, target),
                place=places.get(j),
            )
        )
    return rows


def _after(view: PolicyView, operations: Sequence[Operation]) -> TreeColumns:
    """The tree with drafted edits; raises as publishing them would."""
    if not operations:
        return view.tree
    after = tree_after(view.tree, operations)
    refuse_unsuitable_tree(after, view.settings.algorithm)
    return after


def _state(view: PolicyView, row: EntryRow, target: float | None) -> State:
    at = view.tree.index_of_uid(row.uid)
    place = int(view.snapshot_index[at]) if at is not None and view.snapshot is not None else -1
    has_demand = view.snapshot is not None and place >= 0 and bool(view.snapshot.values.has_demand[place])
    return state_of(
        target=target,
        actual=row.actual,
        has_usage=row.has_usage,
        has_demand=has_demand,
        tolerance=tolerance_at(view.settings.tolerance, at is not None and not view.tree.n_children[at]),
    )


def _positions(view: PolicyView, members: Sequence[int]) -> dict[int, int]:
    """Position of each member among the ranked members; equal ranks share a position."""
    ranks: dict[int, int] = {}
    if view.snapshot is not None:
        values = view.snapshot.values
        for j in members:
            at = int(view.snapshot_index[j])
            if at >= 0 and values.has_rank[at] and values.is_ranked[at]:
                ranks[j] = int(values.rank[at])
    ordered = sorted(ranks.values())
    return {j: 1 + bisect_left(ordered, rank) for j, rank in ranks.items()}
