"""Usage of accounts at one instant: the policy's metric, window and approach applied to raw resources. Pure.

Metric of a row = (Σ weight · resource) × class factor × site factor. The class factor is the product of all matching
rules: a job that matches one rule by its queue and another by its QOS gets both. A site has at most one factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from django.utils.translation import gettext as _

from apps.core.errors import Invalid
from apps.engine import decay
from apps.engine.decay_functions import BUCKET_S, DECAY_FUNCTIONS
from apps.engine.slurm_charge import PeriodCharge
from apps.priorities.usage_factors import F8, I8, UNIT_AMOUNTS, WEIGHTED, JobClassRow, weighted_amounts
from apps.usage.arrays import OpenRecords, UsageArrays
from apps.usage.own_times import EndedRecords

UNITS = (*UNIT_AMOUNTS.values(), WEIGHTED)
HOUR_S = BUCKET_S
APPROACHES = ("historical", "active", "predictive")  # each includes all usage of the one before

# Usage of that age counts by the hour: 2⁻¹⁶ of a deviation of at most an hour's decay is below a millionth.
_OWN_TIMES_HALF_LIVES = 16


@dataclass(frozen=True)
class SourceRow:
    """A usage source as scopes need it. origin: name of the site that reports it, "" for this site."""

    id: int
    slug: str
    origin: str

    def is_in(self, scope: str, narrowed: Sequence[str]) -> bool:
        """Whether a scope includes the source. local: sources of this site; global: all; narrowed: only these slugs."""
        return (scope == "global" or not self.origin) and (not narrowed or self.slug in narrowed)


def has_known_decay(settings: Mapping[str, Any]) -> bool:
    """Whether the policy's window names a decay function of this version."""
    return settings["aging"] in DECAY_FUNCTIONS


def window_of(settings: Mapping[str, Any]) -> decay.Window:
    """The engine's window for the policy's settings; parameters of other decay functions are ignored.

    Raises Invalid `no_decay_function` for a function that a package brought to an earlier version.
    """
    if not has_known_decay(settings):
        message = _("This version doesn’t have the decay function “%(name)s”: choose another in the usage window.")
        raise Invalid(message % {"name": settings["aging"]}, code="no_decay_function")
    reset, zone = settings.get("reset"), settings.get("reset_zone") or "UTC"
    return decay.Window(settings["length_s"], settings["aging"], settings, reset=reset, reset_zone=zone)


@dataclass(frozen=True, eq=False)
class AccountUsage:
    """Usage of each account by source in the policy's metric: one array (accounts, sources) for each approach, in which
    the accounts of one source follow each other in memory.

    has_demand: (accounts,), whether the account has a running or waiting job. demand_core_s: (accounts,), core-seconds
    requested by its waiting jobs; a job without a requested time adds 0.
    """

    by_approach: Mapping[str, F8]
    has_demand: npt.NDArray[np.bool_]
    demand_core_s: F8


@dataclass(frozen=True, eq=False)
class RecordedUsage:
    """Hourly usage and open jobs, with the rows that their ids refer to. account_ids: ascending.

    Rows of other accounts or sources are not allowed. ended: finished jobs by their own times, which then replace the
    buckets that they cover, if the window charges by period.
    """

    usage: UsageArrays
    opened: OpenRecords
    account_ids: I8
    sources: Sequence[SourceRow]
    classes: Mapping[int, JobClassRow]
    ended: EndedRecords | None = None


def own_times_reach_s(window: decay.Window) -> float | None:
    """Age up to which jobs count by their own times; None if all usage counts by the hour."""
    return _OWN_TIMES_HALF_LIVES * float(window.settings["half_life_s"]) if window.charges_by_period else None


def usage_of_accounts(
    recorded: RecordedUsage,
    *,
    metric: Mapping[str, Any],
    window: decay.Window,
    as_of_s: float,
    known_until_s: float | None = None,
    is_order_independent: bool = True,
) -> AccountUsage:
    """Sum the usage of each account and source at `as_of_s`, decayed, for each approach.

    historical: finished jobs by the hour, weighted by age. active: plus the elapsed part of running jobs, weighted in
    the same way. predictive: plus the remaining requested time of running jobs, at full weight.

    known_until_s: instant until which open jobs are known to have run (default `as_of_s`); jobs of a source with an
    earlier last contact count until then. is_order_independent: sort rows first, so that sums are the same bits in any
    order of rows. Sorting takes most of the time; without it the last digit may differ.
    """
    usage, opened, account_ids = recorded.usage, recorded.opened, recorded.account_ids
    source_ids = np.array(sorted(source.id for source in recorded.sources), dtype=np.int64)
    shape = (len(source_ids), len(account_ids))

    def cells(accounts: I8, of_sources: I8) -> I8:
        return indexes_in(source_ids, of_sources) * shape[1] + indexes_in(account_ids, accounts)

    def gather(cell: I8, amount: F8) -> F8:
        sums: F8 = np.bincount(cell, weights=amount, minlength=shape[0] * shape[1]).astype(np.float64, copy=False)
        return sums.reshape(shape).T

    ended = recorded.ended if window.charges_by_period else None
    if ended is not None:
        usage = usage.selected(~ended.covers(usage.source_id, usage.hour_epoch))
    cell = cells(usage.account_id, usage.source_id)
    amount = weighted_amounts(usage, metric=metric, classes=recorded.classes) * decay.bucket_weights(
        usage.hour_epoch, as_of_s, window
    )
    if ended is not None:
        cell = np.concatenate([cell, cells(ended.account_id, ended.source_id)])
        charge = PeriodCharge(window, as_of_s)
        charged_from = charge.charged_from(ended.start_epoch, ended.part_before_epoch)
        charged_s = charge.charged_s(charged_from, ended.end_epoch, ended.from_epoch)
        rate = weighted_amounts(ended, metric=metric, classes=recorded.classes)
        amount = np.concatenate([amount, rate * charged_s])
    order = _order_by_amount(cell, amount) if is_order_independent else slice(None)
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
    start_epoch = np.where(is_running, opened.start_epoch, known_s)
    if window.charges_by_period:
        resized = PeriodCharge(window, as_of_s).charged_from(start_epoch, opened.part_before_epoch)
        start_epoch = np.where(is_running, resized, start_epoch)
    elapsed = _elapsed(start_epoch, rate, known_s, as_of_s, window)
    remaining = _remaining(opened, rate, is_running, known_s)
    active = predictive = historical
    if len(open_cell):  # tables of many accounts and sources: without jobs they are one
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
    return AccountUsage(by_approach, has_demand, _requested_core_s(opened, account_ids))


