"""Daily series made by hand, for tests of what reads them: what people used, summed up the tree of today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest

from apps.policies.models import Policy
from apps.policies.tree.stored import TreeColumns, load_tree
from apps.series.daily_series import F8, DailySeries, SeriesDays, SeriesState

READERS = tuple(f"apps.series.{name}" for name in ("convergence.query", "convergence.selectors", "visible_days"))


@dataclass
class HandMade:
    """used: core-seconds a day by path of a leaf, of all days up to `to_on`. decay: of yesterday's level, a day.

    waited: the same of what jobs that wait ask for; `targets`: each path's target day by day, where that
    changed; revisions: current on each day, 0 before the first one.
    """

    to_on: date
    used: Mapping[str, Sequence[float]]
    decay: float = 0.5
    waited: Mapping[str, Sequence[float]] = field(default_factory=dict)
    targets: Mapping[str, Sequence[float]] = field(default_factory=dict)
    revisions: Sequence[int] = ()
    knows_waiting: bool = True
    state: SeriesState | None = None

    @property
    def n_days(self) -> int:
        return len(next(iter(self.used.values())))

    @property
    def on(self) -> tuple[date, ...]:
        return tuple(self.to_on - timedelta(days=self.n_days - 1 - n) for n in range(self.n_days))

    def series_state(self, policy: Policy) -> SeriesState:
        return self.state or SeriesState(self.on[0], self.to_on)

    def load_children(self, policy: Policy, parent_uid: UUID, *, from_on: date, to_on: date) -> DailySeries:
        tree = load_tree(policy)
        parent = tree.index_of_uid(parent_uid)
        children = [] if parent is None else list(tree.children(parent))
        return self._made(tree, children, from_on, to_on)

    def load_series(self, policy: Policy, uids: Sequence[UUID], *, from_on: date, to_on: date) -> DailySeries:
        tree = load_tree(policy)
        places = [tree.index_of_uid(uid) for uid in uids]
        return self._made(tree, [i for i in places if i is not None], from_on, to_on)

    def _made(self, tree: TreeColumns, rows: list[int], from_on: date, to_on: date) -> DailySeries:
        keep = np.array([from_on <= day <= to_on for day in self.on], dtype=np.bool_)
        used, waited = self._summed(tree, self.used), self._summed(tree, self.waited)
        level = np.zeros_like(used)
        for day in range(self.n_days):
            level[:, day] = used[:, day] + (level[:, day - 1] * self.decay if day else 0.0)
        above = [max(int(tree.parent[i]), 0) for i in rows]
        revision = np.array(self.revisions or [1] * self.n_days, dtype=np.int32)
        ends = [datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC).timestamp() for day in self.on]
        days = SeriesDays(
            tuple(day for day, kept in zip(self.on, keep, strict=True) if kept),
            np.array(ends)[keep],
            np.maximum(revision, 1)[keep],
            (revision == 0)[keep],
            used[0][keep],
            level[0][keep],
        )
        target = np.array([self._target(tree, i) for i in rows]).reshape(len(rows), self.n_days)
        whole = np.array([self._target(tree, i) * self._above(tree, i) for i in rows]).reshape(target.shape)
        competes = np.array([[i > 0] * self.n_days for i in rows], dtype=np.bool_).reshape(target.shape)
        n = np.array([int(tree.n_children[i]) or 1 for i in rows])
        return DailySeries(
            tuple(tree.uuid(i) for i in rows),
            days,
            used[rows][:, keep],
            used[above][:, keep],
            level[rows][:, keep],
            level[above][:, keep],
            target[:, keep],
            whole[:, keep],
            np.ones_like(competes)[:, keep],
            competes[:, keep],
            waited[rows][:, keep],
            np.full(competes.shape, self.knows_waiting)[:, keep],
            np.where(used[rows] > 0, n[:, None], 0).astype(np.int32)[:, keep],
            (used[rows] / n[:, None])[:, keep],
        )

    def _summed(self, tree: TreeColumns, amounts: Mapping[str, Sequence[float]]) -> F8:
        found = np.zeros((len(tree), self.n_days))
        for path, values in amounts.items():
            i = tree.index_of_path(path)
            assert i is not None, path
            for at in (*tree.ancestors(i), i):
                found[at] += np.asarray(values, dtype=np.float64)
        return found

    def _target(self, tree: TreeColumns, i: int) -> F8:
        if i == 0:
            return np.ones(self.n_days)
        if tree.path(i) in self.targets:
            return np.asarray(self.targets[tree.path(i)], dtype=np.float64)
        beside = tree.children(int(tree.parent[i]))
        share = float(tree.shares[i]) / float(tree.shares[beside.start : beside.stop].sum())
        return np.full(self.n_days, share)

    def _above(self, tree: TreeColumns, i: int) -> F8:
        found = np.ones(self.n_days)
        for at in tree.ancestors(i)[1:]:
            found = found * self._target(tree, at)
        return found


def put_in_place(made: HandMade, monkeypatch: pytest.MonkeyPatch) -> HandMade:
    """Everything that reads the series reads this one."""
    for module in READERS:
        for name in ("load_children", "load_series", "series_state"):
            monkeypatch.setattr(f"{module}.{name}", getattr(made, name), raising=False)
    return made


def plain_series(
    first_on: date,
    *,
    used: Sequence[Sequence[float]],
    target: Sequence[float],
    decay: float = 0.5,
    waited: Sequence[Sequence[float]] | None = None,
    root_used: Sequence[float] | None = None,
) -> DailySeries:
    """Some siblings without a tree: what they used day by day, and constant targets."""
    own = np.array(used, dtype=np.float64).reshape(len(target), -1)
    n = own.shape[1]
    level = np.zeros_like(own)
    for day in range(n):
        level[:, day] = own[:, day] + (level[:, day - 1] * decay if day else 0.0)
    on = tuple(first_on + timedelta(days=day) for day in range(n))
    root = own.sum(axis=0) if root_used is None else np.array(root_used)
    days = SeriesDays(on, np.arange(n, dtype=np.float64), np.ones(n, np.int32), np.zeros(n, np.bool_), root, root)
    whole = np.ones(own.shape, dtype=np.bool_)
    wanted = np.repeat(np.array(target, dtype=np.float64)[:, None], n, axis=1)
    everybody = [np.broadcast_to(one.sum(axis=0), own.shape) for one in (own, level)]
    asked = np.zeros_like(own) if waited is None else np.array(waited, dtype=np.float64)
    return DailySeries(
        tuple(UUID(int=n + 1) for n in range(len(target))),
        days,
        own,
        everybody[0],
        level,
        everybody[1],
        wanted,
        wanted,
        whole,
        whole,
        asked,
        whole,
        np.ones(own.shape, np.int32),
        own,
    )
