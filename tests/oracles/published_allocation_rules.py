"""Rules of allocations as three centres publish them, written from their texts alone, to compare ours with.

- NeSI, "Allocation Aging" (support.nesi.org.nz/hc/en-gb/articles/360000205095):
  A(t) = A(t0) − MAX(U(t), INT((t − t0) / Δn) × A(t0) × Δn / ΔT), with Δn of 90 days.
- NREL, "Resource Allocation Reductions", since 2021 (nrel.gov/hpc/resource-allocation-reduction.html): after each of
  the first three quarters the use of the year to date is compared with the planned use of the year to date. Used more
  than 70 % of it: nothing is removed; 55 to 70 %: 20 % of what was planned to date; 40 to 55 %: 35 %; 20 to 40 %: 55 %;
  less: 80 %. Reductions are cumulative over the year, and not compounding: 10,000 removed before and 25,000 by the
  table now, 15,000 are removed. Its table says nothing of use at a bound, which counts as above it here.
- Jefferson Lab, allocations of the fair share (scicomp.jlab.org/docs/allocationFs), by a summary of it, since its text
  wasn't at hand: shares are adjusted each month as allocations are consumed, and projects without any left come last.
"""

from __future__ import annotations

from datetime import date


def nesi_available(awarded: float, starts_on: date, duration_days: int, today: date, used: float) -> float:
    """A(t)."""
    interval = 90
    whole_intervals = int((today - starts_on).days / interval)
    return awarded - max(used, whole_intervals * awarded * interval / duration_days)


def nrel_removed(planned_by_quarter: list[float], used_to_date: list[float]) -> list[float]:
    """AUs removed after the first, second and third quarter."""
    removed: list[float] = []
    for quarter in range(3):
        planned = sum(planned_by_quarter[: quarter + 1])
        used = used_to_date[quarter] / planned
        if used >= 0.70:
            suggested = 0.0
        elif used >= 0.55:
            suggested = 0.20 * planned
        elif used >= 0.40:
            suggested = 0.35 * planned
        elif used >= 0.20:
            suggested = 0.55 * planned
        else:
            suggested = 0.80 * planned
        removed.append(max(suggested - sum(removed), 0.0))
    return removed


def jlab_shares(allocated: dict[str, float], used: dict[str, float], points: float) -> dict[str, float]:
    """All shares of the projects, divided by what is left of their allocations."""
    left = {project: max(allocated[project] - used[project], 0.0) for project in allocated}
    return {project: points * left[project] / sum(left.values()) for project in allocated}
