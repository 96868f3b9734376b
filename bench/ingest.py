"""Ingest of a log of 188,041 jobs beside a raw binary COPY of the same rows into a plain logged table; with --large, a
million.

The log is LCG-2005-1 where the shared material lies beside the checkout, else synthetic rows of the same shape.
"""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.clock import processor_s
from bench.report import BenchLine

if TYPE_CHECKING:
    from apps.usage.parsers.base import RecordBatch
    from apps.usage.pgbinary import Column

N_JOBS = 188_041
MANY_JOBS = 1_000_000
ROUNDS = 3
_JOBS_A_DAY = 17_095
_JOBS_A_BURST = 30
_N_PEOPLE = 231
GOAL_NEW = 3.2  # keys, accounts, four more indexes and buckets beside the rows
GOAL_BYTES = 165.0  # a record, with its part of the indexes
GOAL_DUPLICATES = 1 / 0.25  # of goal 7
GOAL_FILE = 4.5
_LOG = Path(__file__).resolve().parent.parent.parent / "shared" / "traces" / "LCG-2005-1.swf.gz"


def measure() -> list[BenchLine]:
    """Fastest of several rounds; every round goes into a source and a table of its own."""
    text = gzip.decompress(_LOG.read_bytes()) if _LOG.is_file() else synthetic_log(N_JOBS)
    return _measure(text, "LCG-2005-1" if _LOG.is_file() else "synthetic", n_jobs=N_JOBS, rounds=ROUNDS)


def measure_large() -> list[BenchLine]:
    """The measurement with a million jobs."""
    return _measure(synthetic_log(MANY_JOBS), "synthetic", n_jobs=MANY_JOBS, rounds=2)


def _measure(text: bytes, origin: str, *, n_jobs: int, rounds: int) -> list[BenchLine]:
    from apps.usage.parsers.base import Reading
    from apps.usage.parsers.swf import Swf

    batches = [piece.batch for piece in Swf().parse(io.BytesIO(text), Reading(at=datetime.now(UTC)))]
    assert sum(len(batch) for batch in batches) == n_jobs
    raw_s = new_s = again_s = whole_s = float("inf")
    for number in range(rounds):
        raw_s = min(raw_s, _raw(batches))
        new, again = _ingest(f"rows{n_jobs}-{number}", batches, n_jobs)
        new_s, again_s = min(new_s, new), min(again_s, again)
        whole_s = min(whole_s, _import(f"file{n_jobs}-{number}", gzip.compress(text, 6), n_jobs))
    beside = f"beside {raw_s:.2f} s of raw COPY; {n_jobs:,} jobs, {origin}"
    return [
        BenchLine("ingest of new jobs with buckets / raw COPY", new_s / raw_s, GOAL_NEW, f"{new_s:.2f} s {beside}"),
        BenchLine("ingest of the same jobs again / raw COPY", again_s / raw_s, GOAL_DUPLICATES, f"{again_s:.2f} s"),
        BenchLine(
            "import of the packed file as a run / raw COPY",
            whole_s / raw_s,
            GOAL_FILE,
            f"{whole_s:.2f} s: check, unpack, parse, ingest, progress",
        ),
        _size(),
    ]


def _size() -> BenchLine:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(pg_table_size(relid)), sum(pg_indexes_size(relid)), (SELECT count(*) FROM usage_record)"
            " FROM pg_partition_tree('usage_record')"
        )
        rows, indexes, n = cursor.fetchone()
    rows, indexes = float(rows), float(indexes)
    line = f"bytes of a stored record / {GOAL_BYTES:.0f}"
    return BenchLine(line, (rows + indexes) / n / GOAL_BYTES, 1.0, f"{rows / n:.0f} and {indexes / n:.0f} in indexes")


