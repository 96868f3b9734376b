"""Metrics of look-ups, counted where they are answered, in the registry that every metric of this process joins."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

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
