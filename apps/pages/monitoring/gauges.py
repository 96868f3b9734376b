"""Prometheus metrics of the site's state: background runs and tokens; and how a metric is made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, Min, Q
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from apps.accounts.models import Token
from apps.core import clock
from apps.runs.backup_state import age_of, backup_mark
from apps.runs.models import Run
from apps.runs.presence import find_differences
from apps.runs.workers import is_stalled, silent_workers
from apps.runs.workers import last_contact_at as last_worker_contact_at


def gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, labels=labels)


def counter(name: str, words: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, words, labels=labels)


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
    differing = gauge("fairshare_processes_differing", "Live processes with other keys, settings or another release")
    differing.add_metric([], len({(each.role, each.host) for each in find_differences()}))
    yield from (silent, contact, differing)


def backup_families() -> Iterator[Metric]:
    """Of sites that make backups by schedule."""
    age = gauge("fairshare_backup_age_seconds", "Seconds since the last good backup, or since the schedule began")
    failures = gauge("fairshare_backup_failures", "Failed tries since the last good backup")
    mark = backup_mark()
    if mark is not None:
        age.add_metric([], age_of(mark, clock.now()).total_seconds())
        failures.add_metric([], mark.n_failures)
    yield from (age, failures)


def token_families() -> Iterator[Metric]:
    valid = gauge("fairshare_tokens_valid", "Valid tokens")
    valid.add_metric([], Token.objects.filter(revoked_at=None, expires_at__gt=clock.now()).count())
    yield valid
