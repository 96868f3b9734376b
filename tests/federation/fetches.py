"""One fetch by the worker's own path, and the usage that counts afterwards."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import pytest

from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Fetch, Mount, Subscription
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, Record, SealedHour

Counted = dict[tuple[UUID, datetime], float]


def look_at(remote: Mount | Subscription, monkeypatch: pytest.MonkeyPatch, at: datetime) -> Fetch:
    monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
    run = work_run_now(request_fetch(remote, at=at).pk)
    assert run.state == Run.State.SUCCEEDED, run.error
    remote.refresh_from_db()
    found = remote.fetches.order_by("-id").first()
    assert found is not None
    return found


def counted(row: Subscription) -> Counted:
    """Core-seconds by entry and hour, as they count."""
    rows = Bucket.objects.filter(source=row.source).values_list("account__user_name", "hour_at", "cpu_s")
    return {(UUID(name), hour_at): cpu_s for name, hour_at, cpu_s in rows}


def cores_running(row: Subscription) -> float:
    open_ones = Record.objects.filter(source=row.source, state=Record.State.RUNNING)
    return sum(open_ones.values_list("cpus", flat=True))


def everything(row: Subscription) -> tuple[object, ...]:
    """All that a document can change: buckets, running jobs, sealed hours, and how far it was read."""
    row.refresh_from_db()
    sealed = SealedHour.objects.filter(source=row.source).order_by("hour_at").values_list("hour_at", "cpu_s")
    return counted(row), cores_running(row), list(sealed), row.number, row.fingerprint, row.issued_at, row.root_uid
