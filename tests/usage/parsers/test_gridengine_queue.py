from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from apps.core.errors import Invalid
from apps.usage.parsers.gridengine_queue import GridEngineQueue
from apps.usage.parsers.registry import format_of
from tests.usage.parsers.reading import STOCKHOLM, only, read

QSTAT = GridEngineQueue()
ZONE = ZoneInfo("UTC")


def running(**given: str) -> str:
    values = {"JB_job_number": "102", "JB_owner": "ada", "state": "r", "JAT_start_time": "2026-11-20T06:45:19"}
    values |= {"queue_name": "all.q@node1", "slots": "4"} | given
    return f"<job_list state='running'>{''.join(f'<{k}>{v}</{k}>' for k, v in values.items())}</job_list>"


def pending(**given: str) -> str:
    values = {"JB_job_number": "103", "JB_owner": "ben", "state": "qw", "JB_submission_time": "2026-11-20T06:45:20"}
    values |= {"queue_name": "", "slots": "2"} | given
    return f"<job_list state='pending'>{''.join(f'<{k}>{v}</{k}>' for k, v in values.items())}</job_list>"


def listing(*jobs: str) -> str:
    return f"<?xml version='1.0'?>\n<job_info><queue_info>\n{chr(10).join(jobs)}\n</queue_info></job_info>\n"


def test_the_listing_of_a_real_cell_has_every_running_and_waiting_job(golden_dir: Path) -> None:
    data = (golden_dir / "gridengine/samples/qstat-ext-urg-pri.xml").read_bytes()
    assert format_of("auto", data).name == "gridengine-queue"
    found = read(QSTAT, data, zone=ZONE)
    assert found.rejections == []
    assert [job.job for job in found.jobs if job.state == "running"] == ["587", "588"]
    waiting = [(job.job, job.cpus) for job in found.jobs if job.state == "pending"]
    assert waiting == [("590", 4), ("592", 1), ("595", 1), ("594", 4), ("589", 1), ("591", 1), ("593", 1)]
    assert [job.project for job in found.jobs][:2] == ["px", ""]


def test_a_running_job_has_its_start_and_a_waiting_one_its_submission() -> None:
    job = only(QSTAT, listing(running()), zone=STOCKHOLM)
    start_at = datetime(2026, 11, 20, 5, 45, 19, tzinfo=UTC)
    assert (job.state, job.start_at, job.submit_at, job.cpus, job.queue) == ("running", start_at, start_at, 4, "all.q")
    job = only(QSTAT, listing(pending()), zone=STOCKHOLM)
    assert (job.state, job.start_at, job.end_at) == ("pending", None, None)
    assert job.submit_at == datetime(2026, 11, 20, 5, 45, 20, tzinfo=UTC)


def test_array_tasks_run_individually_and_wait_together() -> None:
    found = read(QSTAT, listing(running(tasks="3"), pending(tasks="4-10:2,12")), zone=ZONE)
    assert [(job.array_task, job.cpus) for job in found.jobs] == [("3", 4), ("4-10:2,12", 10)]
    many = ",".join(str(n) for n in range(1, 99, 2))
    assert only(QSTAT, listing(pending(tasks=many)), zone=ZONE).array_task == "1-97 (49 tasks)"


def test_run_time_limits_are_read_where_listed() -> None:
    job = running().replace("</job_list>", "<hard_request name='h_rt'>3600</hard_request></job_list>")
    assert only(QSTAT, listing(job), zone=ZONE).requested_s == 3600