def synthetic_log(n_jobs: int) -> bytes:
    """A log in this format, equal at every call: what LCG-2005-1 shows, at its rate, for as long as it takes.

    231 people, each of one group and at home on a dozen of 170 sites, send their jobs in bursts; half of the jobs last
    less than five minutes, the mean is over an hour. 0.35 hours of an account on a site come to a job there, and here.
    """
    random = np.random.default_rng(20051120)
    n_bursts = -(-n_jobs // _JOBS_A_BURST)
    burst_user = (random.zipf(1.4, n_bursts) - 1) % _N_PEOPLE
    home = (random.integers(0, 170, (_N_PEOPLE, 12)) ** 2 // 170) + 1
    burst_site = home[burst_user, (random.zipf(1.4, n_bursts) - 1) % 12]
    burst_at = np.sort(random.integers(0, n_jobs * 86400 // _JOBS_A_DAY, n_bursts))
    burst = np.repeat(np.arange(n_bursts), _JOBS_A_BURST)[:n_jobs]
    submit = burst_at[burst] + random.integers(0, 3600, n_jobs)
    run = random.lognormal(5.5, 2.6, n_jobs).astype(np.int64).clip(0, 260_000)
    user = burst_user[burst] + 1
    lines = [
        f"{n} {s} -1 {r} 1 -1 -1 -1 -1 -1 -1 {u} {u % 28 + 1} -1 -1 {p} -1 -1"
        for n, s, r, u, p in zip(range(1, n_jobs + 1), submit, run, user, burst_site[burst], strict=True)
    ]
    return ("; UnixStartTime: 1132444805\n" + "\n".join(lines) + "\n").encode()


def _raw(batches: list[RecordBatch]) -> float:
    """These columns and values, zeros too, in these pieces, without keys, checks, accounts and buckets."""
    from django.db import connection, transaction

    from apps.usage.pgbinary import copy_payload, cursor

    columns = [_plain_columns(batch) for batch in batches]
    payloads = [copy_payload(list(each.values())) for each in columns]
    with connection.cursor() as plain:
        plain.execute("DROP TABLE IF EXISTS bench_plain")
        plain.execute("CREATE TABLE bench_plain (LIKE usage_record INCLUDING DEFAULTS)")
        plain.execute("ALTER TABLE bench_plain ALTER id DROP NOT NULL")
    query = f"COPY bench_plain ({', '.join(columns[0])}) FROM STDIN (FORMAT BINARY)"

    def copy_all() -> None:
        for payload in payloads:
            with transaction.atomic(), cursor() as db_cursor, db_cursor.copy(query) as copy:
                copy.write(payload)

    return processor_s(copy_all)


def _plain_columns(batch: RecordBatch) -> dict[str, Column]:
    """What a record holds, each column as it is."""
    from apps.core.clock import now
    from apps.usage import pgbinary
    from apps.usage.records.record_rows import record_columns

    unit = np.ones(len(batch), np.int64)
    return record_columns(1, batch, unit, unit, None, now()) | {
        "revision": pgbinary.int8(batch.revision),
        "restart": pgbinary.int4(batch.restart),
        **{name: pgbinary.float8(getattr(batch, name)) for name in ("cpus", "gpus", "nodes", "mem_mb", "billing")},
        "requested_s": pgbinary.float8_unless_nan(batch.requested_s),
        **{name: pgbinary.text(getattr(batch, name)) for name in ("cluster", "array_task")},
    }


def _ingest(slug: str, batches: list[RecordBatch], n_jobs: int) -> tuple[float, float]:
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.usage.records.ingest import ingest_batch
    from apps.usage.services import NewSource, make_source

    source = make_source(NewSource(slug=slug, name=slug), at=now(), actor=COMMAND)
    totals = {"new": 0, "duplicate": 0}

    def take_all() -> None:
        for batch in batches:
            counts = ingest_batch(source=source, rows=batch, at=now())
            totals["new"] += counts.new
            totals["duplicate"] += counts.duplicate

    new_s, again_s = processor_s(take_all), processor_s(take_all)
    assert totals == {"new": n_jobs, "duplicate": n_jobs}
    return new_s, again_s


def _import(slug: str, packed: bytes, n_jobs: int) -> float:
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.runs.services import work_run_now
    from apps.usage.services import NewImport, start_import

    def whole() -> None:
        made = start_import(
            NewImport(
                source_slug=slug, format="swf", file=io.BytesIO(packed), file_name="log.swf.gz", makes_source=True
            ),
            at=now() - timedelta(seconds=1),
            actor=COMMAND,
        )
        run = work_run_now(made.run_id)
        assert run.counts["new"] == n_jobs, run.error

    return processor_s(whole)
