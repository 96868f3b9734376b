"""Usage before the start of a replay, by account, site and hour: what priorities began with on its first day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.contrib.lab.experiments.inputs import PastUsage
from apps.engine import decay
from apps.priorities.metering import window_of
from apps.priorities.usage_factors import JobClassRow, site_names, weighted_amounts, weighted_resources
from apps.usage.arrays import load_usage
from apps.usage.models import JobClass, Source

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
MOST_PAST_DAYS = 730
LEAST_WEIGHT = 1e-4  # usage that counts less is left out
_SPAN_DAYS = 7  # of hours that one query reads
_BY_HOUR_DAYS = 7  # before that, usage counts by day, in its middle
_DAY_H = 24


@dataclass(frozen=True, eq=False)
class UsageBefore:
    """Rows, (m,), summed up. site: index, −1 for one that is not simulated. hour: from the start, negative."""

    account_id: I8
    site: I8
    hour: I8
    amount: F8

    def of_entries(self, account_ids: I8, entry_of_account: I8) -> PastUsage:
        """By entry; account_ids ascending. Usage of accounts without an entry is left out."""
        at = np.minimum(np.searchsorted(account_ids, self.account_id), max(len(account_ids) - 1, 0))
        entry = entry_of_account[at] if len(account_ids) else np.full(len(self.amount), -1, np.int64)
        kept = entry >= 0
        return summed(entry[kept], self.site[kept], self.hour[kept], self.amount[kept])


def summed(entry: I8, site: I8, hour: I8, amount: F8) -> PastUsage:
    """One row for each entry, site and hour."""
    if not len(entry):
        return PastUsage(entry, site, hour, amount)
    rows, at = np.unique(np.column_stack([hour, site, entry]), axis=0, return_inverse=True)
    sums = np.bincount(at.reshape(-1), amount, minlength=len(rows)).astype(np.float64)
    return PastUsage(rows[:, 2].copy(), rows[:, 1].copy(), rows[:, 0].copy(), sums)


def reach_days(windows: Sequence[Mapping[str, Any]]) -> int:
    """Days before the start after which usage has lost its weight in all of these windows."""
    return max(_reach_days(window_of(each)) for each in windows)


def _reach_days(window: decay.Window) -> int:
    if window.reach_s is not None:
        return min(MOST_PAST_DAYS, int(np.ceil(window.reach_s / 86_400.0)) + 1)
    days = np.arange(1, MOST_PAST_DAYS + 1)
    has_weight = decay.weights(86_400.0 * days, window) >= LEAST_WEIGHT
    return int(days[has_weight].max(initial=1))


def load_usage_before(
    from_at: datetime,
    *,
    n_days: int,
    metric: Mapping[str, Any],
    sources: Sequence[Source],
    sites: Sequence[str],
    done: Callable[[], object],
) -> UsageBefore:
    """Usage of these sources in the days before. sites: names of those that are simulated; a source whose hours have no
    site is called by its slug. done: is called after each week that was read.
    """
    factors = site_names(metric)
    named = tuple(dict.fromkeys([*factors, *sites]))
    index_of_code = np.array([-1, *(sites.index(name) if name in sites else -1 for name in named)], dtype=np.int64)
    index_of_source = {row.pk: sites.index(row.slug) if row.slug in sites else -1 for row in sources}
    classes = {row[0]: JobClassRow(*row) for row in JobClass.objects.values_list("id", "queue", "partition", "qos")}
    start_h = int(from_at.timestamp()) // 3600
    parts: list[list[Any]] = []
    for last_day in range(0, n_days, _SPAN_DAYS):
        usage = load_usage(
            sources=[row.pk for row in sources],
            from_at=from_at - timedelta(days=min(n_days, last_day + _SPAN_DAYS)),
            to_at=from_at - timedelta(days=last_day),
            sites=named,
            resources=weighted_resources(metric),
            classes=bool(metric["class_factors"]),
        )
        amount = weighted_amounts(usage, metric=metric, classes=classes)
        code = np.zeros(len(amount), np.int64) if usage.site_code is None else usage.site_code
        of_source = np.array([index_of_source.get(pk, -1) for pk in usage.source_id.tolist()], dtype=np.int64)
        site = np.where(code > 0, index_of_code[code], of_source)
        hour = usage.hour_epoch // 3600 - start_h
        by_day = hour // _DAY_H * _DAY_H + _DAY_H // 2 - 1
        hour = np.where(hour < -_BY_HOUR_DAYS * _DAY_H, by_day, hour)
        parts.append(_sums(usage.account_id, site, hour, amount))
        done()
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return UsageBefore(*columns)


def _sums(account: I8, site: I8, hour: I8, amount: F8) -> list[Any]:
    past = summed(account, site, hour, amount)
    return [past.entry, past.site, past.hour, past.amount]
