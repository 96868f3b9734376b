"""A value that usage doesn't need never refuses a row; numbers are read as Slurm's unit printer writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.usage.parsers.registry import AUTO, format_of
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_queue import SlurmQueue
from apps.usage.parsers.slurm_values import read_amount, read_tres
from tests.each_case import each_case
from tests.usage.parsers.slurm_files import READING, core_s, only, read, refused, sacct, states

RUNS = {"State": "RUNNING", "End": "Unknown"}
WAITS = {"State": "PENDING", "Start": "Unknown", "End": "Unknown", "AllocTRES": "", "AllocCPUS": "0"}
NEVER = {"State": "CANCELLED", "Start": "None", "AllocTRES": "", "AllocCPUS": "0"}
BROKEN = "1.2.3?"


def test_nodes_over_a_thousand_are_read(golden_dir: Path) -> None:
    data = (golden_dir / "field/s06_allocnodes.sacct").read_bytes()
    batch = only(data, READING, format_of(AUTO, data))
    assert batch.cpus.tolist() == [131_072, 196_608, 128_000]
    assert batch.nodes.tolist() == [1024, 1536, 1000]
    assert core_s(batch) == 3600 * (131_072 + 196_608 + 128_000)


def test_every_example_of_the_unit_printer_is_read_back(golden_dir: Path) -> None:
    printer = json.loads((golden_dir / "slurm/tres.json").read_text(encoding="utf-8"))["unit_printer"]
    for example in printer["examples"]:
        base = example["base"]
        assert read_amount(example["printed"], base=base) == example["value"], example
        if base == "M":
            assert read_tres(f"cpu=1,mem={example['printed']}")[0].mem_mb == example["value"]
        else:
            counts = sacct({"AllocNodes": example["printed"], "AllocTRES": "", "AllocCPUS": "8"})
            assert only(counts).nodes.tolist() == [example["value"]]
    assert len(printer["examples"]) == 22


def test_the_fixed_rule_of_the_printer_is_read_back_for_many_numbers() -> None:
    for value in [*range(5000), *(512 * k for k in range(1, 3000, 7)), 2**20, 2**30, 1536 * 2**20]:
        assert read_amount(printed(value)) == value


def printed(value: float) -> str:
    """convert_num_unit of common/slurm_protocol_api.c in sacct's default mode, for what it prints exactly."""
    letters, exact = "", float(value)
    while exact >= 1024 and int(exact) % 512 == 0 and exact == int(exact):
        exact, letters = exact / 1024, "KMGTP"["KMGTP".index(letters) + 1 if letters else 0]
    return f"{exact:.0f}{letters}" if exact == int(exact) else f"{exact:.2f}{letters}"


@pytest.mark.parametrize(
    "tres",
    [
        "billing=64,bb/datawarp=1.50T,cpu=8,energy=18.44E?,gres/gpu:a100=2,gres/gpumem=80G,license/x@y=3,mem=16G,node=1",
        "billing=64,cpu=8,fs/disk=?,gres/gpu=2,mem=16384M,node=1,pages=NONE,vmem=-1",
    ],
)
def test_resources_that_arent_counted_are_passed_over(tres: str) -> None:
    batch = only(sacct({"AllocTRES": tres}))
    assert [batch.cpus[0], batch.gpus[0], batch.mem_mb[0], batch.nodes[0], batch.billing[0]] == [8, 2, 16384, 1, 64]


@each_case(
    ("job", "column"),
    [
        *[({}, name) for name in ("AllocCPUS", "AllocNodes", "ReqCPUS", "ReqNodes", "NNodes", "NCPUS", "ReqTRES")],
        *[({}, name) for name in ("ElapsedRaw", "Elapsed", "Timelimit", "TimelimitRaw", "Eligible", "UID", "ReqMem")],
        *[({}, name) for name in ("MaxRSS", "CPUTimeRAW", "Suspended", "Priority", "ExitCode", "NTasks", "Planned")],
        *[(RUNS, name) for name in ("End", "ElapsedRaw", "AllocCPUS", "AllocNodes", "TimelimitRaw", "ReqTRES")],
        *[(WAITS, name) for name in ("Start", "End", "ElapsedRaw", "AllocTRES", "AllocCPUS", "AllocNodes")],
        *[(WAITS, name) for name in ("ReqTRES", "ReqCPUS", "TimelimitRaw")],
        *[(NEVER, name) for name in ("ElapsedRaw", "AllocNodes", "TimelimitRaw")],
    ],
)
@each_case("text", [BROKEN, "18446744073709551615", "4294967294K", "-1"])
def test_a_column_that_isnt_needed_never_refuses_a_row(job: dict[str, str], column: str, text: str) -> None:
    whole = only(sacct(job))
    found = read(sacct(job | {column: text}))
    assert found.rejections == []
    assert states(found.batch) == states(whole)
    assert core_s(found.batch) == core_s(whole)
    assert found.batch.end_us.tolist() == whole.end_us.tolist()


@pytest.mark.parametrize(
    ("job", "column", "code"),
    [
        ({}, "Submit", "bad_time"),
        ({}, "Start", "bad_time"),
        ({}, "End", "bad_time"),
        ({"AllocCPUS": ""}, "AllocTRES", "bad_tres"),
        ({"AllocTRES": "node=1"}, "AllocCPUS", "bad_alloccpus"),
        ({"End": "Unknown"}, "ElapsedRaw", "bad_elapsedraw"),
        (RUNS, "Start", "bad_time"),
        (RUNS | {"AllocCPUS": ""}, "AllocTRES", "bad_tres"),
        (WAITS, "Submit", "bad_time"),
    ],
)
def test_a_needed_column_refuses_its_row_with_the_remedy(job: dict[str, str], column: str, code: str) -> None:
    rejection = refused(sacct(job | {column: BROKEN}))
    assert (rejection.line, rejection.code) == (2, code)
    assert column in rejection.message


