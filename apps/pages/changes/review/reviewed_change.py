"""A change set as one reader may see it: its edits, the resulting targets, and ranks now and later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.mapping.permissions import load_visibility
from apps.pages.changes.review.checks import check_effect, check_resolution, check_unmapped
from apps.policies.access.scope import Visibility
from apps.policies.changesets.checks import Check, list_checks
from apps.policies.changesets.review import Review, open_review
from apps.policies.tree.columns import Mask, Node, TreeColumns
from apps.policies.tree.difference import number_or_none
from apps.policies.tree.document_merge import indexes_of
from apps.policies.tree.revision_diff import TargetChanges
from apps.priorities.change_effect_runs import Effect, check_groups, get_effect
from apps.priorities.recompute.simulation import Projection
from apps.priorities.selectors.rows import newest_or_none, open_view
from apps.priorities.selectors.trials import simulate_view_or_none

Reason = Literal[
    "new", "archived", "moved", "own_shares", "above_rises", "above_falls", "diluted", "enlarged", "settings", "others"
]
I8 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ReviewedEdit:
    """One operation with the entry before and after it (None if there is none). of_total: change of the entry's global
    target, None if it has none. A hidden edit has no other data.
    """

    index: int
    operation: Mapping[str, Any]
    uid: UUID | None
    name: str
    path: str
    before: Node | None
    after: Node | None
    of_total: float | None
    is_hidden: bool


@dataclass(frozen=True, slots=True)
class TargetLine:
    """One entry whose target among siblings changes; None where the entry doesn't exist."""

    uid: UUID
    name: str
    above: str  # the path of its parent
    old: float | None
    new: float | None
    is_stated: bool
    status: Literal["", "new", "gone", "moved"]

    @property
    def change(self) -> float:
        return (self.new or 0.0) - (self.old or 0.0)


@dataclass(frozen=True, slots=True)
class LeafLine:
    """Ranks of one leaf at each horizon, without and with the change; None without a rank."""

    uid: UUID
    name: str
    above: str
    without: tuple[int | None, ...]
    ranks_with: tuple[int | None, ...]
    factor_before: float | None
    factor_after: float | None
    reason: Reason
    reason_name: str

    @property
    def moved(self) -> int | None:
        """Number of ranks gained; < 0 lost."""
        before, after = self.without[0], self.ranks_with[0]
        return None if before is None or after is None else before - after

    @property
    def path(self) -> str:
        return f"{self.above.rstrip('/')}/{self.name}"

    @property
    def reason_text(self) -> str:
        """The reason, with the name of the entry or setting if there is one."""
        return f"{self.reason}: {self.reason_name}" if self.reason_name else self.reason


@dataclass(frozen=True)
class HiddenChanges:
    """Changes hidden from the reader, as counts."""

    n_edits: int
    n_entries: int
    points: float  # sum of the signed changes of global targets


