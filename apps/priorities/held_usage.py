"""What submitted and running jobs of entries may still use, in a unit: held beside what was delivered, never in it.

Delivered usage is of finished jobs. So a job that waits or runs holds all that it may be charged when it ends:

    rate · max(requested time, time that it has run, minimum charge of a job)

with rate = Σ weight · resource per second · factor of the class, as in `delivered_usage`. A job without a requested
time holds what it has run so far, or the minimum; such jobs are counted apart, because they may use more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import load_account_index
from apps.core.postgresql import consistent_read
from apps.engine import sweep
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.models import Policy
from apps.policies.tree.stored import TreeColumns
from apps.policies.units import CORE_HOUR, Unit
from apps.priorities.usage_factors import JobClassRow, weighted_amounts
from apps.usage.arrays import OpenRecords, load_open_records
from apps.usage.models import JobClass, Source

F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Held:
    """Of an entry and all below it. amount_s: unit-seconds, of which 3600 make an hour of the unit.

    n_jobs: running and waiting jobs. n_unlimited: those of them without a requested time.
    """

    amount_s: float
    n_jobs: int
    n_unlimited: int


def load_held(
    *, policy: Policy, tree: TreeColumns, entries: Sequence[int], at: datetime, unit: Unit = CORE_HOUR
) -> Mapping[int, Held]:
    """What open jobs of all sources hold, by entry. The caller checks which entries may be seen."""
    with consistent_read() as may_cache:
        sources = list(Source.objects.order_by("pk").values_list("pk", flat=True))
        opened = load_open_records(sources=sources, submitted_by=at) if sources and entries else None
        if opened is None or not len(opened.account_id):
            return dict.fromkeys(entries, Held(0.0, 0, 0))
        index = load_account_index(use_cache=may_cache)
        rules = load_rule_set(policy, tree)
        rows = JobClass.objects.values_list("id", "queue", "partition", "qos") if unit.class_factors else ()
        classes = {row[0]: JobClassRow(*row) for row in rows}
    place = place_accounts(tree, rules.rules, rules.known, index.keys).of_usage
    at_entry = place[np.searchsorted(index.ids, opened.account_id)]
    is_mapped = at_entry != UNMAPPED
    held_s = held_seconds(opened, minimum_s=unit.minimum_charge_s, at=at)
    metric = {"weights": dict(unit.weights), "class_factors": unit.rules, "site_factors": ()}
    amount = weighted_amounts(opened, metric=metric, classes=classes) * held_s
    columns = amount, np.ones(len(amount)), np.isnan(opened.requested_s).astype(np.float64)
    own = [
        np.bincount(at_entry[is_mapped], weights=column[is_mapped], minlength=len(tree)).astype(np.float64)
        for column in columns
    ]
    amount_s, n_jobs, n_unlimited = (sweep.sum_up(tree.engine_tree(), column)[0] for column in own)
    return {i: Held(float(amount_s[i]), int(n_jobs[i]), int(n_unlimited[i])) for i in entries}


def held_seconds(opened: OpenRecords, *, minimum_s: float, at: datetime) -> F8:
    """(n,), the seconds that each open job may be charged for; see the module. A job runs until it is known to."""
    now_s = at.timestamp()
    known_s = now_s if opened.known_until_epoch is None else np.minimum(opened.known_until_epoch, now_s)
    ran_s = np.where(opened.is_running, np.maximum(np.nan_to_num(known_s - opened.start_epoch), 0.0), 0.0)
    return np.maximum(np.maximum(np.nan_to_num(opened.requested_s), ran_s), minimum_s)
