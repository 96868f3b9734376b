"""Numbers that help to decide a request for shares: who would give, who is behind, and how ranks change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.errors import DomainError
from apps.engine.algorithms.inputs import prepare
from apps.engine.target_state import State, state_of
from apps.policies.models import ChangeSet, Revision
from apps.policies.operations.apply import Operation, apply_operations
from apps.policies.requests.inbox import OPEN
from apps.policies.requests.requested_shares import target_of
from apps.policies.requests.share_requests import (
    RequestedShares,
    RequestState,
    offer_of,
    requested_shares_of,
    state_of_request,
)
from apps.policies.settings import PolicySettings, tolerance_at
from apps.policies.tree.columns import TreeColumns
from apps.priorities.change_effects import simulate_change_set
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view

MOST_EVIDENCE_GIVERS = 3
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
        givers=givers[:MOST_EVIDENCE_GIVERS],
        n_more_givers=max(len(givers) - MOST_EVIDENCE_GIVERS, 0),
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
    givers = []
    for j in view.visible_children(int(view.tree.parent[i])):
        k = after.index_of_uid(view.tree.uuid(j))
        if j != i and k is not None and view.competes[j] and before[j] - now[k] > 1e-12:
            givers.append(Giver(view.tree.name[j], float(before[j]), float(now[k])))
    return sorted(givers, key=lambda each: each.after - each.before)


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
