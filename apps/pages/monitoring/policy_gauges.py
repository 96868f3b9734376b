"""Metrics of policies: age of the newest priorities, deviations of groups, unmapped accounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from datetime import time as datetime_time

import numpy as np
import numpy.typing as npt
from prometheus_client.core import Metric

from apps.core import clock
from apps.engine.target_state import sides_off_target, slack_of
from apps.pages.monitoring.gauges import gauge
from apps.policies.models import Policy
from apps.policies.recompute_runs import failed_recompute
from apps.policies.settings import tolerances_of
from apps.priorities.models import Snapshot, UnmappedAccounts
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.runs.models import Run
from apps.series.days import site_zone
from apps.series.models import Series
from apps.series.runs import KIND as SERIES_BUILD
from apps.series.runs import subject_of

Mask = npt.NDArray[np.bool_]
_HEAD = ("policy_id", "computed_at", "duration_s", "n_ranked")


def policy_families(served: Mapping[str, ServedSnapshot], damaged: Mapping[str, int]) -> Iterator[Metric]:
    """Metrics of each policy. served: snapshots in memory by slug. damaged: ids of newest, unreadable snapshots."""
    policies = list(Policy.objects.order_by("slug"))
    yield from _heads(policies)
    is_damaged = gauge("fairshare_snapshot_damaged", "1: the newest snapshot can't be read", "policy")
    for policy in policies:
        is_damaged.add_metric([policy.slug], float(policy.slug in damaged))
    yield is_damaged
    is_failed = gauge("fairshare_recompute_failed", "1: the last recompute failed", "policy")
    for policy in policies:
        is_failed.add_metric([policy.slug], float(failed_recompute(policy) is not None))
    yield is_failed
    yield from _unmapped(policies)
    yield from _series(policies)
    yield from _deviations({policy.slug: served[policy.slug] for policy in policies if policy.slug in served})


def _heads(policies: list[Policy]) -> Iterator[Metric]:
    age = gauge("fairshare_snapshot_age_seconds", "Seconds since the newest snapshot was computed", "policy")
    took = gauge("fairshare_recompute_duration_seconds", "Time to compute the newest snapshot", "policy")
    ranked = gauge("fairshare_ranked_leaves", "Ranked leaves in the newest snapshot", "policy")
    revision = gauge("fairshare_policy_revision", "Head revision", "policy")
    newest = {
        row[0]: row[1:]
        for row in Snapshot.objects.filter(is_live=True)
        .order_by("policy_id", "-id")
        .distinct("policy_id")
        .values_list(*_HEAD)
    }
    for policy in policies:
        revision.add_metric([policy.slug], policy.head_number)
        if policy.pk in newest:
            computed_at, duration_s, n_ranked = newest[policy.pk]
            age.add_metric([policy.slug], (clock.now() - computed_at).total_seconds())
            took.add_metric([policy.slug], duration_s)
            ranked.add_metric([policy.slug], n_ranked)
    yield from (age, took, ranked, revision)


def _unmapped(policies: list[Policy]) -> Iterator[Metric]:
    accounts = gauge("fairshare_unmapped_accounts", "Accounts with usage and without an entry", "policy")
    usage = gauge("fairshare_unmapped_usage", "Usage of unmapped accounts in the policy's metric and window", "policy")
    rows = UnmappedAccounts.objects.values_list("policy_id", "account_ids__len", "usage")
    unmapped_by_policy = {pk: (n, total) for pk, n, total in rows}
    for policy in policies:
        if policy.pk in unmapped_by_policy:
            n, total = unmapped_by_policy[policy.pk]
            accounts.add_metric([policy.slug], n or 0)
            usage.add_metric([policy.slug], total)
    yield from (accounts, usage)


def _series(policies: list[Policy]) -> Iterator[Metric]:
    through = gauge("fairshare_series_through_timestamp_seconds", "End of the last day of the daily series", "policy")
    progress = gauge(
        "fairshare_series_build_ratio", "Progress of a queued or running build of the daily series", "policy"
    )
    zone = site_zone()
    rows = Series.objects.filter(through_on__isnull=False).values_list("policy_id", "through_on")
    built = {pk: through_on + timedelta(days=1) for pk, through_on in rows if through_on is not None}
    builds = Run.objects.filter(kind=SERIES_BUILD, state__in=(Run.State.QUEUED, Run.State.RUNNING)).order_by("state")
    progress_by_subject = {
        run.subject: run.progress_done / run.progress_total if run.progress_total else 0.0 for run in builds
    }
    for policy in policies:
        if policy.pk in built:
            day = datetime.combine(built[policy.pk], datetime_time.min, tzinfo=zone)
            through.add_metric([policy.slug], day.timestamp())
        if subject_of(policy) in progress_by_subject:
            progress.add_metric([policy.slug], progress_by_subject[subject_of(policy)])
    yield from (through, progress)


def _deviations(served: Mapping[str, ServedSnapshot]) -> Iterator[Metric]:
    entries = gauge("fairshare_policy_entries", "Entries of the tree, the root included", "policy")
    states = gauge("fairshare_entries_out_of_band", "Entries outside their tolerance", "policy", "side")
    deviation = gauge(
        "fairshare_deviation_points", "Mean distance of actual from target, weighted by target of the total", "policy"
    )
    usage = gauge("fairshare_policy_usage", "Usage of the whole tree in the policy's metric and window", "policy")
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
    """Numbers of entries above and below their tolerance, as on the tree page."""
    values = snapshot.values
    here = values.competes
    target, actual = values.target[here], values.actual[here]
    is_idle = (values.usage[here] == 0) & ~values.has_demand[here] & (target > 0)
    slack = slack_of(target, tolerances_of(snapshot.settings.tolerance, snapshot.tree.n_children[here] == 0))
    is_over, is_under = sides_off_target(actual, target, slack, is_idle)
    return int(is_over.sum()), int(is_under.sum())


def mean_deviation_points(snapshot: ServedSnapshot) -> float | None:
    """100 · Σ target_global · |actual − target| / Σ target_global over entries whose group has any usage.

    None without usage, where it would be 0/0.
    """
    values = snapshot.values
    measured = has_actual(snapshot)
    weight = values.target_global[measured]
    if not weight.sum() > 0:
        return None
    distance = np.abs(values.actual[measured] - values.target[measured])
    return float(100 * (weight * distance).sum() / weight.sum())


def has_actual(snapshot: ServedSnapshot) -> Mask:
    """Entries with an actual share: their group has usage."""
    values, parent = snapshot.values, snapshot.tree.parent
    with_usage: Mask = values.competes & (values.group_usage[np.maximum(parent, 0)] > 0)
    return with_usage


def entry_families(served: Mapping[str, ServedSnapshot], most: int) -> Iterator[Metric]:
    """Metrics of the `most` groups of each policy with the highest targets of the total."""
    target = gauge("fairshare_entry_target_ratio", "Target among siblings", "policy", "entry")
    actual = gauge("fairshare_entry_actual_ratio", "Actual share among siblings", "policy", "entry")
    deviation = gauge(
        "fairshare_entry_deviation_points", "Actual share minus target in percentage points", "policy", "entry"
    )
    for slug, snapshot in sorted(served.items()):
        values, known = snapshot.values, has_actual(snapshot)
        for i in largest_groups(snapshot, most):
            label = [slug, snapshot.tree.path(i)]
            target.add_metric(label, float(values.target[i]))
            if known[i]:
                actual.add_metric(label, float(values.actual[i]))
                deviation.add_metric(label, 100 * float(values.actual[i] - values.target[i]))
    yield from (target, actual, deviation)


def largest_groups(snapshot: ServedSnapshot, most: int) -> list[int]:
    """Indices of the groups with the highest targets of the total; ties in the order of the tree.

    Entries of persons are left out, because every reader of a dashboard sees scraped values.
    """
    groups = np.flatnonzero(snapshot.values.competes & snapshot.tree.is_group)
    order = np.argsort(-snapshot.values.target_global[groups], kind="stable")
    return [int(i) for i in groups[order][: max(most, 0)]]
