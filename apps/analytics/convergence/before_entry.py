"""Days from before an entry: neither use nor idleness of it, whatever its accounts did."""

from __future__ import annotations

import numpy as np
from django.db.models import Min

from apps.analytics.series.storage.columns import DailySeries, Mask
from apps.policies.models import Entry, Policy

BEFORE_ENTRY = "before_entry"  # the state of such a day


def days_before_entry(policy: Policy, series: DailySeries) -> Mask:
    """(entries, days) whose revision is older than the first one with the entry."""
    n_days = len(series.days.on)
    firsts = Entry.objects.filter(policy=policy, uid__in=series.uids).values_list("uid").annotate(first=Min("since"))
    since = dict(firsts)
    first = np.array([since.get(uid, 0) for uid in series.uids], np.int64).reshape(len(series.uids), 1)
    found: Mask = ~series.exists & (series.days.revision.reshape(1, n_days) < first)
    return found
