"""Effects of a change: the newest snapshot's usage carried over to another tree, and a request with its evidence.

Preview of changed shares: the siblings' new targets and all new ranks, on the newest snapshot's usage.
Computes as a recompute does, without storing anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.core.errors import DomainError, Invalid
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.engine.errors import BadParameter
from apps.policies.models import ChangeSet, Revision
from apps.policies.operations.apply import Operation, Outcome, apply, work_out
from apps.policies.requests.inbox import OPEN, target_of
from apps.policies.requests.share_requests import RequestState, Wish, offer_of, state_of_request, wish_of
from apps.policies.settings import PolicySettings, refuse_inherited, refuse_misfit, tolerance_at
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_archived
from apps.priorities.recompute.projection import compute_from_totals
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshots import State, state_of

# --- Totals carried over ----------------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
_ROUNDING = 1e-9  # what is left of a total when all of it has gone


def places(of: TreeColumns, among: TreeColumns) -> I8:
    """Where each entry of one tree is in the other, by uid; −1 where it isn't."""
    if of is among or (len(of) == len(among) and np.array_equal(of.uid, among.uid)):
        return np.arange(len(of))
    known = {uid: at for at, uid in enumerate(_as_keys(among))}
    return np.array([known.get(uid, -1) for uid in _as_keys(of)], dtype=np.int64)


def carried_totals(snapshot: ServedSnapshot, after: TreeColumns) -> tuple[F8, F8]:
    """(usage, group usage) of every entry of `after`, as in `Values`.

    What stayed where it was keeps its total, in the scope it was counted in and to the last bit. An entry that moved
    takes its own along, one that is new has none, and what is archived takes its total out of all that were above it.
    Where a scope's comparison group changes with that, the amount moved is that of the scope it was counted in.
    """
    before, values = snapshot.tree, snapshot.values
    place, place_after = places(after, before), places(before, after)
    known = place >= 0
    usage = np.where(known, values.usage[place], 0.0)
    group_usage = np.where(known, values.group_usage[place], 0.0)
    parent_before = np.where(known, before.parent[place], -1)
    parent_place = np.where(after.parent >= 0, place[after.parent], -1)
    stayed = known & (parent_before == parent_place)
    if stayed[1:].all() and len(after) == len(before):
        return usage, group_usage
    change = np.zeros(len(after))
    left = np.flatnonzero(place_after[before.parent] != np.where(place_after >= 0, after.parent[place_after], -2))
    left = left[(left > 0) & (place_after[before.parent[left]] >= 0)]
    np.subtract.at(change, place_after[before.parent[left]], values.usage[left])
    for lo, hi in reversed(list(zip(after.level_starts[1:-1], after.level_starts[2:], strict=True))):
        here = slice(lo, hi)
        brought = np.where(stayed[here], change[here], _less(usage[here], change[here]))
        np.add.at(change, after.parent[here], brought)
    return _less(usage, change), _less(group_usage, change)


def _less(total: F8, change: F8) -> F8:
    found: F8 = total + change
    return np.where(found < _ROUNDING * total, 0.0, found)


def simulate(
    snapshot: ServedSnapshot | None, after: TreeColumns, *, algorithm: Mapping[str, Any]
) -> PriorityResult | None:
    """Priorities of a tree under an algorithm with the usage of a snapshot; None without one, or if it can't be."""
    try:
        return None if snapshot is None else simulate_or_refuse(snapshot, after, algorithm=algorithm)
    except (Invalid, BadParameter):  # a package that is gone takes its algorithm along
        return None


def simulate_or_refuse(snapshot: ServedSnapshot, after: TreeColumns, *, algorithm: Mapping[str, Any]) -> PriorityResult:
    """Compute priorities from totals; raises Invalid (`no_inherit`, `package_failed`) and BadParameter."""
    if after.inherit.any():
        refuse_inherited(after, algorithm)
    usage, group_usage = carried_totals(snapshot, after)
    return compute_from_totals(after.engine_tree(), usage, group_usage, algorithm=algorithm)


def _as_keys(tree: TreeColumns) -> list[bytes]:
    raw = tree.uid.tobytes()
    return [raw[at : at + 16] for at in range(0, len(raw), 16)]


# --- Preview of shares ------------------------------------------------------------------------------------------------
_MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One sibling, the changed entry included. Ranks are None without a snapshot and where there is none."""

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
    """The sibling group of the changed entry; `base_revision` is what the change would be made to."""

    parent_name: str
    rows: list[PreviewRow]
    base_revision: int


def preview_shares(*, policy_slug: str, entry_uid: UUID, shares: Any, actor: Actor) -> SharesPreview:
    """Try one `set_shares`; raises what publishing it would raise for wrong shares."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    changed = view.require(entry_uid)
    after = apply(view.tree, [{"op": "set_shares", "entry": str(entry_uid), "shares": shares}])
    refuse_misfit(after, view.settings.algorithm)
    result = simulate(view.snapshot, after, algorithm=view.settings.algorithm)
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
        rank_after=int(result.rank[i]) if result is not None and result.has_rank[i] and view.told[i] else None,
    )


