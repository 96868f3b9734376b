"""Facts of a level that all faces say alike: how many of its entries are on target, and which is furthest off.

Home, convergence, REST, the palette and metrics count with `StateCount`; what is said of a level now is of all of its
entries that the reader sees, whether a page lists them or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from apps.engine.convergence import mean_deviation
from apps.engine.target_state import Side, State
from apps.priorities.selectors.rows import F8, PolicyView

OFF_STATES = ("over", "under", "starved", "inferred")
IDLE_STATES = ("idle", "no_demand", "met")


@dataclass(frozen=True, slots=True)
class StateCount:
    """n_on: within their tolerance, with usage or demand. n_idle: without demand. n_all: all that can be compared."""

    n_on: int
    n_idle: int
    n_all: int

    @property
    def n_off(self) -> int:
        return self.n_all - self.n_on - self.n_idle

    @classmethod
    def of(cls, states: Iterable[str]) -> StateCount:
        """Count states of entries or of days; others than these are of entries that can't be compared."""
        known = [state for state in states if state == "on" or state in (*OFF_STATES, *IDLE_STATES)]
        return cls(known.count("on"), sum(state in IDLE_STATES for state in known), len(known))


@dataclass(frozen=True, eq=False)
class LevelFacts:
    """entries: indices of the visible children, in the policy's order. states, deviations: of each; a deviation is
    actual − target as a fraction, NaN where it is unknown or hidden.
    """

    view: PolicyView
    entries: Sequence[int]
    states: Sequence[State]
    deviations: F8

    @cached_property
    def count(self) -> StateCount:
        return StateCount.of(self.states)

    @cached_property
    def compared(self) -> list[int]:
        """Those whose state is known."""
        return [i for i, state in zip(self.entries, self.states, strict=True) if state != "unknown"]

    @cached_property
    def furthest_first(self) -> list[int]:
        """All entries by the distance to their target; unknown ones last, equal ones in the policy's order."""
        distance = np.nan_to_num(np.abs(self.deviations), nan=-1.0)
        return [self.entries[at] for at in np.argsort(-distance, kind="stable").tolist()]

    def off_target(self, *sides: Side) -> list[int]:
        """Those off target on these sides, the furthest first."""
        states = dict(zip(self.entries, self.states, strict=True))
        return [i for i in self.furthest_first if states[i] in sides]

    @property
    def mean_deviation(self) -> float | None:
        """Σ target · |actual − target| / Σ target of those that can be compared, 0..1; None without any, or shares."""
        known = np.isfinite(self.deviations)
        target = np.nan_to_num(self.view.target[0][list(self.entries)], nan=0.0)
        away = np.nan_to_num(self.deviations, nan=0.0)
        mean, has_any = mean_deviation((target + away)[:, None], target[:, None], known[:, None])
        return float(mean[0]) if has_any[0] else None

    @property
    def n_users(self) -> int:
        """How many of those that can be compared are users."""
        tree = self.view.tree
        return sum(tree.kind_names[int(tree.kind_code[i])] == "user" for i in self.compared)


def level_facts(view: PolicyView, at: int) -> LevelFacts:
    """Facts of the visible children of an entry. The caller has checked that the reader sees it."""
    entries = view.visible_children(at)
    return LevelFacts(view, entries, view.states_of(entries), view.deviations_of(entries))
