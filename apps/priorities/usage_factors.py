"""What an hour of a resource counts: weights of resources and kinds, factors of job classes and of sites. Pure.

A kind of GPU with a weight of its own, such as gpu:h100, counts by it, and all other GPUs by the weight of gpu_s:

    w(gpu_s) · (gpu_s − Σ kinds with a weight) + Σ w(kind) · kind

So a new kind counts by the default until it has a weight, and a weight of 0 excludes one. Other kinds, such as energy
or license/matlab, count by their own weight alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apps.core.resource_kinds import sum_of
from apps.usage.arrays import OpenRecords, UsageArrays
from apps.usage.own_times import EndedRecords

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
# Inputs of a metric: the column of a bucket, and the column of an open job that holds its rate per second.
RATES = {"cpu_s": "cpus", "gpu_s": "gpus", "mem_gb_s": "mem_gb", "node_s": "nodes", "billing": "billing"}
CLASS_NAMES = ("queue", "partition", "qos")
UNIT_AMOUNTS = {"cpu_s": "core_s", "gpu_s": "gpu_s", "mem_gb_s": "mem_gb_s", "node_s": "node_s", "billing": "billing_s"}
CORE_S, WEIGHTED = "core_s", "weighted_s"


class JobClassRow(NamedTuple):
    """A job class (queue, partition and QOS) that a metric may have a factor for."""

    id: int
    queue: str
    partition: str
    qos: str


def weighted_amounts(
    rows: UsageArrays | OpenRecords | EndedRecords, *, metric: Mapping[str, Any], classes: Mapping[int, JobClassRow]
) -> F8:
    """Amount of each row in the policy's metric, before decay: of buckets in total, of jobs per second.

    Raises ValueError if the rows were loaded without a resource that the metric weights.
    """
    missing = set(weighted_resources(metric)).difference(rows.resources) if isinstance(rows, UsageArrays) else set()
    if missing:
        raise ValueError(f"Usage was loaded without {', '.join(sorted(missing))}.")
    total = np.zeros(len(rows.account_id))
    for term in weighted_terms(metric["weights"]):
        total += term.weight * term.rest(lambda name: _amounts_of(rows, name))
    total = total * class_factors(rows.job_class_id, classes, metric["class_factors"])
    if metric["site_factors"] and len(total):
        total = total * site_factors(rows.site_code, rows.sites, metric["site_factors"])
    return total


class Term(NamedTuple):
    """A term of a weighted sum. parts: kinds of the resource that have a weight of their own, and don't count here."""

    resource: str
    weight: float
    parts: tuple[str, ...] = ()

    def rest(self, amounts_of: Callable[[str], F8]) -> F8:
        """The amounts of the resource without its parts. Fractions of devices, rounded one by one, go to 0 at least."""
        amount = amounts_of(self.resource)
        if not self.parts:
            return amount
        rest: F8 = np.maximum(amount - sum(amounts_of(part) for part in self.parts), 0.0)
        return rest


def terms_of(weights: Mapping[str, float]) -> tuple[Term, ...]:
    """The terms of a metric's or a unit's weights: of each resource, then of kinds by name."""
    kinds = sorted(weights.keys() - RATES.keys())
    of_sum = {resource: tuple(kind for kind in kinds if sum_of(kind) == resource) for resource in RATES}
    resources = (Term(resource, weights.get(resource, 0.0), of_sum[resource]) for resource in RATES)
    return (*resources, *(Term(kind, weights[kind]) for kind in kinds))


def weighted_terms(weights: Mapping[str, float]) -> tuple[Term, ...]:
    """The terms that count: those with a weight above 0."""
    return tuple(term for term in terms_of(weights) if term.weight)


def needed_resources(terms: Iterable[Term]) -> tuple[str, ...]:
    """All resources and kinds that these terms are computed from, each once."""
    return tuple(dict.fromkeys(name for term in terms for name in (term.resource, *term.parts)))


def weighted_resources(metric: Mapping[str, Any]) -> list[str]:
    """Resources and kinds that the metric is computed from."""
    return list(needed_resources(weighted_terms(metric["weights"])))


def _amounts_of(rows: UsageArrays | OpenRecords | EndedRecords, name: str) -> F8:
    if isinstance(rows, UsageArrays):
        return rows.amount_of(name)
    amounts: F8 = getattr(rows, RATES[name]) if name in RATES else rows.kinds.get(name, np.zeros(len(rows.account_id)))
    return amounts


def unit_of_usage(metric: Mapping[str, Any]) -> str:
    """The stable name of a metric's unit; `weighted_s` unless it is one resource with weight 1, and all of it."""
    return UNIT_AMOUNTS.get(only_resource(metric["weights"]), WEIGHTED)


def only_resource(weights: Mapping[str, float]) -> str:
    """The resource or kind that is all that counts, with weight 1; "" if there is none."""
    terms = weighted_terms(weights)
    is_one = len(terms) == 1 and terms[0].weight == 1.0 and not terms[0].parts
    return terms[0].resource if is_one else ""


def class_rules(row: JobClassRow, factors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rules that match a class: each of queue, partition and QOS is equal or empty."""
    return [rule for rule in factors if all(rule[name] in ("", getattr(row, name)) for name in CLASS_NAMES)]


def unmatched_factors(factors: Sequence[Mapping[str, Any]], classes: Iterable[JobClassRow]) -> list[Mapping[str, Any]]:
    """Rules that match no known class; probably a name is misspelt."""
    left = list(factors)
    for row in classes:
        fit = class_rules(row, left)
        left = [rule for rule in left if rule not in fit]
        if not left:
            break
    return left


def class_factor(row: JobClassRow, factors: Sequence[Mapping[str, Any]]) -> float:
    """Product of the factors of all matching rules, in their order; 1 without any."""
    product = 1.0
    for rule in class_rules(row, factors):
        product *= rule["factor"]
    return product


def class_factors(ids: I8, classes: Mapping[int, JobClassRow], factors: Sequence[Mapping[str, Any]]) -> F8:
    """Factor of the class of each row."""
    if not factors or not len(ids):
        return np.ones(len(ids))
    distinct, index = np.unique(ids, return_inverse=True)
    return np.array([class_factor(classes[class_id], factors) for class_id in distinct.tolist()])[index]


def site_names(metric: Mapping[str, Any]) -> tuple[str, ...]:
    """Sites that have a factor; usage must be loaded with their codes."""
    return tuple(factor["site"] for factor in metric["site_factors"])


def site_factor(site: str, factors: Sequence[Mapping[str, Any]]) -> float:
    """Factor of a site, by the name in its records; 1 without a rule or a name."""
    return next((float(factor["factor"]) for factor in factors if factor["site"] == site), 1.0)


def site_factors(code: I8 | None, sites: Sequence[str], factors: Sequence[Mapping[str, Any]]) -> F8:
    """Factor of the site of each row. code: 1 for the first of `sites`, 0 for a site that isn't listed.

    Raises ValueError if usage was loaded without the code of a site that has a factor.
    """
    missing = {factor["site"] for factor in factors} - set(sites)
    if missing or code is None:
        raise ValueError(f"Usage was loaded without the sites {', '.join(sorted(missing))}.")
    of_code = np.array([1.0, *(site_factor(site, factors) for site in sites)])
    return of_code[code]
