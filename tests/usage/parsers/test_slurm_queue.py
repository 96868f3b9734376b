from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.core.errors import Invalid
from apps.usage.models import Source
from apps.usage.parsers.base import NO_TIME, instant
from apps.usage.parsers.slurm_queue import SlurmQueue
from apps.usage.records.ingest import ingest_batch
from tests.usage.parsers.slurm_files import AT, READING, read, sacct, states

T0 = 1_767_225_600
UNSET = {"set": False, "infinite": False, "number": 0}


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def running(job_id: int = 4711, **given: Any) -> dict[str, Any]:
    """A job as 22.05 lists it; the end of a running one is when its limit is over."""
    job = {
        "account": "physics",
        "array_job_id": 0,
        "array_task_string": "",
        "cluster": "fram",
        "cpus": 8,
        "end_time": T0 + 60 + 7200,
        "job_id": job_id,
        "job_state": "RUNNING",
        "node_count": 1,
        "partition": "normal",
        "pre_sus_time": 0,
        "qos": "high",
        "resv_name": "course",
        "start_time": T0 + 60,
        "submit_time": T0,
        "suspend_time": 0,
        "time_limit": 120,
        "tres_alloc_str": "cpu=8,mem=16G,node=1,billing=8,gres/gpu=2",
        "tres_req_str": "cpu=8,mem=16G,node=1,billing=8,gres/gpu=2",
        "user_id": 1001,
        "user_name": "ada",
    }
    return job | given


def newer(job_id: int = 4711, **given: Any) -> dict[str, Any]:
    """The job as 23.11 and 24.05 list it."""
    found = {name: number(running()[name]) for name in ("cpus", "end_time", "start_time", "submit_time", "time_limit")}
    return running(job_id, **found, job_state=["RUNNING"]) | given


WAITING: dict[str, Any] = {"job_state": ["PENDING"], "start_time": T0 + 99999, "end_time": 0, "tres_alloc_str": ""}


def parse(*jobs: Any, **others: Any) -> Any:
    return read(json.dumps({"jobs": list(jobs), "errors": []} | others), READING, SlurmQueue())


@pytest.mark.parametrize("job", [running(), newer()])
def test_every_version_lists_the_same_running_job(job: dict[str, Any]) -> None:
    found = parse(job)
    batch = found.batch
    assert (found.rejections, states(batch), batch.job.tolist()) == ([], [0, 1, 0, 0], [b"4711"])
    assert instant(int(batch.start_us[0])) == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert batch.end_us.tolist() == [NO_TIME]
    assert batch.requested_s.tolist() == [7200]
    assert [batch.cpus[0], batch.gpus[0], batch.mem_mb[0], batch.nodes[0], batch.billing[0]] == [8, 2, 16384, 1, 8]
    assert batch.people[batch.who[0]][:2] == ("ada", "physics")
    assert batch.job_classes[batch.job_class[0]] == ("course", "normal", "high")


def test_the_expected_start_of_a_waiting_job_is_ignored() -> None:
    batch = parse(newer(**WAITING), newer(2, **WAITING, array_task_string="0-9%2")).batch
    assert states(batch) == [2, 0, 0, 0]
    assert batch.start_us.tolist() == [NO_TIME, NO_TIME]
    assert batch.cpus.tolist() == [8, 80]
    assert batch.requested_s.tolist() == [7200, 7200]


def test_without_a_limit_nothing_is_requested() -> None:
    infinite = {"set": True, "infinite": True, "number": 0}
    batch = parse(running(1, time_limit=None), newer(2, time_limit=infinite), newer(3, time_limit=UNSET)).batch
    assert all(value != value for value in batch.requested_s.tolist())


def test_ended_jobs_are_read_with_their_end_regardless_of_suspension() -> None:
    ended = {"job_state": ["COMPLETED"], "end_time": T0 + 3660}
    suspended = {"suspend_time": T0 + 3000, "pre_sus_time": 600}  # 600 s, a pause, and 660 s from 3000 on
    never = {"job_state": ["CANCELLED"], "start_time": T0 + 9, "end_time": T0 + 9, "tres_alloc_str": "cpu=8,billing=8"}
    batch = parse(running(1, **ended), running(2, **ended, **suspended), running(3, **never)).batch
    assert states(batch) == [0, 0, 2, 1]
    assert ((batch.end_us - batch.start_us)[:2] / 1e6).tolist() == [3600, 3600]


def test_a_user_without_a_name_is_given_by_uid() -> None:
    found = parse(running(1, user_name="", user_id=number(1003)), running(2, user_name=None, user_id=None))
    assert found.batch.people[found.batch.who[0]].user == "1003"
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(2, "no_user")]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"tres_alloc_str": "cpu=-8", "cpus": None}, "bad_tres"),
        ({"start_time": "now"}, "bad_time"),
        ({"job_id": None}, "bad_job"),
        ({"submit_time": 1e14}, "absurd_time"),
    ],
)
def test_implausible_values_are_rejected_with_their_index(given: dict[str, Any], code: str) -> None:
    found = parse(running(1), running(2) | given)
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(2, code)]
    assert found.batch.job.tolist() == [b"1"]


def test_a_partial_listing_is_rejected_so_that_absent_jobs_do_not_vanish() -> None:
    text = json.dumps({"jobs": [running(1), running(2)]})
    with pytest.raises(Invalid, match="doesn't show which jobs are gone") as caught:
        read(text[:-40], READING, SlurmQueue())
    assert caught.value.code == "cut_off"
    with pytest.raises(Invalid, match="Zero Bytes") as caught:
        parse(running(1), errors=[{"error": "Zero Bytes were transmitted or received", "errno": 1007}])
    assert caught.value.code == "source_error"


@pytest.mark.parametrize(
    "text",
    [
        '{"meta": {"plugin": {"type": "openapi/v0.0.38"}}, "errors": [], "jobs": []}',
        '{"jobs": [], "last_backfill": 5, "meta": {"command": ["squeue", "--json"]}}',
    ],
)
def test_an_empty_listing_has_no_jobs(text: str) -> None:
    assert SlurmQueue().sniff(text.encode())
    found = read(text, READING, SlurmQueue())
    assert (len(found.batch), found.rejections) == (0, [])


@pytest.mark.django_db
def test_a_listed_job_has_the_key_of_its_later_sacct_record(source: Source) -> None:
    waits = parse(newer(4711, **WAITING)).batch
    runs = parse(newer(4711)).batch
    ended = read(sacct({})).batch
    counts = [ingest_batch(source=source, rows=batch, at=AT) for batch in (waits, runs, ended, runs)]
    assert [(count.new, count.corrected, count.late) for count in counts] == [
        (1, 0, 0),
        (0, 1, 0),
        (0, 1, 0),
        (0, 0, 1),
    ]
    assert [count.core_s for count in counts] == [0, 0, 8 * 3600, 0]


@pytest.mark.django_db
def test_a_waiting_array_becomes_its_last_task(source: Source) -> None:
    """Slurm gives each task that starts a number of its own, and the array's number to the last."""
    array = parse(newer(40, **WAITING, array_job_id=40, array_task_string="0-1")).batch
    first = {"JobID": "40_0", "JobIDRaw": "41"}
    last = {"JobID": "40_1", "JobIDRaw": "40"}
    assert ingest_batch(source=source, rows=array, at=AT).new == 1
    counts = ingest_batch(source=source, rows=read(sacct(first, last)).batch, at=AT)
    assert (counts.new, counts.corrected) == (1, 1)
    assert counts.core_s == 2 * 8 * 3600
