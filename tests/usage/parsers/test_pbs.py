from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.usage.parsers.base import concatenate_batches
from apps.usage.parsers.pbs import Pbs
from apps.usage.parsers.registry import format_of
from apps.usage.records.stored_runs import rows_by_lines
from apps.usage.records.stored_versions import StoredVersions
from tests.each_case import each_case
from tests.usage.parsers import reading
from tests.usage.parsers.reading import STOCKHOLM, Job, Read, jobs_of

PBS = Pbs()


def read(*given: Any, **options: Any) -> Read:
    """With the records that the lines of each job make together, as a dry run shows them."""
    found = reading.read(*given, **options)
    batch = concatenate_batches([piece.batch for piece in found.pieces])
    return replace(found, jobs=jobs_of(rows_by_lines(batch, StoredVersions.none(len(batch)), {})))


def only(*given: Any, **options: Any) -> Job:
    found = read(*given, **options)
    assert found.rejections == []
    (job,) = found.jobs
    return job


CTIME = 1_767_225_600
_VALUES = {
    **{"user": "ada", "group": "physics", "queue": "workq", "ctime": CTIME, "qtime": CTIME, "etime": CTIME},
    **{"start": CTIME + 60, "exec_host": "n1/0*4", "exec_vnode": "(n1:ncpus=4:mem=8gb)", "end": CTIME + 3660},
    **{
        "Resource_List.ncpus": 4,
        "Resource_List.walltime": "02:00:00",
        "resources_used.walltime": "01:00:00",
        "run_count": 1,
    },
}


def line(event: str, job: str = "17.pbs", head: str = "01/01/2026 02:01:00", **given: Any) -> str:
    leave = {"Q": {"start", "end", "exec_host", "exec_vnode", "run_count"}, "S": {"end", "run_count"}}.get(event, set())
    values = {name: value for name, value in _VALUES.items() if name not in leave}
    values |= {name.replace("__", "."): value for name, value in given.items()}
    text = " ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    return f"{head};{event};{job};{text}\n"


NO_OTHER: dict[str, Any] = {"exec_host": None, "Resource_List__ncpus": None}  # no other field has processors


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_an_e_line_is_a_finished_job_with_its_allocated_resources() -> None:
    job = only(PBS, line("E", project="cms"))
    assert (job.job, job.user, job.group, job.project, job.queue) == ("17.pbs", "ada", "physics", "cms", "workq")
    assert (job.submit_at, job.start_at, job.end_at) == (at(CTIME), at(CTIME + 60), at(CTIME + 3660))
    assert (job.cpus, job.nodes, job.mem_mb, job.requested_s, job.restart) == (4, 1, 8192, 7200, 0)


def test_the_log_of_a_real_server_is_imported_completely(traces_dir: Path) -> None:
    data = gzip.decompress((traces_dir / "OpenPBS-pbslog-anon.log.gz").read_bytes())
    assert format_of("auto", data[:65536]).name == "pbs"
    found = read(PBS, data)
    assert found.rejections == []
    states = [job.state for job in found.jobs]
    assert {state: states.count(state) for state in set(states)} == {"finished": 200, "running": 200, "pending": 200}
    assert len({job.job for job in found.jobs}) == 200
    assert found.notes == {"other_events_skipped": 54}
    core_s = {"user01": 268_919.0, "user02": 442_342.0}
    assert found.cpu_h * 3600 == pytest.approx(sum(core_s.values()))
    for user, expected in core_s.items():
        ended = [job for job in found.jobs if job.user == user and job.state == "finished"]
        assert sum(job.hours * job.cpus * 3600 for job in ended) == pytest.approx(expected)


def test_a_job_keeps_one_key_from_queue_to_end() -> None:
    found = read(PBS, line("Q") + line("S") + line("E"))
    assert [job.state for job in found.jobs] == ["pending", "running", "finished"]
    assert len({(job.job, job.array_task, job.submit_at, job.restart) for job in found.jobs}) == 1