# --- Change sets ------------------------------------------------------------------------------------------------------
_MOST = 200


def simulate_change_set(change_set: ChangeSet, *, actor: Actor) -> list[dict[str, Any]] | None:
    """Visible leaves whose rank or factor would change, those that move furthest first.

    None where nothing can be said: no snapshot yet, operations that don't fit the head any more, or an algorithm that
    can't be used on the tree. New and moved entries are compared by the usage that they bring along, whatever the scope
    they come into.
    """
    return simulate_operations(open_view(policy_slug=change_set.policy.slug, actor=actor), change_set.operations)


def simulate_operations(view: PolicyView, operations: Sequence[Operation]) -> list[dict[str, Any]] | None:
    """As `simulate_change_set`, of edits that nobody has saved."""
    snapshot, outcome = view.snapshot, _on_head(view, operations)
    if snapshot is None or outcome is None:
        return None
    result = simulate(snapshot, outcome.tree, algorithm=outcome.settings.algorithm)
    return None if result is None else _moves(view, snapshot, outcome.tree, result)


def _on_head(view: PolicyView, operations: Sequence[Operation]) -> Outcome | None:
    try:
        return work_out(
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
    place, before = places(after, view.tree), places(after, snapshot.tree)
    values = snapshot.values
    rank = np.where(before >= 0, values.rank[before], 0)
    factor = np.where((before >= 0) & values.has_factor[before], values.factor[before], np.nan)
    factor_after = np.where(result.has_factor, result.factor, np.nan)
    sees = np.where(place >= 0, view.told[place], False)
    is_leaf = result.is_ranked | ((before >= 0) & values.is_ranked[before])
    is_same = (rank == result.rank) & ((factor == factor_after) | (np.isnan(factor) & np.isnan(factor_after)))
    moved = np.flatnonzero(is_leaf & sees & ~is_same)
    furthest = moved[np.argsort(-np.abs(result.rank[moved] - rank[moved]), kind="stable")][:_MOST]
    return [
        {
            "entry": str(after.uuid(i)),
            "path": after.path(i),
            "rank_before": int(rank[i]) or None,
            "rank_after": int(result.rank[i]) or None,
            "factor_before": _or_none(factor[i]),
            "factor_after": _or_none(factor_after[i]),
        }
        for i in furthest.tolist()
    ]


def _or_none(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


# --- Requests ---------------------------------------------------------------------------------------------------------
MOST_GIVERS = 3
MOST_RANKED_AT_ONCE = 20_000  # entries of a policy up to which ranks are computed within the request


@dataclass(frozen=True, slots=True)
class Week:
    """The entry's numbers at one instant."""

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
    """entry is None where it is archived. now: by the newest snapshot; None where the request is decided, too.

    `problem`: why it doesn't fit the tree any more.
    """

    change_set: ChangeSet
    state: RequestState
    wish: Wish
    offer: Wish
    settings: PolicySettings
    entry: EntryRow | None
    parent_name: str
    now: Week | None
    target_after: float | None
    state_after: State
    givers: Sequence[Giver]
    n_more_givers: int
    n_sooner: int | None  # leaves that go before more others than now; None: not worked out
    n_later: int | None
    revision: int | None
    problem: str = ""


def get_request_evidence(change_set: ChangeSet, *, actor: Actor, with_ranks: bool = True) -> RequestEvidence:
    """For readers of the change set; of other entries only what the reader may see."""
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
        wish=wish_of(change_set),
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
    """The entry's target if it were granted; raises what asking for it would raise for wrong shares."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    view.require(uid)
    return target_of(work_out(view.tree, list(operations), settings=view.settings).tree, uid)


def _after(view: PolicyView, operations: Sequence[Operation]) -> tuple[TreeColumns | None, str]:
    try:
        return work_out(view.tree, list(operations), settings=view.settings).tree, ""
    except DomainError as error:
        return None, error.message


def _givers(view: PolicyView, after: TreeColumns, i: int) -> list[Giver]:
    """Visible siblings whose target falls, those that give most first."""
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
    at = int(view.place[i])
    return state_of(
        target=target,
        actual=row.actual,
        has_usage=row.has_usage,
        has_demand=at >= 0 and bool(view.snapshot.values.has_demand[at]),
        tolerance=tolerance_at(view.settings.tolerance, not view.tree.n_children[i]),
    )
