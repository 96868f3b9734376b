from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from apps.core.errors import Invalid
from apps.usage.parsers.base import NO_TIME, Reading, instant
from apps.usage.parsers.slurm_values import count_tasks, read_duration_s, read_tres
from tests.each_case import each_case
from tests.usage.parsers.slurm_files import AT, STOCKHOLM, only, read, refused, sacct, states

LOCAL = {"Submit": "2026-10-24T20:00:00", "ElapsedRaw": ""}


def hours(text: str, reading: Reading = STOCKHOLM) -> list[float]:
    batch = only(text, reading)
    return [float(us) / 3.6e9 for us in batch.end_us - batch.start_us]


def test_a_job_is_read_by_its_columns() -> None:
    batch = only(sacct({"TimelimitRaw": "120", "Reservation": "course"}))
    assert batch.job.tolist() == [b"4711"]
    assert batch.people[batch.who[0]][:2] == ("ada", "physics")
    assert batch.job_classes[batch.job_class[0]] == ("course", "normal", "high")
    assert (batch.cluster[0], batch.site[0], batch.line[0]) == (b"fram", b"", 2)
    assert [batch.cpus[0], batch.gpus[0], batch.mem_mb[0], batch.nodes[0], batch.billing[0]] == [8, 0, 16384, 1, 8]
    assert batch.requested_s[0] == 7200
    assert instant(int(batch.submit_us[0])) == datetime(2026, 1, 1, tzinfo=UTC)
    assert instant(int(batch.end_us[0])) == datetime(2026, 1, 1, 1, 1, tzinfo=UTC)


def test_columns_come_in_any_order_and_with_widths_or_other_cases() -> None:
    shuffled = ("State", "AllocCPUS", "End", "Start", "User", "JobIDRaw", "Submit")
    assert only(sacct({}, columns=shuffled)).cpus.tolist() == [8]
    text = sacct({}, columns=shuffled).replace("State|", "state%20|", 1).replace("|User|", "|USER|")
    assert only(text).cpus.tolist() == [8]


def test_another_separator_is_recognised_by_the_header() -> None:
    assert only(sacct({"JobName": "a"}).replace("|", "\x1f")).job.tolist() == [b"4711"]


def test_foreign_line_ends_and_byte_order_marks_are_accepted() -> None:
    text = "\ufeff" + sacct({}, {"JobIDRaw": "4712"})
    assert only(text.replace("\n", "\r\n")).job.tolist() == [b"4711", b"4712"]


def test_a_file_without_header_in_the_recommended_order_is_read() -> None:
    row = "4711|fram|ada|physics|normal|high|1767225600|1767225660|1767229260|3600|COMPLETED|8|cpu=8,node=1|||1001"
    assert only(row + "\n").cpus.tolist() == [8]
    assert only(row + "|120|4711\n").requested_s.tolist() == [7200]
    assert only(row + "|\n").cpus.tolist() == [8]


@pytest.mark.parametrize("text", ["4711|ada|COMPLETED\n", "one line of a diary\n", "a|b|c\n"])
def test_a_file_without_header_in_an_unknown_order_is_refused_with_the_command(text: str) -> None:
    with pytest.raises(Invalid, match="SLURM_TIME_FORMAT=%s sacct -a -X -P") as caught:
        read(text)
    assert caught.value.code == "no_header"


def test_a_header_with_missing_columns_is_rejected_by_name() -> None:
    with pytest.raises(Invalid, match=r"State, End \(or ElapsedRaw\)") as caught:
        read("JobID|User|Start|AllocCPUS\n1|ada|1|1\n")
    assert caught.value.code == "missing_columns"


def test_joined_files_can_have_several_headers() -> None:
    other = sacct({"JobIDRaw": "4712", "User": "bo"}, columns=("User", "State", "JobIDRaw", "Start", "End", "NCPUS"))
    found = read(sacct({}) + other.replace("|\n", "|4\n") + sacct({"JobIDRaw": "4713"}))
    assert (found.batch.job.tolist(), found.rejections) == ([b"4711", b"4712", b"4713"], [])
    assert found.batch.cpus.tolist() == [8, 4, 8]
    assert [found.batch.people[code].user for code in found.batch.who] == ["ada", "bo", "ada"]
    assert found.batch.line.tolist() == [2, 4, 6]


