from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db.models import Sum

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.core.errors import Conflict
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage import bucket_deltas
from apps.usage.models import Bucket, Record, SealedHour, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records import retention
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.retention import enqueue_retention
from apps.usage.records.retention_start import retention_start
from apps.usage.sources.services import change_source, tag_of

AT = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
DAY = timedelta(days=1)
Stored = Callable[[], dict[str, list[tuple[Any, ...]]]]


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is old depends on the instant of these tests, and on no day on which they run."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


def jobs(n: int, *, days: float = 40) -> list[RecordRow]:
    """Of all kinds, over the last days before AT; the same for the same n."""
    random = Random(n)
    rows = []
    for number in range(n):
        start_at = AT - days * DAY * random.random()
        end_at = min(start_at + timedelta(seconds=random.randrange(0, 200_000)), AT)
        state = random.choices(["finished", "running", "withdrawn"], [8, 1, 1])[0]
        rows.append(
            RecordRow(
                job=str(number),
                user=random.choice("abc"),
                state=state,
                start_at=start_at,
                end_at=end_at if state != "running" else None,
                cpus=random.choice([0.1, 1, 7]),
                gpus=random.choice([0, 2]),
                mem_mb=1000 / 3,
                is_charge=number % 10 == 0,
            )
        )
    return rows


def delete_old() -> Run | None:
    run = enqueue_retention(at=AT)
    return None if run is None else work_run_now(run.pk)


def hourly(model: type[Bucket] | type[SealedHour], source: Source) -> dict[datetime, list[float]]:
    sums = {name: Sum(name) for name in bucket_deltas.AMOUNTS}
    rows = model.objects.filter(source=source).values("hour_at").annotate(**{f"all_{n}": s for n, s in sums.items()})
    return {row["hour_at"]: [row[f"all_{name}"] for name in bucket_deltas.AMOUNTS] for row in rows}


def fresh_sums(rows: Sequence[RecordRow], at: datetime, make: Callable[..., Source]) -> dict[datetime, list[float]]:
    """The total of these records alone, in a source of their own."""
    source = make("fresh", 0)
    ingest_batch(source=source, rows=rows, at=at)
    return hourly(Bucket, source)


@pytest.fixture
def make() -> Callable[..., Source]:
    def made(slug: str, keep_days: int | None = None) -> Source:
        return Source.objects.create(slug=slug, name=slug, namespace=slug, keep_records_days=keep_days, created_at=AT)

    return made


@pytest.mark.django_db
def test_without_a_limit_everything_is_kept(source: Source) -> None:
    ingest_batch(source=source, rows=jobs(30), at=AT)
    assert enqueue_retention(at=AT + 3650 * DAY) is None


@pytest.mark.django_db(transaction=True)
def test_deleting_old_records_changes_no_usage(
    source: Source, make: Callable[..., Source], settings: Any, stored: Stored
) -> None:
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 10
    rows = jobs(200)
    ingest_batch(source=source, rows=rows, at=AT)
    before = stored()["buckets"]
    run = delete_old()
    assert run is not None
    assert run.state == Run.State.SUCCEEDED, run.error
    midnight = datetime(2026, 11, 10, tzinfo=UTC)
    source.refresh_from_db()
    assert source.sealed_before_at == midnight
    kept = [row for row in rows if row.end_at is None or row.end_at >= midnight]
    assert source.n_records == Record.objects.count() == len(kept)
    assert set(Record.objects.values_list("job", flat=True)) == {row.job for row in kept}
    assert run.result["gone"] == {"cluster": 200 - len(kept)}
    assert stored()["buckets"] == before
    # what is left of the records, and what was sealed, still add up to the buckets, hour by hour and to the bit
    left = fresh_sums(kept, AT, make)
    sealed = hourly(SealedHour, source)
    nothing = [0.0] * len(bucket_deltas.AMOUNTS)
    for hour_at, sums in hourly(Bucket, source).items():
        parts = zip(left.get(hour_at, nothing), sealed.get(hour_at, nothing), strict=True)
        assert sums == [a + b for a, b in parts], hour_at
    n_gone = SealedHour.objects.aggregate(n=Sum("n_records"))["n"]
    assert n_gone == 200 - len(kept)
    assert delete_old() is None
    assert AuditEvent.objects.filter(verb="usage.records_removed").count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_pass_resumes(
    source: Source, settings: Any, monkeypatch: pytest.MonkeyPatch, stored: Stored
) -> None:
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 10
    monkeypatch.setattr(retention, "_IDS_AT_A_TIME", 50)
    ingest_batch(source=source, rows=jobs(200), at=AT)
    before, n_before = stored()["buckets"], Record.objects.count()
    monkeypatch.setenv("FAULT", "usage.retention.before_commit:raise:3")
    run = enqueue_retention(at=AT)
    assert run is not None
    run = work_run_now(run.pk)  # fails once, is tried again after a pause, and ends
    assert run.state == Run.State.SUCCEEDED, run.error
    assert run.attempts == 2
    n_gone = n_before - Record.objects.count()
    assert run.result["gone"] == {"cluster": n_gone}
    assert SealedHour.objects.aggregate(n=Sum("n_records"))["n"] == n_gone
    assert stored()["buckets"] == before


@pytest.mark.django_db(transaction=True)
def test_a_source_can_have_its_own_retention(make: Callable[..., Source], settings: Any) -> None:
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 10
    for slug, days in (("long", 20), ("short", 5), ("site", None), ("ever", 0)):
        ingest_batch(source=make(slug, days), rows=[row for row in jobs(100) if row.state == "finished"], at=AT)
    delete_old()
    oldest = {source.slug: retention_start(source, AT) for source in Source.objects.all()}
    assert oldest == {
        "long": datetime(2026, 10, 31, tzinfo=UTC),
        "short": datetime(2026, 11, 15, tzinfo=UTC),
        "site": datetime(2026, 11, 10, tzinfo=UTC),
        "ever": None,
    }
    kept = [row for row in jobs(100) if row.state == "finished"]
    for slug, limit in oldest.items():
        expected = sorted(row.end_at for row in kept if row.end_at and (limit is None or row.end_at >= limit))
        ends = Record.objects.filter(source__slug=slug).order_by("end_at").values_list("end_at", flat=True)
        assert (list(ends), bool(expected)) == (expected, True), slug
    assert Record.objects.filter(source__slug="ever").count() == len([r for r in jobs(100) if r.state == "finished"])


@pytest.mark.django_db(transaction=True)
def test_a_source_without_records_keeps_its_names_and_newest_time(source: Source) -> None:
    """Its buckets are under these names."""
    last_at = AT - 20 * DAY
    row = RecordRow(job="1", user="a", state="finished", start_at=last_at - DAY, end_at=last_at, cpus=1)
    Source.objects.filter(pk=source.pk).update(keep_records_days=5)
    ingest_batch(source=source, rows=[row], at=AT)
    assert delete_old() is not None
    source.refresh_from_db()
    assert (source.n_records, source.last_record_end_at) == (0, last_at)
    with pytest.raises(Conflict, match="once there are records"):
        change_source(slug=source.slug, tag=tag_of(source), new_settings={"namespace": "other"}, at=AT, actor=COMMAND)