def test_a_repeated_run_counts_in_addition_to_the_next() -> None:
    again: dict[str, Any] = {"start": CTIME + 4000, "end": CTIME + 5000, "run_count": 2}
    found = read(PBS, line("R") + line("S", run_count=2, start=CTIME + 4000) + line("E", **again))
    assert [(job.state, job.restart) for job in found.jobs] == [("finished", 0), ("finished", 1)]
    assert found.cpu_h == pytest.approx(4 * (3600 + 1000) / 3600)


@pytest.mark.parametrize("event", ["D", "A", "R", "z", "r"])
def test_a_line_about_an_unknown_run_without_a_zone_is_noted(event: str) -> None:
    found = read(PBS, f"01/01/2026 02:01:00;{event};17.pbs;\n")
    assert (found.codes, found.notes["lines_unexplained"]) == ([], 1)


@pytest.mark.parametrize("event", ["D", "A"])
def test_a_job_deleted_before_it_ran_is_withdrawn(event: str) -> None:
    gone = f"01/01/2026 02:01:00;{event};17.pbs;requestor=ada@host\n"
    found = read(PBS, line("Q") + gone, zone=ZoneInfo("UTC"))
    assert [(job.state, job.user, job.submit_at) for job in found.jobs] == [("withdrawn", "ada", at(CTIME))]
    ran = read(PBS, line("Q") + line("S") + gone + line("E"))
    assert [(job.state, job.hours) for job in ran.jobs] == [("finished", 1)]


@pytest.mark.usefixtures("small_pieces")
def test_a_log_is_read_in_bounded_memory_and_from_any_piece_on() -> None:
    queued = "".join(line("Q", f"{n}.pbs", comment="x" * 200) for n in range(400))
    gone = "01/01/2026 02:01:00;D;399.pbs;\n01/01/2026 02:01:00;D;5.pbs;\n"
    whole = read(PBS, queued + gone, zone=STOCKHOLM)
    assert {job.job for job in whole.jobs if job.state == "withdrawn"} == {"399.pbs", "5.pbs"}
    assert len(whole.pieces) > 1
    resume = whole.pieces[0].resume
    assert resume["reader"] == {"offset_s": None, "untimed": []}
    resumed = read(PBS, queued + gone, resume=resume, zone=STOCKHOLM)
    assert [event.job for piece in resumed.pieces for event in piece.batch.events] == ["399.pbs", "5.pbs"]


def test_lines_before_the_first_that_shows_the_zone_wait_for_it() -> None:
    begin = "01/01/2026 05:41:00;A;17.pbs;Job aborted\n"
    found = read(PBS, begin + line("S", head="01/01/2026 05:31:00"))  # UTC+05:30
    assert [job.hours * 3600 for job in found.jobs] == [600]


def test_a_job_that_ended_without_a_start_never_ran() -> None:
    job = only(PBS, line("E", start=None, exec_host=None, exec_vnode=None, Resource_List__ncpus=4))
    assert (job.state, job.start_at, job.end_at, job.cpus) == ("withdrawn", None, None, 4)


def test_array_tasks_are_records_and_the_array_is_not() -> None:
    found = read(PBS, line("E", "17[3].pbs") + line("E", "17-4.pbs") + line("E", "17[].pbs"))
    assert [(job.job, job.array_task) for job in found.jobs] == [("17[].pbs", "3"), ("17[].pbs", "4")]
    assert found.notes == {"arrays_skipped": 1}


