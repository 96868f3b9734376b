"""Demand that continues, hour by hour: the slow twin of projections. Loops and dictionaries, no arrays."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

HOUR, DAY = 3600.0, 86_400.0
Cell = tuple[int, int]  # account, source


@dataclass(frozen=True)
class Bucket:
    account: int
    source: int
    hour: float
    cpu_s: float
    gpu_s: float


@dataclass(frozen=True)
class Job:
    """A job that runs since `start`, or waits (None)."""

    account: int
    source: int
    start: float | None
    cpus: float
    requested_s: float | None


def weight(hour: float, now: float, window: dict[str, Any]) -> float:
    """Of a bucket of one hour at `now`."""
    if hour >= now:
        return 0.0
    age = max(0.0, now - (hour + HOUR))
    if window["length_s"] is not None and age >= window["length_s"]:
        return 0.0
    if window["aging"] == "exponential":
        return math.exp(-math.log(2) * age / window["half_life_s"])
    if window["aging"] == "linear":
        return float(1 - age / window["length_s"])
    if window["aging"] == "step":
        return float(window["factor"] ** (age // window["granularity_s"]))
    assert window["aging"] == "none"
    return 1.0


def _spread(start: float, end: float) -> dict[float, float]:
    """Seconds of each hour between two instants."""
    found, hour = {}, math.floor(start / HOUR) * HOUR
    while hour < end:
        found[hour] = min(end, hour + HOUR) - max(start, hour)
        hour += HOUR
    return found


def used_ahead(
    buckets: list[Bucket],
    jobs: list[Job],
    *,
    weights: dict[str, float],
    window: dict[str, Any],
    approach: str,
    as_of: float,
    days: int,
) -> dict[Cell, float]:
    """Usage of each account by source, `days` after `as_of`."""
    then, since = as_of + days * DAY, as_of - 14 * DAY
    amounts: dict[Cell, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    a_second: dict[Cell, float] = defaultdict(float)
    whole: dict[Cell, float] = defaultdict(float)
    for row in buckets:
        amount = weights["cpu_s"] * row.cpu_s + weights["gpu_s"] * row.gpu_s
        amounts[row.account, row.source][row.hour] += amount
        if row.hour >= since:
            a_second[row.account, row.source] += amount / (14 * DAY)
    for job in jobs:
        if approach == "historical" or job.start is None or job.start >= as_of:
            continue
        cell, rate = (job.account, job.source), weights["cpu_s"] * job.cpus
        for hour, seconds in _spread(job.start, as_of).items():
            amounts[cell][hour] += rate * seconds
        a_second[cell] += rate * (as_of - max(job.start, since)) / (14 * DAY)
        if approach == "predictive" and job.requested_s is not None:
            whole[cell] += rate * max(0.0, job.requested_s - (as_of - job.start))
    for cell, rate in a_second.items():
        for hour, seconds in _spread(as_of, then).items():
            amounts[cell][hour] += rate * seconds
    found = {cell: whole[cell] for cell in {*amounts, *whole}}
    for cell, hours in amounts.items():
        found[cell] += sum(amount * weight(hour, then, window) for hour, amount in hours.items())
    return found
