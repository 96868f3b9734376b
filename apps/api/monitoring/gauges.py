"""Prometheus metrics of the site's state: usage sources, policies, federation, background runs, mail and tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from datetime import time as datetime_time
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db.models import Count, Min, Q, Sum
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from apps.accounts.actor import SYSTEM
from apps.accounts.models import Token
from apps.analytics.models import Series
from apps.analytics.series.daily_series import site_zone
from apps.analytics.series.runs import KIND as SERIES_BUILD
from apps.analytics.series.runs import subject_of
from apps.core import clock
from apps.federation.models import HeldHour, Mount, Remote, Subscription
from apps.federation.staleness import last_contact_at as last_contact_of_remote
from apps.notices.mail import count_mails, failing_mail
from apps.policies.models import Policy
from apps.policies.recompute_runs import failed_recompute
from apps.policies.settings import tolerances_of
from apps.priorities.entry_order import out_of_tolerance
from apps.priorities.models import Snapshot, UnmappedAccounts
from apps.priorities.selectors import count_unmapped_by_source
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.runs.models import Run
from apps.runs.workers import is_stalled, silent_workers
from apps.runs.workers import last_contact_at as last_worker_contact_at
from apps.usage.models import Source, SourceDay
from apps.usage.timeliness import Timeliness, interval_s, last_contact_at, lateness, timeliness


def gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, labels=labels)


def counter(name: str, words: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, words, labels=labels)


# --- Usage sources ----------------------------------------------------------------------------------------------------
_UNMAPPED_EVERY_S = 300  # the query reads buckets, which is too slow for every scrape
_OUTCOMES = ("new", "duplicate", "corrected", "late", "too_late", "rejected")


def source_families() -> Iterator[Metric]:
    sources, at = list(Source.objects.order_by("slug")), clock.now()
    yield from _source_ages(sources, at)
    yield from _source_states(sources, at)
    yield from _collecting(sources)
    yield from _received({source.pk: source.slug for source in sources})
    yield from _source_unmapped([source.slug for source in sources])


def _source_ages(sources: list[Source], at: datetime) -> Iterator[Metric]:
    records = gauge("fairshare_usage_records", "Stored records", "source")
    newest = gauge("fairshare_source_newest_record_seconds", "Seconds since the end of the newest record", "source")
    contact = gauge(
        "fairshare_source_last_contact_seconds", "Seconds since the last contact, or since the set-up", "source"
    )
    for source in sources:
        label = [source.slug]
        records.add_metric(label, source.n_records)
        if source.last_record_end_at is not None:
            newest.add_metric(label, (at - source.last_record_end_at).total_seconds())
        contact.add_metric(label, (at - (last_contact_at(source) or source.created_at)).total_seconds())
    yield from (records, newest, contact)


def _source_states(sources: list[Source], at: datetime) -> Iterator[Metric]:
    interval = gauge("fairshare_source_expected_seconds", "Expected interval between contacts", "source")
    ratio = gauge("fairshare_source_lateness_ratio", "Age of the last contact in intervals: above 2 is late", "source")
    late = gauge("fairshare_source_late", "1: the last contact is overdue", "source")
    never = gauge("fairshare_source_never_collected", "1: the first collection is overdue", "source")
    for source in sources:
        label, state = [source.slug], timeliness(source, at)
        part = lateness(source, at)
        if part is not None:
            interval.add_metric(label, interval_s(source) or 0)
            ratio.add_metric(label, part)
        late.add_metric(label, float(state is Timeliness.LATE))
        if source.is_collected:
            never.add_metric(label, float(state is Timeliness.NEVER_COLLECTED))
    yield from (interval, ratio, late, never)


def _collecting(sources: list[Source]) -> Iterator[Metric]:
    failing = gauge("fairshare_source_collect_failing", "1: the last collection failed", "source")
    paused = gauge("fairshare_source_paused", "1: collection is paused", "source")
    for source in sources:
        if source.is_collected:
            failing.add_metric([source.slug], float(bool(source.collect_error)))
            paused.add_metric([source.slug], float(source.is_paused))
    yield from (failing, paused)


def _received(slugs: dict[int, str]) -> Iterator[Metric]:
    """Received records by outcome, as sums of daily counts, without reading records."""
    received = counter("fairshare_usage_received_records", "Received records by outcome", "source", "outcome")
    ahead = counter("fairshare_usage_ahead_records", "Rejected records that end ahead of the server's clock", "source")
    columns = [f"n_{name}" for name in (*_OUTCOMES, "ahead")]
    sums = SourceDay.objects.values("source_id").annotate(**{f"all_{name}": Sum(name) for name in columns})
    found = {row["source_id"]: row for row in sums.order_by()}
    for pk, slug in slugs.items():
        row = found.get(pk, {})
        for outcome in _OUTCOMES:
            received.add_metric([slug, outcome], row.get(f"all_n_{outcome}", 0))
        ahead.add_metric([slug], row.get("all_n_ahead", 0))
    yield from (received, ahead)


class _Unmapped:
    """Unmapped accounts and their usage by source, cached for `_UNMAPPED_EVERY_S`."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, float]] = {}
        self.until_s = 0.0

    def counts(self) -> dict[str, tuple[int, float]]:
        if time.monotonic() >= self.until_s:
            counted = count_unmapped_by_source(actor=SYSTEM)
            self.found = {slug: (n, core_s or 0.0) for slug, (n, core_s) in counted.items()}
            self.until_s = time.monotonic() + _UNMAPPED_EVERY_S
        return self.found

    def forget(self) -> None:
        self.until_s = 0.0