@pytest.mark.parametrize(
    ("given", "cpus", "gpus", "nodes", "mem_mb"),
    [
        ({"exec_vnode": "(n1:ncpus=2:mem=1gb:ngpus=1+n2:ncpus=1)+(n3:ncpus=1:mem=1048576kb)"}, 4, 1, 1, 2048),
        ({"exec_vnode": None, "exec_host": "n1/0+n1/1+n2/0-3"}, 6, 0, 2, 0),
        ({"exec_vnode": None, "exec_host": "n1/0,2,4+n2/0*8"}, 11, 0, 2, 0),
        ({"exec_vnode": None, "exec_host": None, "Resource_List__ncpus": None}, 1, 0, 0, 0),
        ({"exec_vnode": None, "exec_host": None, "total_execution_slots": 12}, 12, 0, 0, 0),
        ({"exec_vnode": None, "exec_host": None, "Resource_List__nodes": "2:ppn=4:gpus=1+1:ppn=2"}, 10, 2, 3, 0),
        (
            {"exec_vnode": None, "exec_host": None, "Resource_List__ncpus": 3, "Resource_List__mem": "600mb"},
            3,
            0,
            0,
            600,
        ),
        ({"exec_vnode": None, "exec_host": None, "resources_used__mem": "131072kw"}, 4, 0, 0, 1024),
    ],
)
def test_the_most_precise_field_gives_the_allocated_resources(
    given: dict[str, Any], cpus: float, gpus: float, nodes: float, mem_mb: float
) -> None:
    job = only(PBS, line("E", **given))
    assert (job.cpus, job.gpus, job.nodes, job.mem_mb) == (cpus, gpus, nodes, mem_mb)


def test_values_can_contain_semicolons_quotes_and_blanks() -> None:
    text = line("E", jobname="a;b;c", diag='\'{"a": "x y"; start=1}\'', comment='"say user=eve"', note="it's user=eve")
    job = only(PBS, text)
    assert (job.user, job.start_at) == ("ada", at(CTIME + 60))


def test_the_job_name_never_changes_the_owner() -> None:
    text = line("E").rstrip() + " jobname=x user=eve group=eve end=1 exec_vnode=(n:ncpus=4000)\n"
    assert only(PBS, text) == only(PBS, line("E"))


def test_the_account_precedes_the_project_and_the_default_one_is_ignored() -> None:
    assert only(PBS, line("E", project="p", account="a")).project == "a"
    assert only(PBS, line("E", project="_pbs_project_default")).project == ""


def test_durations_are_hh_mm_ss_or_seconds() -> None:
    for text, seconds in (("02:00:00", 7200), ("90", 90), ("1:00:00:00", 86400), ("100:00:00", 360_000)):
        assert only(PBS, line("E", Resource_List__walltime=text)).requested_s == seconds


def test_an_epoch_field_precedes_the_local_time_of_the_line() -> None:
    expected = only(PBS, line("E"))
    assert only(PBS, line("E", head="07/04/1999 00:00:00"), zone=STOCKHOLM) == expected


def test_the_local_time_of_the_line_replaces_a_missing_end() -> None:
    text = line("E", head="10/25/2026 03:30:00", end=None, start=1_792_884_600)  # 01:30, before clocks go back
    job = only(PBS, text, zone=STOCKHOLM)
    assert job.hours == 3
    assert read(PBS, text).codes == [(1, "naive_time")]


@each_case(
    ("bad", "code"),
    [
        ("01/01/2026 02:01:00;E\n", "too_few_fields"),
        ("yesterday;E;17.pbs;user=ada\n", "bad_time"),
        ("02/30/2026 02:01:00;E;17.pbs;user=ada\n", "bad_time"),
        ("01/01/2026 02:01:00;EE;17.pbs;user=ada\n", "unknown_type"),
        ("01/01/2026 02:01:00;E;seventeen;user=ada\n", "bad_job"),
        (line("E", end=CTIME), "end_before_start"),
        (line("E", end="nan"), "not_a_number"),
        (line("E", end="1e999"), "absurd_number"),
        (line("E", end=253402300799), "absurd_time"),
        (line("E", end=CTIME + 400 * 10**6), "absurd_run_time"),
        (line("E", ctime=None, qtime=None, etime=None, start=None), "missing_field"),
        (line("E", exec_vnode="(n1:ncpus=-4)", **NO_OTHER), "negative_number"),
        (line("E", exec_vnode="(n1:ncpus=9999999999)", **NO_OTHER), "absurd_number"),
        (line("E", **{**NO_OTHER, "exec_vnode": None, "exec_host": "n1/x"}), "bad_fields"),
        (line("E", user="a" * 300), "too_long"),
        (line("E", "1" * 200 + ".pbs"), "too_long"),
    ],
)
def test_an_invalid_line_is_reported_and_its_neighbours_are_accepted(bad: str, code: str) -> None:
    found = read(PBS, line("E", "1.pbs") + bad + line("E", "2.pbs"))
    assert found.codes == [(2, code)]
    assert [job.job for job in found.jobs] == ["1.pbs", "2.pbs"]