@each_case(
    ("state", "given", "expected"),
    [
        ("CANCELLED by 75200", {}, [0, 0, 1, 0]),
        ("CANCELLED+", {}, [0, 0, 1, 0]),
        ("NODE_FAIL", {}, [0, 0, 1, 0]),
        ("REQUEUED", {}, [0, 0, 1, 0]),
        ("OUT_OF_MEMORY", {}, [0, 0, 1, 0]),
        ("RUNNING", {"End": "Unknown"}, [0, 1, 0, 0]),
        ("SUSPENDED", {"End": "Unknown"}, [0, 1, 0, 0]),
        ("COMPLETING", {"End": "Unknown"}, [0, 1, 0, 0]),
        ("COMPLETING", {}, [0, 0, 1, 0]),
        ("PENDING", {"Start": "Unknown", "End": "Unknown"}, [1, 0, 0, 0]),
        ("REQUEUE_HOLD", {"Start": "Unknown", "End": "Unknown"}, [1, 0, 0, 0]),
        ("CANCELLED by 1000", {"Start": "None"}, [0, 0, 0, 1]),
        ("CANCELLED", {"Start": "1767229260", "ElapsedRaw": "0", "AllocTRES": ""}, [0, 0, 0, 1]),
        ("CANCELLED", {"Start": "Unknown", "End": "None assigned"}, [0, 0, 0, 1]),
        ("FROZEN_BY_MAGIC", {}, [0, 0, 1, 0]),
        ("FROZEN_BY_MAGIC", {"End": "Unknown"}, [0, 1, 0, 0]),
    ],
)
def test_states_are_mapped_to_waiting_running_ended_or_never_started(
    state: str, given: dict[str, str], expected: list[int]
) -> None:
    found = read(sacct({"State": state, **given}))
    assert (states(found.batch), found.rejections) == (expected, [])
    assert ("state_unknown" in found.notes) == state.startswith("FROZEN")
    if expected[3] or expected[0]:
        assert found.batch.start_us.tolist() == found.batch.end_us.tolist() == [NO_TIME]


def test_a_waiting_job_counts_its_request_and_an_array_all_its_tasks() -> None:
    waiting = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "AllocTRES": "", "AllocCPUS": "4"}
    asked = {"ReqTRES": "billing=9,cpu=4,gres/gpu=2,mem=8G,node=1"}
    batch = only(sacct(waiting | asked, waiting | asked | {"JobIDRaw": "40", "JobID": "40_[1,3-9:2%2]"}))
    assert batch.cpus.tolist() == [4, 5 * 4]
    assert batch.gpus.tolist() == [2, 10]
    assert batch.mem_mb.tolist() == [8192, 5 * 8192]


def test_an_array_task_without_its_own_id_is_named_by_the_array() -> None:
    columns = ("JobID", "User", "State", "Submit", "Start", "End", "AllocCPUS")
    ids = ("123_4", "123_[5-9%2]", "8+1", "77")
    batch = only(sacct(*({"JobID": text} for text in ids), columns=columns))
    assert batch.job.tolist() == [b"123", b"123", b"8+1", b"77"]
    assert batch.array_task.tolist() == [b"4", b"", b"", b""]


def test_a_requeued_job_is_several_records() -> None:
    first = {"State": "REQUEUED", "End": "1767226000", "ElapsedRaw": "340"}
    second = {"Submit": "1767226000", "Start": "1767226100", "End": "1767226200", "ElapsedRaw": "100"}
    assert only(sacct(first, second)).restart.tolist() == [0, 0]  # a new submit time, as Slurm has it
    again = {"Start": "1767226100", "End": "1767226200", "ElapsedRaw": "100"}
    batch = only(sacct(again, first, first))
    assert (batch.differ_by_start, batch.restart.tolist()) == (True, [0, 0, 0])  # told apart where they are stored


