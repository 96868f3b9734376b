"""The greatest groups of each policy: few, because every name is a series that is kept for years; and no persons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from prometheus_client.core import Metric

from apps.api.gauges.family import gauge
from apps.api.gauges.policies import compared
from apps.priorities.serving.answers import ServedSnapshot


def entry_families(served: Mapping[str, ServedSnapshot], most: int) -> Iterator[Metric]:
    """The `most` groups of each policy with the highest targets of the total; with 0 none."""
    target = gauge("fairshare_entry_target_ratio", "Share of its group that it was promised", "policy", "entry")
    actual = gauge("fairshare_entry_actual_ratio", "Share of its group's usage that it had", "policy", "entry")
    deviation = gauge("fairshare_entry_deviation_points", "Actual less target; above 0 is over", "policy", "entry")
    for slug, snapshot in sorted(served.items()):
        values, known = snapshot.values, compared(snapshot)
        for i in greatest_groups(snapshot, most):
            label = [slug, snapshot.tree.path(i)]
            target.add_metric(label, float(values.target[i]))
            if known[i]:
                actual.add_metric(label, float(values.actual[i]))
                deviation.add_metric(label, 100 * float(values.actual[i] - values.target[i]))
    yield from (target, actual, deviation)


def greatest_groups(snapshot: ServedSnapshot, most: int) -> list[int]:
    """By target of the total, equals in the order of the tree. Entries that represent a person are left out: scraped
    values are open to every reader of a dashboard.
    """
    groups = np.flatnonzero(snapshot.values.competes & snapshot.tree.is_group)
    order = np.argsort(-snapshot.values.target_global[groups], kind="stable")
    return [int(i) for i in groups[order][: max(most, 0)]]
