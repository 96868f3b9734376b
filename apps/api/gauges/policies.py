"""Per policy: age of its newest snapshot, duration of its computation, and the tree's distance from its targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from datetime import time as datetime_time
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db.models import Count, Sum
from prometheus_client.core import Metric

from apps.analytics.models import Series
from apps.analytics.series.calendar import site_zone
from apps.analytics.series.runs import KIND as SERIES_BUILD
from apps.analytics.series.runs import subject_of
from apps.api.gauges.family import gauge
from apps.core import clock
from apps.policies.models import Policy
from apps.priorities.models import Snapshot, UnmappedUsage
from apps.priorities.serving.lookup_index import ServedSnapshot
from apps.priorities.snapshots.ordering import out_of_tolerance
from apps.runs.models import Run

Mask = npt.NDArray[np.bool_]
_HEAD = ("policy_id", "computed_at", "duration_s", "n_ranked")


def policy_families(served: Mapping[str, ServedSnapshot], damaged: Mapping[str, int]) -> Iterator[Metric]:
    """From the database how fresh, from the snapshots in memory how good; damaged: the newest, which can't be read."""
    policies = list(Policy.objects.order_by("slug"))
    yield from _heads(policies)
    is_damaged = gauge("fairshare_snapshot_damaged", "1 when the newest snapshot can't be read", "policy")
    for policy in policies:
        is_damaged.add_metric([policy.slug], float(policy.slug in damaged))
    yield is_damaged
    yield from _unmapped(policies)
    yield from _series(policies)
    yield from _standing({policy.slug: served[policy.slug] for policy in policies if policy.slug in served})


def _heads(policies: list[Policy]) -> Iterator[Metric]:
    age = gauge("fairshare_snapshot_age_seconds", "Since the newest snapshot was computed", "policy")
    took = gauge("fairshare_recompute_duration_seconds", "Of the newest snapshot", "policy")
    ranked = gauge("fairshare_ranked_leaves", "In the newest snapshot", "policy")
    revision = gauge("fairshare_policy_revision", "Head revision", "policy")
    newest = {row[0]: row[1:] for row in _newest().values_list(*_HEAD)}
    for policy in policies:
        revision.add_metric([policy.slug], policy.head_number)
        if policy.pk in newest:
            computed_at, duration_s, n_ranked = newest[policy.pk]
            age.add_metric([policy.slug], (clock.now() - computed_at).total_seconds())
            took.add_metric([policy.slug], duration_s)
            ranked.add_metric([policy.slug], n_ranked)
    yield from (age, took, ranked, revision)


def _unmapped(policies: list[Policy]) -> Iterator[Metric]:
    accounts = gauge("fairshare_unmapped_accounts", "Accounts with usage that no entry is for", "policy")
    usage = gauge("fairshare_unmapped_usage", "What they used, in the policy's metric and window", "policy")
    newest = dict(_newest().values_list("pk", "policy_id"))
    sums = UnmappedUsage.objects.filter(snapshot_id__in=newest).values_list("snapshot_id")
    found = {newest[pk]: (n, total) for pk, n, total in sums.annotate(n=Count("id"), total=Sum("usage")).order_by()}
    for policy in policies:
        if policy.pk in newest.values():
            n, total = found.get(policy.pk, (0, 0.0))
            accounts.add_metric([policy.slug], n)
            usage.add_metric([policy.slug], total)
    yield from (accounts, usage)


def _series(policies: list[Policy]) -> Iterator[Metric]:
    through = gauge("fairshare_series_through_timestamp_seconds", "End of the last day of the daily series", "policy")
    progress = gauge("fairshare_series_build_ratio", "How far a build of it is that runs or waits", "policy")
    zone = site_zone()
    rows = Series.objects.filter(through_on__isnull=False).values_list("policy_id", "through_on")
    built = {pk: through_on + timedelta(days=1) for pk, through_on in rows if through_on is not None}
    builds = Run.objects.filter(kind=SERIES_BUILD, state__in=(Run.State.QUEUED, Run.State.RUNNING)).order_by("state")
    found = {run.subject: run.progress_done / run.progress_total if run.progress_total else 0.0 for run in builds}
    for policy in policies:
        if policy.pk in built:
            day = datetime.combine(built[policy.pk], datetime_time.min, tzinfo=zone)
            through.add_metric([policy.slug], day.timestamp())
        if subject_of(policy) in found:
            progress.add_metric([policy.slug], found[subject_of(policy)])
    yield from (through, progress)


def _newest() -> Any:
    """The live snapshot of each policy, without its bytes."""
    return Snapshot.objects.filter(is_live=True).order_by("policy_id", "-id").distinct("policy_id")


def _standing(served: Mapping[str, ServedSnapshot]) -> Iterator[Metric]:
    entries = gauge("fairshare_policy_entries", "Entries of the tree, the root included", "policy")
    states = gauge("fairshare_entries_out_of_band", "Entries outside their tolerance", "policy", "side")
    deviation = gauge(
        "fairshare_deviation_points", "Mean distance of actual from target, weighted by target of the total", "policy"
    )
    usage = gauge("fairshare_policy_usage", "Of the whole tree, in the policy's metric and window", "policy")
    for slug, snapshot in served.items():
        over, under = count_outside(snapshot)
        entries.add_metric([slug], len(snapshot.tree))
        states.add_metric([slug, "over"], over)
        states.add_metric([slug, "under"], under)
        usage.add_metric([slug], float(snapshot.values.usage[0]))
        mean = mean_deviation_points(snapshot)
        if mean is not None:
            deviation.add_metric([slug], mean)
    yield from (entries, states, deviation, usage)


def count_outside(snapshot: ServedSnapshot) -> tuple[int, int]:
    """Entries over and under, as the tree page counts them."""
    values = snapshot.values
    here = values.competes
    target, actual = values.target[here], values.actual[here]
    is_idle = (values.usage[here] == 0) & ~values.has_demand[here] & (target > 0)
    outside = out_of_tolerance(target, actual, is_idle=is_idle, tolerance=snapshot.settings.tolerance)
    return int((outside & (actual > target)).sum()), int((outside & (actual < target)).sum())


def mean_deviation_points(snapshot: ServedSnapshot) -> float | None:
    """100 · Σ target_global · |actual − target| / Σ target_global over entries whose group has any usage.

    None without any usage: 0/0 is no deviation.
    """
    values = snapshot.values
    measured = compared(snapshot)
    weight = values.target_global[measured]
    if not weight.sum() > 0:
        return None
    distance = np.abs(values.actual[measured] - values.target[measured])
    return float(100 * (weight * distance).sum() / weight.sum())


def compared(snapshot: ServedSnapshot) -> Mask:
    """Entries whose actual share exists: their group has some usage."""
    values, parent = snapshot.values, snapshot.tree.parent
    found: Mask = values.competes & (values.group_usage[np.maximum(parent, 0)] > 0)
    return found


def entry_families(served: Mapping[str, ServedSnapshot], most: int) -> Iterator[Metric]:
    """The `most` groups of each policy with the highest targets of the total; with 0 none."""
    target = gauge("fairshare_entry_target_ratio", "Target within its group", "policy", "entry")
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
