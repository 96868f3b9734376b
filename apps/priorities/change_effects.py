"""Preview of a change on the newest snapshot's usage: of shares, of a change set, and of a request with its evidence.

Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.core.errors import DomainError
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.policies.models import ChangeSet, Revision
from apps.policies.operations.apply import Operation, Outcome, apply_operations, tree_after
from apps.policies.requests.inbox import OPEN, target_of
from apps.policies.requests.share_requests import (
    RequestedShares,
    RequestState,
    offer_of,
    requested_shares_of,
    state_of_request,
)
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree, tolerance_at
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import number_or_none
from apps.policies.tree.stored import load_archived
from apps.priorities.recompute.comparison import ComputedTree, compare, matching_indexes
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.selectors.trials import simulate_view_or_none
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshots import State, state_of

# --- Preview of shares ------------------------------------------------------------------------------------------------
_MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """The changed entry or one of its siblings. Ranks are None without a snapshot, or if the entry has no rank."""

    uid: UUID
    name: str
    kind: str
    is_changed: bool
    shares_before: float | None
    shares_after: float | None
    target_before: float | None
    target_after: float | None
    actual: float | None
    rank_before: int | None
    rank_after: int | None


@dataclass(frozen=True)
class SharesPreview:
    """The changed entry and its siblings. base_revision: the revision that would be changed."""

    parent_name: str
    rows: list[PreviewRow]
    base_revision: int


def preview_shares(*, policy_slug: str, entry_uid: UUID, shares: Any, actor: Actor) -> SharesPreview:
    """Preview one `set_shares` operation; raises as publishing it would for invalid shares."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    changed = view.require(entry_uid)
    after = tree_after(view.tree, [{"op": "set_shares", "entry": str(entry_uid), "shares": shares}])
    refuse_unsuitable_tree(after, view.settings.algorithm)
    result = None
    if view.snapshot is not None:
        result = simulate_view_or_none(view, after, algorithm=view.settings.algorithm)
    parent = int(view.tree.parent[changed])
    siblings = view.visible_children(parent) if parent >= 0 else [changed]
    if changed in siblings[_MOST_ROWS:]:
        siblings = [changed, *siblings]
    return SharesPreview(
        parent_name=view.tree.name[max(parent, 0)],
        rows=[_row(view, after, result, i, is_changed=i == changed) for i in siblings[:_MOST_ROWS]],
        base_revision=view.revision,
    )


def _row(
    view: PolicyView, after: TreeColumns, result: PriorityResult | None, i: int, *, is_changed: bool
) -> PreviewRow:
    before = view.row(i, position=(1, 1))
    prepared = prepare(after.engine_tree())
    dissolved = bool(after.inherit[i])
    return PreviewRow(
        uid=before.uid,
        name=before.name,
        kind=before.kind,
        is_changed=is_changed,
        shares_before=before.shares,
        shares_after=None if dissolved else float(after.shares[i]),
        target_before=before.target,
        target_after=None if dissolved else float(prepared.spread(prepared.target)[i]),
        actual=before.actual,
        rank_before=before.rank,
        rank_after=int(result.rank[i]) if result is not None and result.has_rank[i] and view.shows_numbers[i] else None,
    )


# --- Change sets ------------------------------------------------------------------------------------------------------
_MOST = 200


def simulate_change_set(change_set: ChangeSet, *, actor: Actor) -> list[dict[str, Any]] | None:
    """Visible leaves whose rank or factor would change, the largest change of rank first, at most 200.

    None without a snapshot, if the operations no longer apply to the head, or if the algorithm can't be used on the
    tree. The usage of moved entries is that of their old scope: see `Totals.carried_to`.
    """
    return simulate_operations(open_view(policy_slug=change_set.policy.slug, actor=actor), change_set.operations)


def simulate_operations(view: PolicyView, operations: Sequence[Operation]) -> list[dict[str, Any]] | None:
    """As `simulate_change_set`, of unsaved operations."""
    snapshot, outcome = view.snapshot, _on_head(view, operations)
    if snapshot is None or outcome is None:
        return None
    result = simulate_view_or_none(view, outcome.tree, algorithm=outcome.settings.algorithm)
    return None if result is None else _moves(view, snapshot, outcome.tree, result)


def _on_head(view: PolicyView, operations: Sequence[Operation]) -> Outcome | None:
    try:
        return apply_operations(
            view.tree,
            operations,
            settings=view.settings,
            archived=lambda uid: load_archived(view.policy, uid),
        )
    except DomainError:
        return None


def _moves(
    view: PolicyView,
    snapshot: ServedSnapshot,
    after: TreeColumns,
    result: PriorityResult,
) -> list[dict[str, Any]]:
    compared = compare(ComputedTree(snapshot.tree, snapshot.values), ComputedTree(after, result))
    before, then = compared.before, compared.after
    in_view = matching_indexes(after, view.tree)
    is_visible = np.where(in_view >= 0, view.shows_numbers[in_view], False)
    moved = np.flatnonzero(is_visible & (compared.is_leaf & ~compared.is_same)[: len(after)])
    furthest = moved[np.argsort(-np.abs(then.rank[moved] - before.rank[moved]), kind="stable")][:_MOST]
    return [
        {
            "entry": str(after.uuid(i)),
            "path": after.path(i),
            "rank_before": int(before.rank[i]) or None,
            "rank_after": int(then.rank[i]) or None,
            "factor_before": number_or_none(before.factor[i]),
            "factor_after": number_or_none(then.factor[i]),
        }
        for i in furthest.tolist()
    ]


