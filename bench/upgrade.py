"""An upgrade under traffic: a migration rewrites each record of a large site in pieces, is killed, and starts again.

Meanwhile look-ups are answered, records are ingested, and a policy is published. With --large alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bench import full_site
from bench.own_copy import fresh_database
from bench.recompute import SLUG
from bench.report import BenchLine

N_ENTRIES, N_RECORDS = 100_000, 1_000_000
KILLS = (0.25, 0.6)  # of the records that are rewritten
GOAL_S = 2.0
_PIECE = 20_000
_NAME = "upgrade"  # of the session that migrates
_EVERY_S = 0.02
_WAIT = "SELECT COALESCE(max(extract(epoch FROM clock_timestamp() - waitstart)), 0) FROM pg_locks WHERE NOT granted"
_STATEMENT = """
SELECT extract(epoch FROM clock_timestamp() - query_start), left(query, 60) FROM pg_stat_activity
WHERE application_name = %s AND state = 'active'
"""


@dataclass
class Watch:
    """What was seen every 20 ms, in seconds, and how often each kind of work was done."""

    wait_s: float = 0.0
    statement_s: float = 0.0
    statement: str = ""
    done: dict[str, int] = field(default_factory=dict)
    slowest_s: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def measure_large() -> BenchLine:
    from apps.core.clock import now

    at = now().replace(second=0, microsecond=0)
    with fresh_database():
        full_site.build(N_ENTRIES, N_RECORDS, at)
        return upgrade_line(N_RECORDS, at)


def upgrade_line(n_records: int, at: datetime) -> BenchLine:
    watch, is_over = Watch(), threading.Event()
    loops = [threading.Thread(target=_watch, args=(watch, is_over))]
    for name, prepare in (("look-ups", _look_up), ("imports", _import), ("publications", _publish)):
        loops.append(threading.Thread(target=_repeat, args=(name, prepare(at), watch, is_over)))
    for loop in loops:
        loop.start()
    began = time.monotonic()
    try:
        for part in KILLS:
            _migrate_until(int(n_records * part))
        _migrate_until(None)
    finally:
        took_s = time.monotonic() - began
        is_over.set()
        for loop in loops:
            loop.join()
    assert not watch.errors, watch.errors[:3]
    assert all(watch.done.get(name) for name in ("look-ups", "imports", "publications")), watch.done
    assert n_left() == 0
    work = ", ".join(f"{n} {name} (slowest {watch.slowest_s[name]:.2f} s)" for name, n in watch.done.items())
    detail = (
        f"killed {len(KILLS)} times; {took_s:.0f} s; longest statement {watch.statement_s:.2f} s ({watch.statement});"
        f" meanwhile {work}"
    )
    return BenchLine(f"upgrade of {n_records:,} records: longest wait for a lock, s", watch.wait_s, GOAL_S, detail)


def n_left() -> int:
    """Records that the migration has not rewritten."""
    with _session() as session:
        return int(session.execute("SELECT count(*) FROM usage_record WHERE upgraded IS NULL").fetchone()[0])


def migrate() -> None:
    """The process that is killed: it adds a column, fills it in pieces, and indexes and checks it without locks."""
    from django.db import connection, transaction

    from apps.cli.stack.migration import migrate_patiently

    def work() -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE usage_record ADD COLUMN IF NOT EXISTS upgraded bigint")
            cursor.execute("ALTER TABLE usage_record ALTER COLUMN upgraded SET DEFAULT 0")
            cursor.execute("SELECT min(id), max(id) FROM usage_record WHERE upgraded IS NULL")
            first, last = cursor.fetchone()
            for start in range(first or 0, (last or -1) + 1, _PIECE):
                with transaction.atomic():
                    cursor.execute(
                        "UPDATE usage_record SET upgraded = key_hash WHERE upgraded IS NULL AND id >= %s AND id < %s",
                        [start, start + _PIECE],
                    )
            cursor.execute("SELECT relid::regclass::text FROM pg_partition_tree('usage_record') WHERE isleaf")
            for (leaf,) in cursor.fetchall():
                cursor.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{leaf}_upgraded"')  # invalid after a kill
                cursor.execute(f'CREATE INDEX CONCURRENTLY "{leaf}_upgraded" ON "{leaf}" (upgraded)')
            cursor.execute("ALTER TABLE usage_record DROP CONSTRAINT IF EXISTS upgraded_is_set")
            cursor.execute(
                "ALTER TABLE usage_record ADD CONSTRAINT upgraded_is_set CHECK (upgraded IS NOT NULL) NOT VALID"
            )
            cursor.execute("ALTER TABLE usage_record VALIDATE CONSTRAINT upgraded_is_set")

    migrate_patiently(work, say=print)


def _migrate_until(n_done: int | None) -> None:
    """Run `migrate` in a process of its own, and kill it when so many records are rewritten; None: to its end."""
    from django.db import connection

    environment = {**os.environ, "PGAPPNAME": _NAME, "BENCH_DATABASE": connection.settings_dict["NAME"]}
    process = subprocess.Popen([sys.executable, "-m", "bench.upgrade"], env=environment)
    if n_done is not None:
        with _session() as session:
            while process.poll() is None and _n_updated(session) < n_done:
                time.sleep(0.1)
        assert process.poll() is None, "it ended before the kill"
        process.send_signal(signal.SIGKILL)
    status = process.wait()
    assert status == (0 if n_done is None else -signal.SIGKILL), status


def _n_updated(session: Any) -> int:
    """By the statistics of the server, because counting a million rows would be traffic of another kind."""
    row = session.execute("SELECT COALESCE(sum(n_tup_upd), 0) FROM pg_stat_user_tables WHERE relname ~ 'usage_record_'")
    return int(row.fetchone()[0])


def _watch(watch: Watch, is_over: threading.Event) -> None:
    with _session() as session:
        while not is_over.wait(_EVERY_S):
            watch.wait_s = max(watch.wait_s, float(session.execute(_WAIT).fetchone()[0]))
            for seconds, statement in session.execute(_STATEMENT, [_NAME]).fetchall():
                if float(seconds) > watch.statement_s:
                    watch.statement_s, watch.statement = float(seconds), " ".join(str(statement).split())


def _repeat(name: str, work: Callable[[], object], watch: Watch, is_over: threading.Event) -> None:
    from django.db import connections

    watch.done[name], watch.slowest_s[name] = 0, 0.0
    try:
        while not is_over.wait(0.05):
            began = time.monotonic()
            work()
            watch.done[name] += 1
            watch.slowest_s[name] = max(watch.slowest_s[name], time.monotonic() - began)
    except Exception as error:
        watch.errors.append(f"{name}: {error!r}")
    finally:
        connections.close_all()


def _look_up(_at: datetime) -> Callable[[], object]:
    from apps.priorities.serving import store

    def work() -> None:
        served = store.newest(SLUG)  # asks the database for a newer one
        assert served is not None

    return work


def _import(at: datetime) -> Callable[[], object]:
    from apps.usage.models import Source
    from apps.usage.records.ingest import ingest_batch

    source = Source.objects.get(slug=SLUG)
    batches = full_site.batches(N_ENTRIES, 10**9, at)
    batch = next(batches)
    numbers = itertools.count(1)

    def work() -> None:
        from dataclasses import replace

        first = next(numbers) * 1_000
        part = {
            name: value[:1_000]
            for name, value in ((each, getattr(batch, each)) for each in batch.__dataclass_fields__)
            if name not in ("people", "job_classes")
        }
        part["job"] = (part["line"] + 2_000_000_000 - first * 1_000).astype("S12")
        ingest_batch(source=source, rows=replace(batch, **part), at=at)

    return work


def _publish(at: datetime) -> Callable[[], object]:
    from apps.accounts.actor import COMMAND
    from apps.policies.services import make_policy, publish_document

    make_policy(slug="small", name="small", at=at, actor=COMMAND)
    numbers = itertools.count(1)

    def work() -> None:
        number = next(numbers)
        children = [{"name": f"g{k}", "shares": 1 + (number + k) % 9} for k in range(50)]
        publish_document(
            policy_slug="small", document={"policy": "small", "root": {"name": "small", "children": children}},
            reason="bench", at=at + number * timedelta(seconds=1), actor=COMMAND,
        )  # fmt: skip

    return work


@contextlib.contextmanager
def _session() -> Iterator[Any]:
    import psycopg
    from django.db import connection

    given = connection.settings_dict
    with psycopg.connect(
        host=given["HOST"], port=given["PORT"], user=given["USER"], dbname=given["NAME"], autocommit=True
    ) as session:
        yield session


if __name__ == "__main__":
    import django

    django.setup()
    from django.db import connection

    connection.settings_dict["NAME"] = os.environ["BENCH_DATABASE"]
    migrate()
