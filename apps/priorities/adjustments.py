"""List and preview adjustments of usage: their amounts, what counts now, and the effect of a new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import Conflict, NotAllowed
from apps.engine.target_state import State, state_of
from apps.mapping.permissions import MapRights
from apps.policies.access.scope import Verb, administers_policies
from apps.policies.models import Adjustment
from apps.policies.operations.adjustment_edits import read_adjustment
from apps.policies.settings import tolerance_at
from apps.priorities.metering import window_of
from apps.priorities.recompute.corrections import Correction, correction_amounts
from apps.priorities.recompute.reader_trials import totals_of_reader
from apps.priorities.recompute.totals import conflict_without_algorithm
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.selectors.trials import shown_to_reader
from apps.priorities.serving.served_snapshot import ServedSnapshot

_MOST_ADJUSTMENTS = 200


@dataclass(frozen=True, slots=True)
class AdjustmentLine:
    """One adjustment. usage: its current amount in the metric's unit, 0 if revoked. path: "" if archived."""

    adjustment: Adjustment
    path: str
    entry_name: str
    usage: float
    is_active: bool
    may_revoke: bool


@dataclass(frozen=True, slots=True)
class EntryNumbers:
    """An entry's numbers before or after an adjustment; None where a number doesn't exist."""

    usage: float
    actual: float | None
    priority: float | None
    rank: int | None
    factor: float | None
    state: State


@dataclass(frozen=True, slots=True)
class AdjustmentPreview:
    """Effect of an adjustment on its entry in the newest snapshot. usage: its amount in the metric's unit."""

    usage: float
    target: float | None
    before: EntryNumbers
    after: EntryNumbers


@dataclass(frozen=True)
class AdjustmentsPage:
    """Adjustments at an entry, below it and at its ancestors: all that affect its numbers. Newest first."""

    view: PolicyView
    entry: int
    lines: list[AdjustmentLine]
    may_adjust: bool
    next_before: int | None