@pytest.mark.parametrize("elapsed", [{"ElapsedRaw": "1800"}, {"ElapsedRaw": "", "Elapsed": "00:30:00"}])
def test_suspension_time_is_charged_as_in_slurm(elapsed: dict[str, str]) -> None:
    columns = ["JobIDRaw", "User", "State", "Submit", "Start", "End", "AllocCPUS"]
    columns += [name for name, text in elapsed.items() if text]
    found = read(sacct(elapsed, columns=columns))
    assert found.notes == {"suspended": 1}
    assert (found.batch.end_us - found.batch.start_us).tolist() == [3600 * 1_000_000]
    assert instant(int(found.batch.end_us[0])) == datetime(2026, 1, 1, 1, 1, tzinfo=UTC)


def test_an_elapsed_time_longer_than_the_times_allow_doesnt_count() -> None:
    found = read(sacct({"ElapsedRaw": "999999"}))
    assert found.notes == {"elapsed_too_long": 1}
    assert (found.batch.end_us - found.batch.start_us).tolist() == [3600 * 1_000_000]


def test_a_missing_end_follows_from_elapsed() -> None:
    found = read(sacct({"End": "Unknown"}))
    assert instant(int(found.batch.end_us[0])) == datetime(2026, 1, 1, 1, 1, tzinfo=UTC)
    assert found.notes == {"end_from_elapsed": 1}
    assert refused(sacct({"End": "Unknown", "ElapsedRaw": ""})).code == "no_end"


_OTHER_KINDS = {"gres/shard:a100": 3, "license/matlab": 2, "bb/cray": 1024}


@pytest.mark.parametrize(
    ("tres", "expected", "kinds"),
    [
        ("billing=2,cpu=2,gres/gpu=1,mem=4000M,node=1", (2, 1, 4000, 1, 2), {}),
        ("cpu=2,gres/gpu:a100=1,gres/gpu:v100=3,mem=2G", (2, 4, 2048, np.nan, np.nan), {"gpu:a100": 1, "gpu:v100": 3}),
        ("gres/gpu=4,gres/gpu:a100=4,gres/gpumem=80G", (np.nan, 4, np.nan, np.nan, np.nan), {"gpu:a100": 4}),
        ("gres/gpu=2,gres/gpu:A100=3", (np.nan, 3, np.nan, np.nan, np.nan), {"gpu:a100": 3}),
        ("gres/gpu=1,gres/gpu:a100_1g.5gb=2", (np.nan, 2, np.nan, np.nan, np.nan), {"gpu:a100_1g.5gb": 2}),
        ("gres/shard:a100=3,license/matlab=2,bb/cray=1G", (np.nan,) * 5, _OTHER_KINDS),
        ("mem=1.50T,cpu=1", (1, np.nan, 1.5 * 1024 * 1024, np.nan, np.nan), {}),
        ("mem=2048K", (np.nan, np.nan, 2, np.nan, np.nan), {}),
        ("mem=512,energy=12", (np.nan, np.nan, 512, np.nan, np.nan), {"energy": 12}),
        ("mem=512,energy=18446744073709551614", (np.nan, np.nan, 512, np.nan, np.nan), {}),
        ("cpu=1,energy=0,vmem=1G,pages=4,fs/disk=9", (1, np.nan, np.nan, np.nan, np.nan), {}),
        ("", (np.nan,) * 5, {}),
    ],
)
def test_trackable_resources_are_read_with_their_units(
    tres: str, expected: tuple[float, ...], kinds: dict[str, float]
) -> None:
    amounts, of_kinds, unreadable = read_tres(tres)
    assert dict(of_kinds) == kinds
    assert tuple(amounts) == pytest.approx(expected, nan_ok=True)
    assert unreadable == ()


@pytest.mark.parametrize("tres", ["cpu", "cpu=-1", "cpu=1e999", "cpu=nan", "cpu=2;mem=1"])
def test_invalid_resource_amounts_are_rejected_where_no_column_has_the_processors(tres: str) -> None:
    assert refused(sacct({"AllocTRES": tres, "AllocCPUS": ""})).code == "bad_tres"
    assert read(sacct({"AllocTRES": tres})).notes == {"values_ignored AllocTRES": 1}


