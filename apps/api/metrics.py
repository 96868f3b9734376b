"""What Prometheus reads: the state of the site from the database, and what this process served."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Count
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apps import clock
from apps.accounts.models import Token
from apps.policies.models import Policy
from apps.priorities.models import Snapshot
from apps.runs.models import Run
from apps.usage.models import Source

disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each counter that nobody reads
registry = CollectorRegistry(auto_describe=False)
lookups = Counter("fairshare_lookups", "Look-ups answered from memory, by this process", ["status"], registry=registry)
lookup_s = Histogram(
    "fairshare_lookup_seconds",
    "Time to answer a look-up, in this process",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1),
    registry=registry,
)
_by_status: dict[int, Counter] = {}


def count_lookup(status: int, took_s: float) -> None:
    """Labels are looked up once: this is on the hot path."""
    counter = _by_status.get(status)
    if counter is None:
        counter = _by_status[status] = lookups.labels(str(status))
    counter.inc()
    lookup_s.observe(took_s)


class _Site(Collector):
    def collect(self) -> Iterator[Metric]:
        try:
            found = [*_policies(), *_sources(), *_runs(), *_tokens()]
        except (DatabaseError, InterfaceError):
            connection.close()
            found = []
        yield GaugeMetricFamily("fairshare_database_up", "1 when the database answers", value=float(bool(found)))
        yield from found


def _policies() -> Iterator[Metric]:
    age = GaugeMetricFamily(
        "fairshare_snapshot_age_seconds", "Since the newest snapshot was computed", labels=["policy"]
    )
    took = GaugeMetricFamily("fairshare_recompute_duration_seconds", "Of the newest snapshot", labels=["policy"])
    ranked = GaugeMetricFamily("fairshare_ranked_leaves", "In the newest snapshot", labels=["policy"])
    revision = GaugeMetricFamily("fairshare_policy_revision", "Head revision", labels=["policy"])
    for policy in Policy.objects.all():
        revision.add_metric([policy.slug], policy.head_number)
        newest = Snapshot.objects.filter(policy=policy, is_live=True).order_by("-id").defer("data").first()
        if newest is not None:
            age.add_metric([policy.slug], (clock.now() - newest.computed_at).total_seconds())
            took.add_metric([policy.slug], newest.duration_s)
            ranked.add_metric([policy.slug], newest.n_ranked)
    yield from (age, took, ranked, revision)


def _sources() -> Iterator[Metric]:
    records = GaugeMetricFamily("fairshare_usage_records", "Records taken", labels=["source"])
    lag = GaugeMetricFamily("fairshare_source_lag_seconds", "Since the end of the last job heard of", labels=["source"])
    for source in Source.objects.all():
        records.add_metric([source.slug], source.n_records)
        if source.last_record_end_at is not None:
            lag.add_metric([source.slug], (clock.now() - source.last_record_end_at).total_seconds())
    yield from (records, lag)


def _runs() -> Iterator[Metric]:
    runs = GaugeMetricFamily("fairshare_runs", "Units of background work", labels=["kind", "state"])
    for kind, state, count in Run.objects.values_list("kind", "state").annotate(n=Count("id")).order_by():
        runs.add_metric([kind, state], count)
    yield runs


def _tokens() -> Iterator[Metric]:
    at = clock.now()
    valid = Token.objects.filter(revoked_at=None, expires_at__gt=at).count()
    yield GaugeMetricFamily("fairshare_tokens_valid", "Tokens neither expired nor revoked", value=valid)


registry.register(_Site())
ProcessCollector(registry=registry)


def exposition() -> bytes:
    return generate_latest(registry)