def test_a_local_time_skipped_by_summer_time_is_rejected() -> None:
    found = read(QSTAT, listing(running(JAT_start_time="2026-03-29T02:30:00")), zone=STOCKHOLM)
    assert found.codes == [(1, "nonexistent_time")]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (running(JB_job_number="x"), "bad_job"),
        (running(JB_job_number=""), "bad_job"),
        (running(JAT_start_time="soon"), "bad_time"),
        (running(JAT_start_time="2026-02-30T00:00:00"), "bad_time"),
        (running(JAT_start_time="9999-12-31T23:59:59"), "absurd_time"),
        (pending(JB_submission_time=""), "missing_field"),
        (running(slots="NaN"), "not_a_number"),
        (running(slots="-1"), "negative_number"),
        (pending(tasks="1-8:0"), "bad_fields"),
        (pending(tasks="1-999999999:1", slots="4"), "absurd_number"),
        (running(JB_owner="x" * 70_000), "too_long"),
    ],
)
def test_an_invalid_job_is_reported_and_its_neighbours_are_accepted(bad: str, code: str) -> None:
    found = read(QSTAT, listing(running(JB_job_number="1"), bad, pending(JB_job_number="2")), zone=ZONE)
    assert found.codes == [(2, code)]
    assert found.rejections[0].message.startswith("Line 4: ")
    assert [job.job for job in found.jobs] == ["1", "2"]


def test_without_a_zone_local_times_are_refused() -> None:
    assert read(QSTAT, listing(running())).codes == [(1, "naive_time")]


@pytest.mark.parametrize(
    "prolog",
    [
        "<!DOCTYPE job_info>",
        "<!DOCTYPE job_info SYSTEM 'http://example.org/x.dtd'>",
        "<!DOCTYPE a [<!ENTITY a 'aaa'><!ENTITY b '&a;&a;&a;&a;'>]>",
        "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>",
    ],
)
def test_document_types_and_entities_are_rejected_unread(prolog: str) -> None:
    with pytest.raises(Invalid, match="Line 2 declares a document type") as caught:
        read(QSTAT, f"<?xml version='1.0'?>\n{prolog}\n<job_info>{running()}</job_info>", zone=ZONE)
    assert caught.value.code == "xml_doctype"


def test_a_truncated_listing_is_rejected_so_that_absent_jobs_do_not_vanish() -> None:
    text = listing(running(), pending())
    with pytest.raises(Invalid, match=r"Line 4: .*broken.*which jobs are gone") as caught:
        read(QSTAT, text[: text.index("<JB_owner>ben")], zone=ZONE)
    assert caught.value.code == "cut_off"


def test_only_a_listing_can_be_empty() -> None:
    """Another document names none either; it must not close every job."""
    assert read(QSTAT, listing(), zone=ZONE).jobs == []
    for other in ("<html><body>Proxy error</body></html>", "<error/>", "<UsageRecords/>"):
        with pytest.raises(Invalid, match="lists no jobs") as caught:
            read(QSTAT, other, zone=ZONE)
        assert caught.value.code == "no_listing"


def test_deep_nesting_and_endless_markup_are_rejected_in_bounded_memory() -> None:
    with pytest.raises(Invalid, match="nested over"):
        read(QSTAT, "<job_info>" + "<a>" * 100)
    with pytest.raises(Invalid, match="piece of markup"):
        read(QSTAT, "<job_info a='" + "x" * 10 * 1024**2)
    assert read(QSTAT, listing("<x>" + "y" * 10 * 1024**2 + "</x>", running()), zone=ZONE).jobs
    children = "<a/>" * 50_000
    assert read(QSTAT, listing(running().replace("</job_list>", children + "</job_list>")), zone=ZONE).codes == []


@pytest.mark.parametrize("junk", [b"", b"\0\1\2", b"<", b"\xff\xfe", b"<?xml version='1.0' encoding='nonsense'?><a/>"])
def test_invalid_xml_is_rejected_with_its_location(junk: bytes) -> None:
    with pytest.raises(Invalid, match="Line 1: "):
        read(QSTAT, junk, zone=ZONE)


@pytest.mark.usefixtures("small_pieces")
def test_a_listing_is_one_piece_as_rows_of_a_job_may_be_far_apart() -> None:
    text = listing(*(running(JB_job_number=str(n)) for n in range(120)), running(slots="x"))
    whole = read(QSTAT, text, zone=ZONE)
    assert [len(piece.batch) for piece in whole.pieces] == [120]
    assert whole.codes == [(121, "not_a_number")]
    assert read(QSTAT, text, zone=ZONE, resume=whole.pieces[0].resume).pieces == []