def list_adjustments(
    *,
    policy_slug: str,
    entry_uid: UUID | None = None,
    with_revoked: bool = True,
    before: int | None = None,
    limit: int = 100,
    actor: Actor,
) -> tuple[list[AdjustmentLine], int | None]:
    """Adjustments at an entry and below it (None: at all visible entries), newest first, and the next cursor."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    within = None if entry_uid is None else view.tree.subtree_mask(view.require(entry_uid))
    return _lines(view, within, with_revoked=with_revoked, before=before, limit=limit)


def get_adjustments_page(*, policy_slug: str, uid: UUID, actor: Actor, before: int | None = None) -> AdjustmentsPage:
    view = open_view(policy_slug=policy_slug, actor=actor)
    i = view.require(uid)
    within = view.tree.subtree_mask(i)
    within[view.tree.ancestors(i)] = True
    lines, following = _lines(view, within, with_revoked=True, before=before, limit=_MOST_ADJUSTMENTS)
    return AdjustmentsPage(view, i, lines, may_adjust(view, i), following)


def may_adjust(view: PolicyView, i: int) -> bool:
    """Whether the actor may publish adjustments of an entry: only managers of usage of its parent may."""
    rights = MapRights(view.policy, view.tree, view.actor, view.now)
    parent = int(view.tree.parent[i])
    if view.tree.is_reserve[i] or not view.actor.has_scope("policies:write"):
        return False
    if parent < 0:
        return administers_policies(view.actor, Token.Scope.ADMIN)
    return rights.holds(parent, Verb.MANAGE_USAGE) and rights.holds(parent, Verb.PUBLISH)


def preview_adjustment(
    *, policy_slug: str, entry_uid: UUID, resource: str, amount_s: float, used_at: datetime, actor: Actor
) -> AdjustmentPreview:
    """Preview one adjustment on the newest snapshot; raises ValueError for an invalid one.

    The preview is exact for a tree with one scope. With two, a refund reduces both scopes in proportion.
    """
    wanted = read_adjustment({"resource": resource, "amount_s": amount_s, "at": used_at})
    view = open_view(policy_slug=policy_slug, actor=actor)
    i, snapshot = view.require(entry_uid), view.snapshot
    at = int(view.snapshot_index[i])
    if view.is_suppressed(i):
        raise NotAllowed("You may not see the usage of this entry: ask its manager.", code="suppressed")
    if snapshot is None or at < 0:
        raise Conflict("Nothing has been computed for this entry yet: try again in a minute.", code="no_snapshot")
    correction = Correction(uuid4(), entry_uid, wanted.resource, wanted.amount_s, wanted.at.timestamp())
    usage = _counted(view, [correction])[0]
    totals = totals_of_reader(snapshot.totals, view.numbers_in_snapshot)
    with conflict_without_algorithm():
        result = shown_to_reader(view, totals, totals.corrected(at, usage).compute(snapshot.algorithm))
    values = snapshot.values
    return AdjustmentPreview(
        usage=usage,
        target=float(values.target[at]) if values.competes[at] else None,
        before=_entry_numbers(view, snapshot, at, values),
        after=_entry_numbers(view, snapshot, at, result),
    )


def _lines(
    view: PolicyView, within: npt.NDArray[np.bool_] | None, *, with_revoked: bool, before: int | None, limit: int
) -> tuple[list[AdjustmentLine], int | None]:
    rows = Adjustment.objects.filter(policy=view.policy).order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    if not with_revoked:
        rows = rows.filter(until=None)
    adjustments: list[Adjustment] = []
    for row in rows.iterator(chunk_size=1_000):
        i = view.tree.index_of_uid(row.entry_uid)
        sees = view.visibility.all_visible if i is None else view.visibility.may_see(i)
        if sees and (within is None or (i is not None and within[i])):
            adjustments.append(row)
            if len(adjustments) > limit:
                break
    shown = adjustments[:limit]
    usage = _counted(
        view,
        [Correction(row.uid, row.entry_uid, row.resource, row.amount_s, row.at.timestamp(), row.note) for row in shown],
    )
    lines = [_line(view, row, amount) for row, amount in zip(shown, usage, strict=True)]
    return lines, shown[-1].pk if len(adjustments) > limit else None


def _line(view: PolicyView, row: Adjustment, usage: float) -> AdjustmentLine:
    i = view.tree.index_of_uid(row.entry_uid)
    is_active = row.until is None
    return AdjustmentLine(
        adjustment=row,
        path="" if i is None else view.tree.path(i),
        entry_name="" if i is None else view.tree.name[i],
        usage=usage if is_active and i is not None else 0.0,
        is_active=is_active,
        may_revoke=is_active and i is not None and may_adjust(view, i),
    )


def _counted(view: PolicyView, corrections: Iterable[Correction]) -> list[float]:
    """Amounts at the instant of the newest snapshot, in the metric's unit."""
    counting, as_of = list(corrections), view.as_of or view.now
    if not counting:
        return []
    amounts: list[float] = correction_amounts(
        counting,
        metric=view.settings.metric,
        window=window_of(view.settings.window),
        as_of_s=as_of.timestamp(),
    ).tolist()
    return amounts


def _entry_numbers(view: PolicyView, snapshot: ServedSnapshot, at: int, numbers: Any) -> EntryNumbers:
    """Numbers of one entry. numbers: a snapshot's values or a computed result."""
    competes, usage = bool(numbers.competes[at]), float(numbers.usage[at])
    actual = float(numbers.actual[at]) if competes else None
    return EntryNumbers(
        usage=usage,
        actual=actual,
        priority=float(numbers.priority[at]) if competes else None,
        rank=int(numbers.rank[at]) if numbers.has_rank[at] else None,
        factor=float(numbers.factor[at]) if numbers.has_factor[at] else None,
        state=state_of(
            target=float(numbers.target[at]) if competes else None,
            actual=actual,
            has_usage=usage > 0,
            has_demand=bool(snapshot.values.has_demand[at]),
            tolerance=tolerance_at(view.settings.tolerance, not snapshot.tree.n_children[at]),
        ),
    )
