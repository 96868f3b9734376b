"""Usage of accounts and entries at one instant: metric, window and approach applied to raw resources. Pure.

What a policy counts of raw resources: a weighted sum, times the factors of class and site. Pure.
The metric of a row = (Σ weight · resource) × class factor × site factor. The class factor is the product of all rules
that fit: one rule may speak of a queue, another of a QOS, and a job in both bears both. A site has one factor at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from apps.engine import decay
from apps.usage.arrays import OpenRecords, UsageArrays

# --- Metric -----------------------------------------------------------------------------------------------------------
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


def weighted_amounts(
    rows: UsageArrays | OpenRecords, *, metric: Mapping[str, Any], classes: Mapping[int, JobClassRow]
) -> F8:
    """What each row comes to in the policy's metric, before aging: of buckets in all, of open records a second.

    Raises ValueError where usage was loaded without a resource that counts.
    """
    missing = set(weighted_resources(metric)) - set(rows.resources if isinstance(rows, UsageArrays) else RATES)
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


def weighted_resources(metric: Mapping[str, Any]) -> list[str]:
    """The resources that count."""
    return [resource for resource in RATES if metric["weights"].get(resource, 0.0)]


_UNITS = {"cpu_s": "core_s", "gpu_s": "gpu_s", "mem_gb_s": "mem_gb_s", "node_s": "node_s", "billing": "billing_s"}
CORE_S, WEIGHTED = "core_s", "weighted_s"
UNITS = (*_UNITS.values(), WEIGHTED)


def unit_of_usage(metric: Mapping[str, Any]) -> str:
    """The stable name of the unit in which a metric counts; a sum of several resources has none of its own."""
    counted = {name: weight for name, weight in metric["weights"].items() if weight}
    return _UNITS[next(iter(counted))] if list(counted.values()) == [1.0] else WEIGHTED


def class_rules(row: JobClassRow, factors: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rules that fit a class: those whose queue, partition and QOS are its own, or empty."""
    return [given for given in factors if all(given[name] in ("", getattr(row, name)) for name in CLASS_NAMES)]


def unmatched_factors(factors: Sequence[Mapping[str, Any]], classes: Iterable[JobClassRow]) -> list[Mapping[str, Any]]:
    """The rules that fit no class of any job so far: probably a name is misspelt."""
    left = list(factors)
    for row in classes:
        fit = class_rules(row, left)
        left = [given for given in left if given not in fit]
        if not left:
            break
    return left


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


# --- Usage ------------------------------------------------------------------------------------------------------------
HOUR_S = decay.BUCKET_S

APPROACHES = ("historical", "active", "predictive")  # each counts what the one before counts, and more


@dataclass(frozen=True)
class SourceRow:
    """A source as far as scopes ask: `origin` "" is this site."""

    id: int
    slug: str
    origin: str


def window_of(settings: Mapping[str, Any]) -> decay.Window:
    """The engine's window from the policy's settings, without parameters of other decay functions."""
    return decay.Window.of(settings["aging"], settings["length_s"], settings)


@dataclass(frozen=True, eq=False)
class AccountUsage:
    """What each account used by source, shape (accounts, sources), in the policy's metric, one array an approach.

    has_demand: (accounts,) the account has a running or a waiting job. demand_core_s: (accounts,) what its waiting
    jobs request; those without a requested time add nothing.
    """

    by_approach: Mapping[str, F8]
    has_demand: npt.NDArray[np.bool_]
    demand_core_s: F8


@dataclass(frozen=True, eq=False)
class RecordedUsage:
    """Hourly usage and open jobs, with the rows that their ids refer to. account_ids: ascending.

    Rows of other accounts or sources are not allowed.
    """

    usage: UsageArrays
    opened: OpenRecords
    account_ids: I8
    sources: Sequence[SourceRow]
    classes: Mapping[int, JobClassRow]


