from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.usage.parsers.gridengine import GridEngine
from apps.usage.parsers.gridengine_jsonl import GridEngineJsonl
from apps.usage.parsers.registry import AUTO, format_of
from tests.each_case import each_case
from tests.usage.parsers.reading import only, read
from tests.usage.parsers.test_gridengine import line as colon_line

OCS = GridEngineJsonl()
START = 1_767_225_660
US = 1_000_000


def line(**given: Any) -> str:
    run = {
        "job_number": 101,
        "task_number": 0,
        "start_time": START * US,
        "end_time": (START + 3600) * US,
        "owner": "ada",
        "group": "physics",
        "project": "cms",
        "account": "sge",
        "qname": "all.q",
        "hostname": "node1",
        "slots": 4,
        "granted_pe": "smp",
        "job_name": "fit",
        "submission_time": (START - 60) * US,
        "category": "-pe smp 4",
        "failed": 0,
        "usage": {"rusage": {"ru_wallclock": 3600}, "usage": {"wallclock": 3600.9, "maxvmem": 30171136.0}},
    }
    found = {name: value for name, value in (run | given).items() if value is not None}
    return json.dumps(found) + "\n"


def test_the_file_of_the_field_has_its_hours_to_the_microsecond(golden_dir: Path) -> None:
    data = (golden_dir / "field/g03_ocs.jsonl").read_bytes()
    assert format_of(AUTO, data).name == "gridengine-jsonl"
    found = read(OCS, data)
    assert found.rejections == []
    ran = [one.end_at - one.start_at for one in found.jobs if one.end_at and one.start_at]
    assert ran == [timedelta(seconds=3600), timedelta(microseconds=600_549_601)]
    assert [(one.job, one.array_task, one.user, one.group, one.cpus) for one in found.jobs] == [
        ("4", "", "u1", "g1", 4),
        ("5", "1", "u2", "g1", 1),
    ]
    assert found.notes == {"gpu_requests_not_counted": 1}
    assert found.jobs[0].start_at == datetime(2026, 9, 21, 14, 13, 20, 580_794, tzinfo=UTC)


@pytest.mark.parametrize("unit_us", [US, 1_000, 1])
def test_a_run_is_the_one_of_the_colon_separated_file(unit_us: int) -> None:
    """Early releases wrote seconds."""
    times = {"start_time": START, "end_time": START + 3600, "submission_time": START - 60}
    job = only(OCS, line(**{name: at * US // unit_us for name, at in times.items()}))
    other = only(GridEngine(), colon_line())
    assert job == other


@each_case(
    ("usage", "mem_mb"),
    [
        ({"usage": {"maxvmem": 2.0**21}}, 2),  # 9.0
        ({"rusage": {"maxvmem": 1.0}, "eusage": {"maxvmem": 2.0**22}, "gpu": {"maxvmem": 7}}, 4),  # since 9.1
        ({"eusage": {"maxvmem": 2.0**22}, "usage": {"maxvmem": 2.0**21}}, 4),  # a site's own group called usage
        ({"eusage": {}}, 0),
        ({"eusage": []}, 0),
    ],
)
def test_memory_is_that_of_the_execution_daemon_in_every_release(usage: dict[str, Any], mem_mb: int) -> None:
    assert only(OCS, line(usage=usage)).mem_mb == mem_mb


def test_a_line_of_9_1_names_no_slave_task_and_who_deleted_it() -> None:
    """Its writer puts NONE where the run is that of the job, and members that 9.0 hasn't."""
    job = only(OCS, line(pe_taskid="NONE", deleted_by="ada@login1", arid=7, ar_submission_time=START * US))
    assert (job.job, job.cpus, job.hours) == ("101", 4, 1)


@pytest.mark.parametrize("given", [{"pe_taskid": "1.node1"}, {"pe_task_id": "1.node1"}, {"submission_time": 0}])
def test_slave_tasks_are_part_of_their_job(given: dict[str, Any]) -> None:
    found = read(OCS, line() + line(**given))
    assert (len(found.jobs), found.rejections, found.notes) == (1, [], {"slave_tasks_skipped": 1})


def test_a_job_that_never_ran_is_withdrawn() -> None:
    found = read(OCS, line(start_time=0, end_time=0, failed=1))
    assert (found.jobs[0].state, found.notes) == ("withdrawn", {"never_ran": 1})


@pytest.mark.parametrize(
    "given",
    [
        {"usage": None, "category": None, "failed": "?", "project": None, "task_number": None},
        {"usage": {"usage": {"maxvmem": "?"}}},
        {"usage": [], "granted_pe": None, "job_name": "a\u0000|\ud800", "priority": {}, "hostname": 5},
        {"end_time": str((START + 3600) * US), "job_number": "101", "slots": "4"},
    ],
)
def test_values_that_arent_needed_refuse_no_run(given: dict[str, Any]) -> None:
    job = only(OCS, line(**given))
    assert (job.hours, job.cpus) == (1, 4)


def test_bytes_of_another_encoding_refuse_no_run() -> None:
    data = line(submit_cmd_line="qsub XX").encode().replace(b"XX", b"\xe9\xff")
    assert read(OCS, data).cpu_h == 4


@each_case(
    ("text", "code"),
    [
        (line(job_number="x"), "bad_job"),
        (line(job_number=True), "bad_job"),
        (line(owner=None), "missing_field"),
        (line(slots=None), "missing_field"),
        (line(slots=-1), "negative_number"),
        (line(slots=1e30), "absurd_number"),
        (line(end_time=0), "missing_field"),
        (line(end_time=START * US - 1), "end_before_start"),
        (line(start_time=9e15), "absurd_time"),
        (line(start_time="soon"), "not_a_number"),
        (line(task_number="x"), "not_a_number"),
        (line(owner="a\tb"), "bad_text"),
        (line(type="acct"), "reporting_line"),
        ("{\n", "bad_json"),
        ("[" * 3000 + "\n", "bad_json"),
        ("[]\n", "not_an_object"),
    ],
)
def test_implausible_lines_are_rejected_with_their_number(text: str, code: str) -> None:
    found = read(OCS, line() + text + line(job_number=7))
    assert found.codes == [(2, code)]
    assert [job.job for job in found.jobs] == ["101", "7"]
