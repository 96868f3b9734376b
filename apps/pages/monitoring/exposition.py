"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from apps.core.plugins import plugins
from apps.core.postgresql.replica import has_replica, replica, replica_refusal
from apps.core.release import __version__, revision
from apps.pages.monitoring.federation_gauges import federation_families
from apps.pages.monitoring.gauges import backup_families, gauge, run_families, token_families
from apps.pages.monitoring.policy_gauges import entry_families, policy_families
from apps.pages.monitoring.source_gauges import source_families
from apps.priorities.serving import store
from apps.web.middleware.lookup_metrics import registry


class _Site(Collector):
    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("fairshare_build_info", "1: this release runs", labels=["version", "revision"])
        build.add_metric([__version__, revision()], 1.0)
        yield build
        try:
            families = list(_site_families())
        except (DatabaseError, InterfaceError):
            connection.close()
            families = []
        yield GaugeMetricFamily("fairshare_database_up", "1: the database is available", value=float(bool(families)))
        yield from families
        yield from _replica_families()


def _replica_families() -> Iterator[Metric]:
    """Without samples where there is no replica."""
    used = gauge("fairshare_replica_used", "1: this process reads pages from the replica")
    lag = gauge("fairshare_replica_lag_seconds", "Seconds by which the replica is behind, at most")
    if has_replica():
        used.add_metric([], float(not replica_refusal()))
        lag_s = replica.state.lag_s(time.monotonic())
        if lag_s is not None:
            lag.add_metric([], lag_s)
    yield from (used, lag)


def _site_families() -> Iterator[Metric]:
    state = store.state()
    snapshots = state.snapshots
    yield from policy_families(snapshots, state.damaged)
    yield from entry_families(snapshots, settings.FAIRSHARE_METRICS_ENTRIES)
    yield from source_families()
    yield from federation_families()
    yield from run_families()
    for plugin in plugins():
        yield from plugin.metrics()
    yield from token_families()
    yield from backup_families()


registry.register(_Site())
ProcessCollector(registry=registry)


def exposition() -> bytes:
    return generate_latest(registry)
