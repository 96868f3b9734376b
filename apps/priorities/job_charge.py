"""The charge of one job, term by term: resources × weights × factors, hour by hour with its age. Pure.

Charges add up to the usage in a recompute, which sums hours of many jobs. A finished job is spread over hours by the
module that fills the buckets. A running job counts by its elapsed seconds, and by its remaining requested time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from apps.core.resource_kinds import NO_KINDS, Kinds, rates_of
from apps.engine import decay
from apps.engine.decay_functions import BUCKET_S
from apps.engine.slurm_charge import PeriodCharge
from apps.priorities.usage_factors import (
    RATES,
    JobClassRow,
    Term,
    class_factor,
    class_rules,
    site_factor,
    terms_of,
)
from apps.usage import bucket_deltas

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
HOUR_S = BUCKET_S
State = Literal["pending", "running", "finished", "withdrawn"]
# Of an hour: it counts, begins after the instant, is outside the window, or is held.
Why = Literal["counts", "after", "old", "held"]
_US = 1_000_000


@dataclass(frozen=True)
class JobFacts:
    """A job, or a charge without a job, as recorded. rates: of each resource, per second. kinds: see resource_kinds."""

    state: State
    start_us: int | None
    end_us: int | None
    rates: Mapping[str, float]
    mem_mb: float
    requested_s: float | None
    job_class: JobClassRow
    site: str
    part_before_us: int | None = None  # start of the part before, of a job that was resized
    known_until_s: float = math.inf  # until which a running job counts
    kinds: Kinds = NO_KINDS


@dataclass(frozen=True, slots=True)
class ResourceLine:
    """One resource of a job: rate × seconds = amount_s; amount_s × weight = weighted.

    A kind with a weight of its own has its own line, and isn't part of the line of its resource.
    """

    resource: str
    rate: float
    amount_s: float
    weight: float
    weighted: float


@dataclass(frozen=True, slots=True)
class HourLine:
    """One hour of a job: charge in the metric, age, decay weight, usage = charge × weight (0 if excluded)."""

    hour_s: int
    charged: float
    age_s: float
    weight: float
    usage: float
    why: Why

    @property
    def at(self) -> datetime:
        """Start of the hour."""
        return datetime.fromtimestamp(self.hour_s, UTC)


@dataclass(frozen=True)
class JobCharge:
    """The charge of a job in the metric's unit.

    charged: before decay, until the instant or the job's end. historical, active, predictive: decayed usage under each
    approach. requested_left_s: requested less elapsed time, never below 0. predicted: usage of that time.
    """

    resources: tuple[ResourceLine, ...]
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

    def usage(self, approach: str) -> float:
        return float(getattr(self, approach))


def charge_of(
    facts: JobFacts,
    *,
    metric: Mapping[str, Any],
    window: decay.Window,
    as_of_s: float,
    held: Sequence[tuple[float, float]] = (),
    own_times_since_s: float = math.inf,
) -> JobCharge:
    """Compute the charge at `as_of_s`. held: (from, to) of hours that are excluded because another source has them.

    own_times_since_s: hours from this one on are charged by the job's own times, if it has finished; a running job
    always is, where the window charges by period.
    """
    hour_s, run_s, amounts = _hours(facts, min(as_of_s, facts.known_until_s))
    of_class = class_factor(facts.job_class, metric["class_factors"])
    of_site = site_factor(facts.site, metric["site_factors"])
    terms = _terms_of(facts, metric["weights"])
    factor = of_class * of_site
    # Amounts are multiples of 2⁻¹⁰, so that sums are exact in any order; buckets apply weights to sums, too.
    of_terms = [term.rest(amounts.__getitem__) for term in terms]
    charged = (
        sum((term.weight * each for term, each in zip(terms, of_terms, strict=True)), np.zeros(len(hour_s))) * factor
    )
    aging = decay.bucket_weights(hour_s, as_of_s, window)
    if window.charges_by_period and facts.start_us is not None and len(hour_s):
        by_own = _weights_of_own_times(facts, hour_s, window, as_of_s)
        aging = np.where((hour_s >= own_times_since_s) | (facts.state == "running"), by_own, aging)
    is_held = np.zeros(len(hour_s), np.bool_)
    if facts.state == "finished":
        for from_s, to_s in held:
            is_held |= (hour_s >= from_s) & (hour_s < to_s)
    usage = np.where(is_held, 0.0, charged * aging)
    rates = _rates(facts, run_s)
    of_rates = [float(term.rest(lambda name: np.array([rates[name]]))[0]) for term in terms]
    resources = tuple(
        ResourceLine(term.resource, rate, float(each.sum()), term.weight, float(each.sum() * term.weight))
        for term, rate, each in zip(terms, of_rates, of_terms, strict=True)
        if rate or term.weight
    )
    total = math.fsum(usage.tolist())
    is_running = facts.state == "running" and run_s > 0
    left_s = _left_s(facts, run_s) if is_running else 0.0
    rate = sum(term.weight * each for term, each in zip(terms, of_rates, strict=True)) * factor
    return JobCharge(
        resources=resources,
        class_rules=tuple(class_rules(facts.job_class, metric["class_factors"])),
        class_factor=of_class,
        site_factor=of_site,
        hours=tuple(_hour_lines(hour_s, charged, aging, usage, is_held, as_of_s)),
        run_s=run_s,
        charged=math.fsum(charged.tolist()),
        requested_left_s=left_s,
        predicted=float(rate) * left_s,
        historical=total if facts.state == "finished" else 0.0,
        active=total,
        predictive=total + float(rate) * left_s,
    )


def _terms_of(facts: JobFacts, weights: Mapping[str, float]) -> list[Term]:
    """The terms of a metric for this job: of all resources, and of the kinds that it holds and that have a weight."""
    held = {name for name, _amount in facts.kinds}
    own = {name: weight for name, weight in weights.items() if name in RATES or name in held}
    return list(terms_of({**dict.fromkeys(RATES, 0.0), **own}))


def _rates(facts: JobFacts, run_s: float) -> dict[str, float]:
    """Rates of resources and kinds per second. A total has a mean rate once the job has ended, and none before."""
    return {**facts.rates, **dict(rates_of(facts.kinds, run_s if facts.state == "finished" else 0.0))}


def _hours(facts: JobFacts, as_of_s: float) -> tuple[I8, float, dict[str, F8]]:
    """Hours in which a job ran, the run time in seconds, of a running job until now, and by resource or kind the amount
    in each hour.
    """
    nothing = np.zeros(0, np.int64), 0.0, _by_name(0, {})
    if facts.start_us is None or facts.state not in ("running", "finished"):
        return nothing
    if facts.state == "finished":
        if facts.end_us is None:
            return nothing
        return _spread_over_hours(facts, facts.start_us, facts.end_us)
    start_s = facts.start_us / _US
    if start_s >= as_of_s:
        return nothing
    first, last = math.floor(start_s / HOUR_S), math.ceil(as_of_s / HOUR_S)
    hour_s = np.arange(first, last, dtype=np.int64) * HOUR_S
    seconds = np.minimum(as_of_s, hour_s + HOUR_S) - np.maximum(start_s, hour_s)
    rates = _rates(facts, 0.0)
    return hour_s, as_of_s - start_s, _by_name(len(hour_s), {name: seconds * rate for name, rate in rates.items()})


def _by_name(n: int, amounts: Mapping[str, F8]) -> dict[str, F8]:
    return defaultdict(lambda: np.zeros(n), amounts)


def _spread_over_hours(facts: JobFacts, start_us: int, end_us: int) -> tuple[I8, float, dict[str, F8]]:
    """Spread a finished job over hours, by the function that fills the buckets."""

    def one(value: float) -> F8:
        return np.array([value], dtype=np.float64)

    none = np.zeros(1, np.int64)
    delta = bucket_deltas.compute_delta(
        bucket_deltas.FinishedRecords(
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
            kinds=bucket_deltas.kind_rates(none + 1, [NO_KINDS, facts.kinds], np.array([end_us - start_us])),
        )
    )
    resources = delta.amounts[:, : len(bucket_deltas.RESOURCES)] / bucket_deltas.QUANTA
    amounts = dict(zip(bucket_deltas.RESOURCES, resources.T, strict=True))
    for name in np.unique(delta.kinds.kind).tolist():
        chosen = delta.kinds.kind == name
        amounts[name.decode()] = np.zeros(len(delta.hour))
        amounts[name.decode()][delta.kinds.at[chosen]] = delta.kinds.amount[chosen] / bucket_deltas.QUANTA
    # An hour that begins when the job ends holds only the job count.
    used = np.any([amount != 0 for amount in amounts.values()], axis=0)
    run_s = (end_us - start_us) / _US
    return (
        delta.hour[used] * HOUR_S,
        run_s,
        _by_name(int(used.sum()), {name: each[used] for name, each in amounts.items()}),
    )


def _weights_of_own_times(facts: JobFacts, hour_s: I8, window: decay.Window, as_of_s: float) -> F8:
    """Part of each hour's seconds that is left, as Slurm charges the job."""
    start_s = (facts.start_us or 0) / _US
    end_s = facts.end_us / _US if facts.end_us is not None and facts.state != "running" else as_of_s
    end_s = min(end_s, facts.known_until_s)
    edges_s = np.append(hour_s, hour_s[-1] + HOUR_S).astype(np.float64)
    charge = PeriodCharge(window, as_of_s)
    before_s = np.array([math.nan if facts.part_before_us is None else facts.part_before_us / _US])
    charged_from = charge.charged_from(np.array([start_s]), before_s)
    until_s = charge.charged_until_s(np.maximum(edges_s, charged_from), charged_from, np.array([end_s]))
    until_s[0] = 0.0
    seconds = np.minimum(edges_s[1:], end_s) - np.maximum(edges_s[:-1], start_s)
    weights: F8 = np.diff(until_s) / np.where(seconds > 0, seconds, 1.0)
    return weights


def _left_s(facts: JobFacts, run_s: float) -> float:
    """Requested less elapsed time; 0 without a requested time, or if the job runs longer."""
    return 0.0 if facts.requested_s is None else max(facts.requested_s - run_s, 0.0)


def _hour_lines(
    hour_s: I8, charged: F8, aging: F8, usage: F8, is_held: npt.NDArray[np.bool_], as_of_s: float
) -> list[HourLine]:
    lines = []
    rows = zip(*(column.tolist() for column in (hour_s, charged, aging, usage, is_held)), strict=True)
    for begins_s, amount, weight, now, held in rows:
        age_s = max(0.0, as_of_s - (begins_s + HOUR_S))
        why: Why = "held" if held else "after" if begins_s >= as_of_s else "old" if not weight else "counts"
        lines.append(HourLine(begins_s, amount, age_s, weight, now, why))
    return lines