# --- Requests ---------------------------------------------------------------------------------------------------------
MOST_GIVERS = 3
MOST_RANKED_AT_ONCE = 20_000  # entries of a policy up to which ranks are computed within the request


@dataclass(frozen=True, slots=True)
class Week:
    """An entry's target and actual share at one instant."""

    as_of: datetime
    target: float | None
    actual: float | None
    state: State


@dataclass(frozen=True, slots=True)
class Giver:
    name: str
    before: float
    after: float


@dataclass(frozen=True)
class RequestEvidence:
    """A request and what granting it would change.

    entry: None if archived. now: of the newest snapshot; None if the request is decided. n_sooner, n_later: leaves
    whose rank would improve or worsen; None if not computed. problem: why the request no longer applies to the tree.
    """

    change_set: ChangeSet
    state: RequestState
    wish: RequestedShares
    offer: RequestedShares
    settings: PolicySettings
    entry: EntryRow | None
    parent_name: str
    now: Week | None
    target_after: float | None
    state_after: State
    givers: Sequence[Giver]
    n_more_givers: int
    n_sooner: int | None
    n_later: int | None
    revision: int | None
    problem: str = ""


def get_request_evidence(change_set: ChangeSet, *, actor: Actor, with_ranks: bool = True) -> RequestEvidence:
    """Evidence for a reader of the change set; numbers of other entries only if visible to the reader."""
    view = open_view(policy_slug=change_set.policy.slug, actor=actor)
    uid = change_set.asks_entry_uid
    i = None if uid is None else view.tree.index_of_uid(uid)
    is_open = change_set.state in OPEN
    after, problem = _after(view, change_set.operations) if is_open else (None, "")
    row = None if i is None or not view.visibility.may_see(i) else view.row(i)
    target_after = target_of(after, uid) if after is not None and uid is not None else None
    givers = _givers(view, after, i) if after is not None and i else []
    sooner, later = _ranks(view, change_set, actor) if after is not None and with_ranks else (None, None)
    return RequestEvidence(
        change_set=change_set,
        state=state_of_request(change_set),
        wish=requested_shares_of(change_set),
        offer=offer_of(change_set),
        settings=view.settings,
        entry=row,
        parent_name=view.tree.name[int(view.tree.parent[i])] if i and row is not None else "",
        now=_now(view, row) if is_open else None,
        target_after=target_after,
        state_after=_state(view, i, row, target_after),
        givers=givers[:MOST_GIVERS],
        n_more_givers=max(len(givers) - MOST_GIVERS, 0),
        n_sooner=sooner,
        n_later=later,
        revision=Revision.objects.filter(change_set=change_set).values_list("number", flat=True).first(),
        problem=problem,
    )


def preview_request(*, policy_slug: str, uid: UUID, operations: Sequence[Operation], actor: Actor) -> float | None:
    """The entry's target if the request were granted; raises as making the request would for invalid shares."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    view.require(uid)
    return target_of(apply_operations(view.tree, list(operations), settings=view.settings).tree, uid)


def _after(view: PolicyView, operations: Sequence[Operation]) -> tuple[TreeColumns | None, str]:
    try:
        return apply_operations(view.tree, list(operations), settings=view.settings).tree, ""
    except DomainError as error:
        return None, error.message


def _givers(view: PolicyView, after: TreeColumns, i: int) -> list[Giver]:
    """Visible siblings whose target would fall, the largest fall first."""
    before, prepared = view.target[0], prepare(after.engine_tree())
    now = prepared.spread(prepared.target)
    found = []
    for j in view.visible_children(int(view.tree.parent[i])):
        k = after.index_of_uid(view.tree.uuid(j))
        if j != i and k is not None and view.competes[j] and before[j] - now[k] > 1e-12:
            found.append(Giver(view.tree.name[j], float(before[j]), float(now[k])))
    return sorted(found, key=lambda each: each.after - each.before)


def _ranks(view: PolicyView, change_set: ChangeSet, actor: Actor) -> tuple[int | None, int | None]:
    if len(view.tree) > MOST_RANKED_AT_ONCE:
        return None, None
    moves = simulate_change_set(change_set, actor=actor)
    if moves is None:
        return None, None
    pairs = [(each["rank_before"], each["rank_after"]) for each in moves if each["rank_before"] and each["rank_after"]]
    return sum(after < before for before, after in pairs), sum(after > before for before, after in pairs)


def _now(view: PolicyView, row: EntryRow | None) -> Week | None:
    return None if row is None or view.as_of is None else Week(view.as_of, row.target, row.actual, row.state)


def _state(view: PolicyView, i: int | None, row: EntryRow | None, target: float | None) -> State:
    if i is None or row is None or view.snapshot is None or row.suppressed:
        return "unknown"
    at = int(view.snapshot_index[i])
    return state_of(
        target=target,
        actual=row.actual,
        has_usage=row.has_usage,
        has_demand=at >= 0 and bool(view.snapshot.values.has_demand[at]),
        tolerance=tolerance_at(view.settings.tolerance, not view.tree.n_children[i]),
    )
