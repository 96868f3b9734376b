"""Metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
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

from apps.pages.monitoring.federation_gauges import federation_families
from apps.pages.monitoring.gauges import mail_families, run_families, token_families
from apps.pages.monitoring.policy_gauges import entry_families, policy_families
from apps.pages.monitoring.scheduler_gauges import scheduler_families
from apps.pages.monitoring.source_gauges import source_families
from apps.priorities.serving import store

disable_created_metrics()  # type: ignore[no-untyped-call]  # they would add an unused series for each counter
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
    """Count a look-up. Label objects are cached, because this is on the hot path."""
    counter = _by_status.get(status)
    if counter is None:
        counter = _by_status[status] = lookups.labels(str(status))
    counter.inc()
    lookup_s.observe(took_s)


class _Site(Collector):
    def collect(self) -> Iterator[Metric]:
        try:
            found = list(_site_families())
        except (DatabaseError, InterfaceError):
            connection.close()
            found = []
        yield GaugeMetricFamily("fairshare_database_up", "1: the database is available", value=float(bool(found)))
        yield from found


def _site_families() -> Iterator[Metric]:
    state = store.state()
    snapshots = state.snapshots
    yield from policy_families(snapshots, state.damaged)
    yield from entry_families(snapshots, settings.FAIRSHARE_METRICS_ENTRIES)
    yield from source_families()
    yield from federation_families()
    yield from run_families()
    yield from scheduler_families()
    yield from mail_families()
    yield from token_families()


registry.register(_Site())
ProcessCollector(registry=registry)


def exposition() -> bytes:
    return generate_latest(registry)
