from __future__ import annotations

import json
from typing import Any

import pytest

from apps.usage.parsers.lines import MOST_LINE_BYTES
from apps.usage.parsers.records_json import NDJSON_TYPES, Ndjson, parse_records
from apps.usage.parsers.registry import format_of
from tests.usage.parsers.reading import STOCKHOLM, jobs_of, only, read

NDJSON = Ndjson()


def record(**given: Any) -> str:
    values = {"job": "17", "user": "ada", "start": "2026-10-01T08:00:00Z", "end": "2026-10-01T09:00:00Z", "cpus": 4}
    return json.dumps({name: value for name, value in (values | given).items() if value is not None}) + "\n"


def test_a_file_and_a_push_give_the_same_records() -> None:
    running, queued = {"state": "running", "end": None}, {"state": "pending", "start": None, "end": None}
    lines = record(gpus=1, mem_mb=512.5, queue="long", dn="/CN=Ada") + "\n" + record(job="18", **running)
    lines += record(job="19", submit="2026-10-01T07:00:00+02:00", **queued) + "{}\n"
    assert format_of("auto", lines.encode()).name == "ndjson"
    pushed = parse_records(lines.encode(), content_type=NDJSON_TYPES[0], zone=None)
    found = read(NDJSON, lines)
    assert found.jobs == jobs_of(pushed.batch)
    assert [(one.line, one.code) for one in pushed.rejections] == found.codes == [(5, "missing_field")]


def test_ten_thousand_lines_are_imported_completely() -> None:
    found = read(NDJSON, "".join(record(job=str(n), cpus=1 + n % 4) for n in range(10_000)))
    assert (len(found.jobs), found.rejections) == (10_000, [])
    assert found.cpu_h == pytest.approx(25_000)


def test_local_times_are_in_the_zone_of_the_source() -> None:
    text = record(start="2026-10-25T01:30:00", end="2026-10-25T03:30:00")
    assert only(NDJSON, text, zone=STOCKHOLM).hours == 3
    assert read(NDJSON, text).codes == [(1, "naive_time")]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ("{", "bad_json"),
        ("[" * 5000 + "]" * 5000, "bad_json"),
        ('{"job": NaN}', "bad_json"),
        ("[1]", "not_an_object"),
        (record(cpus=[[1]]).strip(), "wrong_type"),
        (record(cpus=-1).strip(), "negative_number"),
        (record().strip().replace("4}", "1e999}"), "bad_json"),
        (record(end="9999-12-31T23:59:59Z").strip(), "absurd_time"),
        (record(end="2026-10-01T07:00:00Z").strip(), "end_before_start"),
        (record(extra=1).strip(), "unknown_field"),
        (record(user="x" * (MOST_LINE_BYTES + 1)).strip(), "line_too_long"),
    ],
)
def test_an_invalid_line_is_reported_and_its_neighbours_are_accepted(bad: str, code: str) -> None:
    found = read(NDJSON, record(job="1") + bad + "\n" + record(job="2"))
    assert found.codes == [(2, code)]
    assert [job.job for job in found.jobs] == ["1", "2"]


def test_bytes_that_are_not_text_are_reported() -> None:
    found = read(NDJSON, record().encode() + b'{"job": "\xff"}\n\x00\x01\x02\n' + record(job="2").encode())
    assert found.codes == [(2, "bad_json"), (3, "bad_json")]
    assert len(found.jobs) == 2
