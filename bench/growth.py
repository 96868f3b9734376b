"""Growth: processor time of a recompute by leaves, and of an import by records, with the bytes that remain.

Linear growth shows as equal numbers. Times are of this process and of the database together.
docs/appendices/growth.md lists a run and explains each knee.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from bench import full_site
from bench.own_copy import fresh_database
from bench.recompute import SLUG, build, change_usage
from bench.report import BenchLine
from bench.site_load import cpu_of_children

ENTRIES = (1_000, 10_000, 100_000, 1_000_000)
RECORDS = (100_000, 1_000_000, 10_000_000)
ROUNDS = 3
_TICK = timedelta(minutes=1)


def measure_large() -> Iterator[BenchLine]:
    yield recompute_line(ENTRIES)
    yield ingest_line(RECORDS)


def recompute_line(sizes: Sequence[int]) -> BenchLine:
    """The largest size beside the one before, each by its leaves."""
    from apps.core.clock import now

    at = now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    costs = {}
    for n_entries in sizes:
        with fresh_database():
            costs[n_entries] = recompute_us(n_entries, at)
    listed = ", ".join(f"{n:,}: {first:.1f} first, {warm:.2f} later" for n, (first, warm) in costs.items())
    before, largest = (costs[n][1] for n in sizes[-2:])
    detail = f"µs of processor time a leaf: {listed}"
    return BenchLine(f"recompute of {sizes[-1]:,} entries / {sizes[-2]:,}, by leaf", largest / before, 1.5, detail)


def recompute_us(n_entries: int, at: datetime) -> tuple[float, float]:
    """Microseconds a leaf: of the first recompute of a worker, and of later ones after usage has changed."""
    from bench.day_bytes import tick

    policy = build(n_entries, at)
    first = _cpu_s(lambda: tick(policy, at))
    later = []
    for number in range(1, ROUNDS + 1):
        change_usage(at)
        later.append(_cpu_s(lambda number=number: tick(policy, at + number * _TICK)))  # type: ignore[misc]
    return first / n_entries * 1e6, statistics.median(later) / n_entries * 1e6


def ingest_line(sizes: Sequence[int]) -> BenchLine:
    from apps.core.clock import now

    at = now().replace(second=0, microsecond=0)
    rates, sizes_of = {}, {}
    for n_records in sizes:
        with fresh_database():
            rates[n_records] = ingest_rate(n_records, at)
            sizes_of[n_records] = bytes_of("usage_record", "usage_bucket")
    listed = ", ".join(f"{n:,}: {rate:,.0f}" for n, rate in rates.items())
    stored = ", ".join(f"{record:.0f} and {bucket:.0f}" for record, bucket in sizes_of.values())
    detail = f"records a second of processor time: {listed}; bytes a record and a bucket: {stored}"
    slowdown = rates[sizes[-2]] / rates[sizes[-1]]
    return BenchLine(f"ingest of {sizes[-1]:,} records / {sizes[-2]:,}, by record", slowdown, 1.5, detail)


def ingest_rate(n_records: int, at: datetime) -> float:
    """Records with their buckets, of 100,000 accounts, a second of processor time; their making is not counted."""
    from apps.accounts.actor import COMMAND
    from apps.core.postgresql import analyze_grown
    from apps.usage.records.ingest import GROWING, ingest_batch
    from apps.usage.services import NewSource, make_source

    source = make_source(NewSource(slug=SLUG, name=SLUG, namespace="c1"), at=at - timedelta(days=30), actor=COMMAND)
    seconds = 0.0
    for batch in full_site.batches(100_000, n_records, at):

        def store(batch: object = batch) -> None:
            ingest_batch(source=source, rows=batch, at=at)  # type: ignore[arg-type]
            analyze_grown(*GROWING)

        seconds += _cpu_s(store)
    return n_records / seconds


def bytes_of(*tables: str) -> list[float]:
    """Bytes a row with its indexes, partitions included."""
    from django.db import connection

    found = []
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(
                "SELECT sum(pg_total_relation_size(relid)) FROM"
                " (SELECT relid FROM pg_partition_tree(%(table)s::regclass) UNION SELECT %(table)s::regclass) AS parts",
                {"table": table},
            )
            size = cursor.fetchone()[0]
            cursor.execute(f'SELECT count(*) FROM "{table}"')  # noqa: S608 - constants only
            found.append(float(size) / max(cursor.fetchone()[0], 1))
    return found


def _cpu_s(work: Callable[[], object]) -> float:
    """Of this process and its children, among which is the database."""
    before = time.process_time() + cpu_of_children(os.getpid())
    work()
    return time.process_time() + cpu_of_children(os.getpid()) - before