def test_adversarial_lines_are_read_quickly() -> None:
    for text in ("a=' b=\" " * 7000, "a='" * 20_000, "=" * 60_000, "a " * 30_000):
        assert read(PBS, f"01/01/2026 02:01:00;E;17.pbs;{text}\n").jobs == []


@pytest.mark.parametrize("walltime", ["-01:00:00", "99999999:00:00", "1:2:3:4:5", "soon"])
def test_a_limit_that_cant_be_read_refuses_no_run(walltime: str) -> None:
    found = read(PBS, line("E", Resource_List__walltime=walltime))
    assert (found.codes, found.notes["values_ignored walltime"]) == ([], 1)
    assert found.jobs[0].requested_s is None


def event(kind: str, at_s: int, job: str = "17.pbs", text: str = "") -> str:
    """A line in UTC."""
    return f"{at(at_s):%m/%d/%Y %H:%M:%S};{kind};{job};{text}\n"


def parts(text: str, *, zone: ZoneInfo | None = None) -> list[tuple[float, float | None, float]]:
    """Start and end in seconds after CTIME, and processors, of what ended."""
    found = read(PBS, text, zone=zone)
    assert found.codes == []
    ended = [job for job in found.jobs if job.state == "finished"]
    return [
        ((job.start_at - at(CTIME)).total_seconds(), (job.end_at - at(CTIME)).total_seconds(), job.cpus)
        for job in ended
        if job.start_at and job.end_at
    ]


def test_a_suspended_run_counts_the_time_in_which_it_held_its_processors() -> None:
    text = line("S", head="01/01/2026 00:01:00") + event("z", CTIME + 660) + event("r", CTIME + 1260)
    text += line("E", head="01/01/2026 01:01:00")
    found = read(PBS, text)
    assert parts(text) == [(60, 660, 4), (1260, 3660, 4)]
    assert [(job.state, job.requested_s) for job in found.jobs] == [("finished", 7200), ("finished", 7200 - 600)]
    assert found.notes["suspensions"] == 1


def test_a_resting_run_keeps_what_the_server_did_not_release() -> None:
    released = "resources_released=(n1:ncpus=4)"
    text = line("S", head="01/01/2026 00:01:00") + event("z", CTIME + 660, text=released)
    text += event("r", CTIME + 1260) + line("E", head="01/01/2026 01:01:00")
    rested = [job for job in read(PBS, text).jobs if job.cpus == 0 and job.end_at == at(CTIME + 1260)]
    assert parts(text)[0] == (60, 660, 4)
    assert [(job.mem_mb, job.nodes) for job in rested] == [(8192, 0)]


def test_lines_of_a_run_in_another_order_end_in_the_same_parts() -> None:
    lines = [line("S", head="01/01/2026 00:01:00"), event("r", CTIME + 1260), event("z", CTIME + 660)]
    assert parts("".join([*lines, line("E", head="01/01/2026 01:01:00")])) == [(60, 660, 4), (1260, 3660, 4)]


def test_a_run_of_which_the_file_has_its_end_alone_rests_by_its_walltime() -> None:
    text = event("r", CTIME + 2000) + line("E", head="01/01/2026 01:01:00", resources_used__walltime="00:40:00")
    assert parts(line("E", "9.pbs", head="01/01/2026 01:01:00") + text)[1:] == [
        (60, 60 + 2400 - 1660, 4),
        (2000, 3660, 4),
    ]