unmapped_of_sources = _Unmapped()


def _source_unmapped(slugs: list[str]) -> Iterator[Metric]:
    accounts = gauge(
        "fairshare_source_unmapped_accounts", "Accounts of the source that no policy maps to an entry", "source"
    )
    usage = gauge("fairshare_source_unmapped_core_seconds", "Usage of these accounts over all time", "source")
    found = unmapped_of_sources.counts()
    for slug in slugs:
        n, core_s = found.get(slug, (0, 0.0))
        accounts.add_metric([slug], n)
        usage.add_metric([slug], core_s)
    yield from (accounts, usage)


# --- Policies ---------------------------------------------------------------------------------------------------------
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
    accounts = gauge("fairshare_unmapped_accounts", "Accounts with usage and without an entry", "policy")
    usage = gauge("fairshare_unmapped_usage", "Usage of unmapped accounts in the policy's metric and window", "policy")
    rows = UnmappedAccounts.objects.values_list("policy_id", "account_ids__len", "usage")
    found = {pk: (n, total) for pk, n, total in rows}
    for policy in policies:
        if policy.pk in found:
            n, total = found[policy.pk]
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
    found = {run.subject: run.progress_done / run.progress_total if run.progress_total else 0.0 for run in builds}
    for policy in policies:
        if policy.pk in built:
            day = datetime.combine(built[policy.pk], datetime_time.min, tzinfo=zone)
            through.add_metric([policy.slug], day.timestamp())
        if subject_of(policy) in found:
            progress.add_metric([policy.slug], found[subject_of(policy)])
    yield from (through, progress)


def _newest() -> Any:
    """The newest live snapshot of each policy."""
    return Snapshot.objects.filter(is_live=True).order_by("policy_id", "-id").distinct("policy_id")


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
    tolerance = tolerances_of(snapshot.settings.tolerance, snapshot.tree.n_children[here] == 0)
    outside = out_of_tolerance(target, actual, is_idle=is_idle, tolerance=tolerance)
    return int((outside & (actual > target)).sum()), int((outside & (actual < target)).sum())


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
    found: Mask = values.competes & (values.group_usage[np.maximum(parent, 0)] > 0)
    return found


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


# --- Federation -------------------------------------------------------------------------------------------------------
_LABELS = ("kind", "policy", "issuer", "name")
_MOST = 500  # mounts and subscriptions each: limits the output


def federation_families() -> Iterator[Metric]:
    mounts = Mount.objects.select_related("policy").order_by("pk")[:_MOST]
    subscriptions = Subscription.objects.select_related("policy").order_by("pk")[:_MOST]
    peers: list[tuple[list[str], Mount | Subscription]] = [
        *((["mount", row.policy.slug, row.issuer, row.publication], row) for row in mounts),
        *((["usage", row.policy.slug, row.issuer, row.feed], row) for row in subscriptions),
    ]
    yield from _ages(peers, clock.now())
    yield from _waiting(peers)


