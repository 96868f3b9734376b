"""Records in any order, by any way, repeated, corrected, withdrawn, listed or undone: one result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.core.errors import Conflict
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, Import, Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.quality.bucket_audit import audit_buckets
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.undo import undo_import
from apps.usage.sources.open_listings import ingest_listing
from tests.examples import examples
from tests.instants import AT
from tests.oracles import ingest as oracle

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
_numbers = count()

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
HURRIED = examples(25, suppress=HealthCheck, fixed=10)


def fresh_source() -> Source:
    return Source.objects.create(slug=f"s{next(_numbers)}", name="S", namespace="s", created_at=AT)


def at(second: int) -> datetime:
    return MIDNIGHT + timedelta(seconds=second)


@st.composite
def versions(draw: st.DrawFn) -> RecordRow:
    """Of few jobs, so that they meet."""
    state = draw(st.sampled_from(["finished"] * 4 + ["running", "pending", "withdrawn"]))
    start, end = sorted((draw(st.integers(0, 20_000)), draw(st.integers(0, 20_000))))
    return RecordRow(
        job=str(draw(st.integers(0, 4))),
        user=draw(st.sampled_from(["alice", "bob"])),
        site=draw(st.sampled_from(["", "north"])),
        state=state,
        submit_at=MIDNIGHT,
        start_at=None if state == "pending" else at(start),
        end_at=at(end) if state == "finished" else None,
        cpus=draw(st.integers(0, 8)) / 4,
        revision=draw(st.integers(0, 2)),
    )


batches = st.lists(versions(), min_size=1, max_size=6)
steps = st.lists(st.tuples(st.sampled_from(["push", "import", "import", "undo"]), batches), max_size=8)


def brought(source: Source, rows: Sequence[RecordRow]) -> Import:
    """An import of these rows, as its run would have left it."""
    run = Run.objects.create(
        kind="usage_import", state=Run.State.SUCCEEDED, subject=f"source:{source.slug}", due_at=AT, created_at=AT
    )
    made = Import.objects.create(source=source, run=run, file_name="f", n_bytes=0, created_at=AT)
    counts = ingest_batch(source=source, rows=rows, at=AT, run=run)
    run.counts = counts.as_dict()
    run.save(update_fields=["counts"])
    return made


def is_undone(made: Import) -> bool:
    try:
        asked = undo_import(import_id=made.pk, at=AT, actor=COMMAND)
    except Conflict as refusal:
        if refusal.code not in {"replaced_since", "repeated_since"}:
            raise
        return False
    assert work_run_now(asked.undone_run_id or 0).state == Run.State.SUCCEEDED
    return True


def buckets(source: Source) -> dict[oracle.Bucket, tuple[float, float]]:
    columns = ("account__user_name", "account__group_name", "site", "job_class__queue", "hour_at", "cpu_s", "jobs")
    return {line[:5]: line[5:] for line in Bucket.objects.filter(source=source).values_list(*columns)}


@HURRIED
@given(found=steps, seed=st.integers(0, 10**6))
def test_an_undone_import_leaves_no_trace_in_usage(found: list[tuple[str, list[RecordRow]]], seed: int) -> None:
    source, random = fresh_source(), Random(seed)
    kept: list[tuple[Import | None, list[RecordRow]]] = []
    for deed, rows in found:
        if deed == "push":
            ingest_batch(source=source, rows=rows, at=AT)
            kept.append((None, rows))
        elif deed == "import":
            kept.append((brought(source, rows), rows))
        elif imports := [one for one in kept if one[0] is not None]:
            chosen = random.choice(imports)
            assert chosen[0] is not None
            if is_undone(chosen[0]):
                kept.remove(chosen)
    newest, _ = oracle.newest(row for _made, rows in kept for row in rows)
    assert buckets(source) == oracle.buckets_of(newest.values())
    assert Record.objects.filter(source=source).count() == len(newest)
    source.refresh_from_db()
    assert source.n_records == len(newest)
    assert audit_buckets(source).n_different == 0


@HURRIED
@given(found=st.lists(batches, max_size=6), seed=st.integers(0, 10**6))
@pytest.mark.fault("F5")
def test_any_order_repetition_and_listings_equal_one_clean_import(found: list[list[RecordRow]], seed: int) -> None:
    random = Random(seed)
    one: dict[Any, RecordRow] = {}  # of two that differ in other fields than their version, the first received stays
    whole = [one.setdefault((oracle.key_of(row), oracle.version_of(row)), row) for rows in found for row in rows]
    clean, mixed = fresh_source(), fresh_source()
    ingest_batch(source=clean, rows=whole, at=AT)
    shuffled = [row for row in whole for _ in range(random.randint(1, 2))]
    random.shuffle(shuffled)
    for first in range(0, len(shuffled), 3):
        ingest_batch(source=mixed, rows=shuffled[first : first + 3], at=AT - timedelta(hours=2))
        ingest_listing(mixed, [row for row in shuffled if row.state in ("running", "pending")][:first], AT)
        ingest_listing(mixed, [], AT + timedelta(seconds=first))  # everything open has vanished, and comes again below
    open_jobs = [row for row in whole if row.state in ("running", "pending")]
    ingest_batch(source=mixed, rows=whole, at=AT)
    ingest_listing(mixed, open_jobs, AT + timedelta(days=1))
    newest, _ = oracle.newest(whole)
    assert buckets(clean) == oracle.buckets_of(newest.values())
    assert buckets(mixed) == buckets(clean)
    assert audit_buckets(mixed).n_different == 0


def test_a_duplicate_that_differs_in_other_fields_changes_nothing_without_a_revision() -> None:
    source = fresh_source()
    first = RecordRow(job="1", user="alice", submit_at=MIDNIGHT, start_at=at(0), end_at=at(60), cpus=1.0)
    ingest_batch(source=source, rows=[first], at=AT)
    before = buckets(source)
    other = first._replace(site="north", cpus=2.0)
    assert ingest_batch(source=source, rows=[other], at=AT).duplicate == 1
    assert buckets(source) == before
    assert ingest_batch(source=source, rows=[other._replace(revision=1)], at=AT).corrected == 1
    assert buckets(source) == {("alice", "", "north", "", MIDNIGHT): (120.0, 1.0)}
