from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid, TooLarge
from apps.usage.parsers.lines import MOST_LINE_BYTES
from apps.usage.parsers.records_json import Records, parse_records
from apps.usage.parsers.records_plain import FIELDS
from tests.each_case import each_case
from tests.usage.parsers.reading import Job, jobs_of

GOOD = {"job": "1", "user": "alice", "start": "2026-11-01T01:00:00Z", "end": "2026-11-01T02:00:00Z", "cpus": 8}
STOCKHOLM = ZoneInfo("Europe/Stockholm")


def parse(body: bytes | list[Any], *, kind: str = "application/json", zone: ZoneInfo | None = None) -> Records:
    data = json.dumps(body).encode() if isinstance(body, list) else body
    return parse_records(data, content_type=kind, zone=zone)


def lines(*texts: str | bytes) -> Records:
    body = b"\n".join(text.encode() if isinstance(text, str) else text for text in texts)
    return parse(body, kind="application/x-ndjson; charset=utf-8")


def jobs(found: Records) -> list[Job]:
    return jobs_of(found.batch)


def code_of(record: Any, *, zone: ZoneInfo | None = None) -> str:
    found = parse([GOOD, record], zone=zone)
    assert len(jobs(found)) == 1
    assert [one.line for one in found.rejections] == [2]
    assert found.rejections[0].message
    return found.rejections[0].code


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name not in names}


def test_the_required_fields_are_sufficient() -> None:
    found = parse([GOOD])
    assert found.rejections == []
    assert (jobs(found)[0].job, jobs(found)[0].cpus, jobs(found)[0].state) == ("1", 8.0, "finished")
    assert jobs(found)[0].end_at == datetime(2026, 11, 1, 2, tzinfo=UTC)


def test_every_field_of_the_contract_is_accepted() -> None:
    record = {
        **{"job": "1234", "restart": 1, "revision": 2, "array_task": "7", "cluster": "c1", "site": "s1"},
        **{"user": "alice", "group": "physics", "dn": "/DC=x/CN=a", "fqan": "/vo/role", "project": "p"},
        **{"state": "finished", "submit": "2026-11-01T00:00:00+01:00", "start": GOOD["start"], "end": GOOD["end"]},
        **{"cpus": 8, "gpus": 1.5, "nodes": 1, "mem_mb": 4000, "queue": "batch", "partition": "x", "qos": "normal"},
        **{"requested_s": 7200, "billing": 3},
    }
    assert set(record) == set(FIELDS)
    row = jobs(parse([record]))[0]
    assert (row.restart, row.revision, row.array_task, row.gpus, row.billing) == (1, 2, "7", 1.5, 3.0)
    assert (row.dn, row.fqan, row.project, row.requested_s) == ("/DC=x/CN=a", "/vo/role", "p", 7200)
    assert row.submit_at == datetime(2026, 10, 31, 23, tzinfo=UTC)


def test_null_equals_an_omitted_field() -> None:
    optional = [name for name in FIELDS if name not in GOOD]
    assert jobs(parse([{**GOOD, **dict.fromkeys(optional)}])) == jobs(parse([GOOD]))


def test_running_and_waiting_jobs_need_no_end() -> None:
    running = {**without("end"), "state": "running"}
    pending = {**without("start", "end"), "state": "pending", "submit": "2026-11-01T00:00:00Z"}
    withdrawn = {"job": "1", "user": "alice", "state": "withdrawn", "start": GOOD["start"]}
    assert [row.state for row in jobs(parse([running, pending, withdrawn]))] == ["running", "pending", "withdrawn"]


@each_case(
    ("record", "code"),
    [
        ({**GOOD, "cpu": 8}, "unknown_field"),
        (without("job"), "missing_field"),
        (without("user"), "missing_field"),
        (without("end"), "missing_field"),
        (without("cpus"), "missing_field"),
        ({**GOOD, "user": ""}, "missing_field"),
        ({**GOOD, "user": None}, "missing_field"),
        ({**GOOD, "cpus": True}, "wrong_type"),
        ({**GOOD, "cpus": "8"}, "wrong_type"),
        ({**GOOD, "cpus": [8]}, "wrong_type"),
        ({**GOOD, "restart": 1.5}, "wrong_type"),
        ({**GOOD, "restart": False}, "wrong_type"),
        ({**GOOD, "revision": 2**63}, "absurd_number"),
        ({**GOOD, "revision": -1}, "absurd_number"),
        ({**GOOD, "user": 7}, "wrong_type"),
        ({**GOOD, "user": {"name": "a"}}, "wrong_type"),
        ({**GOOD, "job": True}, "wrong_type"),
        ({**GOOD, "cpus": -1}, "negative_number"),
        ({**GOOD, "cpus": 1e300}, "absurd_number"),
        ({**GOOD, "cpus": 10**30}, "absurd_number"),
        ({**GOOD, "job": "x" * 129}, "too_long"),
        ({**GOOD, "user": "a\nb"}, "bad_text"),
        ({**GOOD, "user": "a\0"}, "bad_text"),
        ({**GOOD, "user": "a\u202eb"}, "bad_text"),
        ({**GOOD, "state": "done"}, "bad_state"),
        ({**GOOD, "state": ["running"]}, "bad_state"),
        ({**GOOD, "state": "running"}, "unexpected_field"),
        ({**without("end"), "state": "pending", "submit": GOOD["start"]}, "unexpected_field"),
        ({**without("start", "end"), "state": "withdrawn"}, "missing_field"),
        ({**GOOD, "end": "2026-11-01T00:59:59Z"}, "end_before_start"),
        ({**GOOD, "end": "9999-12-31T23:59:59-23:59"}, "bad_time"),
        ({**GOOD, "start": "0001-01-01T00:00:00+10:00"}, "bad_time"),
        ({**GOOD, "start": "1969-12-31T23:59:59Z"}, "absurd_time"),
        ({**GOOD, "start": "2001-01-01T00:00:00Z"}, "absurd_run_time"),
        ({**GOOD, "start": "2026-11-01T01:00:00"}, "naive_time"),
        ({**GOOD, "start": "2026-11-01"}, "bad_time"),
        ({**GOOD, "start": "2026-02-30T00:00:00Z"}, "bad_time"),
        ({**GOOD, "start": 1764547200}, "wrong_type"),
        ({**GOOD, "start": ""}, "bad_time"),
        ("1", "not_an_object"),
        (None, "not_an_object"),
        ([GOOD], "not_an_object"),
        ({}, "missing_field"),
    ],
)
def test_an_invalid_record_is_reported_with_its_reason(record: Any, code: str) -> None:
    assert code_of(record) == code


