"""Jobs that were resized: each part is a record of its own, however its first start is printed."""

from __future__ import annotations

import io
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.usage.models import Record, Source
from apps.usage.own_times import load_ended_records
from apps.usage.parsers.base import RUNNING, RecordBatch
from apps.usage.parsers.registry import AUTO, format_of
from apps.usage.parsers.sacct import Sacct
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_queue import SlurmQueue
from apps.usage.records.ingest import ingest_batch
from apps.usage.sources.open_listings import ingest_listing
from tests.usage.parsers.slurm_files import AT, READING, STOCKHOLM, core_s, only, read, sacct, states

T0 = 1_795_000_000
COLUMNS = ("JobIDRaw", "Cluster", "User", "Account", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "State")
AMOUNTS = ("AllocCPUS", "AllocTRES")


def part(n_cpus: int, submit: int, end: int | None, state: str, *, start: int, **given: str) -> dict[str, str]:
    """A row; times are seconds after T0."""
    return {
        "JobIDRaw": "5001",
        "Submit": str(T0 + submit),
        "Eligible": str(T0 + submit),
        "Start": str(T0 + start),
        "End": "Unknown" if end is None else str(T0 + end),
        "ElapsedRaw": "60" if end is None else str(end - start),
        "State": state,
        "AllocCPUS": str(n_cpus),
        "AllocTRES": f"billing={n_cpus * 2},cpu={n_cpus},gres/gpu={n_cpus // 16},mem={n_cpus}G,node=1",
        **given,
    }


def three_parts(*, keeps_start: bool) -> list[dict[str, str]]:
    """64, 32 and 16 processors for 1,000, 2,000 and 3,000 s. keeps_start: later rows show the job's first start."""
    return [
        part(64, 0, 1100, "RESIZING", start=100),
        part(32, 1100, 3100, "RESIZING", start=100 if keeps_start else 1100),
        part(16, 3100, 6100, "COMPLETED", start=100 if keeps_start else 3100),
    ]


CPU_S = 64 * 1000 + 32 * 2000 + 16 * 3000


def as_json(rows: list[dict[str, str]]) -> str:
    """The rows as 24.05 lists them."""
    return json.dumps({"jobs": [_json(row) for row in rows], "errors": []})


