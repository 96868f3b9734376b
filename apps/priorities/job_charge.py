"""The charge of one job, term by term: resources × weights × factors, hour by hour with its age. Pure.

Equal to the recompute, which sums hours of many jobs: a finished job counts as its buckets, spread by the
module that fills them; a running one by its elapsed part, second by second, and what it may still use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from apps.engine import decay
from apps.priorities.metering import JobClassRow, class_factor, class_rules, site_factor
from apps.usage import buckets

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
HOUR_S = decay.BUCKET_S
State = Literal["pending", "running", "finished", "withdrawn"]
Why = Literal["counts", "after", "old", "held"]  # of an hour: counts, begins after the instant, left the window, held
_US = 1_000_000


@dataclass(frozen=True)
class JobFacts:
    """A job, or a charge that is none, as it was recorded. rates: of each resource, a second. Times since 1970."""

    state: State
    start_us: int | None
    end_us: int | None
    rates: Mapping[str, float]
    mem_mb: float
    requested_s: float | None
    job_class: JobClassRow
    site: str


@dataclass(frozen=True, slots=True)
class ResourceLine:
    """rate × seconds = amount; amount × weight = weighted."""

    resource: str
    rate: float
    amount_s: float
    weight: float
    weighed: float


@dataclass(frozen=True, slots=True)
class HourLine:
    """One hour: what was charged in it in the metric, its age, the weight of that age, and what it counts now."""

    hour_s: int
    charged: float
    age_s: float
    weight: float
    counted: float
    why: Why


@dataclass(frozen=True)
class JobCharge:
    """In the metric's unit. charged: before aging, up to the instant or to its end. historical, active, predictive:
    what it counts now under each approach. requested_left_s: what it asked for and hasn't run yet, never below 0.
    """

    lines: tuple[ResourceLine, ...]
    class_rules: tuple[Mapping[str, Any], ...]
    class_factor: float
    site_factor: float
    hours: tuple[HourLine, ...]
    run_s: float
    charged: float
    requested_left_s: float
    predicted: float
    historical: float
    active: float
    predictive: float

    def counted(self, approach: str) -> float:
        return float(getattr(self, approach))


def charge_of(
    facts: JobFacts,
    *,
    metric: Mapping[str, Any],
    window: decay.Window,
    as_of_s: float,
    held: Sequence[tuple[float, float]] = (),
) -> JobCharge:
    """The charge at `as_of_s`.

    held: from–to of hours excluded because another source reported them, too.
    """
    hour_s, amounts, run_s = _hours(facts, as_of_s)
    of_class = class_factor(facts.job_class, metric["class_factors"])
    of_site = site_factor(facts.site, metric["site_factors"])
    weights = np.array([metric["weights"].get(name, 0.0) for name in buckets.RESOURCES])
    factor = of_class * of_site
    # Amounts are multiples of 2⁻¹⁰, so that their sum is exact in any order; weighing one sum is how buckets do it.
    charged = (amounts * weights).sum(axis=1) * factor
    aging = decay.bucket_weights(hour_s, as_of_s, window)
    is_held = np.zeros(len(hour_s), np.bool_)
    if facts.state == "finished":
        for from_s, to_s in held:
            is_held |= (hour_s >= from_s) & (hour_s < to_s)
    counted = np.where(is_held, 0.0, charged * aging)
    lines = tuple(
        ResourceLine(
            name,
            facts.rates[name],
            float(amounts[:, at].sum()),
            float(weights[at]),
            float(amounts[:, at].sum() * weights[at]),
        )
        for at, name in enumerate(buckets.RESOURCES)
        if facts.rates[name] or weights[at]
    )
    total = math.fsum(counted.tolist())
    is_running = facts.state == "running" and run_s > 0
    left_s = _left_s(facts, run_s) if is_running else 0.0
    rate = sum(facts.rates[name] * weights[at] for at, name in enumerate(buckets.RESOURCES)) * factor
    return JobCharge(
        lines=lines,
        class_rules=tuple(class_rules(facts.job_class, metric["class_factors"])),
        class_factor=of_class,
        site_factor=of_site,
        hours=tuple(_hour_lines(hour_s, charged, aging, counted, is_held, as_of_s)),
        run_s=run_s,
        charged=math.fsum(charged.tolist()),
        requested_left_s=left_s,
        predicted=float(rate) * left_s,
        historical=total if facts.state == "finished" else 0.0,
        active=total,
        predictive=total + float(rate) * left_s,
    )


def _hours(facts: JobFacts, as_of_s: float) -> tuple[I8, F8, float]:
    """The hours in which it ran, the amounts (hours, resources) of each, and for how long it ran; of a running job
    those up to the instant.
    """
    nothing = np.zeros(0, np.int64), np.zeros((0, len(buckets.RESOURCES))), 0.0
    if facts.start_us is None or facts.state not in ("running", "finished"):
        return nothing
    if facts.state == "finished":
        if facts.end_us is None:
            return nothing
        return _spread(facts, facts.start_us, facts.end_us)
    start_s = facts.start_us / _US
    if start_s >= as_of_s:
        return nothing
    first, last = math.floor(start_s / HOUR_S), math.ceil(as_of_s / HOUR_S)
    hour_s = np.arange(first, last, dtype=np.int64) * HOUR_S
    seconds = np.minimum(as_of_s, hour_s + HOUR_S) - np.maximum(start_s, hour_s)
    rates = np.array([facts.rates[name] for name in buckets.RESOURCES])
    return hour_s, seconds[:, None] * rates, as_of_s - start_s


def _spread(facts: JobFacts, start_us: int, end_us: int) -> tuple[I8, F8, float]:
    """As the buckets have it, by their own function."""

    def one(value: float) -> F8:
        return np.array([value], dtype=np.float64)

    none = np.zeros(1, np.int64)
    delta = buckets.compute_delta(
        buckets.FinishedRecords(
            sign=np.ones(1, np.int64),
            is_job=np.ones(1, np.int64),
            account_id=none,
            job_class_id=none,
            site=np.array([b""]),
            start_us=np.array([start_us]),
            end_us=np.array([end_us]),
            cpus=one(facts.rates["cpu_s"]),
            gpus=one(facts.rates["gpu_s"]),
            mem_mb=one(facts.mem_mb),
            nodes=one(facts.rates["node_s"]),
            billing=one(facts.rates["billing"]),
        )
    )
    amounts = delta.amounts[:, : len(buckets.RESOURCES)] / buckets.QUANTA
    used = amounts.any(axis=1)  # the hour that begins as it ends holds its number only
    return delta.hour[used] * HOUR_S, amounts[used], (end_us - start_us) / _US


def _left_s(facts: JobFacts, run_s: float) -> float:
    """Nothing where no time was requested, and never below 0 however long it runs on."""
    return 0.0 if facts.requested_s is None else max(facts.requested_s - run_s, 0.0)


def _hour_lines(
    hour_s: I8, charged: F8, aging: F8, counted: F8, is_held: npt.NDArray[np.bool_], as_of_s: float
) -> list[HourLine]:
    found = []
    rows = zip(*(column.tolist() for column in (hour_s, charged, aging, counted, is_held)), strict=True)
    for begins_s, amount, weight, now, held in rows:
        age_s = max(0.0, as_of_s - (begins_s + HOUR_S))
        why: Why = "held" if held else "after" if begins_s >= as_of_s else "old" if not weight else "counts"
        found.append(HourLine(begins_s, amount, age_s, weight, now, why))
    return found