def test_gpus_are_no_fewer_than_those_of_their_kinds_where_their_number_is_ignored() -> None:
    """Else their kinds would be taken from the GPUs of other jobs of the same hour."""
    found = read(sacct({"AllocTRES": "cpu=2,gres/gpu=9999999999,gres/gpu:a100=2,gres/gpu:1g.10gb=1,node=1"}))
    batch = found.batch
    assert (batch.gpus.tolist(), dict(batch.kinds[batch.kind[0]])) == ([3.0], {"gpu:a100": 2.0, "gpu:1g.10gb": 1.0})
    assert found.notes == {"values_ignored gpus": 1}


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("TimelimitRaw", "5", 300),
        ("TimelimitRaw", "UNLIMITED", np.nan),
        ("TimelimitRaw", "Partition_Limit", np.nan),
        ("TimelimitRaw", "", np.nan),
        ("Timelimit", "1-00:00:00", 86400),
        ("Timelimit", "00:05:00", 300),
        ("Timelimit", "UNLIMITED", np.nan),
        ("Timelimit", "Partition_Limit", np.nan),
    ],
)
def test_limits_become_requested_seconds(column: str, text: str, expected: float) -> None:
    assert only(sacct({column: text})).requested_s.tolist() == pytest.approx([expected], nan_ok=True)


def test_durations_have_days_and_fractions() -> None:
    assert read_duration_s("1-11:48:50") == 128_930
    assert read_duration_s("00:01.697") == 1
    assert read_duration_s("02:40:00") == 9600


@pytest.mark.parametrize(
    ("text", "n"),
    [("[0-3%2]", 4), ("1-7:2", 4), ("0xF", 4), ("[1,3,5-9]", 7), ("", 1), ("[2-5,...]", 4), (None, 1)],
)
def test_tasks_of_a_waiting_array_are_counted(text: str | None, n: int) -> None:
    assert count_tasks(text) == n


def test_a_deleted_user_is_named_by_uid() -> None:
    batch = only(sacct({"User": "", "UID": "1003"}))
    assert batch.people[batch.who[0]].user == "1003"
    assert refused(sacct({"User": "", "UID": ""})).code == "no_user"


def test_a_step_without_its_job_is_reported_once_and_not_counted() -> None:
    found = read(
        sacct({}, {"JobIDRaw": "4711.batch"}, {"JobIDRaw": "9.batch"}, {"JobIDRaw": "9.0"}, {"JobIDRaw": "10"})
    )
    assert found.batch.job.tolist() == [b"4711", b"10"]
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(4, "step_without_job")]
    assert "9.batch" in found.rejections[0].message
    assert "sacct with -X" in found.rejections[0].message
    assert found.notes == {"steps_skipped": 3}


@pytest.mark.fault("F11")
def test_a_job_in_the_repeated_hour_keeps_its_duration() -> None:
    """Clocks in Stockholm go from 03:00 back to 02:00 on 25 October 2026."""
    around = LOCAL | {"Start": "2026-10-25T01:30:00", "End": "2026-10-25T03:30:00"}
    assert hours(sacct(around)) == [3]
    assert hours(sacct(around | {"ElapsedRaw": "10800"})) == [3]


@pytest.mark.parametrize(
    ("start", "end", "elapsed", "expected"),
    [
        ("01:30", "02:30", "", 1),  # nothing says which pass: the first
        ("01:30", "02:30", "3600", 1),
        ("01:30", "02:30", "7200", 2),  # it ended in the second
        ("02:30", "03:30", "3600", 1),  # it began in the second
        ("02:30", "03:30", "7200", 2),
        ("02:15", "02:45", "1800", 0.5),
        ("02:15", "02:45", "5400", 1.5),  # from the first into the second
        ("02:45", "02:15", "", 0.5),  # only so it doesn't end before it starts
        ("02:45", "02:15", "1800", 0.5),
    ],
)
def test_elapsed_distinguishes_the_repeated_hour(start: str, end: str, elapsed: str, expected: float) -> None:
    job = LOCAL | {"Start": f"2026-10-25T{start}:00", "End": f"2026-10-25T{end}:00", "ElapsedRaw": elapsed}
    assert hours(sacct(job)) == [expected]
    assert read(sacct(job), STOCKHOLM).notes == {"repeated_hour": 1}