def test_the_message_names_the_field() -> None:
    assert "'cpu'" in parse([{**GOOD, "cpu": 1}]).rejections[0].message
    assert "restart" in parse([{**GOOD, "restart": "1"}]).rejections[0].message


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"job": "1", "job": "2"}', "duplicate_key"),
        ('{"job": "1", "cpus": 1, "cpus" :2}', "duplicate_key"),
        ('{"cpus": NaN}', "bad_json"),
        ('{"cpus": Infinity}', "bad_json"),
        ('{"cpus": 1e999}', "bad_json"),
        ('{"cpus": 1' + "0" * 400 + "}", "bad_json"),
        ("[" * (MOST_LINE_BYTES + 1), "line_too_long"),
        ("[" * 5_000 + "]" * 5_000, "bad_json"),
        ('{"job": "1"', "bad_json"),
        ("nonsense", "bad_json"),
        (b'{"job": "\xff"}', "bad_json"),
        ('{"job": "\\ud800"}', "bad_json"),
        ("[]", "not_an_object"),
    ],
)
def test_an_invalid_line_is_reported_and_its_neighbours_are_accepted(line: str | bytes, code: str) -> None:
    good = json.dumps(GOOD)
    found = lines(good, "", line, good)
    assert [(one.line, one.code) for one in found.rejections] == [(3, code)]
    assert found.batch.line.tolist() == [1, 4]


def test_quotes_inside_values_are_not_repeated_names() -> None:
    record = {**GOOD, "user": 'the "boss"', "group": 'a":"b'}
    assert jobs(parse([record]))[0].user == 'the "boss"'
    assert jobs(lines(json.dumps(record)))[0].group == 'a":"b'


def test_a_repeated_name_is_detected_in_a_list_too() -> None:
    body = b'[{"job": "1", "user": "a"}, {"job": "2", "job": "3"}]'
    assert [one.code for one in parse(body).rejections] == ["missing_field", "duplicate_key"]


BODIES = [b"", b"{}", b"[", b"[" * 100_000 + b"]" * 100_000, b"[NaN]", b"\xff", b'"x"', b"null"]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_not_a_list_is_rejected(body: bytes) -> None:
    with pytest.raises(Invalid):
        parse(body)


def test_other_types_are_refused() -> None:
    with pytest.raises(Invalid) as caught:
        parse(b"[]", kind="text/csv")
    assert caught.value.code == "unsupported_media_type"


def test_a_body_has_at_most_fifty_thousand_records() -> None:
    with pytest.raises(TooLarge):
        parse(b"[" + b",".join([b"{}"] * 50_001) + b"]")
    with pytest.raises(TooLarge):
        parse(b"{}\n" * 50_001, kind="application/x-ndjson")


def local(start: str, end: str) -> dict[str, Any]:
    return {**GOOD, "start": start, "end": end}


def length_of(record: dict[str, Any]) -> timedelta:
    row = jobs(parse([record], zone=STOCKHOLM))[0]
    assert row.start_at is not None
    assert row.end_at is not None
    return row.end_at - row.start_at


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        ("2026-10-25T01:30:00", "2026-10-25T03:30:00", 3.0),
        ("2026-10-25T02:45:00", "2026-10-25T02:15:00", 0.5),
        ("2026-03-29T01:30:00", "2026-03-29T03:30:00", 1.0),
        ("2026-10-25T02:45:00+02:00", "2026-10-25T02:15:00+01:00", 0.5),
        ("2026-07-01T12:00:00", "2026-07-01T13:00:00", 1.0),
    ],
)
def test_local_times_are_read_in_the_zone_of_the_source(start: str, end: str, hours: float) -> None:
    assert length_of(local(start, end)) == timedelta(hours=hours)


def test_a_nonexistent_local_time_is_rejected() -> None:
    found = parse([local("2026-03-29T02:30:00", "2026-03-29T04:00:00")], zone=STOCKHOLM)
    assert [one.code for one in found.rejections] == ["nonexistent_time"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=12), max_size=5))
def test_every_record_is_accepted_or_reported(records: list[dict[str, Any]]) -> None:
    body = "\n".join(json.dumps(record) for record in records)
    found = lines(body)
    assert len(jobs(found)) + len(found.rejections) == len(records)


@given(st.binary(max_size=200))
def test_any_bytes_give_rows_and_reasons(body: bytes) -> None:
    found = parse(body, kind="application/x-ndjson")
    assert len({*found.batch.line.tolist(), *(one.line for one in found.rejections)}) == len(
        [line for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    )
