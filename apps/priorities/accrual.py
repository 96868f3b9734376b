"""Usage of accounts and entries at one instant: metric, window and approach applied to raw resources. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apps.engine import decay
from apps.usage.selectors import OpenRecords, UsageArrays

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
HOUR_S = decay.BUCKET_S

# What a metric weighs: the column of a bucket, and the rate of a running job in the same unit a second.
RATES = {"cpu_s": "cpus", "gpu_s": "gpus", "mem_gb_s": "mem_gb", "node_s": "nodes", "billing": "billing"}
APPROACHES = ("historical", "active", "predictive")  # each counts what the one before counts, and more


class JobClassRow(NamedTuple):
    """What a metric may weigh differently."""

    id: int
    queue: str
    partition: str
    qos: str


@dataclass(frozen=True)
class SourceRow:
    """A source as far as scopes ask: `origin` "" is this site."""

    id: int
    slug: str
    origin: str


def window_of(settings: Mapping[str, Any]) -> decay.Window:
    """The engine's window from the policy's settings, without parameters of other laws."""
    law = decay.LAWS[settings["aging"]]
    asked = {parameter.name: settings.get(parameter.name) for parameter in law.parameters}
    return decay.Window(**{**asked, "length_s": settings["length_s"], "aging": law.name})


def class_factor(row: JobClassRow, factors: Sequence[Mapping[str, Any]]) -> float:
    """The product of all factors whose queue, partition and QOS are those of the class, or empty."""
    product = 1.0
    for given in factors:
        if all(given[name] in ("", getattr(row, name)) for name in ("queue", "partition", "qos")):
            product *= given["factor"]
    return product


def class_factors(ids: I8, classes: Mapping[int, JobClassRow], factors: Sequence[Mapping[str, Any]]) -> F8:
    """The factor of each row's class."""
    if not factors or not len(ids):
        return np.ones(len(ids))
    distinct, place = np.unique(ids, return_inverse=True)
    return np.array([class_factor(classes[one], factors) for one in distinct.tolist()])[place]


@dataclass(frozen=True, eq=False)
class AccountUsage:
    """What each account used by source, shape (accounts, sources), in the policy's metric, one array an approach.

    has_demand: (accounts,) the account has a running or a waiting job.
    """

    by_approach: Mapping[str, F8]
    has_demand: npt.NDArray[np.bool_]


