"""In every format: a column that the usage of a job doesn't need refuses no row; what is ignored is counted by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.usage.parsers.base import MOST_RATE, RecordBatch
from apps.usage.parsers.registry import FORMATS
from tests.each_case import each_case
from tests.usage.parsers.reading import read
from tests.usage.parsers.slurm_files import sacct

HOUR = 3600
SWF_JOB = "7 0 60 3600 8 -1 2048 8 7200 4096 1 17 3 -1 1 2 -1 -1"
GRID_JOB = (
    "all.q:node1:physics:ada:fit:101:sge:0:1767225600:1767225660:1767229260:0:0:3600:3590.1:2.2:4620.0:0:0:0:0:480"
    ":0:0:0.0:8:0:0:0:6:24:cms:defaultdepartment:smp:8:0:3592.3:0.5:0.0:-pe smp 8:0.0:NONE:30171136.0:0:0"
)
LARGE = "65536000"  # of billing, as weights times 1000 give


def swf(**fields: str) -> str:
    values = SWF_JOB.split()
    for place, text in fields.items():
        values[int(place[1:]) - 1] = text
    return "; UnixStartTime: 1767225600\n" + " ".join(values) + "\n"


def grid_line(**fields: str) -> str:
    values = GRID_JOB.split(":")
    for place, text in fields.items():
        values[int(place[1:])] = text
    return ":".join(values) + "\n"


def grid_json(**changes: Any) -> str:
    run = {"job_number": 101, "task_number": 0, "owner": "ada", "group": "physics", "slots": 8, "qname": "all.q"}
    run |= {"submission_time": 1767225600, "start_time": 1767225660, "end_time": 1767229260, "granted_pe": "smp"}
    return json.dumps({name: value for name, value in (run | changes).items() if value is not None}) + "\n"


def usage_record(**changes: str) -> str:
    fields = {
        "Status": "<Status>completed</Status>",
        "StartTime": "<StartTime>2026-01-01T00:01:00Z</StartTime>",
        "EndTime": "<EndTime>2026-01-01T01:01:00Z</EndTime>",
        "Processors": "<Processors>8</Processors>",
    }
    identity = changes.pop("created", "2026-01-01T02:00:00Z")
    return (
        f'<UsageRecords><JobUsageRecord><RecordIdentity recordId="r1" createTime="{identity}"/>'
        "<UserIdentity><LocalUserId>ada</LocalUserId></UserIdentity>"
        f"{''.join((fields | changes).values())}</JobUsageRecord></UsageRecords>\n"
    )


def message(**changes: str) -> str:
    fields = {"Site": "A", "LocalJobId": "17", "LocalUserId": "ada", "Processors": "8", "StartTime": "1767225660"}
    lines = [f"{name}: {text}" for name, text in (fields | {"EndTime": "1767229260"} | changes).items()]
    return "\n".join(["APEL-individual-job-message: v0.3", *lines, "%%", ""])


def listed(**changes: Any) -> str:
    job = {"job_id": 5, "user_name": "ada", "account": "physics", "job_state": ["COMPLETED"], "cpus": 8}
    job |= {"submit_time": 1767225600, "start_time": 1767225660, "end_time": 1767229260}
    job |= {"tres_alloc_str": "cpu=8,mem=16G,node=1,billing=8"}
    return json.dumps({"jobs": [job | changes], "errors": []})


def accounted(*tres: dict[str, Any], **changes: Any) -> str:
    time = {"submission": 1767225600, "start": 1767225660, "end": 1767229260}
    listed_tres = [{"type": "cpu", "count": 8}, {"type": "node", "count": 1}, *tres]
    job = {"job_id": 5, "user": "ada", "account": "physics", "state": {"current": ["COMPLETED"]}, "time": time}
    return json.dumps({"jobs": [job | {"tres": {"allocated": listed_tres}} | changes], "errors": []})


def record(**changes: Any) -> str:
    fields = {"job": "1", "user": "ada", "cpus": 8, "start": "2026-01-01T00:01:00Z", "end": "2026-01-01T01:01:00Z"}
    return json.dumps(fields | changes) + "\n"


def batch_of(name: str, text: str) -> tuple[RecordBatch, list[str]]:
    """The one record, and the names of ignored values."""
    found = read(FORMATS[name], text)
    assert found.rejections == []
    (batch,) = [piece.batch for piece in found.pieces if len(piece.batch)]
    assert len(batch) == 1
    return batch, [note.removeprefix("values_ignored ") for note in found.notes if note.startswith("values_ignored")]


@each_case(
    ("name", "text", "ignored"),
    [
        ("sacct", sacct({"AllocTRES": "billing=?,cpu=8,gres/gpu=two,mem=12.27Q,node=1"}), 3),
        ("sacct", sacct({"AllocTRES": "not a list"}), 1),
        ("sacct", sacct({"AllocTRES": "billing=99999999999999,cpu=8,mem=9999999999T,node=1"}), 2),
        ("sacct", sacct({"Partition": "p\x1b", "QOS": "q" * 200, "Reservation": "\x7f"}), 3),
        ("sacct", sacct({"Eligible": "soon"}), 1),
        ("sacct-json", accounted({"type": "billing", "count": "many"}, {"type": "mem", "count": -5}), 2),
        ("sacct-json", accounted({"type": "billing", "count": 10**17}), 1),
        ("sacct-json", accounted(partition="p\x1b", qos="q" * 200, reservation={"name": "\x7f"}), 3),
        ("squeue-json", listed(tres_alloc_str="cpu=8,billing=?,gres/gpu=x", billable_tres="?"), 3),
        ("squeue-json", listed(tres_alloc_str="?"), 1),
        ("squeue-json", listed(partition="p\x1b", qos="q" * 200, resv_name="\x7f"), 3),
        ("swf", swf(f7="12.27M", f10="4G", f8="-", f9="?", f11="done", f15="long", f16="a"), 7),
        ("swf", swf(f7="1e300", f15="1e300", f16="1e999"), 3),
        ("gridengine", grid_line(_42="-nan"), 1),
        ("gridengine", grid_line(_42="1.27G", _40="?"), 1),
        ("gridengine", grid_line(_0="q" * 200), 1),
        ("gridengine", grid_line(_8="soon"), 1),
        ("gridengine-jsonl", grid_json(usage={"usage": {"maxvmem": "12.27M"}}, qname="\x1b"), 2),
        ("gridengine-jsonl", grid_json(submission_time=None), 1),
        ("ogf-ur", usage_record(NodeCount="<NodeCount>two</NodeCount>", Charge="<Charge>-1</Charge>"), 2),
        ("ogf-ur", usage_record(Memory='<Memory storageUnit="furlongs">3</Memory>', created="today"), 2),
        ("ogf-ur", usage_record(WallDuration="<WallDuration>P1Y</WallDuration>", Site=f"<Site>{'s' * 200}</Site>"), 2),
        ("ogf-ur", usage_record(Queue="<Queue>a&#x202e;b</Queue>", Charge="<Charge>1e300</Charge>"), 2),
        ("ogf-ur", usage_record(submit='<TimeInstant type="submit">soon</TimeInstant>'), 1),
        ("apel", message(NodeCount="two", MemoryReal="?", ServiceLevel="fast"), 3),
        ("apel", message(WallDuration="NaN", Queue="q" * 3000, Site="s\x1b"), 3),
        ("apel", message(CpuDuration="?", Infrastructure="x" * 3000), 0),
        ("ndjson", record(gpus="4", nodes=-1, mem_mb="12G", billing=1e300, requested_s="1:00:00"), 5),
        ("ndjson", record(queue=["long"], partition="p\x1b", qos="q" * 200, site=7), 4),
    ],
)
def test_a_column_that_usage_doesnt_need_refuses_no_row(name: str, text: str, ignored: int) -> None:
    batch, names = batch_of(name, text)
    assert batch.cpus.tolist() == [8]
    assert (batch.end_us - batch.start_us).tolist() == [HOUR * 10**6]
    assert batch.people[batch.who[0]].user in ("ada", "17")
    assert len(names) == ignored, names
    for column in ("gpus", "nodes", "mem_mb", "billing"):
        assert 0 <= getattr(batch, column)[0] <= MOST_RATE * 1024


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sacct", sacct({"AllocTRES": f"billing={LARGE},cpu=8,mem=16G,node=1"})),
        ("sacct-json", accounted({"type": "billing", "count": int(LARGE)})),
        ("squeue-json", listed(tres_alloc_str=f"cpu=8,billing={LARGE}")),
        ("ndjson", record(billing=int(LARGE))),
        ("ndjson", record(billing=int(LARGE)) * 100),
        ("ogf-ur", usage_record(Charge=f"<Charge>{int(LARGE) * HOUR}</Charge>")),
    ],
)
def test_billing_of_the_largest_jobs_is_stored(name: str, text: str) -> None:
    found = read(FORMATS[name], text)
    assert (found.rejections, {job.billing for job in found.jobs}) == ([], {float(LARGE)})
    assert not [note for note in found.notes if "ignored" in note]


def test_all_processors_of_the_largest_machines_are_stored() -> None:
    assert (
        batch_of("sacct", sacct({"AllocTRES": "cpu=10649600,node=40960", "AllocCPUS": "10649600"}))[0].cpus == 10649600
    )


@pytest.mark.parametrize("name", ["JobIDRaw", "User", "Account", "Submit", "Start", "End", "Cluster"])
def test_ids_accounts_and_times_still_refuse_their_row(name: str) -> None:
    bad = "x\x1b" if name in ("User", "Account", "Cluster", "JobIDRaw") else "soon"
    found = read(FORMATS["sacct"], sacct({name: bad, "UID": ""}, {"JobIDRaw": "2"}))
    assert (len(found.rejections), len(found.jobs)) == (1, 1)


def test_a_field_of_the_largest_site_is_read_whole(golden_dir: Path) -> None:
    """Weights times 1000: the largest jobs bill tens of millions of units."""
    data = (golden_dir / "field/b07_weights_1000.sacct").read_bytes()
    found = read(FORMATS["sacct"], data.decode())
    assert [(job.cpus, job.billing, job.hours) for job in found.jobs] == [
        (49_152, 49_152_000, 2),
        (98_304, 98_304_000, 0.5),
        (64, 64_000, 1),
    ]
    assert found.codes == []
