"""Prometheus metrics of promises: how often they held, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count, Q
from prometheus_client.core import Metric

from apps.contrib.starts.models import StartPromise, StartState
from apps.contrib.starts.prediction.promises import Kind
from apps.pages.monitoring.gauges import gauge


def start_families() -> Iterator[Metric]:
    """Metrics of each scheduler's promises of 80 %, by kind; no sample without a promise that was settled."""
    held = gauge("fairshare_start_promises_held_ratio", "Share of promises of 80 % that held", "scheduler", "kind")
    words = "Share of the latest 300 promises of 80 % that held"
    recent = gauge("fairshare_start_promises_recent_held_ratio", words, "scheduler", "kind")
    settled = gauge(
        "fairshare_start_promises_settled", "Promises of 80 % kept or broken in 90 days", "scheduler", "kind"
    )
    waiting = gauge("fairshare_start_jobs_promised", "Waiting jobs that have a promise", "scheduler")
    names = {}
    for state in StartState.objects.select_related("scheduler").defer("data", "opening").order_by("scheduler__name"):
        name = names[state.scheduler_id] = state.scheduler.name
        for kind in Kind:
            kept, n = state.held.get(kind, (0, 0))
            settled.add_metric([name, kind], n)
            if n:
                held.add_metric([name, kind], kept / n)
            kept, n = state.recent.get(kind, (0, 0))
            if n:
                recent.add_metric([name, kind], kept / n)
    rows = StartPromise.objects.filter(next_at__isnull=False).values_list("scheduler_id")
    n_waiting = dict(rows.annotate(n=Count("pk", filter=Q(cause=""))).order_by())
    for pk, name in names.items():
        waiting.add_metric([name], n_waiting.get(pk, 0))
    yield from (held, recent, settled, waiting)
