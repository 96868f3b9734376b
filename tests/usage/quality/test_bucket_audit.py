"""Buckets are proved to be the sum of the records; what isn't is named, and only repaired when asked, with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F

from apps.accounts.models import AuditEvent
from apps.core import clock
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, Record, SealedHour, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.quality.bucket_audit import audit_buckets
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.retention import enqueue_retention
from tests.instants import AT

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)

Stored = Callable[[], dict[str, list[tuple[Any, ...]]]]

pytestmark = pytest.mark.django_db


def row(job: int, **given: Any) -> RecordRow:
    start_at = MIDNIGHT + timedelta(hours=job % 50, seconds=job)
    values = {"user": f"u{job % 3}", "site": "north", "cpus": 0.3, "gpus": job % 2, "mem_mb": 1000.0, **given}
    return RecordRow(job=str(job), start_at=start_at, end_at=start_at + timedelta(seconds=9000), **values)


@pytest.fixture
def filled(source: Source) -> Source:
    ingest_batch(source=source, rows=[row(n) for n in range(100)], at=AT)
    ingest_batch(source=source, rows=[row(n, revision=1, user="u9", is_charge=n == 4) for n in range(9)], at=AT)
    return source


def checked(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("check_usage", *arguments, stdout=out, stderr=out)
    except CommandError as error:
        return error.returncode, out.getvalue() + str(error)
    return 0, out.getvalue()


def test_the_sums_of_every_source_are_audited(filled: Source) -> None:
    found = audit_buckets(filled)
    assert (found.n_records, found.n_different, found.first) == (100, 0, [])
    status, result = checked()
    assert status == 0
    assert f"cluster: 100 records, {found.n_buckets} buckets: every bucket is the sum of its records" in result


def test_extra_wrong_and_missing_buckets_are_reported_without_a_change(filled: Source, stored: Stored) -> None:
    buckets = list(Bucket.objects.order_by("hour_at", "account_id", "job_class_id")[:3])
    Bucket.objects.filter(pk=buckets[0].pk).update(cpu_s=F("cpu_s") + 1)
    Bucket.objects.filter(pk=buckets[1].pk).update(jobs=7)
    Bucket.objects.filter(pk=buckets[2].pk).delete()
    before = stored()
    status, result = checked("--source", "cluster")
    assert status == 1
    assert "3 buckets differ" in result
    first = buckets[0]
    account = first.account.user_name
    assert f"{first.hour_at:%Y-%m-%d %H:%M} UTC, {account} at north: cpu_s is {first.cpu_s + 1}" in result
    assert f"its records come to {first.cpu_s}" in result
    assert stored() == before
    found = json.loads(checked("--json")[1].splitlines()[0])
    assert (found["source"], found["n_different"]) == ("cluster", 3)


def test_a_repair_needs_a_reason_rewrites_buckets_from_records_and_is_audited(filled: Source, stored: Stored) -> None:
    before = stored()
    Bucket.objects.update(cpu_s=F("cpu_s") + 1)
    Bucket.objects.filter(jobs__gt=0).delete()
    assert checked("--repair")[0] == 2
    status, found = checked("--repair", "--reason", "disk went bad")
    assert status == 0
    assert "written anew from their records" in found
    assert stored() == before
    event = AuditEvent.objects.get(verb="usage.repaired")
    assert (event.subject, event.details["reason"]) == ("cluster", "disk went bad")
    assert checked("--repair", "--reason", "again")[0] == 0
    assert AuditEvent.objects.filter(verb="usage.repaired").count() == 1


@pytest.mark.django_db(transaction=True)
def test_sealed_hours_and_remaining_records_add_up(
    filled: Source, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(clock.VARIABLE, AT.isoformat())
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 18
    run = enqueue_retention(at=AT)
    assert run is not None
    assert work_run_now(run.pk).state == "succeeded"
    assert 0 < Record.objects.count() < 100
    assert SealedHour.objects.exists()
    found = audit_buckets(filled)
    n_sealed = Bucket.objects.filter(hour_at__in=SealedHour.objects.values("hour_at")).count()
    assert (found.n_different, found.n_sealed) == (0, n_sealed)
    assert f"{found.n_buckets - n_sealed} are the sum of their records; {n_sealed} lie in hours" in checked()[1]
    sealed = SealedHour.objects.order_by("hour_at")[0]
    Bucket.objects.filter(pk=Bucket.objects.filter(hour_at=sealed.hour_at)[0].pk).update(node_s=5)
    found = audit_buckets(filled)
    assert found.n_different == 1
    assert (found.first[0].hour_at, found.first[0].amount, found.first[0].account) == (sealed.hour_at, "node_s", "")
    status, result = checked("--repair", "--reason", "x")
    assert status == 1
    assert "can't be repaired" in result


@pytest.mark.django_db(transaction=True)
def test_without_records_no_sum_is_claimed(filled: Source, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(clock.VARIABLE, AT.isoformat())
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 1
    run = enqueue_retention(at=AT)
    assert run is not None
    assert work_run_now(run.pk).state == "succeeded"
    assert not Record.objects.exists()
    status, found = checked()
    assert status == 0
    assert "nothing could be compared, no finished record is kept" in found
    assert "sum of its records" not in found
    Bucket.objects.all().delete()
    SealedHour.objects.all().delete()
    assert checked()[1] == "cluster: 0 records, 0 buckets: nothing to compare\n"