def test_the_submit_time_is_independent_of_the_job_state() -> None:
    waiting = {"Submit": "2026-10-25T02:30:00", "Start": "Unknown", "End": "Unknown", "State": "PENDING"}
    ended = {"Submit": "2026-10-25T02:30:00", "Start": "2026-10-25T02:40:00", "End": "2026-10-25T02:50:00"}
    submit_us = only(sacct(waiting, ended | {"ElapsedRaw": "600"}), STOCKHOLM).submit_us
    assert submit_us[0] == submit_us[1]
    assert instant(int(submit_us[0])) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # the first pass, still summer


@pytest.mark.fault("F11")
def test_skipped_local_times_and_nonexistent_days_are_rejected() -> None:
    job = LOCAL | {"End": "2026-03-29T05:00:00"}
    skipped = refused(sacct(job | {"Start": "2026-03-29T02:30:00"}), STOCKHOLM)
    assert (skipped.line, skipped.code) == (2, "nonexistent_time")
    assert "Europe/Stockholm" in skipped.message
    for text in ("2026-02-29T00:00:00", "2026-13-01T00:00:00", "2026-01-01T24:00:00", "2026-00-10T00:00:00"):
        assert refused(sacct(job | {"Start": text}), STOCKHOLM).code == "bad_time"


@pytest.mark.fault("F12")
def test_summer_time_changes_and_leap_days_have_correct_hours() -> None:
    spring = {"Submit": "2026-03-28T00:00:00", "Start": "2026-03-29T01:30:00", "End": "2026-03-29T03:30:00"}
    leap = {"Submit": "2028-02-28T00:00:00", "Start": "2028-02-28T12:00:00", "End": "2028-03-01T12:00:00"}
    assert hours(sacct(*(job | {"ElapsedRaw": ""} for job in (spring, leap)))) == [1, 48]


def test_offsets_in_the_text_need_no_zone() -> None:
    job = {"Submit": "2026-10-25T01:00:00+02:00", "Start": "2026-10-25T02:30:00+02:00", "ElapsedRaw": ""}
    text = sacct(job | {"End": "2026-10-25T02:30:00+0100"})
    assert hours(text, Reading(at=AT)) == [1]


@pytest.mark.fault("F11")
def test_local_times_without_a_zone_are_rejected_with_the_remedy() -> None:
    rejection = refused(sacct({"Start": "2026-01-01T00:00:00"}), Reading(at=AT))
    assert rejection.code == "naive_time"
    assert "SLURM_TIME_FORMAT=%s" in rejection.message
    half_an_hour = Reading(at=AT, zone=ZoneInfo("Asia/Kolkata"))
    batch = only(sacct({"Start": "2026-01-01T06:30:00", "ElapsedRaw": ""}), half_an_hour)
    assert instant(int(batch.start_us[0])) == datetime(2026, 1, 1, 1, 0, tzinfo=UTC)


@each_case(
    ("given", "code"),
    [
        ({"JobIDRaw": "x"}, "bad_job"),
        ({"JobIDRaw": ""}, "bad_job"),
        ({"JobIDRaw": "-5"}, "bad_job"),
        ({"Start": "yesterday"}, "bad_time"),
        ({"End": "1e999"}, "bad_time"),
        ({"End": "-5"}, "bad_time"),
        ({"End": "999999999999"}, "absurd_time"),
        ({"End": "9999-12-31T23:59:59"}, "absurd_time"),
        ({"Start": "0001-01-01T00:00:00"}, "absurd_time"),
        ({"End": "1767225000"}, "end_before_start"),
        ({"Start": "1", "Submit": "1", "ElapsedRaw": ""}, "absurd_run_time"),
        ({"ElapsedRaw": "soon", "End": "Unknown"}, "bad_elapsedraw"),
        ({"AllocTRES": "cpu=99999999999,node=1"}, "absurd_number"),
        ({"AllocTRES": "node=1", "AllocCPUS": ""}, "no_processors"),
        ({"AllocTRES": "node=1", "AllocCPUS": "-8"}, "bad_alloccpus"),
        ({"User": "a\tb"}, "bad_text"),
        ({"User": "a\0b"}, "bad_text"),
        ({"Account": "x" * 300}, "bad_text"),
        ({"Submit": "Unknown", "Start": "None"}, "no_submit"),
    ],
)
@pytest.mark.fault("F9")
def test_implausible_values_are_rejected_with_line_and_reason(given: dict[str, str], code: str) -> None:
    found = read(sacct({}, {"JobIDRaw": "1"} | given, {"JobIDRaw": "2"}))
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(3, code)]
    assert len(found.rejections[0].message) > 20
    assert found.batch.job.tolist() == [b"4711", b"2"]