@dataclass(frozen=True, eq=False)
class ReviewPage:
    """Data of a review page; each part is computed when it is first used."""

    review: Review
    actor: Actor
    now: datetime

    @cached_property
    def sees_before(self) -> Mask:
        return self._visibility_before.mask

    @cached_property
    def _visibility_before(self) -> Visibility:
        return load_visibility(policy=self.review.policy, tree=self.review.before, at=self.now, actor=self.actor)

    @cached_property
    def sees(self) -> Mask:
        """Visible entries of the tree after the change; an added entry is visible if its parent is."""
        place, tree = self.review.moves.place, self.review.after
        mask = np.where(place >= 0, self.sees_before[place], False)
        for i in np.flatnonzero(place < 0).tolist():  # parents precede their children
            mask[i] = mask[tree.parent[i]]
        return np.asarray(mask, dtype=np.bool_)

    @cached_property
    def edits(self) -> list[ReviewedEdit]:
        return [self._edit(index, operation) for index, operation in enumerate(self.review.change_set.operations)]

    @cached_property
    def rewritten(self) -> dict[int, list[ReviewedEdit]]:
        """By operation index: siblings whose shares the operation reduces to set a percentage."""
        return {
            index: [
                self._edit(index, {"op": "set_shares", "entry": str(node.uid), "shares": node.shares}) for node in nodes
            ]
            for index, nodes in self.review.rewritten_siblings.items()
        }

    @property
    def n_edits(self) -> int:
        """Number of edits: operations, and each sibling that one of them rewrites."""
        return len(self.edits) + sum(map(len, self.rewritten.values()))

    @cached_property
    def targets(self) -> list[TargetLine]:
        """Visible entries whose target changes, largest changes first."""
        moves = self.review.moves
        here = [self._target(i) for i in np.flatnonzero(moves.changed & self.sees).tolist()]
        gone = [self._gone(n) for n, i in enumerate(moves.gone.tolist()) if self.sees_before[i]]
        return sorted([*here, *gone], key=lambda line: (-abs(line.change), line.above, line.name))

    @cached_property
    def n_people(self) -> int:
        """Ranked leaves whose global target changes, visible or not."""
        moves, tree = self.review.moves, self.review.after
        differs = np.abs(np.nan_to_num(moves.new_global) - np.nan_to_num(moves.old_global)) > 1e-12
        gone = self.review.before.engine_tree().is_ranked[moves.gone].sum()
        return int((tree.engine_tree().is_ranked & differs).sum() + gone)

    @property
    def n_leaves(self) -> int:
        return int(self.review.before.engine_tree().is_ranked.sum())

    @cached_property
    def outside(self) -> HiddenChanges:
        moves = self.review.moves
        hidden = moves.changed & ~self.sees
        change = np.nan_to_num(moves.new_global) - np.nan_to_num(moves.old_global)
        is_top = hidden & ~_below(hidden, self.review.after)  # entries below a hidden one are counted with it
        gone = ~self.sees_before[moves.gone]
        written = [each for edits in self.rewritten.values() for each in edits]
        n_edits = sum(edit.is_hidden for edit in [*self.edits, *written])
        return HiddenChanges(n_edits, int(hidden.sum() + gone.sum()), float(change[is_top].sum()))

    @cached_property
    def checks(self) -> list[Check]:
        checks = list_checks(self.review, sees=self.sees, actor=self.actor)
        if self.review.is_open and self.review.outcome is not None and self.effect.state != "conflict":
            snapshot = newest_or_none(self.review.policy.slug)
            if snapshot is not None:
                checks.append(check_groups(self.review, snapshot, sees=self.sees))
                # Check rounding, for leaves whose numbers the reader may see; empty for algorithms that don't round.
                place = self.review.moves.place
                shown = self.sees_before & self._visibility_before.outright
                visible_after = np.where(place >= 0, shown[place], self.sees)
                check = check_resolution(self.review, snapshot, visible_before=shown, visible_after=visible_after)
                checks += [] if check is None else [check]
            checks.append(check_effect(self.effect))
        return [*checks, *check_unmapped(self.review, actor=self.actor, at=self.now)]

    @cached_property
    def effect(self) -> Effect:
        return get_effect(self.review.change_set, at=self.now)

    @cached_property
    def _projection(self) -> Projection | None:
        """Ranks with and without the change: as computed for all readers, or for one of a part.

        A draft is a trial: its author chooses the numbers. For readers of a part hidden usage enters it in steps, and
        leaves move at each horizon as they move at once. None where usage would be counted otherwise.
        """
        projection, view = self.effect.projection, None
        if projection is None or self._ranks_visible(projection).all():
            return projection
        was, wanted = self.review.settings, self.review.wanted
        counts_alike = all(getattr(was, name) == getattr(wanted, name) for name in ("metric", "window", "approach"))
        if counts_alike:
            view = open_view(policy_slug=self.review.policy.slug, actor=self.actor)
        if view is None or view.snapshot is None:
            return None
        result = simulate_view_or_none(view, self.review.after, algorithm=wanted.algorithm)
        if result is None:
            return None
        at = indexes_of(projection.uid, self.review.after)
        rank = np.where((at >= 0) & result.is_ranked[at], result.rank[at], 0)
        factor = np.where((at >= 0) & result.is_ranked[at] & result.has_factor[at], result.factor[at], np.nan)
        moved = rank - projection.rank_without[0]
        stays = (projection.rank_without > 0) & (projection.rank_without[0] > 0) & (rank > 0)
        ranks_with = np.where(stays, np.maximum(projection.rank_without + moved, 1), rank).astype(np.int32)
        return replace(
            projection, rank_with=ranks_with, factor_with=np.repeat(factor[None], len(projection.horizons_days), axis=0)
        )

    @cached_property
    def _leaves(self) -> tuple[I8, I8, I8]:
        """Rows of the projection that are visible and move, with their indices in the trees after and before."""
        projection = self._projection
        if projection is None:
            none = np.zeros(0, dtype=np.int64)
            return none, none, none
        after, before = indexes_of(projection.uid, self.review.after), indexes_of(projection.uid, self.review.before)
        visible = np.where(after >= 0, self.sees[after], np.where(before >= 0, self.sees_before[before], False))
        moves = (projection.rank_without != projection.rank_with).any(axis=0)
        rows = np.flatnonzero(visible & self._ranks_visible(projection) & moves)
        now, week = (
            _distance(projection, 0)[rows],
            _distance(projection, min(2, len(projection.horizons_days) - 1))[rows],
        )
        rows = rows[np.lexsort((-week, -now))]
        return rows, after[rows], before[rows]

    @property
    def n_moving(self) -> int:
        return len(self._leaves[0])

    def leaves(self, most: int) -> list[LeafLine]:
        """The leaves that move furthest, by the present move first."""
        projection = self._projection
        rows, after, before = self._leaves
        if projection is None:
            return []
        return [
            self._leaf(projection, row, i, j)
            for row, i, j in zip(rows[:most].tolist(), after[:most].tolist(), before[:most].tolist(), strict=True)
        ]

    @cached_property
    def histogram(self) -> list[tuple[int, int]]:
        """(signed power of ten of the move, number of leaves): −2 is 100 ranks lost or more, 0 is unchanged.

        Only visible leaves with a rank on both sides: otherwise a user who may preview changes could find out, one by
        one, who used more than whom.
        """
        projection = self._projection
        if projection is None:
            return []
        both = (projection.rank_without[0] > 0) & (projection.rank_with[0] > 0) & self._ranks_visible(projection)
        moved = (projection.rank_without[0] - projection.rank_with[0])[both]
        size = np.minimum(np.floor(np.log10(np.maximum(np.abs(moved), 1))), 2) + 1
        counts = Counter((np.sign(moved) * size).astype(int).tolist())
        return [(step, counts[step]) for step in range(-3, 4)]

    @property
    def n_rank_changes(self) -> tuple[int, int] | None:
        """(leaves whose rank changes immediately, leaves compared), as in `histogram`; None without a forecast."""
        total = sum(n for _step, n in self.histogram)
        return (total - dict(self.histogram)[0], total) if total else None

    @cached_property
    def sees_all_numbers(self) -> bool:
        """Whether the reader sees the numbers of every entry of the policy."""
        return self._visibility_before.shows_all_numbers

    def _ranks_visible(self, projection: Projection) -> Mask:
        """Mask of leaves of the projection whose ranks are visible. A leaf added by the change has no usage."""
        visibility = self._visibility_before
        if self.sees_all_numbers:
            return np.ones(len(projection.uid), dtype=np.bool_)
        before, after = indexes_of(projection.uid, self.review.before), indexes_of(projection.uid, self.review.after)
        added = (before < 0) & (after >= 0) & self.sees[after]
        return np.asarray(added | ((before >= 0) & visibility.outright[before]), dtype=np.bool_)

    def _edit(self, index: int, operation: Mapping[str, Any]) -> ReviewedEdit:
        named = operation.get("entry") or operation.get("uid")
        if not named:
            return ReviewedEdit(index, operation, None, "", "", None, None, None, False)
        uid = UUID(str(named))
        i, j = self.review.after.index_of_uid(uid), self.review.before.index_of_uid(uid)
        changes = self.review.outcome.changes if self.review.outcome else {}
        before = self.review.before.node(j) if j is not None else None
        after = changes[uid][1] if uid in changes else before
        hidden = not (self.sees[i] if i is not None else self.sees_before[j] if j is not None else False)
        if hidden:
            return ReviewedEdit(index, {"op": ""}, None, "", "", None, None, None, True)
        tree, at = (self.review.after, i) if i is not None else (self.review.before, j)
        name, path = (tree.name[at], tree.path(at)) if at is not None else ("", "")
        return ReviewedEdit(index, operation, uid, name, path, before, after, self._of_total(i, j), False)

    def _of_total(self, i: int | None, j: int | None) -> float | None:
        moves = self.review.moves
        if i is not None:
            if np.isnan(moves.new_global[i]) and np.isnan(moves.old_global[i]):
                return None
            return float(np.nan_to_num(moves.new_global[i]) - np.nan_to_num(moves.old_global[i]))
        at = np.flatnonzero(moves.gone == j)
        return -float(np.nan_to_num(moves.gone_old_global[at[0]])) if len(at) else None

    @cached_property
    def _edit_line(self) -> set[UUID]:
        return set(self.review.outcome.changes) if self.review.outcome else set()

    def _target(self, i: int) -> TargetLine:
        moves, tree = self.review.moves, self.review.after
        uid = tree.uuid(i)
        status: Any = "new" if moves.is_new[i] else "moved" if moves.came[i] else ""
        above = tree.path(int(tree.parent[i]))
        old, new = number_or_none(moves.old[i]), number_or_none(moves.new[i])
        return TargetLine(uid, tree.name[i], above, old, new, uid in self._edit_line, status)

    def _gone(self, n: int) -> TargetLine:
        tree, i = self.review.before, int(self.review.moves.gone[n])
        above, old = tree.path(int(tree.parent[i])), number_or_none(self.review.moves.gone_old[n])
        return TargetLine(tree.uuid(i), tree.name[i], above, old, None, True, "gone")

    def _leaf(self, projection: Projection, row: int, i: int, j: int) -> LeafLine:
        tree, at = (self.review.after, i) if i >= 0 else (self.review.before, j)
        forward = int(projection.rank_without[0, row]) - int(projection.rank_with[0, row])
        reason, step = self.reason(i, j, forward)
        return LeafLine(
            uid=tree.uuid(at),
            name=tree.name[at],
            above=tree.path(int(tree.parent[at])),
            without=tuple(int(rank) or None for rank in projection.rank_without[:, row]),
            ranks_with=tuple(int(rank) or None for rank in projection.rank_with[:, row]),
            factor_before=number_or_none(projection.factor_without[0, row]),
            factor_after=number_or_none(projection.factor_with[0, row]),
            reason=reason,
            reason_name=self._name_of(reason, step, i),
        )

    def reason(self, i: int, j: int, forward: int) -> tuple[Reason, int]:
        """Return why a leaf moves, and the entry on its path that decides: the one whose target changes most, in
        proportion, in the direction of the move; −1 for none.

        i, j: its indices in the trees after and before.
        """
        if i < 0:
            return "archived", -1
        if j < 0:
            return "new", -1
        moves, tree = self.review.moves, self.review.after
        path = [*tree.ancestors(i), i][1:]
        came = next((step for step in path if moves.came[step]), None)
        if came is not None:
            return "moved", came
        sign = 1 if forward > 0 else -1
        step = max(path, key=lambda at: sign * _proportion(moves, at), default=None)
        if step is None or sign * _proportion(moves, step) <= 0 or not forward:
            return ("settings" if self.review.changed_settings else "others"), -1
        if tree.uuid(step) not in self._edit_line:
            return ("enlarged" if forward > 0 else "diluted"), step
        if step == i:
            return "own_shares", step
        return ("above_rises" if forward > 0 else "above_falls"), step

    def _name_of(self, reason: Reason, step: int, i: int) -> str:
        """Name of the entry the reason is about; empty if that is the leaf itself."""
        if step < 0 or (step == i and reason in ("moved", "own_shares")):
            return ""
        tree = self.review.after
        return tree.name[int(tree.parent[step])] if reason in ("enlarged", "diluted") else tree.name[step]


