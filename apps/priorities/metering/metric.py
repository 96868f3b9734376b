"""What a policy counts of raw resources: a weighted sum, times the factors of class and site. Pure.

The metric of a row = (Σ weight · resource) × class factor × site factor. The class factor is the product of all rules
that fit: one rule may speak of a queue, another of a QOS, and a job in both bears both. A site has one factor at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apps.usage.selectors import OpenRecords, UsageArrays

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]

# The inputs of a metric: the column of a bucket, and the rate of a running job in the same unit a second.
RATES = {"cpu_s": "cpus", "gpu_s": "gpus", "mem_gb_s": "mem_gb", "node_s": "nodes", "billing": "billing"}
CLASS_NAMES = ("queue", "partition", "qos")


class JobClassRow(NamedTuple):
    """Classes that a metric may weight."""

    id: int
    queue: str
    partition: str
    qos: str


def amounts(rows: UsageArrays | OpenRecords, *, metric: Mapping[str, Any], classes: Mapping[int, JobClassRow]) -> F8:
    """What each row comes to in the policy's metric, before aging: of buckets in all, of open records a second.

    Raises ValueError where usage was loaded without a resource that counts.
    """
    missing = set(weighed(metric)) - set(rows.resources if isinstance(rows, UsageArrays) else RATES)
    if missing:
        raise ValueError(f"Usage was loaded without {', '.join(sorted(missing))}.")
    total = np.zeros(len(rows.account_id))
    for resource, rate in RATES.items():
        weight = metric["weights"].get(resource, 0.0)
        if weight:
            total += weight * getattr(rows, resource if isinstance(rows, UsageArrays) else rate)
    total = total * class_factors(rows.job_class_id, classes, metric["class_factors"])
    if metric["site_factors"] and len(total):
        total = total * site_factors(rows.site_code, rows.sites, metric["site_factors"])
    return total


def weighed(metric: Mapping[str, Any]) -> list[str]:
    """The resources that count."""
    return [resource for resource in RATES if metric["weights"].get(resource, 0.0)]


def class_rules(row: JobClassRow, factors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rules that fit a class: those whose queue, partition and QOS are its own, or empty."""
    return [given for given in factors if all(given[name] in ("", getattr(row, name)) for name in CLASS_NAMES)]


def class_factor(row: JobClassRow, factors: Sequence[Mapping[str, Any]]) -> float:
    """The product of all rules that fit, in their order; 1 without any, and 0 as soon as one of them is 0."""
    product = 1.0
    for given in class_rules(row, factors):
        product *= given["factor"]
    return product


def class_factors(ids: I8, classes: Mapping[int, JobClassRow], factors: Sequence[Mapping[str, Any]]) -> F8:
    """The factor of each row's class."""
    if not factors or not len(ids):
        return np.ones(len(ids))
    distinct, place = np.unique(ids, return_inverse=True)
    return np.array([class_factor(classes[one], factors) for one in distinct.tolist()])[place]


def site_names(metric: Mapping[str, Any]) -> tuple[str, ...]:
    """The sites that have a factor of their own: usage has to be loaded with their codes."""
    return tuple(given["site"] for given in metric["site_factors"])


def site_factor(site: str, factors: Sequence[Mapping[str, Any]]) -> float:
    """Of the site as its records name it; 1 for any other, and for records that name none."""
    return next((float(given["factor"]) for given in factors if given["site"] == site), 1.0)


def site_factors(code: I8 | None, sites: Sequence[str], factors: Sequence[Mapping[str, Any]]) -> F8:
    """The factor of each row's site. `code` is 1 for the first of `sites`, 0 for any other site.

    Raises ValueError where usage was loaded without a site that has a factor: it would count as another one.
    """
    missing = {given["site"] for given in factors} - set(sites)
    if missing or code is None:
        raise ValueError(f"Usage was loaded without the sites {', '.join(sorted(missing))}.")
    of_code = np.array([1.0, *(site_factor(site, factors) for site in sites)])
    return of_code[code]
