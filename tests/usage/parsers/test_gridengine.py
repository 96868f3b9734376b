from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.usage.parsers.gridengine import GridEngine
from apps.usage.parsers.gridengine_queue import GridEngineQueue
from apps.usage.parsers.registry import format_of
from tests.usage.parsers.reading import Job, only, read

START = 1_767_225_660
_FIELDS = (
    "qname hostname group owner job_name job_number account priority submission_time start_time end_time failed "
    "exit_status ru_wallclock ru_utime ru_stime ru_maxrss ru_ixrss ru_ismrss ru_idrss ru_isrss ru_minflt ru_majflt "
    "ru_nswap ru_inblock ru_oublock ru_msgsnd ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw project department granted_pe "
    "slots task_number cpu mem io category iow pe_taskid maxvmem arid ar_submission_time"
)
_NAMES = _FIELDS.split()
GE = GridEngine()


def line(extra: str = "", /, **given: Any) -> str:
    values: dict[str, object] = dict.fromkeys(_NAMES, 0)
    values |= {"qname": "all.q", "hostname": "node1", "group": "physics", "owner": "ada", "job_name": "fit"}
    values |= {"job_number": 101, "account": "sge", "submission_time": START - 60, "start_time": START}
    values |= {"end_time": START + 3600, "project": "cms", "department": "da", "granted_pe": "smp", "slots": 4}
    values |= {"category": "-pe smp 4", "pe_taskid": "NONE", "maxvmem": "30171136.000000", "iow": "0.000000"}
    return ":".join(str((values | given)[name]) for name in _NAMES) + extra + "\n"


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_a_run_has_slots_wallclock_and_owner() -> None:
    job = only(GE, line())
    assert (job.job, job.array_task, job.user, job.group, job.project) == ("101", "", "ada", "physics", "cms")
    assert (job.start_at, job.end_at, job.cpus, job.queue) == (at(START), at(START + 3600), 4, "all.q")
    assert job.state == "finished"
    assert job.mem_mb == pytest.approx(28.77, abs=0.01)


def test_the_sample_of_a_real_cell_is_imported_completely(golden_dir: Path) -> None:
    data = (golden_dir / "gridengine/samples/accounting").read_bytes()
    assert format_of("auto", data).name == "gridengine"
    found = read(GE, data)
    assert found.rejections == []
    assert len(found.jobs) == 13
    assert sum(piece.n_lines for piece in found.pieces) == 17
    assert [(job.job, job.array_task) for job in found.jobs[3:6]] == [("584", "1"), ("584", "2"), ("584", "3")]
    users = ("gea", "geb", "gec", "ged")
    core_s = {user: sum(one.hours * one.cpus * 3600 for one in found.jobs if one.user == user) for user in users}
    assert core_s == pytest.approx({"gea": 45, "geb": 42, "gec": 3, "ged": 3})
    assert {job.project for job in found.jobs} == {"", "px", "py"}


def test_timestamps_in_milliseconds_are_the_same_instants() -> None:
    plain = only(GE, line())
    stamps = {"submission_time": (START - 60) * 1000, "start_time": START * 1000, "end_time": (START + 3600) * 1000}
    assert only(GE, line(**stamps)) == plain
    late = only(GE, line(**{**stamps, "end_time": START * 1000 + 1}))
    assert late.end_at == at(START) + timedelta(milliseconds=1)


def test_slave_tasks_belong_to_their_job_and_are_not_counted_twice() -> None:
    slaves = line(pe_taskid="1.node2") + line(pe_taskid="NONE", submission_time=0)
    found = read(GE, slaves + line())
    assert [job.line for job in found.jobs] == [3]
    assert found.notes == {"slave_tasks_skipped": 2}


def test_each_run_of_a_rescheduled_job_counts_once() -> None:
    first = line(end_time=START + 600, failed=25)
    second = line(start_time=START + 900, end_time=START + 4500)
    found = read(GE, first + second + first)
    runs = {(job.job, job.submit_at) for job in found.jobs}
    assert len(runs) == 2
    assert found.notes == {"rescheduled": 2}


def test_a_job_that_never_ran_is_withdrawn_and_uses_nothing() -> None:
    job = only(GE, line(start_time=0, end_time=0, failed=1))
    assert (job.state, job.start_at, job.end_at, job.submit_at) == ("withdrawn", None, None, at(START - 60))


def test_array_tasks_are_separate_records() -> None:
    found = read(GE, line(task_number=1) + line(task_number=2))
    assert [(job.job, job.array_task) for job in found.jobs] == [("101", "1"), ("101", "2")]