def test_ignored_values_are_noted() -> None:
    found = read(sacct({"AllocNodes": BROKEN, "TimelimitRaw": BROKEN}, {"JobIDRaw": "2", "AllocNodes": "1"}))
    assert found.notes == {"values_ignored AllocNodes": 1, "values_ignored TimelimitRaw": 1}
    assert len(found.batch) == 2


def test_another_column_for_the_same_number_is_used() -> None:
    columns = ("JobIDRaw", "User", "State", "Submit", "Start", "End", "AllocCPUS", "NCPUS")
    assert only(sacct({"AllocCPUS": BROKEN, "NCPUS": "8"}, columns=columns)).cpus.tolist() == [8]
    assert only(sacct({"AllocCPUS": "1.50K", "NCPUS": ""}, columns=columns)).cpus.tolist() == [1536]


@pytest.mark.parametrize("memory", ["4Gn", "500Mc", "0n", "1.50T", "4000M", ""])
def test_units_fit_their_columns_beside_free_text_with_bars(memory: str) -> None:
    columns = ("JobIDRaw", "User", "JobName", "AllocNodes", "ReqNodes", "ReqMem", "State", "Submit", "Start", "End")
    job = {"JobName": "a|b|c", "AllocNodes": "1.50K", "ReqNodes": "1K", "ReqMem": memory, "AllocCPUS": "131072"}
    batch = only(sacct(job, columns=(*columns, "AllocCPUS")))
    assert (batch.nodes.tolist(), batch.cpus.tolist()) == ([1536], [131_072])


@pytest.mark.parametrize(
    ("times", "ignored"),
    [
        ({"limit": "?", "eligible": -1}, ["time.limit", "time.eligible"]),
        ({"limit": {"set": True, "infinite": True, "number": 0}, "eligible": 4294967294}, []),
        ({"limit": None, "elapsed": []}, ["time.elapsed"]),
        ({"end": 0, "elapsed": "3600"}, []),
        ({}, []),
    ],
)
def test_ignored_values_of_json_are_noted(times: dict[str, Any], ignored: list[str]) -> None:
    broken = accounted()
    broken["time"] |= times
    found = read(json.dumps({"jobs": [broken, accounted(job_id=2)], "errors": []}), READING, SacctJson())
    assert [name for name in found.notes if "values_ignored" in name] == [f"values_ignored {each}" for each in ignored]
    assert (len(found.batch), found.rejections) == (2, [])


@pytest.mark.parametrize(("value", "n"), [("?", 1), (-1, 1), (None, 0), ({"set": False, "number": 0}, 0)])
def test_ignored_values_of_a_listing_are_noted(value: Any, n: int) -> None:
    job = {"job_id": 5001, "user_name": "ada", "user_id": 7, "job_state": ["PENDING"], "submit_time": 1000}
    job |= {"cpus": 8, "start_time": value, "time_limit": 60}
    found = read(json.dumps({"jobs": [job], "errors": []}), READING, SlurmQueue())
    assert found.notes.get("values_ignored start_time", 0) == n
    assert len(found.batch) == 1


def accounted(**given: Any) -> dict[str, Any]:
    job: dict[str, Any] = {
        "job_id": 5001,
        "cluster": "fram",
        "user": "ada",
        "state": {"current": ["COMPLETED"]},
        "time": {"submission": 1000, "eligible": 1000, "start": 2000, "end": 5600, "elapsed": 3600, "limit": 60},
        "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}], "requested": []},
        "required": {"CPUs": 8},
    }
    return job | given


@pytest.mark.parametrize(
    ("state", "times", "expected"),
    [
        ("COMPLETED", {"elapsed": "?", "limit": "?", "eligible": -1, "suspended": "?"}, [0, 0, 1, 0]),
        ("COMPLETED", {"elapsed": -1, "limit": [], "eligible": 4294967294}, [0, 0, 1, 0]),
        ("RUNNING", {"end": "?", "elapsed": "?"}, [0, 1, 0, 0]),
        ("PENDING", {"start": "?", "end": -1, "elapsed": "?"}, [1, 0, 0, 0]),
        ("CANCELLED", {"start": 4294967294, "elapsed": 0}, [0, 0, 0, 1]),
        ("CANCELLED", {"start": None, "elapsed": 0}, [0, 0, 0, 1]),
        ("COMPLETED", {"elapsed": "Infinity", "limit": "Infinity"}, [0, 0, 1, 0]),
    ],
)
def test_json_values_that_arent_needed_refuse_no_job(state: str, times: Any, expected: list[int]) -> None:
    job = accounted(state={"current": [state]})
    job["time"] |= times
    batch = only(json.dumps({"jobs": [job], "errors": []}), READING, SacctJson())
    assert states(batch) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"tres_req_str": "?"}, [0, 1, 0, 0]),
        ({"end_time": "?", "resize_time": "?", "time_limit": "?"}, [0, 1, 0, 0]),
        ({"job_state": ["PENDING"], "start_time": "?", "tres_alloc_str": "?"}, [1, 0, 0, 0]),
    ],
)
def test_listed_values_that_arent_needed_refuse_no_job(given: dict[str, Any], expected: list[int]) -> None:
    job = {"job_id": 1, "user_name": "ada", "job_state": ["RUNNING"], "submit_time": 1000, "start_time": 2000}
    job |= {"cpus": 8, "tres_alloc_str": "cpu=8,node=1,mem=1.50T", "tres_req_str": "cpu=8"}
    batch = only(json.dumps({"jobs": [job | given], "errors": []}), READING, SlurmQueue())
    assert states(batch) == expected