def _ages(peers: list[tuple[list[str], Mount | Subscription]], at: datetime) -> Iterator[Metric]:
    age = gauge("fairshare_peer_age_seconds", "Seconds since the peer's data was last confirmed", *_LABELS)
    allowed = gauge("fairshare_peer_allowed_age_seconds", "Age beyond which the data is stale", *_LABELS)
    failed = gauge("fairshare_peer_failed_fetches", "Failed fetches in a row", *_LABELS)
    blocked = gauge("fairshare_peer_blocked", "1: a manager has to decide about a fork or another key", *_LABELS)
    for labels, row in peers:
        age.add_metric(labels, (at - last_contact_of_remote(row)).total_seconds())
        allowed.add_metric(labels, row.max_age_s)
        failed.add_metric(labels, row.n_failed)
        blocked.add_metric(labels, float(row.state == Remote.State.BLOCKED))
    yield from (age, allowed, failed, blocked)


def _waiting(peers: list[tuple[list[str], Mount | Subscription]]) -> Iterator[Metric]:
    review = gauge("fairshare_mount_held_for_review", "1: a document is held for review", *_LABELS[1:])
    hours = gauge("fairshare_peer_held_hours", "Hours held because reported usage exceeds the capacity", *_LABELS[1:])
    counts = HeldHour.objects.values_list("subscription_id").annotate(n=Count("pk")).order_by()
    held: dict[int, int] = dict(counts)
    for (_kind, *labels), row in peers:
        if isinstance(row, Mount):
            review.add_metric(labels, float(row.held_id is not None))
        else:
            hours.add_metric(labels, held.get(row.pk, 0))
    yield from (review, hours)


# --- Background work and keys -----------------------------------------------------------------------------------------
def run_families() -> Iterator[Metric]:
    runs = gauge("fairshare_runs", "Background runs", "kind", "state")
    waiting = gauge("fairshare_run_waiting_seconds", "Seconds for which the longest waiting run has been due", "kind")
    lost = gauge("fairshare_runs_lost", "Runs whose lease has expired", "kind")
    stalled = gauge("fairshare_runs_stalled", "Runs that make no progress", "kind")
    at = clock.now()
    for kind, state, count in Run.objects.values_list("kind", "state").annotate(n=Count("id")).order_by():
        runs.add_metric([kind, state], count)
    is_due = Q(state=Run.State.QUEUED, due_at__lte=at)
    is_lost = Q(state=Run.State.RUNNING, lease_until__lt=at)
    open_runs = Run.objects.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING)).values_list("kind")
    numbers = {"lost": Count("id", filter=is_lost), "stalled": Count("id", filter=is_stalled(at))}
    for kind, due_at, n_lost, n_stalled in open_runs.annotate(due=Min("due_at", filter=is_due), **numbers).order_by():
        stalled.add_metric([kind], n_stalled)
        waiting.add_metric([kind], 0.0 if due_at is None else (at - due_at).total_seconds())
        lost.add_metric([kind], n_lost)
    yield from (runs, waiting, lost, stalled)
    yield from _workers(at)


def _workers(at: datetime) -> Iterator[Metric]:
    silent = gauge("fairshare_workers_silent", "1: workers are silent, or due runs are not started")
    silent.add_metric([], float(silent_workers(at) is not None))
    contact = gauge("fairshare_workers_last_contact_seconds", "Seconds since the last contact with a worker")
    contact_at = last_worker_contact_at()
    if contact_at is not None:
        contact.add_metric([], (at - contact_at).total_seconds())
    yield from (silent, contact)


def mail_families() -> Iterator[Metric]:
    mails = gauge("fairshare_mails", "Mails about notices", "state")
    for state, n in count_mails().items():
        mails.add_metric([state], n)
    failing = gauge("fairshare_mail_failing", "1: the last attempt to send a mail failed")
    failing.add_metric([], float(failing_mail() is not None))
    yield from (mails, failing)


def token_families() -> Iterator[Metric]:
    valid = gauge("fairshare_tokens_valid", "Valid tokens")
    valid.add_metric([], Token.objects.filter(revoked_at=None, expires_at__gt=clock.now()).count())
    yield valid