@pytest.mark.parametrize(
    "given",
    [
        {"category": '-l h="n1:n2",mem=1G -q all.q'},
        {"category": "-U dteam:0 -q dteam:x"},
        {"job_name": "a:b:c"},
        {"job_name": "12:34", "category": "x:y"},
    ],
)
def test_colons_in_category_or_name_shift_no_fields(given: dict[str, str]) -> None:
    assert only(GE, line(**given)) == only(GE, line())
    assert read(GE, line(**{**given, "pe_taskid": "1.n2"})).notes == {"slave_tasks_skipped": 1}


def test_vendor_fields_are_ignored() -> None:
    extras = ":NONE:NONE:0.0:0.0:submit.example.org:/home/ada:qsub -N x:y:3600.0:12"
    assert only(GE, line(extras)) == only(GE, line())


def test_older_lines_without_reservations_are_read() -> None:
    short = ":".join(line().split(":")[:43]) + "\n"
    assert only(GE, short) == only(GE, line())


def test_gpu_requests_are_noted_because_the_file_lacks_the_allocated_number() -> None:
    assert read(GE, line(category="-l gpu=2,h_rt=3600")).notes == {"gpu_requests_not_counted": 1}
    assert read(GE, line(category="-l gpu=0")).notes == {}


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ("all.q:node1:physics\n", "too_few_fields"),
        (line(job_number="x"), "bad_job"),
        (line(slots="-1"), "negative_number"),
        (line(slots="nan"), "not_a_number"),
        (line(slots="1e999"), "absurd_number"),
        (line(slots="1e10"), "absurd_number"),
        (line(slots=""), "not_a_number"),
        (line(end_time=START - 1), "end_before_start"),
        (line(end_time=0), "missing_field"),
        (line(end_time=START + 400 * 10**6), "absurd_run_time"),
        (line(start_time=253402300799, end_time=253402300799 * 1000), "absurd_time"),
        (line(start_time=8 * 10**9, end_time=8 * 10**9), "absurd_time"),
        (line(task_number="1-3"), "not_a_number"),
        (line(owner="a" * 300), "too_long"),
        (line(owner="a\x00b"), "bad_text"),
    ],
)
def test_an_invalid_line_is_reported_and_its_neighbours_are_accepted(bad: str, code: str) -> None:
    found = read(GE, line(job_number=1) + bad + line(job_number=2))
    assert found.codes == [(2, code)]
    assert [job.job for job in found.jobs] == ["1", "2"]


def test_a_user_name_must_be_utf8_and_a_job_name_need_not() -> None:
    assert read(GE, line().encode().replace(b"ada", b"ad\xe9")).codes == [(1, "not_utf8")]
    assert only(GE, line().encode().replace(b"fit", b"f\xe9t")).job == "101"


def test_binary_data_is_rejected_line_by_line() -> None:
    junk = bytes(range(256)) * 8
    found = read(GE, line().encode() + junk + b"\n" + line(job_number=2).encode())
    assert {code for _, code in found.codes} == {"too_few_fields"}
    assert len(found.jobs) == 2


def test_a_line_of_10_mb_is_skipped_and_reported() -> None:
    found = read(GE, line() + "x:" * 5 * 1024**2 + "\n" + line(job_number=2))
    assert found.codes == [(2, "line_too_long")]
    assert len(found.jobs) == 2


@pytest.mark.usefixtures("small_pieces")
def test_reading_resumes_after_any_chunk() -> None:
    text = "# comment\n" + "".join(line(job_number=n) for n in range(900)) + "x\n"
    whole = read(GE, text)
    assert len(whole.pieces) > 1
    rest = read(GE, text, resume=whole.pieces[0].resume)
    assert [job.line for job in rest.jobs] == [job.line for job in whole.jobs[len(whole.pieces[0].batch) :]]
    assert rest.codes == whole.codes == [(902, "too_few_fields")]


def test_a_running_job_has_the_same_key_as_its_accounting_line() -> None:
    listing = (
        "<job_info><queue_info><job_list state='running'><JB_job_number>101</JB_job_number><JB_owner>ada</JB_owner>"
        "<JAT_start_time>2026-01-01T00:01:00</JAT_start_time><slots>4</slots></job_list></queue_info></job_info>"
    )
    running = read(GridEngineQueue(), listing, zone=ZoneInfo("UTC")).jobs[0]

    def key(job: Job) -> tuple[object, ...]:
        return job.cluster, job.job, job.array_task, job.submit_at, job.restart

    assert key(running) == key(only(GE, line()))


def test_a_file_is_known_by_its_first_line_where_its_head_ends_within_another() -> None:
    whole = line().encode()
    for head in (whole, b"# Version: 8.1.9\n" + whole, whole + whole[:20], whole + b"2026"):
        assert GE.sniff(head)
    assert not GE.sniff(whole[:20])
    assert not GE.sniff(b"a:b\n" + whole)
    assert not GE.sniff(b"")
