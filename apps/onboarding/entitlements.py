"""What was promised beside what was used, day by day, before there is a policy: numbers in, numbers out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.algorithms.inputs import prepare
from apps.mapping.rules.resolver import UNMAPPED
from apps.policies.formats.whole_shares import competitors
from apps.policies.tree.columns import TreeColumns
from apps.priorities.snapshots.states import State, out_of_tolerance, state_of

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TopEntry:
    """One that competes at the top: its part of what all of them used in the period, beside the one promised.

    time_in_band: of the days with usage, how many ended with it within its band; None where there were none.
    """

    entry: int
    target: float
    actual: float
    used_core_s: float
    state: State
    time_in_band: float | None


@dataclass(frozen=True)
class Ledger:
    """All of them, the largest target first. Times and deviations are of days from the first with usage on.

    mean_deviation: of days, Σ target · |actual − target|, a fraction; time_in_band: Σ target · the entry's. Actual is
    here what had been used up to the day's end, fading by the half-life.
    """

    top: Sequence[TopEntry]
    n_days: int
    time_in_band: float | None
    mean_deviation: float | None
    used_core_s: float


def top_entries(tree: TreeColumns) -> I8:
    """Entries that compete with each other at the top: children of the root, and of such that pass shares on."""
    is_top = (competitors(tree) == 0) & ~tree.inherit
    is_top[0] = False
    return np.flatnonzero(is_top)


def top_of(tree: TreeColumns, top: I8) -> I8:
    """For each entry the place in `top` of the one that it is or lies below; −1 for none."""
    place = np.full(len(tree), -1, dtype=np.int64)
    place[top] = np.arange(len(top))
    for lo, hi in zip(tree.level_starts[1:-1], tree.level_starts[2:], strict=True):
        own = place[lo:hi]
        place[lo:hi] = np.where(own >= 0, own, place[tree.parent[lo:hi]])
    return place


def hold_against(
    tree: TreeColumns, entry_of_account: I4, used: F8, *, half_life_days: float, tolerance: Mapping[str, Any]
) -> Ledger:
    """used: (accounts, days) core-seconds, the last day last; accounts without an entry count for nobody."""
    top = top_entries(tree)
    prepared = prepare(tree.engine_tree())
    target = prepared.spread(prepared.target)[top]
    place = top_of(tree, top)[np.maximum(entry_of_account, 0)]
    place = np.where(entry_of_account == UNMAPPED, -1, place)
    by_day = np.zeros((len(top), used.shape[1]))
    np.add.at(by_day, place[place >= 0], used[place >= 0])
    whole = by_day.sum(axis=1)
    total = float(whole.sum())
    actual = whole / total if total else np.zeros(len(top))
    begun = np.flatnonzero(by_day.sum(axis=0))
    days = by_day[:, begun[0] :] if len(begun) else by_day[:, :0]
    inside, deviation = _by_day(days, target, half_life_days=half_life_days, tolerance=tolerance)
    order = np.lexsort((np.arange(len(top)), -target))
    entries = [
        TopEntry(
            entry=int(top[i]), target=float(target[i]), actual=float(actual[i]), used_core_s=float(whole[i]),
            state=state_of(
                target=float(target[i]), actual=float(actual[i]) if total else None, has_usage=whole[i] > 0,
                has_demand=False, tolerance=tolerance,
            ),
            time_in_band=float(inside[i].mean()) if inside.shape[1] else None,
        )
        for i in order.tolist()
    ]  # fmt: skip
    has_days = inside.shape[1] > 0
    return Ledger(
        top=entries,
        n_days=inside.shape[1],
        time_in_band=float((target * inside.mean(axis=1)).sum()) if has_days else None,
        mean_deviation=float(deviation.mean()) if has_days else None,
        used_core_s=total,
    )


def _by_day(
    days: F8, target: F8, *, half_life_days: float, tolerance: Mapping[str, Any]
) -> tuple[npt.NDArray[np.bool_], F8]:
    """(entries, days) whether within the band at the day's end, and (days,) the share-weighted deviation then."""
    kept = 0.5 ** (1 / half_life_days)
    faded = np.zeros(len(target))
    inside = np.zeros(days.shape, dtype=np.bool_)
    deviation = np.zeros(days.shape[1])
    for day in range(days.shape[1]):
        faded = faded * kept + days[:, day]
        actual = faded / faded.sum()
        nobody = np.zeros(len(target), dtype=np.bool_)
        inside[:, day] = ~out_of_tolerance(target, actual, is_idle=nobody, tolerance=tolerance)
        deviation[day] = float((target * np.abs(actual - target)).sum())
    return inside, deviation
