"""Two sources that report the same jobs become one: each job counts once, and later jobs are kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, Invalid, NotAllowed
from apps.usage.arrays import load_usage
from apps.usage.models import Overlap, Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from apps.usage.sources.merging import merge_sources
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
