"""Figures of merit once more, with lists and loops: what apps.engine.convergence says."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

Rows = Sequence[Sequence[float]]
Flags = Sequence[Sequence[bool]]
EDGE = 1e-12


def share(used: Sequence[float], peers: Sequence[float], n_days: int) -> list[float]:
    found = []
    for day in range(len(used)):
        first = max(0, day - n_days + 1)
        below = sum(peers[first : day + 1])
        found.append(sum(used[first : day + 1]) / below if below > 0 else 0.0)
    return found


def tolerance(target: float, relative: float, points: float) -> float:
    return max(relative * target, points / 100)


def weighted(gaps: Rows, target: Rows, counts: Flags) -> list[float | None]:
    """Of each day the mean weighted by shares; None where no entry with a share counts."""
    found: list[float | None] = []
    for day in range(len(gaps[0]) if gaps else 0):
        there = [i for i in range(len(gaps)) if counts[i][day]]
        weight = sum(target[i][day] for i in there)
        found.append(sum(target[i][day] * gaps[i][day] for i in there) / weight if weight > 0 else None)
    return found


def inside(actual: Sequence[float], target: Sequence[float], band: Sequence[float]) -> list[bool]:
    return [abs(a - t) <= width + EDGE for a, t, width in zip(actual, target, band, strict=True)]


def half_times(
    actual: Sequence[float], target: Sequence[float], band: Sequence[float]
) -> list[tuple[int, str, int | None]]:
    found: list[tuple[int, str, int | None]] = []
    for at in range(1, len(target)):
        if target[at] == target[at - 1]:
            continue
        end = at + 1
        while end < len(target) and target[end] == target[at]:
            end += 1
        gap = abs(actual[at - 1] - target[at])
        if gap <= band[at] + EDGE:
            found.append((at, "no_gap", None))
            continue
        for first in range(at, end):
            if all(abs(actual[day] - target[day]) <= gap / 2 + EDGE for day in range(first, end)):
                found.append((at, "reached", first - at + 1))
                break
        else:
            found.append((at, "not_yet" if end == len(target) else "overtaken", None))
    return found


def state(*, actual: float, target: float, band: float, used: float, waited: float, knows: bool, competes: bool) -> str:
    if not competes:
        return "ABSENT"
    if used == 0 and waited == 0:
        return "NO_DEMAND"
    if actual > target + band + EDGE:
        return "OVER"
    if actual >= target - band - EDGE:
        return "ON"
    if waited > 0:
        return "STARVED"
    return "MET" if knows else "INFERRED"


def demand_gap(actual: Sequence[float], target: Sequence[float], states: Sequence[str]) -> list[float]:
    """Of one day, entry by entry."""
    found = []
    for i, here in enumerate(states):
        others = any(each == "STARVED" for j, each in enumerate(states) if j != i)
        gap = 0.0
        if here in ("STARVED", "INFERRED") and target[i] > actual[i]:
            gap = target[i] - actual[i]
        if here != "ABSENT" and others and actual[i] > target[i]:
            gap = actual[i] - target[i]
        found.append(gap)
    return found


def course(
    actual: Sequence[float], target: Sequence[float], band: Sequence[float], states: Sequence[str]
) -> tuple[str, int]:
    """Where an entry is heading on the last day, and the day since when; 0 where there is no such day.

    It moves away if it is further off than at its nearest since it was last inside, by more than half the band, and at
    nine tenths of its furthest since then or beyond.
    """
    days = range(len(actual))
    known = [day for day in days if not isnan(actual[day]) and not isnan(target[day])]
    last = len(actual) - 1
    if last not in known:
        return "unknown", 0
    if states[last] in ("on", "met", "no_demand", ""):
        return ("on" if states[last] == "on" else "idle"), 0
    if states[last] == "starved":
        return "starved", max((day + 1 for day in days if states[day] != "starved"), default=0)
    away = {day: abs(actual[day] - target[day]) for day in known}
    first = max((day for day in known if away[day] <= band[day] + EDGE), default=known[0])
    since = [day for day in known if day >= first]
    nearest = max(day for day in since if away[day] == min(away[each] for each in since))
    is_further = away[last] - away[nearest] > band[last] / 2
    if is_further and away[last] >= 0.9 * max(away[day] for day in since if day >= nearest):
        return "moves_away", nearest
    return ("approaching" if away[last] < 0.9 * max(away[day] for day in since) else "steady"), first
