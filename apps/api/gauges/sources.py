"""Per usage source: freshness against its interval, and the results of its records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from django.db.models import Sum
from prometheus_client.core import Metric

from apps.accounts.actor import SYSTEM
from apps.api.gauges.family import counter, gauge
from apps.core import clock
from apps.priorities.selectors import count_unmapped_by_source
from apps.usage.models import Source, SourceDay
from apps.usage.quality import gaps as late

_UNMAPPED_EVERY_S = 300  # this one reads buckets: not at every scrape
_OUTCOMES = ("new", "duplicate", "corrected", "late", "too_late", "rejected")


def source_families() -> Iterator[Metric]:
    sources, at = list(Source.objects.order_by("slug")), clock.now()
    yield from _ages(sources, at.timestamp())
    yield from _collecting(sources)
    yield from _received({source.pk: source.slug for source in sources})
    yield from _unmapped([source.slug for source in sources])


def _ages(sources: list[Source], now_s: float) -> Iterator[Metric]:
    records = gauge("fairshare_usage_records", "Records accepted", "source")
    lag = gauge("fairshare_source_lag_seconds", "Since the end of the last reported job", "source")
    silent = gauge("fairshare_source_silent_seconds", "Since it last sent anything", "source")
    rhythm = gauge("fairshare_source_expected_seconds", "How often it should send, where that was said", "source")
    lateness = gauge(
        "fairshare_source_lateness_ratio", "Age of the newest record in intervals: above 2 is late", "source"
    )
    for source in sources:
        label = [source.slug]
        records.add_metric(label, source.n_records)
        if source.last_record_end_at is not None:
            lag.add_metric(label, now_s - source.last_record_end_at.timestamp())
        since = source.last_received_at or source.created_at
        silent.add_metric(label, now_s - since.timestamp())
        if source.expected_every_s:
            rhythm.add_metric(label, source.expected_every_s)
            lateness.add_metric(label, late.lateness(source, datetime.fromtimestamp(now_s, UTC)) or 0.0)
    yield from (records, lag, silent, rhythm, lateness)


def _collecting(sources: list[Source]) -> Iterator[Metric]:
    failing = gauge("fairshare_source_collect_failing", "1 when the last try to collect failed", "source")
    paused = gauge("fairshare_source_paused", "1 while nothing is collected on purpose", "source")
    for source in sources:
        if source.is_collected:
            failing.add_metric([source.slug], float(bool(source.collect_error)))
            paused.add_metric([source.slug], float(source.is_paused))
    yield from (failing, paused)


def _received(slugs: dict[int, str]) -> Iterator[Metric]:
    """Sums of the daily counts of ingest: no record is read."""
    received = counter(
        "fairshare_usage_received_records", "Records received, by what became of them", "source", "outcome"
    )
    ahead = counter("fairshare_usage_ahead_records", "Of the rejected, those that ended ahead of our clock", "source")
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
    """The last count, for as long as it may be repeated."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, float]] = {}
        self.until_s = 0.0

    def fresh(self) -> dict[str, tuple[int, float]]:
        if time.monotonic() >= self.until_s:
            counted = count_unmapped_by_source(actor=SYSTEM)
            self.found = {slug: (n, core_s or 0.0) for slug, (n, core_s) in counted.items()}
            self.until_s = time.monotonic() + _UNMAPPED_EVERY_S
        return self.found

    def forget(self) -> None:
        self.until_s = 0.0


unmapped_of_sources = _Unmapped()


def _unmapped(slugs: list[str]) -> Iterator[Metric]:
    accounts = gauge("fairshare_source_unmapped_accounts", "Its accounts that no policy has an entry for", "source")
    usage = gauge("fairshare_source_unmapped_core_seconds", "What those have used, ever", "source")
    found = unmapped_of_sources.fresh()
    for slug in slugs:
        n, core_s = found.get(slug, (0, 0.0))
        accounts.add_metric([slug], n)
        usage.add_metric([slug], core_s)
    yield from (accounts, usage)
