"""Two sources that report the same jobs become one: each job counts once, and later jobs are kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, Invalid, NotAllowed
from apps.runs.services import work_run_now
from apps.usage.arrays import load_usage
from apps.usage.models import Overlap, Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.retention import enqueue_retention
from apps.usage.services import NewSource, make_source
from apps.usage.sources.merging import merge_sources
from apps.usage.sources.open_listings import ingest_listing
from apps.usage.sources.services import set_archived
from tests.instants import AT

pytestmark = pytest.mark.django_db
FIRST = AT - timedelta(days=2)


def made(slug: str, **given: Any) -> Source:
    return make_source(NewSource(slug=slug, name=slug, **given), at=AT, actor=COMMAND)


def bring(source: Source, *jobs: int, **given: Any) -> None:
    rows = [
        RecordRow(
            job=str(n), **{**job_values(FIRST + n * timedelta(hours=1)), **given, "qos": "low", "partition": "gpu"}
        )
        for n in jobs
    ]
    ingest_batch(source=source, rows=rows, at=AT)


def job_values(start_at: datetime) -> dict[str, Any]:
    end_at = start_at + timedelta(hours=2)
    times: dict[str, Any] = {"submit_at": start_at, "start_at": start_at, "end_at": end_at}
    times |= {"qos": "low", "partition": "gpu"}
    return {**times, "user": "ann", "group": "hep", "cluster": "c1", "cpus": 2.0, "billing": 1.488, "mem_mb": 2000.0}


def counted() -> tuple[float, float]:
    sources = list(Source.objects.values_list("pk", flat=True))
    found = load_usage(sources=sources, from_at=None, to_at=AT)
    return float(found.cpu_s.sum()) / 3600, float(found.billing.sum()) / 3600


@pytest.fixture
def upload() -> Source:
    source = made("nasty")
    bring(source, 1, 2, 3)
    return source


@pytest.fixture
def collected(upload: Source) -> Source:
    source = made("nasty-live", namespace=upload.namespace, time_zone="Europe/Stockholm")
    source.kind, source.collecting, source.cursor = Source.Kind.COMMAND, {"command": ["sacct"]}, {"to_s": 5}
    source.collect_every_s, source.collect_due_at = 300, AT
    source.save()
    bring(source, 2, 3, 4, 5)
    bring(source, 6, state="running", end_at=None)
    return source


def test_each_job_counts_once_and_the_first_goes_on_collecting(upload: Source, collected: Source) -> None:
    assert Overlap.objects.filter(state="held").exists()
    counts = merge_sources(kept_slug="nasty", merged_slug="nasty-live", reason="The same", at=AT, actor=COMMAND)
    assert (counts.new, counts.duplicate) == (3, 2)
    assert counted() == pytest.approx((5 * 4, 5 * 2 * 1.488), rel=1e-3)
    assert list(Source.objects.values_list("slug", flat=True)) == ["nasty"]
    jobs = Record.objects.filter(source=upload).order_by("job").values_list("job", "state", "job_class__qos")
    assert list(jobs) == [(str(n), "finished", "low") for n in range(1, 6)] + [("6", "running", "low")]
    upload.refresh_from_db()
    assert (upload.kind, upload.collecting, upload.cursor) == ("command", {"command": ["sacct"]}, {"to_s": 5})
    assert (upload.collect_every_s, upload.time_zone) == (300, "Europe/Stockholm")
    assert not Overlap.objects.filter(state="held").exists()
    event = AuditEvent.objects.get(verb="usage.sources_merged")
    assert (event.details["kept"], event.details["reason"]) == ("nasty", "The same")


def test_a_restored_source_counts_no_job_twice(upload: Source, collected: Source) -> None:
    merge_sources(kept_slug=upload.slug, merged_slug=collected.slug, reason="The same", at=AT, actor=COMMAND)
    before = counted()
    set_archived(collected.pk, None)
    assert counted() == before


def test_what_cannot_be_merged_is_refused(upload: Source, collected: Source) -> None:
    wanted: dict[str, Any] = {"kept_slug": upload.slug, "merged_slug": collected.slug, "at": AT}
    with pytest.raises(Invalid):
        merge_sources(**wanted, reason=" ", actor=COMMAND)
    with pytest.raises(NotAllowed):
        merge_sources(**wanted, reason="x", actor=Actor(user=User.objects.create_user("u"), via="page"))
    Source.objects.filter(pk=collected.pk).update(sealed_before_at=FIRST)
    with pytest.raises(Conflict):
        merge_sources(**wanted, reason="x", actor=COMMAND)
    made("elsewhere", namespace="other")
    with pytest.raises(Conflict):
        merge_sources(kept_slug=upload.slug, merged_slug="elsewhere", reason="x", at=AT, actor=COMMAND)
    assert Source.objects.count() == 3


def missed(source: Source, *jobs: int) -> None:
    """Jobs that a listing has waiting, and the next one lacks: each ran in between."""
    rows = [
        RecordRow(job=str(n), **job_values(FIRST) | {"state": "pending", "start_at": None, "end_at": None})
        for n in jobs
    ]
    ingest_listing(source, rows, FIRST + timedelta(minutes=1))
    ingest_listing(source, [], FIRST + timedelta(hours=3))
    assert list(Record.objects.filter(source=source).values_list("note", flat=True)) == ["vanished"] * len(jobs)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_job_that_a_listing_missed_withdraws_none_that_accounting_has(is_first: bool) -> None:
    """Every job that runs between two listings is missed by them."""
    accounting = made("accounting")
    queue = made("queue", namespace=accounting.namespace)
    missed(queue, 1, 2)
    ended = RecordRow(job="1", **job_values(FIRST))
    if is_first:
        ingest_batch(source=accounting, rows=[ended], at=AT)
    merge_sources(kept_slug="accounting", merged_slug="queue", reason="one cluster", at=AT, actor=COMMAND)
    assert counted()[0] == (4.0 if is_first else 0.0)
    ingest_batch(source=accounting, rows=[ended], at=AT)
    assert counted()[0] == 4.0
    assert dict(Record.objects.filter(source=accounting).values_list("job", "note")) == {"1": "", "2": "vanished"}


def test_jobs_of_a_time_whose_records_were_removed_are_not_merged_away() -> None:
    kept = made("kept")
    merged = made("merged", namespace=kept.namespace)
    old_at = AT - timedelta(days=60)
    for n, source in enumerate((kept, merged)):
        ingest_batch(source=source, rows=[RecordRow(job=f"{n}7", **job_values(old_at))], at=AT)
        bring(source, n)
    Source.objects.filter(slug="kept").update(keep_records_days=30)
    run = enqueue_retention(at=AT)
    assert run is not None
    work_run_now(run.pk)
    before = counted()
    with pytest.raises(Conflict, match="jobs of that time") as caught:
        merge_sources(kept_slug="kept", merged_slug="merged", reason="one cluster", at=AT, actor=COMMAND)
    assert (caught.value.code, counted()) == ("kept_sealed", before)