def test_names_must_be_utf_8_and_free_text_is_ignored() -> None:
    text = sacct(
        {"JobName": "\xff\xfe"},
        {"User": "\xff"},
        columns=("JobName", *("JobIDRaw", "User", "State"), "Submit", "Start", "End", "AllocCPUS"),
    ).encode("latin-1")
    found = read(text)
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(3, "bad_text")]
    assert found.batch.line.tolist() == [2]


def test_consumed_energy_is_a_kind_unless_allocated_resources_name_it() -> None:
    """ConsumedEnergyRaw is in joules; 0 and Slurm's numbers for none are no energy."""
    rows = [
        {"ConsumedEnergyRaw": "7200", "JobIDRaw": "1"},
        {"ConsumedEnergyRaw": "0", "JobIDRaw": "2"},
        {"ConsumedEnergyRaw": "18446744073709551614", "JobIDRaw": "3"},
        {"ConsumedEnergyRaw": "5", "JobIDRaw": "4", "AllocTRES": "billing=8,cpu=8,energy=9,mem=16G,node=1"},
        {"ConsumedEnergyRaw": "much", "JobIDRaw": "5"},
        {"ConsumedEnergyRaw": "", "JobIDRaw": "6", "AllocTRES": "cpu=8,gres/gpu:a100=2"},
        {"ConsumedEnergyRaw": "11", "JobIDRaw": "7", "AllocTRES": "cpu=8,gres/gpu:a100=2"},
    ]
    parsed = read(sacct(*rows))
    kinds = {
        job.decode(): dict(parsed.batch.kinds[kind])
        for job, kind in zip(parsed.batch.job, parsed.batch.kind, strict=True)
    }
    energies = {job: of_job.get("energy") for job, of_job in kinds.items()}
    assert energies == {"1": 7200.0, "2": None, "3": None, "4": 9.0, "5": None, "6": None, "7": 11.0}
    assert kinds["7"] == {"gpu:a100": 2.0, "energy": 11.0}
    assert parsed.rejections == []
    assert sum(n for name, n in parsed.notes.items() if "ConsumedEnergyRaw" in name) == 1


def test_a_time_with_a_letter_next_to_the_digits_is_refused() -> None:
    """`:` follows 9 and `/` precedes 0 in ASCII."""
    for bad in ("2026-01-01T0::00:00", "2026-01-0/T00:00:00", "202:-01-01T00:00:00"):
        parsed = read(sacct({"Start": bad, "JobIDRaw": "1"}, {"JobIDRaw": "2"}))
        assert [(rejection.line, rejection.code) for rejection in parsed.rejections] == [(2, "bad_time")], bad
        assert [job.decode() for job in parsed.batch.job] == ["2"]


def test_a_single_0_is_no_time_and_other_digits_are_seconds() -> None:
    never_ran = {"State": "CANCELLED", "Start": "0", "End": "1767225700", "AllocTRES": ""}
    batch = only(sacct({"JobIDRaw": "1", **never_ran}, {"JobIDRaw": "2", "Submit": "1767225000"}))
    assert (batch.start_us[0], batch.start_us[1], batch.submit_us[1]) == (
        NO_TIME,
        1_767_225_660_000_000,
        1_767_225_000_000_000,
    )
