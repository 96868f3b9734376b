"""A slow twin of the reckoning: one job at a time, one hour after the other, by the words of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HOUR = 3600


@dataclass(frozen=True)
class Job:
    """state: pending, running or finished. Times in whole seconds since 1970; rates: of each resource, a second."""

    user: str
    source: str
    origin: str
    site: str
    queue: str
    partition: str
    qos: str
    state: str
    start: int
    end: int
    rates: Mapping[str, float]
    requested: int | None


def age_weight(hour: int, window: Mapping[str, Any], as_of: int) -> float:
    """Of the hour that begins at `hour`."""
    if hour >= as_of:
        return 0.0
    age = max(0, as_of - (hour + HOUR))
    length = window["length_s"]
    if length is not None and age >= length:
        return 0.0
    if window["aging"] == "exponential":
        return float(2.0 ** (-age / window["half_life_s"]))
    if window["aging"] == "linear":
        return float(1.0 - age / length)
    if window["aging"] == "step":
        return float(window["factor"] ** (age // window["granularity_s"]))
    assert window["aging"] == "none"
    return 1.0


def rate_in_metric(job: Job, metric: Mapping[str, Any]) -> float:
    """What one second of it counts."""
    rate = 0.0
    for resource, weight in metric["weights"].items():
        rate += job.rates[resource] * weight
    for rule in metric["class_factors"]:
        if (
            rule["queue"] in ("", job.queue)
            and rule["partition"] in ("", job.partition)
            and rule["qos"] in ("", job.qos)
        ):
            rate *= rule["factor"]
    for rule in metric["site_factors"]:
        if rule["site"] == job.site:
            rate *= rule["factor"]
    return rate


def counted(job: Job, settings: Mapping[str, Any], as_of: int, approach: str) -> float:
    """What a job counts at `as_of` under an approach."""
    rate = rate_in_metric(job, settings["metric"])
    if job.state == "pending":
        return 0.0
    if job.state == "running":
        if approach == "historical" or job.start >= as_of:
            return 0.0
        total = _by_hours(job.start, as_of, rate, settings["window"], as_of)
        if approach == "predictive" and job.requested is not None:
            total += rate * max(0, job.requested - (as_of - job.start))
        return total
    return _by_hours(job.start, job.end, rate, settings["window"], as_of)


def of_user(
    jobs: Iterable[Job], user: str, settings: Mapping[str, Any], as_of: int, scope: str, narrowed: Iterable[str] = ()
) -> float:
    """What a user's jobs count where children are compared by one scope."""
    total = 0.0
    for job in jobs:
        if job.user != user:
            continue
        if scope == "local" and job.origin != "":
            continue
        if narrowed and job.source not in narrowed:
            continue
        total += counted(job, settings, as_of, settings["approach"][scope])
    return total


def demand_core_s(jobs: Iterable[Job], user: str) -> float:
    """Core-seconds that waiting jobs ask for."""
    return sum(job.rates["cpu_s"] * (job.requested or 0) for job in jobs if job.user == user and job.state == "pending")


def _by_hours(start: int, end: int, rate: float, window: Mapping[str, Any], as_of: int) -> float:
    total, hour = 0.0, start // HOUR * HOUR
    while hour < end:
        seconds = min(end, hour + HOUR) - max(start, hour)
        total += rate * seconds * age_weight(hour, window, as_of)
        hour += HOUR
    return total
