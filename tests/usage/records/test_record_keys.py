"""Numbers that stand for the key of a record, and what happens where they are equal for different jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, transaction

from apps.usage.models import Record, Source
from apps.usage.parsers.base import RecordBatch, RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.record_keys import job_numbers, key_hash
from tests.instants import AT


def row(job: str, **fields: Any) -> RecordRow:
    return RecordRow(job=job, user="ada", start_at=AT - timedelta(hours=2), end_at=AT - timedelta(hours=1), **fields)


def numbers(*jobs: str) -> list[int]:
    numbered: list[int] = job_numbers(RecordBatch.from_rows([row(job) for job in jobs]).job).tolist()
    return numbered


def test_a_job_has_the_number_with_which_its_name_begins() -> None:
    assert numbers("4711", "4711_3", "4711.cluster", "0", "007", str(2**31 + 5)) == [4711, 4711, 4711, 0, 7, 5]


def test_the_number_of_a_name_depends_on_nothing_beside_it() -> None:
    alone, beside = numbers("batch-a"), numbers("batch-a", "12", "a" * 100)
    assert alone[0] == beside[0] != numbers("batch-b")[0]
    assert 0 <= alone[0] < 2**31


def test_keys_that_differ_in_one_part_have_different_hashes() -> None:
    rows = [
        row("1"),
        row("2"),
        row("1", array_task="1"),
        row("1", cluster="1"),
        row("1", restart=1),
        row("1", submit_at=AT),
    ]
    hashes = key_hash(RecordBatch.from_rows(rows))
    assert len(set(hashes.tolist())) == len(rows)
    assert key_hash(RecordBatch.from_rows([row("1"), row("1" * 90)]))[0] == hashes[0]


@pytest.mark.django_db
def test_two_jobs_of_one_hash_are_never_taken_for_one(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("record_rows", "stored_versions", "versions"):
        monkeypatch.setattr(f"apps.usage.records.{module}.key_hash", lambda batch: np.full(len(batch), 7, np.uint64))
    ingest_batch(source=source, rows=[row("1_a")], at=AT)
    counts = ingest_batch(source=source, rows=[row("1_b"), row("2_a"), row("2_b"), row("2_a", cpus=2)], at=AT)
    assert (counts.new, counts.duplicate, counts.rejected) == (1, 1, 2)
    assert [rejection.code for rejection in counts.rejections] == ["same_hash", "same_hash"]
    assert counts.rejections[0].message.startswith("Job 1_b can't be told from another job of this source: the hashes")
    assert sorted(Record.objects.values_list("job", flat=True)) == ["1_a", "2_a"]
    assert ingest_batch(source=source, rows=[row("1_a")], at=AT).duplicate == 1
    with pytest.raises(IntegrityError, match="Job 1_c can't be told from another job"), transaction.atomic():
        ingest_batch(source=source, rows=[row("1_c", submit_at=AT - timedelta(hours=2, minutes=1))], at=AT)
    with pytest.raises(IntegrityError, match="Job 1_d can't be told from another job"), transaction.atomic():
        ingest_batch(source=source, rows=[row("1_d", submit_at=AT - timedelta(minutes=59))._replace(end_at=AT)], at=AT)
    assert sorted(Record.objects.values_list("job", flat=True)) == ["1_a", "2_a"]
