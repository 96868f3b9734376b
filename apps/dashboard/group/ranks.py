"""Whose rank in the whole policy would change with what a lead typed, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.dashboard.algorithm.words import decides_by_levels
from apps.dashboard.shell import presentation
from apps.policies.operations.apply import Operation
from apps.priorities.change_effects import MOST_RANKED_AT_ONCE, simulate_operations
from apps.priorities.selectors.group import GroupPage

_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Move:
    """A rank now and then; "–" for none."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class RankEffect:
    """moves: the furthest few of `n_moved`, among those that the reader sees."""

    root: str
    n_moved: int
    moves: Sequence[Move]
    above_decides: bool

    @property
    def n_more(self) -> int:
        return self.n_moved - len(self.moves)


def rank_effect(page: GroupPage, operations: Sequence[Operation]) -> RankEffect | None:
    """None without edits, before anything is computed, and of trees too large to rank while somebody types."""
    if not operations or len(page.view.tree) > MOST_RANKED_AT_ONCE:
        return None
    found = simulate_operations(page.view, operations)
    if found is None:
        return None
    moved = [each for each in found if each["rank_before"] != each["rank_after"]]
    return RankEffect(
        root=page.policy_name,
        n_moved=len(moved),
        moves=[
            Move(each["path"].rpartition("/")[2], _rank(each["rank_before"]), _rank(each["rank_after"]))
            for each in moved[:_MOST_SHOWN]
        ],
        above_decides=page.parent is not None and decides_by_levels(page.algorithm),
    )


def _rank(rank: int | None) -> str:
    return presentation.UNKNOWN if rank is None else presentation.count(rank)
