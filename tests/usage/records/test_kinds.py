"""Kinds of resources of records: what is stored of them, within which bounds; and sites without any pay nothing."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.core.resource_kinds import LONGEST_RESOURCE_KIND, MOST_KINDS_OF_RECORD, make_kinds
from apps.runs.services import work_run_now
from apps.usage import kinds as dictionary
from apps.usage.models import Kind, KindHour, Record, ReplacedRecord, SealedKind, Source
from apps.usage.parsers.base import RecordBatch, RecordRow
from apps.usage.quality.bucket_audit import audit_buckets
from apps.usage.records.imports import DryRun
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.partition_usage import register_partition_accounts
from apps.usage.records.retention import enqueue_retention
from apps.usage.services import PushedRecords, push_records
from tests.instants import AT

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SITE = "a site whose name makes rows longer than 126 bytes, above which all have a header of one size"
# Columns that a record had before it could have kinds.
_FORMER = """
SELECT sum(pg_column_size(record.*)), sum(pg_column_size(ROW(id, key_hash, submit_at, start_at, end_at, revision, cpus,
    gpus, nodes, mem_mb, billing, requested_s, seen_at, source_id, account_id, job_class_id, job_number, restart,
    run_id, state, is_charge, cluster, job, array_task, site, note))) FROM usage_record AS record
