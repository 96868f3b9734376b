"""Metrics of usage sources: age, outcome and unmapped usage of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

from django.db.models import Sum
from prometheus_client.core import Metric

from apps.accounts.actor import SYSTEM
from apps.core import clock
from apps.core.derived_state import in_memory
from apps.pages.monitoring.gauges import counter, gauge
from apps.priorities.selectors import count_unmapped_by_source
from apps.usage.models import Source, SourceDay
from apps.usage.timeliness import Timeliness, interval_s, is_collection_failing, last_contact_at, lateness, timeliness

DERIVED_STATE = (
    in_memory(
        "unmapped_of_sources",
        holds="unmapped accounts and their usage by source",
        key="none",
        inputs="buckets, accounts, rules",
        range="the present",
        ends="some minutes",
    ),
)

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
            failing.add_metric([source.slug], float(is_collection_failing(source)))
            paused.add_metric([source.slug], float(source.is_paused))
    yield from (failing, paused)


def _received(slugs: dict[int, str]) -> Iterator[Metric]:
    """Received records by outcome, as sums of daily counts, without reading records."""
    received = counter("fairshare_usage_received_records", "Received records by outcome", "source", "outcome")
    ahead = counter("fairshare_usage_ahead_records", "Rejected records that end ahead of the server's clock", "source")
    columns = [f"n_{name}" for name in (*_OUTCOMES, "ahead")]
    sums = SourceDay.objects.values("source_id").annotate(**{f"all_{name}": Sum(name) for name in columns})
    sums_by_source = {row["source_id"]: row for row in sums.order_by()}
    for pk, slug in slugs.items():
        row = sums_by_source.get(pk, {})
        for outcome in _OUTCOMES:
            received.add_metric([slug, outcome], row.get(f"all_n_{outcome}", 0))
        ahead.add_metric([slug], row.get("all_n_ahead", 0))
    yield from (received, ahead)


class _Unmapped:
    """Unmapped accounts and their usage by source, cached for `_UNMAPPED_EVERY_S`."""

    def __init__(self) -> None:
        self.by_source: dict[str, tuple[int, float]] = {}
        self.until_s = 0.0

    def counts(self) -> dict[str, tuple[int, float]]:
        if time.monotonic() >= self.until_s:
            counted = count_unmapped_by_source(actor=SYSTEM)
            self.by_source = {slug: (n, core_s or 0.0) for slug, (n, core_s) in counted.items()}
            self.until_s = time.monotonic() + _UNMAPPED_EVERY_S
        return self.by_source

    def forget(self) -> None:
        self.until_s = 0.0


unmapped_of_sources = _Unmapped()


def _source_unmapped(slugs: list[str]) -> Iterator[Metric]:
    accounts = gauge(
        "fairshare_source_unmapped_accounts", "Accounts of the source that no policy maps to an entry", "source"
    )
    usage = gauge("fairshare_source_unmapped_core_seconds", "Usage of these accounts over all time", "source")
    counts_by_source = unmapped_of_sources.counts()
    for slug in slugs:
        n, core_s = counts_by_source.get(slug, (0, 0.0))
        accounts.add_metric([slug], n)
        usage.add_metric([slug], core_s)
    yield from (accounts, usage)
