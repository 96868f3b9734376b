"""Usual numbers of records are stored as NULL. Readers take it for these numbers, which former releases stored."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.accounts.actor import COMMAND
from apps.runs.services import work_run_now
from apps.usage.models import Import, Record, ReplacedRecord, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.quality.bucket_audit import audit_buckets
from apps.usage.quality.findings import count_changed, count_without_processors
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.undo import undo_import
from apps.usage.services import NewImport, start_import
from tests.instants import AT

pytestmark = pytest.mark.django_db
USUAL = {"cpus": 1, "gpus": 0, "nodes": 0, "mem_mb": 0, "billing": 0, "restart": 0, "revision": 0}
ROOM = 5 * 8 + 4 + 8  # bytes of these columns
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SITE = "a site whose name makes rows longer than 126 bytes, above which all have a header of one size"


def job(number: int, **fields: Any) -> RecordRow:
    times = {"submit_at": AT - 3 * HOUR, "start_at": AT - 2 * HOUR, "end_at": AT - HOUR}
    return RecordRow(str(number), user="ada", group="physics", site=SITE, **{**times, "cpus": 1.0, **fields})


def write_usual(table: str = "usage_record") -> None:
    """As former releases stored them."""
    values = ", ".join(f"{name} = COALESCE({name}, {usual})" for name, usual in USUAL.items())
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {values}")  # noqa: S608 - constants only


def column_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(pg_column_size(record.*)) FROM usage_record AS record")
        return int(cursor.fetchone()[0])


def test_usual_numbers_take_no_room(source: Source) -> None:
    ingest_batch(source=source, rows=[job(number) for number in range(20)], at=AT)
    before = column_bytes()
    write_usual()
    assert column_bytes() - before == 20 * ROOM


def test_they_take_no_room_beside_records_that_have_others(source: Source) -> None:
    others = {name: usual + 2 for name, usual in USUAL.items()}
    ingest_batch(source=source, rows=[job(1), job(2, **others)], at=AT)
    assert list(Record.objects.order_by("job").values(*USUAL)) == [USUAL, others]
    before = column_bytes()
    write_usual()
    assert column_bytes() - before == ROOM


@pytest.mark.parametrize("change", [lambda: None, write_usual])
def test_usual_numbers_are_equal_stored_or_not(source: Source, change: Callable[[], None]) -> None:
    ingest_batch(source=source, rows=[job(1), job(2), job(3, cpus=0.0)], at=AT)
    change()
    counts = ingest_batch(source=source, rows=[job(1), job(2, revision=1), job(3, cpus=0.0)], at=AT)
    assert (counts.duplicate, counts.corrected, counts.new) == (2, 1, 0)
    assert audit_buckets(source).n_different == 0
    assert count_without_processors(since_at=AT - DAY, actor=COMMAND) == {source.slug: 1}
    assert count_changed(since_at=AT - DAY, actor=COMMAND) == {source.slug: (1, 0.0)}


@pytest.mark.parametrize("table", ["usage_record", "usage_replacedrecord"])
def test_an_undo_finds_the_earlier_version_with_usual_numbers_stored_or_not(source: Source, table: str) -> None:
    first, second = (bring(source, {"cpus": cpus, "revision": cpus}) for cpus in (0, 4))
    third = bring(source, {"cpus": 2, "revision": 5})
    write_usual(table)
    undone = undo_import(import_id=third.pk, at=AT, actor=COMMAND).undone_run
    assert undone is not None
    assert work_run_now(undone.pk).state == "succeeded"
    assert list(Record.objects.values_list("cpus", "revision", "run")) == [(4.0, 4, second.run_id)]
    assert list(ReplacedRecord.objects.values_list("run")) == [(first.run_id,)]


def bring(source: Source, fields: dict[str, float]) -> Import:
    times = {"start": (AT - 2 * HOUR).isoformat(), "end": (AT - HOUR).isoformat()}
    file = io.BytesIO(json.dumps({"job": "1", "user": "ada", **times, **fields}).encode() + b"\n")
    named = NewImport(source_slug=source.slug, format="ndjson", file=file, file_name="log.ndjson")
    made = start_import(named, at=AT, actor=COMMAND)
    assert work_run_now(made.run_id).state == "succeeded"
    return Import.objects.get(pk=made.pk)