def usage_of_accounts(
    *,
    usage: UsageArrays,
    opened: OpenRecords,
    account_ids: I8,
    sources: Sequence[SourceRow],
    classes: Mapping[int, JobClassRow],
    metric: Mapping[str, Any],
    window: decay.Window,
    as_of_s: float,
    known_until_s: float | None = None,
) -> AccountUsage:
    """Sum what counts at `as_of_s`. `account_ids` ascending; rows of other accounts or sources are not allowed.

    known_until_s: the instant up to which open jobs are known to have run, `as_of_s` unless given.

    historical: buckets, weighted by age. active: and the elapsed part of running jobs, hour by hour alike.
    predictive: and what they may still use of what they requested, at full weight.
    """
    source_ids = np.array(sorted(source.id for source in sources), dtype=np.int64)
    shape = (len(account_ids), len(source_ids))

    def cells(accounts: I8, of_sources: I8) -> I8:
        cell: I8 = np.searchsorted(account_ids, accounts) * shape[1] + np.searchsorted(source_ids, of_sources)
        return cell

    def gather(cell: I8, amount: F8) -> F8:
        return np.bincount(cell, weights=amount, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    cell = cells(usage.account_id, usage.source_id)
    # Sums of doubles depend on their order: this one doesn't depend on how the database lies on its disk.
    order = np.lexsort((usage.job_class_id, usage.hour_epoch, cell))
    amount = _amount(usage, metric) * class_factors(usage.job_class_id, classes, metric["class_factors"])
    amount = amount * decay.bucket_weights(usage.hour_epoch, as_of_s, window)
    historical = gather(cell[order], amount[order])

    open_cell = cells(opened.account_id, opened.source_id)
    rate = _amount(opened, metric)
    rate = rate * class_factors(opened.job_class_id, classes, metric["class_factors"])
    known_s = as_of_s if known_until_s is None else known_until_s
    is_running = opened.is_running & (opened.start_epoch < known_s)
    elapsed = _elapsed(np.where(is_running, opened.start_epoch, known_s), rate, known_s, as_of_s, window)
    remaining = _remaining(opened, rate, is_running, known_s)
    open_order = np.lexsort((remaining, elapsed, open_cell))
    active = historical + gather(open_cell[open_order], elapsed[open_order])
    predictive = active + gather(open_cell[open_order], remaining[open_order])
    has_demand = np.zeros(shape[0], dtype=np.bool_)
    has_demand[np.searchsorted(account_ids, opened.account_id)] = True
    return AccountUsage(dict(zip(APPROACHES, (historical, active, predictive), strict=True)), has_demand)


def usage_of_scope(
    accounts: AccountUsage, *, scope: str, narrowed: Sequence[str], sources: Sequence[SourceRow], approach: str
) -> F8:
    """What each account used as one scope counts it: `local` is this site's sources, `global` all; `narrowed` fewer."""
    ordered = sorted(sources, key=lambda source: source.id)
    counts = np.array(
        [(scope == "global" or not source.origin) and (not narrowed or source.slug in narrowed) for source in ordered],
        dtype=np.bool_,
    )
    total: F8 = accounts.by_approach[approach][:, counts].sum(axis=1)
    return total


def _amount(rows: UsageArrays | OpenRecords, metric: Mapping[str, Any]) -> F8:
    """The weighted sum of the resources of each row: of buckets in all, of open records a second."""
    total = np.zeros(len(rows.account_id))
    for resource, rate in RATES.items():
        weight = metric["weights"].get(resource, 0.0)
        if weight:
            total += weight * getattr(rows, resource if isinstance(rows, UsageArrays) else rate)
    return total


def steady_use_s(from_s: float, as_of_s: float, window: decay.Window) -> float:
    """What a steady use of one a second between the two comes to at `as_of_s`, hour by hour."""
    start_s = np.array([min(from_s, as_of_s)])
    return float(_elapsed(start_s, np.ones(1), as_of_s, as_of_s, window)[0])


def _elapsed(start_s: F8, rate: F8, until_s: float, as_of_s: float, window: decay.Window) -> F8:
    """What ran from `start_s` to `until_s` comes to at `as_of_s`, each hour weighted by its age; 0 for no time."""
    first = np.floor(start_s / HOUR_S)
    last = np.ceil(until_s / HOUR_S)  # exclusive
    if window.reach_s is not None:  # hours that no longer count needn't be made
        first = np.maximum(first, np.floor((as_of_s - window.reach_s) / HOUR_S) - 1)
    n_hours = np.maximum(last - first, 0).astype(np.int64)
    job = np.repeat(np.arange(len(start_s)), n_hours)
    within = np.arange(int(n_hours.sum())) - np.repeat(np.cumsum(n_hours) - n_hours, n_hours)
    hour_s = (first[job] + within) * HOUR_S
    seconds = np.minimum(until_s, hour_s + HOUR_S) - np.maximum(start_s[job], hour_s)
    weighted = np.maximum(seconds, 0.0) * decay.bucket_weights(hour_s, as_of_s, window)
    total: F8 = rate * np.bincount(job, weights=weighted, minlength=len(start_s))
    return total


def _remaining(opened: OpenRecords, rate: F8, is_running: npt.NDArray[np.bool_], as_of_s: float) -> F8:
    """What running jobs may still use: requested less elapsed; nothing where no time was requested."""
    elapsed_s = np.where(is_running, as_of_s - opened.start_epoch, 0.0)
    left_s = np.where(np.isnan(opened.requested_s), 0.0, opened.requested_s - elapsed_s)
    left: F8 = np.where(is_running, rate * np.maximum(left_s, 0.0), 0.0)
    return left