def test_a_log_without_a_zone_is_read_by_the_lines_that_have_both_times() -> None:
    ahead = line("S", head="01/01/2026 05:31:00") + "01/01/2026 05:41:00;A;17.pbs;Job aborted\n"  # UTC+05:30
    assert parts(ahead) == [(60, 660, 4)]


def test_a_repeated_hour_is_the_one_that_the_lines_before_it_show() -> None:
    start = 1_792_890_000  # 25 October 2026, 03:00 in Stockholm, after 02:00 came twice
    begun: dict[str, Any] = {"ctime": start - 3000, "qtime": start - 3000, "etime": start - 3000}
    text = line("S", head="10/25/2026 02:10:00", start=start - 3000, **begun)  # the second 02:10
    text += "10/25/2026 02:40:00;A;17.pbs;\n"
    found = read(PBS, text, zone=STOCKHOLM)
    assert [job.hours for job in found.jobs if job.state == "finished"] == [0.5]


@pytest.mark.parametrize(
    ("begin", "end", "hours"),
    [("12/31/2027 20:00:00", "01/01/2028 04:00:00", 8), ("02/28/2028 12:00:00", "03/01/2028 12:00:00", 48)],
)
def test_a_run_over_new_year_or_a_leap_day_has_its_hours(begin: str, end: str, hours: float) -> None:
    start = datetime.strptime(begin, "%m/%d/%Y %H:%M:%S").replace(tzinfo=UTC)
    text = line("S", head=begin, start=int(start.timestamp())) + f"{end};A;17.pbs;\n"
    found = read(PBS, text, zone=ZoneInfo("UTC"), at=start + timedelta(days=9))
    assert [job.hours for job in found.jobs if job.state == "finished"] == [hours]


def test_a_log_cut_in_the_middle_of_a_line_keeps_what_is_before_it() -> None:
    whole = line("S", "1.pbs") + line("E", "1.pbs")
    found = read(PBS, whole + line("E", "2.pbs")[:40])
    assert found.cpu_h == 4
    assert [job.job for job in found.jobs if job.state == "finished"] == ["1.pbs"]


def test_numbers_of_two_servers_are_two_jobs() -> None:
    begun = "".join(line("S", job, head="01/01/2026 00:01:00") for job in ("5.a", "5.b"))
    found = read(PBS, begun + event("A", CTIME + 660, "5.a") + line("E", "5.b", head="01/01/2026 01:01:00"))
    assert {job.job: job.hours for job in found.jobs if job.state == "finished"} == {"5.a": 1 / 6, "5.b": 1}


def test_values_that_usage_does_not_need_refuse_nothing(golden_dir: Path) -> None:
    found = read(PBS, (golden_dir / "field" / "p03_values.acct").read_bytes())
    assert found.rejections == []
    ignored = {"mem": 3, "ngpus": 1, "queue": 1, "run_count": 1, "walltime": 1}
    assert found.notes == {f"values_ignored {name}": n for name, n in ignored.items()}
    names = [(job.user, job.group, job.project, job.cpus, job.gpus, job.mem_mb) for job in found.jobs]
    assert names == [
        ("UNI\\ana lyst", "domain users", "cfd 2", 12, 0, 0),
        ("ben", "staff", "wave lab", 40, 0, 0),
        ("cat", "staff", "", 20, 0, 0),
    ]
    assert found.cpu_h * 3600 == 43_200 + 288_020 + 144_000


FIELD4 = {  # CPU seconds of each file, and where they differ from one number of records, its notes
    "b01_pbs_release.acct": 1_497_600,
    "b02_pbs_mem.acct": 5 * 28 * 36_000,
    "b03_pbs_abort.acct": 100_800 + 172_800,
    "b04_pbs_adgroup.acct": 3 * 28 * 36_000,
    "b19_pbs_suspend.acct": 460_800 + 691_200,
    "b26_cobalt.acct": 230_384,
    "b27_pbs_real.acct": 5 + 30,
    "b28_torque_rerun.acct": 403_200,
    "b29_pbs_secondrun.acct": 32 * 3600,
    "b35_arr.acct": 7200,
}


