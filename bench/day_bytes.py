"""Bytes of a simulated day: a policy of a million entries that is computed each minute, on disk and in the WAL.

Ticks of each kind are measured and multiplied out: 1,440 a day, of which those in which usage has only decayed extend
the last snapshot, except for the first of an hour. Of what is stored, the last snapshot of each hour remains.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from bench.own_copy import fresh_database, without_autovacuum
from bench.recompute import N_ENTRIES, build, change_usage
from bench.report import BenchLine

if TYPE_CHECKING:
    from apps.policies.models import Policy

ROUNDS = 3
TICKS, HOURS = 1_440, 24
GOAL_BYTES = 1e9
_TICK = timedelta(minutes=1)
_TABLES = ("priorities_snapshot", "priorities_unmappedaccounts", "priorities_storedplaces")


class Written(NamedTuple):
    """Bytes of the write-ahead log, and by which the tables of snapshots grew."""

    wal: float
    stored: float


class Kinds(NamedTuple):
    """Of a tick that extends the last snapshot, of one that stores another, and of removing one at last."""

    extended: Written
    computed: Written
    removed: Written

    def day(self, n_computed: int) -> Written:
        """Of a day with this number of new snapshots; what remains of it is one snapshot an hour."""
        n_removed = n_computed - HOURS
        wal = n_computed * self.computed.wal + (TICKS - n_computed) * self.extended.wal + n_removed * self.removed.wal
        return Written(wal, HOURS * self.computed.stored)


def measure_large() -> Iterator[BenchLine]:
    yield from measure_of(N_ENTRIES)


def measure_of(n_entries: int) -> Iterator[BenchLine]:
    """One line for each kind of day: bytes stored and logged / a gigabyte."""
    from apps.core.clock import now

    at = now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    with fresh_database(), without_autovacuum():
        kinds = measure_kinds(build(n_entries, at), at)
    for name, n_computed in (("never", HOURS), ("each hour", 2 * HOURS), ("each minute", TICKS)):
        day = kinds.day(n_computed)
        detail = (
            f"{day.stored / 1e6:.0f} MB remain; {kinds.computed.stored / n_entries:.2f} bytes an entry and snapshot, "
            f"{kinds.extended.stored:.0f} a tick without one; {n_entries:,} entries, {n_computed:,} snapshots"
        )
        yield BenchLine(f"stored in a day, usage changes {name} / 1 GB", day.stored / GOAL_BYTES, 1.0, detail)
        detail = f"{day.wal / 1e6:.0f} MB; {kinds.computed.wal / 1e6:.2f} MB a snapshot, "
        detail += f"{kinds.extended.wal:.0f} bytes a tick"
        goal = 1.0 if n_computed < TICKS else None
        yield BenchLine(f"WAL of a day, usage changes {name} / 1 GB", day.wal / GOAL_BYTES, goal, detail)


def measure_kinds(policy: Policy, at: datetime) -> Kinds:
    """Ticks from a full hour `at` on, medians of rounds."""
    from apps.priorities.models import Snapshot

    tick(policy, at)
    extended = [_written(partial(tick, policy, at + number * _TICK)) for number in range(1, ROUNDS + 1)]
    assert Snapshot.objects.count() == 1, "a tick in which nothing changes stores nothing"
    computed = []
    for number in range(ROUNDS + 1, 2 * ROUNDS + 1):
        change_usage(at)
        computed.append(_written(partial(tick, policy, at + number * _TICK)))
    assert Snapshot.objects.count() == ROUNDS + 1
    oldest = Snapshot.objects.order_by("pk")[:1].get()
    removed = [_written(oldest.delete)]
    return Kinds(*(_median(each) for each in (extended, computed, removed)))


def tick(policy: Policy, at: datetime) -> None:
    """As a worker does it: what only decays is extended, the rest is computed and stored."""
    from django.db import transaction

    from apps.priorities.recompute import pipeline
    from apps.priorities.recompute.extension import extend

    inputs = pipeline.load_inputs(policy, as_of=at)
    with transaction.atomic():
        if extend(inputs, at=at) is not None:
            return
    computed = pipeline.compute(inputs)
    with transaction.atomic():
        pipeline.store_result(inputs, computed, is_live=True, started_at=at, computed_at=at, run=None)


def _written(work: Callable[[], object]) -> Written:
    before = _state()
    work()
    after = _state()
    return Written(after.wal - before.wal, after.stored - before.stored)


def _state() -> Written:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
        wal = float(cursor.fetchone()[0])
        cursor.execute(
            "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name", [list(_TABLES)]
        )
        return Written(wal, float(cursor.fetchone()[0]))


def _median(rounds: list[Written]) -> Written:
    return Written(*(statistics.median(column) for column in zip(*rounds, strict=True)))