def _json(row: dict[str, str]) -> dict[str, Any]:
    n_cpus = int(row["AllocCPUS"])
    amounts = {"cpu": n_cpus, "mem": n_cpus * 1024, "node": 1, "billing": 2 * n_cpus}
    allocated = [{"type": kind, "name": "", "count": count} for kind, count in amounts.items()]
    allocated.append({"type": "gres", "name": "gpu", "count": n_cpus // 16})
    flagged = {"RESIZING": ["PENDING", "RESIZING"], "REQUEUED": ["PENDING", "REQUEUED"]}
    number = {name: 0 if row[name] == "Unknown" else int(row[name]) for name in COLUMNS[4:9]}
    return {
        "job_id": 5001,
        "cluster": "fram",
        "user": "ada",
        "account": "physics",
        "state": {"current": flagged.get(row["State"], [row["State"]])},
        "time": {
            "submission": number["Submit"],
            "eligible": number["Eligible"],
            "start": number["Start"],
            "end": number["End"],
            "elapsed": number["ElapsedRaw"],
        },
        "tres": {"allocated": allocated, "requested": []},
    }


def of_text(rows: list[dict[str, str]]) -> RecordBatch:
    return only(sacct(*rows))


def of_json(rows: list[dict[str, str]]) -> RecordBatch:
    return only(as_json(rows), READING, SacctJson())


READERS = [of_text, of_json]


@pytest.mark.parametrize("name", ["s11_resizing.sacct", "s11_resizing.json", "s12_requeued.json"])
def test_the_files_of_the_field_add_up(golden_dir: Path, name: str) -> None:
    data = (golden_dir / "field" / name).read_bytes()
    batch = only(data, READING, format_of(AUTO, data))
    assert states(batch) == [0, 0, 2, 0]
    assert core_s(batch) == 460_800


@pytest.mark.parametrize("of", READERS)
@pytest.mark.parametrize("keeps_start", [True, False])
@pytest.mark.fault("F12")
def test_parts_count_their_own_time_in_every_order_and_alone(of: Any, keeps_start: bool) -> None:
    rows = three_parts(keeps_start=keeps_start)
    for order in itertools.permutations(rows):
        batch = of(list(order))
        assert (states(batch), core_s(batch)) == ([0, 0, 3, 0], CPU_S)
        ran_s = (batch.end_us - batch.start_us) / 1e6
        assert float((ran_s * batch.billing).sum()) == 2 * CPU_S
        assert float((ran_s * batch.gpus).sum()) == 4 * 1000 + 2 * 2000 + 1 * 3000
        assert float((ran_s * batch.mem_mb).sum()) == 1024 * CPU_S
        assert len(set(batch.submit_us.tolist())) == 3
    assert [core_s(of([row])) for row in rows] == [64_000, 64_000, 48_000]


@pytest.mark.parametrize("of", READERS)
@pytest.mark.parametrize("start", [100, 1100])
def test_the_part_that_runs_counts_from_the_resize(of: Any, start: int) -> None:
    batch = of([part(32, 1100, None, "RUNNING", start=start), part(64, 0, 1100, "RESIZING", start=100)])
    assert states(batch) == [0, 1, 1, 0]
    running = batch.state == RUNNING
    assert batch.start_us[running].tolist() == [(T0 + 1100) * 1_000_000]
    assert batch.cpus[running].tolist() == [32]
    assert core_s(batch) == 64_000


@pytest.mark.parametrize("start", [100, 1100])
def test_the_limit_counts_from_the_first_start(start: int) -> None:
    """Which the row itself shows, or the part before it; the parts may be several."""
    limit = {"TimelimitRaw": "60"}
    parts = [part(64, 0, 1100, "RESIZING", start=100), part(32, 1100, 1600, "RESIZING", start=start)]
    last = part(16, 1600, None, "RUNNING", start=100 if start == 100 else 1600)
    other = part(16, 0, None, "RUNNING", start=100) | {"JobIDRaw": "5002"}
    batch = only(sacct(*(row | limit for row in (last, other, *parts))))
    assert batch.requested_s[batch.state == RUNNING].tolist() == [3600 - 1500, 3600]
    assert listed(resize_time=T0 + 1100, time_limit=60).requested_s.tolist() == [3600 - 1000]


@pytest.mark.parametrize("of", READERS)
def test_a_job_that_was_resized_and_requeued_counts_every_run(of: Any) -> None:
    rows = [
        part(64, 0, 1100, "RESIZING", start=100),
        part(32, 1100, 2100, "REQUEUED", start=100),
        part(64, 2100, 3300, "RESIZING", start=2300),
        part(128, 3300, 4300, "COMPLETED", start=2300),
    ]
    for order in itertools.permutations(rows):
        assert core_s(of(list(order))) == 64_000 + 32_000 + 64_000 + 128_000


def test_parts_of_array_tasks_and_of_other_clusters_are_apart() -> None:
    columns = ("JobID", *COLUMNS[1:], *AMOUNTS)
    rows = [row | {"JobID": f"50_{task}"} for task in (1, 2) for row in three_parts(keeps_start=True)]
    assert core_s(only(sacct(*rows, columns=columns))) == 2 * CPU_S
    without_submit = [name for name in columns if name not in ("Submit", "Eligible")]
    assert core_s(only(sacct(*rows, columns=without_submit))) == 2 * CPU_S
    ordinary = part(8, 0, 5000, "COMPLETED", start=50) | {"JobIDRaw": "5001", "Cluster": "other"}
    found = only(sacct(*three_parts(keeps_start=True), ordinary))
    assert core_s(found) == CPU_S + 8 * 4950


def test_eligible_stands_for_a_missing_submit() -> None:
    columns = tuple(name for name in (*COLUMNS, *AMOUNTS) if name != "Submit")
    rows = three_parts(keeps_start=True)
    assert [core_s(only(sacct(row, columns=columns))) for row in rows] == [64_000, 64_000, 48_000]
    batch = only(sacct(*rows, columns=columns))
    assert (core_s(batch), len(set(batch.submit_us.tolist()))) == (CPU_S, 3)


def test_without_both_the_parts_of_a_file_begin_where_the_one_before_ended() -> None:
    columns = tuple(name for name in (*COLUMNS, *AMOUNTS) if name not in ("Submit", "Eligible"))
    for order in itertools.permutations(three_parts(keeps_start=True)):
        batch = only(sacct(*order, columns=columns))
        assert (core_s(batch), len(set(batch.submit_us.tolist()))) == (CPU_S, 3)


def test_a_part_without_an_end_column_ends_by_its_elapsed_time() -> None:
    columns = tuple(name for name in (*COLUMNS, *AMOUNTS) if name != "End")
    assert core_s(only(sacct(*three_parts(keeps_start=True), columns=columns))) == CPU_S


def test_suspended_parts_count_whole_and_are_noted() -> None:
    """Slurm charges a suspended job on; Elapsed leaves that time out."""
    rows = three_parts(keeps_start=True)
    rows[2]["ElapsedRaw"] = str(6000 - 600)
    found = read(sacct(*rows))
    assert (core_s(found.batch), found.notes["suspended"], found.notes["begun_at_resize"]) == (CPU_S, 1, 2)


def test_a_resize_in_the_repeated_hour_is_taken_from_the_part_before() -> None:
    """Clocks in Stockholm go from 03:00 back to 02:00 on 25 October 2026; the resize is in the second pass."""
    first = {
        "Submit": "2026-10-25T01:00:00",
        "Start": "2026-10-25T01:00:00",
        "End": "2026-10-25T02:30:00",
        "ElapsedRaw": "9000",
        "State": "RESIZING",
        "AllocCPUS": "2",
        "AllocTRES": "cpu=2,node=1",
    }
    second = first | {
        "Submit": "2026-10-25T02:30:00",
        "End": "2026-10-25T04:30:00",
        "ElapsedRaw": "16200",
        "State": "COMPLETED",
    }
    assert core_s(only(sacct(second, first), STOCKHOLM)) == 2 * 16_200


def test_an_ordinary_job_that_started_before_a_wrong_submission_keeps_its_start() -> None:
    """A submission behind the end is no resize."""
    row = part(8, 900, 700, "COMPLETED", start=100)
    assert core_s(only(sacct(row))) == 8 * 600


def listed(**given: Any) -> RecordBatch:
    job = {
        "job_id": 5001,
        "cluster": "fram",
        "user_name": "ada",
        "account": "physics",
        "partition": "normal",
        "qos": "high",
        "job_state": ["RUNNING"],
        "submit_time": T0,
        "start_time": T0 + 100,
        "end_time": T0 + 90_000,
        "resize_time": 0,
        "tres_alloc_str": "cpu=64,node=2",
        "tres_req_str": "cpu=64,node=2",
    }
    return only(json.dumps({"jobs": [job | given], "errors": []}), READING, SlurmQueue())


def test_a_listing_knows_the_running_part_by_the_resize() -> None:
    resized = listed(resize_time=T0 + 1100, tres_alloc_str="cpu=32,node=1")
    assert resized.start_us.tolist() == resized.submit_us.tolist() == [(T0 + 1100) * 1_000_000]
    assert resized.cpus.tolist() == [32]
    ended = listed(resize_time=T0 + 1100, job_state=["COMPLETED"], end_time=T0 + 2100)
    assert core_s(ended) == 64_000
    again = listed(resize_time=T0 + 50)  # of an earlier run
    assert again.submit_us.tolist() == [T0 * 1_000_000]
    waits = listed(resize_time=T0 + 1100, job_state=["PENDING"], start_time=0)
    assert waits.submit_us.tolist() == [T0 * 1_000_000]


@pytest.mark.django_db
@pytest.mark.parametrize("keeps_start", [True, False])
def test_parts_that_arrive_apart_are_counted_once(source: Source, keeps_start: bool) -> None:
    """Collected while it ran, listed after the resize, then from accounting in any order, and all again."""
    rows = three_parts(keeps_start=keeps_start)
    start = rows[1]["Start"]
    collected = [
        of_text([part(64, 0, None, "RUNNING", start=100)]),
        of_text([part(32, 1100, None, "RUNNING", start=int(start) - T0)]),
        of_json([rows[2]]),
        of_text([rows[1]]),
        of_json([rows[0]]),
        of_text(rows),
        of_json(rows[::-1]),
    ]
    total = sum(ingest_batch(source=source, rows=batch, at=AT_LATER).core_s for batch in collected)
    assert total == CPU_S
    assert Record.objects.count() == 3
    assert set(Record.objects.values_list("state", flat=True)) == {"finished"}


AT_LATER = AT.fromtimestamp(T0 + 100_000, AT.tzinfo)


@pytest.mark.django_db
def test_a_listing_after_the_resize_closes_the_part_before(source: Source) -> None:
    at = [AT.fromtimestamp(T0 + seconds, AT.tzinfo) for seconds in (600, 1500)]
    ingest_listing(source, listed(), at[0])
    counts = ingest_listing(source, listed(resize_time=T0 + 1100, tres_alloc_str="cpu=32,node=1"), at[1])
    assert (counts.new, counts.vanished) == (1, 1)
    real = of_text([part(64, 0, 1100, "RESIZING", start=100), part(32, 1100, None, "RUNNING", start=100)])
    ingest_batch(source=source, rows=real, at=at[1])
    found = list(Record.objects.order_by("submit_at").values_list("state", "cpus"))
    assert found == [("finished", 64), ("running", 32)]
    assert ingest_listing(source, listed(resize_time=T0 + 1100), at[1]).vanished == 0


def many_parts(n: int) -> list[dict[str, str]]:
    rows = [
        part(1 + k % 5, 100 * k, 100 * (k + 1), "RESIZING" if k < n - 1 else "COMPLETED", start=0) for k in range(n)
    ]
    random.Random(7).shuffle(rows)
    return rows


@pytest.mark.django_db
@pytest.mark.parametrize("n", [1_000, pytest.param(10_000, marks=pytest.mark.deep)])
def test_thousands_of_resizes_of_one_job_are_as_many_records(source: Source, n: int) -> None:
    rows = many_parts(n)
    cpu_s = sum(100 * (1 + k % 5) for k in range(n))
    batches = [piece.batch for piece in Sacct().parse(io.BytesIO(sacct(*rows).encode()), READING)]
    assert sum(core_s(batch) for batch in batches) == cpu_s
    for batch in batches:
        ingest_batch(source=source, rows=batch, at=AT_LATER.replace(year=2027))
    assert Record.objects.filter(state="finished").count() == n
    ended = load_ended_records(since={source.pk: 0.0}, to_at=AT_LATER.replace(year=2028), sites=[])
    assert int(np.isnan(ended.part_before_epoch).sum()) == 1, "all but the first follow another"
    assert sum(core_s(batch) for batch in (of_json(rows[: n // 2]), of_json(rows[n // 2 :]))) == cpu_s