@pytest.mark.parametrize("name", list(FIELD4))
def test_logs_from_the_field_count_what_they_should(vectors_dir: Path, name: str) -> None:
    found = read(PBS, (vectors_dir / "field4" / name).read_bytes(), zone=ZoneInfo("UTC"))
    assert found.rejections == []
    assert found.cpu_h * 3600 == pytest.approx(FIELD4[name])
    if name == "b04_pbs_adgroup.acct":
        assert [job.group for job in found.jobs] == ["domain users", "domain users", "CORP\\domain users"]
        assert found.jobs[2].project == "proj x"
    if name == "b29_pbs_secondrun.acct":
        assert [job.start_at for job in found.jobs if job.state == "running"] == [at(1_795_685_400)]


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"Resource_List__select": "1:ncpus=4:ngpus=2:gpu_type=h100"}, {"gpu:h100": 2}),
        (
            {"Resource_List__select": "1:ncpus=4:ngpus=1:accelerator_model=Tesla_T4+1:ncpus=4:ngpus=1"},
            {"gpu:tesla_t4": 2},
        ),
        ({"Resource_List__select": "1:ngpus=1:gpu_type=t4+1:ngpus=1:gpu_type=h100"}, {"gpu:t4": 1, "gpu:h100": 1}),
        ({"Resource_List__select": "2:ngpus=2:gpu_type=t4+1:ngpus=1:gpu_type=h100"}, {}),  # more than it was given
        ({"Resource_List__gpu_model": "A100"}, {"gpu:a100": 2}),
        ({"Resource_List__gpu_model": "a" * 70}, {}),
        ({"Resource_List__gres": "matlab:2+fluent"}, {"gres/matlab": 2, "gres/fluent": 1}),
        ({"exec_vnode": "(n1:ncpus=4:ngpus=2:mem=8gb:nvme=1:host=n1)+(n2:nvme=2)"}, {"gres/nvme": 3}),
        ({}, {}),
    ],
)
def test_types_of_gpus_and_a_sites_own_resources_are_kinds(fields: dict[str, str], kinds: dict[str, float]) -> None:
    values = {"exec_vnode": "(n1:ncpus=4:ngpus=2:mem=8gb)", **fields}
    found = read(PBS, line("E", **values))
    batch = rows_by_lines(concatenate_batches([piece.batch for piece in found.pieces]), StoredVersions.none(1), {})
    assert [dict(batch.kinds[code]) for code in batch.kind] == [kinds]
    assert batch.gpus.tolist() == [2]


def test_without_allocated_resources_a_job_has_those_of_its_request() -> None:
    """exec_vnode is of PBS Pro alone; an unknown number is no number."""
    torque: dict[str, Any] = {"exec_vnode": None, "Resource_List__mem": "3gb", "Resource_List__ngpus": 2}
    job = only(PBS, line("E", **torque, Resource_List__nodect=3))
    assert (job.cpus, job.nodes, job.mem_mb, job.gpus) == (4, 1, 3072, 2)
    job = only(PBS, line("E", **torque, Resource_List__nodect=3, exec_host=None))
    assert (job.cpus, job.nodes, job.mem_mb, job.gpus) == (4, 3, 3072, 2)
    unreadable = {**torque, "exec_vnode": "(n1:ncpus=many)"}
    job = only(PBS, line("E", **unreadable, Resource_List__nodect=3, exec_host=None))
    assert (job.cpus, job.nodes, job.mem_mb, job.gpus) == (4, 3, 3072, 2)
    job = only(PBS, line("E", exec_vnode=None, exec_host=None))
    assert (job.cpus, job.nodes, job.mem_mb, job.gpus) == (4, 0, 0, 0)
