"""A disk without room: named with its path, in readiness, in answers, on pages, in runs and by a notice."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.core.disk_space import disk_full_message, full_disks
from apps.runs import kinds
from apps.runs.models import Run
from apps.runs.services import enqueue_run, work_due_runs
from apps.usage.services import NewImport, start_import
from tests.instants import AT
from tests.small_site import Site

MB = 1024**2
pytestmark = pytest.mark.django_db


def leave(free_mb: int, monkeypatch: pytest.MonkeyPatch, total_mb: int = 100_000) -> None:
    found = SimpleNamespace(f_frsize=MB, f_blocks=total_mb, f_bavail=free_mb)
    monkeypatch.setattr("apps.core.disk_space.os.statvfs", lambda path: found)


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> str:
    """The disk takes names of files and no bytes."""

    def refuse(*_given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("apps.usage.records.uploads.os.fsync", refuse)
    return str(settings.VAR)


@pytest.mark.parametrize(
    ("free_mb", "total_mb", "is_full"),
    [
        (0, 100_000, True),
        (99, 50, True),
        (999, 100_000, True),
        (1_001, 100_000, False),
        (101, 5_000, False),
        (1_025, 10_000_000, False),
        (1_023, 10_000_000, True),
    ],
)
def test_a_disk_is_full_below_100_mb_or_one_percent(
    monkeypatch: pytest.MonkeyPatch, free_mb: int, total_mb: int, is_full: bool
) -> None:
    leave(free_mb, monkeypatch, total_mb)
    assert bool(full_disks()) == is_full


@pytest.mark.fault("F21")
def test_readiness_reports_the_full_disk(computed_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    with monkeypatch.context() as full:
        leave(3, full)
        answer = Client().get("/readyz")
    found = [each for each in answer.json()["degraded"] if each["code"] == "full_disk"]
    assert [(each["subject"], "3 MB" in each["message"]) for each in found] == [(str(settings.VAR), True)]
    assert "full_disk" not in {each["code"] for each in Client().get("/readyz").json()["degraded"]}


def test_without_a_database_readiness_reports_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError("no server")

    leave(0, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", refuse)
        patch.setattr(connection, "close", lambda: None)
        answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert any(str(settings.VAR) in reason for reason in answer.json()["reasons"])


def test_a_full_disk_of_the_database_is_recognised_by_its_code() -> None:
    with pytest.raises(OperationalError) as full, connection.cursor() as cursor:
        cursor.execute("DO $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$")
    place = str(Path(settings.VAR) / "pg") if settings.FAIRSHARE_EMBEDDED_DATABASE else "the database server"
    assert place in disk_full_message(full.value)
    assert disk_full_message(OperationalError("no server")) == disk_full_message(None) == ""


@pytest.mark.fault("F21")
def test_an_upload_to_a_full_disk_is_refused_with_the_path(
    computed_site: Site, no_room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    client = Client(raise_request_exception=False)
    client.force_login(computed_site.admin, backend="django.contrib.auth.backends.ModelBackend")
    uploads = Path(no_room) / "uploads"
    before = set(uploads.glob("*.usage"))
    log = SimpleUploadedFile("jobs.swf", b"; UnixStartTime: 1132444805\n1 0 -1 60 1" + b" -1" * 13 + b"\n")
    page = client.post("/usage/import/", {"source": "cluster-a", "format": "swf", "mode": "dry", "file": log})
    assert (page.status_code, no_room in page.content.decode()) == (503, True)
    assert set(uploads.glob("*.usage")) == before
    with pytest.raises(OSError, match="No space"):
        start_import(
            NewImport(source_slug="cluster-a", format="swf", file=io.BytesIO(b"x"), file_name="x"), at=AT, actor=COMMAND
        )


@pytest.mark.fault("F21")
def test_a_run_that_fails_by_a_full_disk_reports_it(no_room: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(_run: Run, _lease: Any) -> dict[str, Any]:
        os.fsync(-1)
        return {}

    monkeypatch.setattr(kinds, "_handlers", {"test": work})
    enqueue_run(kind="test", subject="thing", at=AT)
    work_due_runs(clock=lambda: AT)
    run = Run.objects.get(kind="test")
    assert (run.state, run.error_code, no_room in run.error) == ("queued", "disk_full", True)