def usage_of_scope(
    accounts: AccountUsage, *, scope: str, narrowed: Sequence[str], sources: Sequence[SourceRow], approach: str
) -> F8:
    """Usage of each account in one scope; see `SourceRow.is_in`."""
    ordered = sorted(sources, key=lambda source: source.id)
    counts = np.array([source.is_in(scope, narrowed) for source in ordered], dtype=np.bool_)
    used = accounts.by_approach[approach]
    total: F8 = np.zeros(len(used))
    for column in np.flatnonzero(counts).tolist():  # one at a time: a copy of all is too large to reuse its memory
        total += used[:, column]
    return total


def indexes_in(ids: I8, wanted: I8) -> I8:
    """Index of each of `wanted` in the ascending `ids`; dense ids by a table, which is faster than a search."""
    if not len(ids) or ids[-1] > 8 * len(ids) + 10_000:
        return np.searchsorted(ids, wanted)
    table = np.zeros(int(ids[-1]) + 1, dtype=np.int64)
    table[ids] = np.arange(len(ids))
    return table[wanted]


def _order_by_amount(cell: I8, amount: F8) -> I8:
    """An order of rows for sums that doesn't depend on the order in which the database returns them: by amount.

    A sum of doubles depends on the order of rows within one cell only; cells with one row stay where they are.
    """
    n_rows = np.bincount(cell) if len(cell) else np.zeros(0, np.int64)
    shared = np.flatnonzero(n_rows[cell] > 1) if len(cell) else cell
    order = np.arange(len(cell))
    order[shared] = shared[np.lexsort((amount[shared], cell[shared]))]
    return order


def _requested_core_s(opened: OpenRecords, account_ids: I8) -> F8:
    """Core-seconds requested by the waiting jobs of each account, from any source. This is demand, not usage."""
    requested_s = np.where(opened.is_running | np.isnan(opened.requested_s), 0.0, opened.requested_s)
    core_s = opened.cpus * requested_s
    order = np.argsort(core_s, kind="stable")
    account = np.searchsorted(account_ids, opened.account_id)
    return np.bincount(account[order], weights=core_s[order], minlength=len(account_ids)).astype(np.float64)


def steady_use_s(from_s: float, as_of_s: float, window: decay.Window) -> float:
    """Decayed usage at `as_of_s` of a constant rate of 1 per second since `from_s`, summed hour by hour."""
    start_s = np.array([min(from_s, as_of_s)])
    return float(_by_hours(start_s, np.ones(1), np.array([as_of_s]), as_of_s, window)[0])


def _elapsed(start_s: F8, rate: F8, until_s: F8, as_of_s: float, window: decay.Window) -> F8:
    """Decayed usage at `as_of_s` of jobs that ran from `start_s` to `until_s`, both (jobs,); 0 for one that hasn't run.

    Each hour has its weight. A window that charges by period charges a job that runs on until the last period's end.
    """
    if window.charges_by_period:
        of_job: F8 = rate * PeriodCharge(window, as_of_s).charged_s(start_s, until_s)
        return of_job
    return _by_hours(start_s, rate, until_s, as_of_s, window)


def _by_hours(start_s: F8, rate: F8, until_s: F8, as_of_s: float, window: decay.Window) -> F8:
    first = np.floor(start_s / HOUR_S)
    last = np.ceil(until_s / HOUR_S)  # exclusive
    if window.reach_s is not None:  # skip hours outside the window
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
    """Remaining usage of running jobs: (requested − elapsed time) × rate, never below 0; 0 without a requested time."""
    elapsed_s = np.where(is_running, until_s - opened.start_epoch, 0.0)
    left_s = np.where(np.isnan(opened.requested_s), 0.0, opened.requested_s - elapsed_s)
    left: F8 = np.where(is_running, rate * np.maximum(left_s, 0.0), 0.0)
    return left
