"""Follow-up of a publication for one reader: the recompute that activates it, and the resulting rank changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.utils.translation import gettext as _

from apps.core.errors import NotFound
from apps.pages.changes.review.reviewed_change import Reason, ReviewPage
from apps.policies.models import Policy, Revision
from apps.policies.recompute_runs import KIND, subject_of
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.models import Snapshot
from apps.priorities.recompute.comparison import Comparison, ComputedTree, Side, compare, matching_indexes
from apps.priorities.recompute.totals import simulate_totals_or_none
from apps.priorities.selectors.rows import newest_or_none, open_view
from apps.priorities.sentences.numbers import change_shares
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.runs.models import Run

State = Literal["waiting", "running", "slow", "failed", "done"]
FOLLOWED_FOR = timedelta(days=14)
MOST_RANK_MOVES = 1_000  # of an answer
MOST_EXPECTED = 20_000  # entries of a policy for which ranks are predicted until the recompute has finished
_DEFAULT_S = 5.0  # assumed duration until a recompute has been measured
_SLOW_AFTER_S = 30.0
_SLOW_TIMES = 10
I8 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankMove:
    """One leaf whose rank changes. group: its ancestor below the root. step: name of the entry whose target decides,
    empty for none; targets: its targets among siblings before and after. expected: the rank in the preview.
    """

    uid: UUID
    name: str
    path: str
    group: UUID
    group_name: str
    before: int
    after: int
    expected: int | None
    reason: Reason
    step: str
    targets: tuple[float, float] | None

    @property
    def places(self) -> int:
        """Number of ranks gained; < 0 lost."""
        return self.before - self.after

    @property
    def sentence(self) -> str:
        """The deciding target before and after, or the other cause of the move."""
        if self.targets is not None and self.step:
            shares = change_shares(*self.targets)
            values = {"name": self.step, "old": shares.before, "new": shares.after}
            if self.reason in ("diluted", "enlarged"):
                return _("Target of %(name)s: %(old)s to %(new)s, because shares of its siblings changed.") % values
            return _("Target of %(name)s: %(old)s to %(new)s.") % values
        if self.reason == "moved":
            return _("%(name)s moved in the tree.") % {"name": self.step}
        if self.reason == "settings":
            return _("Settings of the policy changed.")
        if self.places > 0:
            return _("Others fell behind; its targets are unchanged.")
        return _("Others moved ahead; its targets are unchanged.")


@dataclass(frozen=True, eq=False)
class Followup:
    """served: the snapshot that schedulers get now. after: the first snapshot of the revision or a later one, once this
    process serves it. before: the last snapshot of an earlier revision.
    """

    page: ReviewPage
    revision: Revision
    run: Run | None
    served: ServedSnapshot | None
    before: ServedSnapshot | None
    after: ServedSnapshot | None

    @property
    def now(self) -> datetime:
        return self.page.now

    @property
    def state(self) -> State:
        if self.after is not None:
            return "done"
        if self.run is not None and self.run.state == Run.State.FAILED:
            return "failed"
        if self.now > self.due_at + timedelta(seconds=max(_SLOW_AFTER_S, _SLOW_TIMES * self.expected_duration_s)):
            return "slow"
        return "running" if self.run is not None and self.run.state == Run.State.RUNNING else "waiting"

    @cached_property
    def expected_duration_s(self) -> float:
        """Duration of the last recompute."""
        known = Snapshot.objects.filter(policy=self.revision.policy, is_live=True).order_by("-pk")
        duration_s = known.values_list("duration_s", flat=True).first()
        return _DEFAULT_S if duration_s is None else max(float(duration_s), 1.0)

    @property
    def due_at(self) -> datetime:
        """When the new priorities are expected, by the run and its expected duration."""
        start_at = self.revision.published_at if self.run is None else self.run.started_at or self.run.due_at
        return start_at + timedelta(seconds=self.expected_duration_s + _DEFAULT_S)

    @cached_property
    def computed(self) -> ComputedTree | None:
        """Priorities as computed, else predicted from the usage of the previous snapshot; None if neither exists."""
        return self.expected if self.after is None else ComputedTree(self.after.tree, self.after.values)

    @cached_property
    def _compared(self) -> Comparison | None:
        if self.computed is None or self.before is None:
            return None
        return compare(ComputedTree(self.before.tree, self.before.values), self.computed)

    @cached_property
    def expected(self) -> ComputedTree | None:
        """Priorities predicted from the usage of the previous snapshot; None for a large policy, or if prediction
        fails.
        """
        tree = self.page.review.after
        if self.before is None or len(tree) > MOST_EXPECTED:
            return None
        algorithm = self.page.review.wanted.algorithm
        result = simulate_totals_or_none(self.before.totals, tree, algorithm=algorithm)
        return None if result is None else ComputedTree(tree, result)

    @cached_property
    def moves(self) -> Sequence[RankMove]:
        """Visible leaves whose rank changes, largest moves first."""
        if self._compared is None or self.computed is None:
            return []
        tree, review = self.computed.tree, self.page.review
        before, now = self._compared.before.leaf_rank, self._compared.after.leaf_rank
        moved = np.flatnonzero(self._is_comparable & (now != before)[: len(tree)])
        moved = moved[np.argsort(-np.abs(before[moved] - now[moved]), kind="stable")]
        after_at, before_at = matching_indexes(tree, review.after), matching_indexes(tree, review.before)
        return [
            self._move(tree, i, (int(before[i]), int(now[i])), int(after_at[i]), int(before_at[i]))
            for i in moved.tolist()
        ]

    @property
    def n_moved(self) -> int:
        return len(self.moves)

    @property
    def furthest_moves(self) -> Sequence[RankMove]:
        return self.moves[:MOST_RANK_MOVES]

    @cached_property
    def n_compared(self) -> int:
        """Number of visible leaves with a rank before and after."""
        return int(self._is_comparable.sum())

    @cached_property
    def _is_comparable(self) -> Mask:
        """Mask of the computed tree's entries that the reader may see and that have a rank before and after."""
        if self._compared is None or self.computed is None:
            return np.zeros(0, dtype=np.bool_)
        rows = slice(len(self.computed.tree))
        before, now = self._compared.before.leaf_rank[rows], self._compared.after.leaf_rank[rows]
        return self._visible(self.computed.tree) & (now > 0) & (before > 0)

    @property
    def n_ranked(self) -> int:
        """Number of leaves with a rank in the new priorities."""
        return 0 if self.computed is None else int(_leaf_ranks(self.computed).astype(np.bool_).sum())

    @property
    def n_differ(self) -> int:
        """Number of moves that differ from the prediction."""
        return sum(move.expected not in (None, move.after) for move in self.moves) if self.after is not None else 0

    @cached_property
    def _expected_by_uid(self) -> dict[UUID, int]:
        if self.expected is None:
            return {}
        rank = _leaf_ranks(self.expected)
        return {self.expected.tree.uuid(i): int(rank[i]) for i in np.flatnonzero(rank).tolist()}

    def _visible(self, tree: TreeColumns) -> Mask:
        """Mask of entries that the reader may see now."""
        view = open_view(policy_slug=self.revision.policy.slug, actor=self.page.actor, is_live=True)
        at = matching_indexes(tree, view.tree)
        return np.asarray(np.where(at >= 0, view.shows_numbers[at], False), dtype=np.bool_)

    def _move(self, tree: TreeColumns, i: int, ranks: tuple[int, int], after_at: int, before_at: int) -> RankMove:
        before, now = ranks
        top = [*tree.ancestors(i), i][1]
        reason, step = self.page.reason(after_at, before_at, before - now)
        moves = self.page.review.moves
        has_targets = step >= 0 and not (np.isnan(moves.old[step]) or np.isnan(moves.new[step]))
        return RankMove(
            uid=tree.uuid(i),
            name=tree.name[i],
            path=tree.path(i),
            group=tree.uuid(top),
            group_name=tree.name[top],
            before=before,
            after=now,
            expected=self._expected_by_uid.get(tree.uuid(i)) if self.after is not None else None,
            reason=reason,
            step=self.page.review.after.name[step] if step >= 0 else "",
            targets=(float(moves.old[step]), float(moves.new[step])) if has_targets else None,
        )


