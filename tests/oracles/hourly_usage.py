"""A slow twin of usage over time in exact fractions: a job hour by hour, and what an hour weighs in a window.

The hours of a job are whole quanta of 1/1024 core-second: each ends at the rounded sum of all so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from math import ceil
from typing import Any
from zoneinfo import ZoneInfo

HOUR_S = 3600
QUANTA = 1024  # of a core-second


@dataclass(frozen=True)
class Job:
    """One that has ended; seconds since 1970."""

    start_s: int | Fraction
    end_s: int | Fraction
    cpus: float

    def by_hour(self) -> Iterator[tuple[int, Fraction]]:
        """The start of each hour and the core-seconds in it."""
        before = 0
        for start_s in range(int(self.start_s // HOUR_S) * HOUR_S, ceil(self.end_s), HOUR_S):
            ran_s = min(self.end_s, start_s + HOUR_S) - self.start_s
            so_far = round(Fraction(self.cpus) * ran_s * QUANTA)
            yield start_s, Fraction(so_far - before, QUANTA)
            before = so_far


def usage_at(job: Job, window: dict[str, Any], as_of_s: int) -> Fraction:
    """What is left of a job: hours that have begun and ended after the last reset, by their age since they ended."""
    reset_s = last_reset_s(window, as_of_s)
    return sum(
        (
            core_s * weight(window, max(0, as_of_s - start_s - HOUR_S))
            for start_s, core_s in job.by_hour()
            if start_s < as_of_s and start_s + HOUR_S > reset_s
        ),
        Fraction(0),
    )


def last_reset_s(window: dict[str, Any], as_of_s: int) -> float:
    """The newest quarter hour at or before `as_of_s` that begins a local period, walking back; −∞ without resets."""
    if "reset" not in window:
        return -math.inf
    zone = ZoneInfo(window["reset_zone"])
    quarter_s = as_of_s // 900 * 900
    while True:
        local, before = (datetime.fromtimestamp(at_s, zone) for at_s in (quarter_s, quarter_s - 900))
        if local.date() > before.date() and _BEGINS[window["reset"]](local):
            return quarter_s
        quarter_s -= 900


_BEGINS: dict[str, Callable[[datetime], bool]] = {
    "daily": lambda local: True,
    "weekly": lambda local: local.isoweekday() == 7,
    "monthly": lambda local: local.day == 1,
    "quarterly": lambda local: local.day == 1 and local.month in (1, 4, 7, 10),
    "yearly": lambda local: (local.month, local.day) == (1, 1),
}


def weight(window: dict[str, Any], age_s: int) -> Fraction:
    """By the formulas of decay functions; a power of 2 as a double, else exact."""
    length_s = window["length_s"]
    if length_s is not None and age_s >= length_s:
        return Fraction(0)
    match window["aging"]:
        case "none":
            return Fraction(1)
        case "exponential":
            return Fraction(2.0 ** (-age_s / window["half_life_s"]))
        case "linear":
            return 1 - Fraction(age_s, length_s)
        case "step":
            n_steps: int = age_s // window["granularity_s"]
            return Fraction(window["factor"]) ** n_steps
    raise ValueError(window["aging"])