"""


def job(number: int, *, days_ago: float = 1, **fields: Any) -> RecordRow:
    end_at = AT - days_ago * DAY
    values = {
        "user": "ada",
        "group": "physics",
        "submit_at": end_at - HOUR,
        "start_at": end_at - HOUR,
        "end_at": end_at,
    }
    return RecordRow(str(number), **{**values, "cpus": 1.0, **fields})


def of_kind(name: str) -> float:
    return sum(KindHour.objects.filter(kind__name=name).values_list("amount", flat=True))


def test_records_without_kinds_are_stored_as_before(source: Source) -> None:
    ingest_batch(source=source, rows=[job(number, gpus=number % 3, site=SITE) for number in range(200)], at=AT)
    with connection.cursor() as cursor:
        cursor.execute(_FORMER)
        now, before = cursor.fetchone()
    assert now == before, "bytes of all rows"
    assert not Record.objects.filter(kinds__isnull=False).exists()
    assert not Kind.objects.exists()
    assert not KindHour.objects.exists()
    with connection.execute_wrapper(_refuse_kinds):
        ingest_batch(source=source, rows=[job(number, days_ago=0.5) for number in range(300, 310)], at=AT)


def _refuse_kinds(execute: Any, sql: str, *others: Any) -> Any:
    assert "usage_kind" not in sql, "no statement about kinds"
    return execute(sql, *others)


def test_a_version_with_kinds_replaces_one_without(source: Source) -> None:
    plain = [job(1, gpus=2), job(2, gpus=1)]
    ingest_batch(source=source, rows=plain, at=AT)
    typed = [row._replace(kinds=(("gpu:h100", row.gpus),)) for row in plain]
    counts = ingest_batch(source=source, rows=typed, at=AT)
    assert (counts.corrected, counts.duplicate) == (2, 0)
    assert of_kind("gpu:h100") == 3 * 3600
    counts = ingest_batch(source=source, rows=[*typed, *plain], at=AT)
    assert (counts.corrected, counts.duplicate) == (0, 4), "neither the same again nor one without kinds"
    assert of_kind("gpu:h100") == 3 * 3600
    assert ReplacedRecord.objects.filter(kinds__isnull=True).count() == 2
    assert audit_buckets(source).n_different == 0


def test_a_dry_run_remembers_kinds_between_batches(source: Source) -> None:
    batch = RecordBatch.from_rows([job(1, gpus=1, kinds=(("gpu:h100", 1.0),))])
    dry = DryRun(source)
    counts = [dry.classify(batch, AT) for _again in range(2)]
    assert [(each.new, each.corrected, each.duplicate) for each in counts] == [(1, 0, 0), (0, 0, 1)]


def test_kinds_beyond_the_most_count_in_their_sum_alone(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary, "MOST_RESOURCE_KINDS", 2)
    rows = [job(n, gpus=1, kinds=((name, 1.0),)) for n, name in enumerate(("gpu:a", "gpu:b", "gpu:c"))]
    counts = ingest_batch(source=source, rows=rows, at=AT)
    assert (counts.new, counts.notes) == (3, {dictionary.TOO_MANY: 1})
    assert list(Kind.objects.order_by("name").values_list("name", flat=True)) == ["gpu:a", "gpu:b"]
    assert sorted(Record.objects.values_list("job", "kinds")) == [("0", {"gpu:a": 1}), ("1", {"gpu:b": 1}), ("2", None)]
    assert audit_buckets(source).n_different == 0
    counts = ingest_batch(source=source, rows=rows, at=AT)
    assert (counts.duplicate, counts.corrected) == (3, 0), "a record that lost its kind is no older than itself"
    assert not ReplacedRecord.objects.exists()


def test_removed_records_leave_sealed_sums_by_kind(
    source: Source, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 40
    kinds = (("energy", 7_200.0), ("gpu:h100", 2.0))
    rows = [job(number, days_ago=days, gpus=2, kinds=kinds) for number, days in enumerate((60, 60, 30, 1))]
    ingest_batch(source=source, rows=rows, at=AT)
    before = list(KindHour.objects.order_by("pk").values())
    run = enqueue_retention(at=AT)
    assert run is not None
    assert work_run_now(run.pk).state == "succeeded"
    assert Record.objects.count() == 2
    assert list(KindHour.objects.order_by("pk").values()) == before
    sealed = {kind: 0.0 for kind in ("energy", "gpu:h100")}
    for kind, amount in SealedKind.objects.values_list("kind__name", "amount"):
        sealed[kind] += amount
    assert sealed == {"energy": 14_400.0, "gpu:h100": 14_400.0}
    comparison = audit_buckets(source)
    assert (comparison.n_different, comparison.n_sealed > 0) == (0, True)


def test_sums_by_kind_move_with_the_accounts_of_a_partition(source: Source) -> None:
    rows = [job(1, gpus=1, partition="gpu", kinds=(("gpu:h100", 1.0),)), job(2, gpus=1, kinds=(("gpu:h100", 1.0),))]
    ingest_batch(source=source, rows=rows, at=AT)
    register_partition_accounts([AccountKey(source.namespace, "ada", "physics", "", "", "gpu")], at=AT)
    assert KindHour.objects.values("account").distinct().count() == 2
    assert audit_buckets(source).n_different == 0


def test_a_licence_of_a_server_is_a_kind(source: Source) -> None:
    """Slurm names those of a server that other clusters share: License/Matlab@flex1."""
    ingest_batch(source=source, rows=[job(1, kinds=make_kinds([("License/Matlab@flex1", 2.0)])[0])], at=AT)
    assert of_kind("license/matlab@flex1") == 2 * 3600


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kinds": {"gpu:h100": -1}}, "gpu:h100 is -1, not from 0 to"),
        ({"kinds": {"gpu:h100": 1e12}}, "not from 0 to"),
        ({"kinds": {"energy": 1e13}}, "energy is 1e+13, not from 0 to"),
        ({"kinds": {"license/matlab@": 1}}, "is no name of a kind"),
        ({"kinds": {"gpu:h100": "2"}}, "gpu:h100 is no number"),
        ({"kinds": {"gpu:h100": True}}, "gpu:h100 is no number"),
        ({"kinds": {"h100": 1}}, "'h100' is no name of a kind"),
        ({"kinds": {"gpu": 1}}, "'gpu' is no name of a kind"),
        ({"kinds": {"gpu:'; DROP TABLE x": 1}}, "is no name of a kind"),
        ({"kinds": {"gpu:" + "x" * LONGEST_RESOURCE_KIND: 1}}, "has more than 64 characters"),
        ({"kinds": {f"gpu:{n}": 1 for n in range(MOST_KINDS_OF_RECORD + 1)}}, "more than 16 kinds"),
        ({"kinds": {"gpu:h100": 1, "GPU:H100": 1}}, "gpu:h100 is given twice"),
        ({"kinds": ["gpu:h100"]}, "it is an object"),
        ({"kinds": {"gpu:h100": 4}, "gpus": 2}, "gpus is 2, less than the GPUs in kinds"),
    ],
)
def test_bad_kinds_refuse_a_record_and_name_its_line(source: Source, fields: dict[str, Any], reason: str) -> None:
    good = {"job": "1", "user": "ada", "cpus": 1, "start": (AT - 2 * HOUR).isoformat(), "end": (AT - HOUR).isoformat()}
    body = json.dumps([{**good, "kinds": {"gpu:t4": 1}}, {**good, "job": "2", **fields}]).encode()
    pushed = PushedRecords(source_slug=source.slug, body_stream=io.BytesIO(body), content_type="application/json")
    answer = push_records(pushed, at=AT, actor=COMMAND)
    assert answer["new"] == 1
    (rejected,) = answer["rejected"]
    assert (rejected["line"], rejected["code"]) == (2, "bad_kinds")
    assert reason in rejected["message"]
    assert list(Record.objects.values_list("gpus", "kinds")) == [(1.0, {"gpu:t4": 1})], "GPUs are at least their kinds"