def get_review_page(*, id: int, actor: Actor, at: datetime) -> ReviewPage:
    """Open the review for a reader of the change set."""
    return ReviewPage(open_review(id=id, actor=actor, at=at), actor, at)


def _proportion(moves: TargetChanges, at: int) -> float:
    """Logarithm of the ratio of new to old target; < 0 for a reduction."""
    old, new = float(np.nan_to_num(moves.old[at])), float(np.nan_to_num(moves.new[at]))
    if abs(old - new) <= 1e-12:
        return 0.0
    return float(np.log(max(new, 1e-9) / max(old, 1e-9)))


def _below(marked: Mask, tree: TreeColumns) -> Mask:
    """Mask of entries below a marked one."""
    below = np.zeros(len(tree), dtype=np.bool_)
    for lo, hi in zip(tree.level_starts[1:-1], tree.level_starts[2:], strict=True):
        parent = tree.parent[lo:hi]
        below[lo:hi] = marked[parent] | below[parent]
    return below


def _distance(projection: Projection, horizon: int) -> I8:
    """Number of ranks moved; for a leaf that is added or removed, the number of all ranks."""
    before, after = projection.rank_without[horizon], projection.rank_with[horizon]
    one_side = (before == 0) != (after == 0)
    distance: I8 = np.where(one_side, projection.rank_with.shape[1], np.abs(after - before)).astype(np.int64)
    return distance


def indirect_targets(lines: Sequence[TargetLine]) -> list[TargetLine]:
    """Targets of entries that were not edited."""
    return [line for line in lines if not line.is_stated]