def usage_of_accounts(
    recorded: RecordedUsage,
    *,
    metric: Mapping[str, Any],
    window: decay.Window,
    as_of_s: float,
    known_until_s: float | None = None,
    is_order_independent: bool = True,
) -> AccountUsage:
    """Sum what counts at `as_of_s`. `account_ids` ascending; rows of other accounts or sources are not allowed.

    known_until_s: the instant up to which open jobs are known to have run, `as_of_s` unless given; for sources with
    an earlier last contact, until then. is_order_independent: bits don't depend on the order of rows, which takes
    most of the time; without it the last digit may differ.

    historical: buckets, weighted by age. active: and the elapsed part of running jobs, hour by hour alike.
    predictive: and what they may still use of what they requested, at full weight.
    """
    usage, opened, account_ids = recorded.usage, recorded.opened, recorded.account_ids
    source_ids = np.array(sorted(source.id for source in recorded.sources), dtype=np.int64)
    shape = (len(account_ids), len(source_ids))

    def cells(accounts: I8, of_sources: I8) -> I8:
        return indexes_in(account_ids, accounts) * shape[1] + indexes_in(source_ids, of_sources)

    def gather(cell: I8, amount: F8) -> F8:
        return np.bincount(cell, weights=amount, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    cell = cells(usage.account_id, usage.source_id)
    amount = weighted_amounts(usage, metric=metric, classes=recorded.classes) * decay.bucket_weights(
        usage.hour_epoch, as_of_s, window
    )
    order = _settled_order(cell, amount) if is_order_independent else slice(None)
    historical = gather(cell[order], amount[order])

    open_cell = cells(opened.account_id, opened.source_id)
    rate = weighted_amounts(opened, metric=metric, classes=recorded.classes)
    now_s = as_of_s if known_until_s is None else known_until_s
    known_s = (
        np.full(len(opened.cpus), now_s)
        if opened.known_until_epoch is None
        else np.minimum(opened.known_until_epoch, now_s)
    )
    is_running = opened.is_running & (opened.start_epoch < known_s)
    elapsed = _elapsed(np.where(is_running, opened.start_epoch, known_s), rate, known_s, as_of_s, window)
    remaining = _remaining(opened, rate, is_running, known_s)
    open_order = np.lexsort((remaining, elapsed, open_cell))
    active = historical + gather(open_cell[open_order], elapsed[open_order])
    predictive = active + gather(open_cell[open_order], remaining[open_order])
    return accounts_with_demand(
        dict(zip(APPROACHES, (historical, active, predictive), strict=True)), opened, account_ids
    )


def accounts_with_demand(by_approach: Mapping[str, F8], opened: OpenRecords, account_ids: I8) -> AccountUsage:
    """Usage of accounts together with the demand of their open jobs."""
    has_demand = np.zeros(len(account_ids), dtype=np.bool_)
    has_demand[np.searchsorted(account_ids, opened.account_id)] = True
    return AccountUsage(by_approach, has_demand, _asked_for(opened, account_ids))


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


def indexes_in(ids: I8, wanted: I8) -> I8:
    """Where each of `wanted` is in the ascending `ids`; by a table, which beats a search where numbers lie close."""
    if not len(ids) or ids[-1] > 8 * len(ids) + 10_000:
        return np.searchsorted(ids, wanted)
    table = np.zeros(int(ids[-1]) + 1, dtype=np.int64)
    table[ids] = np.arange(len(ids))
    return table[wanted]


def _settled_order(cell: I8, amount: F8) -> I8:
    """An order for sums that doesn't depend on how the database lies on its disk: by amount, which is all they see.

    Sums of doubles depend on the order within a cell alone, so that cells of one row need none.
    """
    n_rows = np.bincount(cell) if len(cell) else np.zeros(0, np.int64)
    crowded = np.flatnonzero(n_rows[cell] > 1) if len(cell) else cell
    order = np.arange(len(cell))
    order[crowded] = crowded[np.lexsort((amount[crowded], cell[crowded]))]
    return order


def _asked_for(opened: OpenRecords, account_ids: I8) -> F8:
    """Core-seconds that each account's waiting jobs ask for, from any source: demand, and never usage."""
    asked_s = np.where(opened.is_running | np.isnan(opened.requested_s), 0.0, opened.requested_s)
    core_s = opened.cpus * asked_s
    order = np.argsort(core_s, kind="stable")
    place = np.searchsorted(account_ids, opened.account_id)
    return np.bincount(place[order], weights=core_s[order], minlength=len(account_ids)).astype(np.float64)


def steady_use_s(from_s: float, as_of_s: float, window: decay.Window) -> float:
    """What a steady use of one a second between the two comes to at `as_of_s`, hour by hour."""
    start_s = np.array([min(from_s, as_of_s)])
    return float(_elapsed(start_s, np.ones(1), np.array([as_of_s]), as_of_s, window)[0])


def _elapsed(start_s: F8, rate: F8, until_s: F8, as_of_s: float, window: decay.Window) -> F8:
    """What ran from `start_s` to `until_s`, both (jobs,), comes to at `as_of_s`, each hour weighted by its age; 0 for
    no time.
    """
    first = np.floor(start_s / HOUR_S)
    last = np.ceil(until_s / HOUR_S)  # exclusive
    if window.reach_s is not None:  # hours that no longer count needn't be made
        first = np.maximum(first, np.floor((as_of_s - window.reach_s) / HOUR_S) - 1)
    n_hours = np.maximum(last - first, 0).astype(np.int64)
    job = np.repeat(np.arange(len(start_s)), n_hours)
    within = np.arange(int(n_hours.sum())) - np.repeat(np.cumsum(n_hours) - n_hours, n_hours)
    hour_s = (first[job] + within) * HOUR_S
    seconds = np.minimum(until_s[job], hour_s + HOUR_S) - np.maximum(start_s[job], hour_s)
    weighted = np.maximum(seconds, 0.0) * decay.bucket_weights(hour_s, as_of_s, window)
    total: F8 = rate * np.bincount(job, weights=weighted, minlength=len(start_s))
    return total


def _remaining(opened: OpenRecords, rate: F8, is_running: npt.NDArray[np.bool_], until_s: F8) -> F8:
    """What running jobs may still use: requested less elapsed; nothing where no time was requested."""
    elapsed_s = np.where(is_running, until_s - opened.start_epoch, 0.0)
    left_s = np.where(np.isnan(opened.requested_s), 0.0, opened.requested_s - elapsed_s)
    left: F8 = np.where(is_running, rate * np.maximum(left_s, 0.0), 0.0)
    return left