def followup_of(page: ReviewPage) -> Followup:
    """Return the follow-up; NotFound if the change set isn't published."""
    revision = Revision.objects.filter(change_set=page.review.change_set).defer("tree").first()
    if revision is None:
        raise NotFound(f"Change set {page.review.change_set.pk} isn't published.")
    policy, number = page.review.policy, revision.number
    revision.policy = policy
    served = newest_or_none(policy.slug)
    live = Snapshot.objects.filter(policy=policy, is_live=True).order_by("pk").values_list("pk", flat=True)
    first = live.filter(revision_number__gte=number).first()
    older = live.filter(revision_number__lt=number)
    last = older.last() if first is None else older.filter(pk__lt=first).last()
    is_served = first is not None and served is not None and served.revision >= number
    return Followup(
        page=page,
        revision=revision,
        run=_run(policy, revision.published_at),
        served=served,
        before=None if last is None else store.load_stored(policy.slug, last),
        after=store.load_stored(policy.slug, first) if is_served and first is not None else None,
    )


def _run(policy: Policy, published_at: datetime) -> Run | None:
    """The newest run that can include the revision."""
    runs = Run.objects.filter(kind=KIND, subject=subject_of(policy), arguments={}).order_by("-pk")
    newest = runs.first()
    if newest is None or (newest.finished_at is not None and newest.finished_at < published_at):
        return None
    return newest


def _leaf_ranks(computed: ComputedTree) -> I8:
    """Ranks of the leaves, (n,); 0 for all other entries."""
    return Side(np.arange(len(computed.tree)), computed.numbers).leaf_rank
