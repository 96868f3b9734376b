"""Slurm's REST daemon, replaced by a server on this machine that answers as a real one did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent
from apps.runs.models import Run
from apps.runs.services import claim_run, work_due_runs, work_lease, work_run_now
from apps.usage.models import Bucket, Record, Source
from apps.usage.sources.collection import run_collect
from apps.usage.sources.schedule import enqueue_collection
from apps.usage.sources.services import set_up_source
from tests.instants import AT
from tests.killed_process import work_all, work_until_killed
from tests.usage.sources.slurmrestd_server import Daemon, sampled

PAST = datetime(2020, 1, 1, tzinfo=UTC)
TOKEN = "eyJhbGciOiJIUzI1NiJ9.canary.signature"
Clock = Callable[[datetime], None]
Stored = Callable[[], dict[str, list[tuple[Any, ...]]]]


@pytest.fixture
def daemon(golden_dir: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(sampled(golden_dir / "slurm/samples"))
    settings.FAIRSHARE_OUTBOUND_ALLOW = [made.place]
    settings.FAIRSHARE_SECRETS_DIR = str(tmp_path)
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    keep_token(tmp_path, TOKEN + "\n")
    yield made
    made.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return lambda at: monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())


def keep_token(folder: Path, text: str, mode: int = 0o600) -> None:
    path = folder / "slurm"
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def slurm(daemon: Daemon, **terms: Any) -> Source:
    whole = {
        "address": daemon.address,
        "version": "v0.0.38",
        "user": "collector",
        "look_back_s": 86400,
        "overlap_s": 600,
    }
    given = {"name": "Slurm", "kind": "slurm-rest", "collecting": {**whole, **terms}, "collect_every_s": 300}
    return set_up_source(slug="slurm", new_settings=given, at=AT, actor=COMMAND)


def collect(source: Source, at: datetime = AT) -> Run:
    return work_run_now(enqueue_collection(source, at=at).pk)


@pytest.mark.django_db
def test_finished_jobs_since_the_cursor_and_open_ones_are_fetched_with_the_token(daemon: Daemon, clock: Clock) -> None:
    source = slurm(daemon)
    first = collect(source)
    assert first.state == "succeeded", first.error
    states = Counter(Record.objects.values_list("state", flat=True))
    assert (first.counts["new"], first.counts["duplicate"]) == (7, 2)  # two wait in both answers
    assert states == {"finished": 3, "pending": 3, "running": 1}
    assert Bucket.objects.exists()
    clock(AT + timedelta(minutes=5))
    again = collect(source, AT + timedelta(minutes=5))
    assert (again.counts["new"], again.counts["duplicate"], again.counts["vanished"]) == (0, 9, 0)
    assert daemon.paths == ["/slurmdb/v0.0.38/jobs", "/slurm/v0.0.38/jobs"] * 2
    at_s = int(AT.timestamp())
    spans = [(query["start_time"][0], query["end_time"][0]) for _, query, _ in daemon.asked if query]
    # Slurm 22.05 refuses times that are numbers.
    assert spans == [(f"uts{at_s - 86400}", f"uts{at_s}"), (f"uts{at_s - 600}", f"uts{at_s + 300}")]
    assert {headers["X-SLURM-USER-TOKEN"] for _, _, headers in daemon.asked} == {TOKEN}
    assert {headers["X-SLURM-USER-NAME"] for _, _, headers in daemon.asked} == {"collector"}


@pytest.mark.django_db
def test_the_token_is_stored_only_in_its_file(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    source = slurm(daemon)
    collect(source)
    daemon.answers.clear()
    collect(source)
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f"SELECT count(*) FROM {table} AS kept WHERE kept::text LIKE '%%canary%%'")  # noqa: S608
            assert cursor.fetchone() == (0,), table
    assert "canary" not in caplog.text


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [(TOKEN, 0o644, "secret_is_open"), ("", 0o600, "no_secret"), ("two words", 0o600, "no_secret")],
)
def test_a_readable_or_invalid_token_file_is_not_used(
    text: str, mode: int, code: str, daemon: Daemon, tmp_path: Path
) -> None:
    keep_token(tmp_path, text, mode)
    run = collect(slurm(daemon))
    assert (run.state, run.error_code, daemon.asked) == ("failed", code, [])
    assert "FAIRSHARE_SECRETS_DIR/slurm" in Source.objects.get().collect_error


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "status", "body", "found"),
    [
        ("slurmdb", 401, b"Authentication failure", "replace it in its file"),
        ("slurmdb", 500, b'{"errors": [{"error": "Unable to connect to database"}]}', "status 500"),
        ("slurm", 503, b"", "status 503"),
        ("slurm", 200, b"<html>", ""),
        ("slurm", 200, b'{"jobs": [], "errors": [{"error": "slurmctld is down", "error_number": 1}]}', ""),
        ("slurm", 200, b'{"jobs": [', ""),
        ("slurmdb", 200, b'{"jobs": [', "nothing is stored"),
        (
            "slurmdb",
            500,
            b'{"errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}',
            "replace it",
        ),
    ],
)
def test_an_invalid_response_is_reported_and_closes_no_job(
    path: str, status: int, body: bytes, found: str, daemon: Daemon, clock: Clock
) -> None:
    source = slurm(daemon)
    collect(source)
    n_open = Record.objects.exclude(state="finished").count()
    daemon.answers[f"/{path}/v0.0.38/jobs"] = (status, body)
    clock(AT + timedelta(minutes=5))
    run = collect(source, AT + timedelta(minutes=5))
    assert run.state == "failed"
    source.refresh_from_db()
    assert source.collect_error
    assert found in source.collect_error
    assert (Record.objects.exclude(state="finished").count(), source.collected_at) == (n_open, AT)


@pytest.mark.django_db
def test_a_daemon_not_permitted_by_the_operator_is_not_contacted(daemon: Daemon, settings: Any) -> None:
    source = slurm(daemon)
    settings.FAIRSHARE_OUTBOUND_ALLOW = []
    assert (collect(source).error_code, daemon.asked) == ("address_refused", [])


@pytest.mark.django_db
def test_a_worker_without_its_lease_changes_neither_records_nor_cursor(daemon: Daemon) -> None:
    from apps.runs.leases import LeaseLost

    source = slurm(daemon)
    enqueue_collection(source, at=AT)
    late = claim_run(at=AT)
    assert late is not None
    stale = Run.objects.get(kind="usage_collect")
    Run.objects.update(lease_until=PAST)
    newer = claim_run(at=AT)
    assert newer is not None
    with pytest.raises(LeaseLost):
        run_collect(stale, late)
    source.refresh_from_db()
    assert (Record.objects.count(), source.cursor, source.collect_error) == (0, {}, "")
    work_lease(newer)
    assert Run.objects.get(kind="usage_collect").state == "succeeded"


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_anywhere_leaves_a_collection_that_ends_exactly(daemon: Daemon, stored: Stored) -> None:
    slurm(daemon)
    reached = []
    for place in ("after_fetch", "before_commit", "after_commit", "before_finish"):
        Run.objects.all().delete()
        source = Source.objects.get()
        enqueue_collection(source, at=AT)
        before = (stored(), source.cursor)
        work_until_killed(work_all, fault=f"usage.collect.{place}:kill")
        source.refresh_from_db()
        if place in ("after_fetch", "before_commit"):
            assert (stored(), source.cursor) == before
        reached.append(Record.objects.count())
        Run.objects.update(lease_until=PAST)
        assert work_due_runs(clock=lambda: AT) == 1
        run = Run.objects.get()
        assert (run.state, run.attempts, Record.objects.count()) == ("succeeded", 2, 7)
    assert reached == [0, 7, 7, 7]
    assert AuditEvent.objects.filter(verb="source.made").count() == 1
