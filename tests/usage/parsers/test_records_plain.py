"""Many records at once give the same as each alone."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.parsers import records_json
from apps.usage.parsers.records_json import Records, parse_records
from apps.usage.parsers.records_plain import plain_records
from tests.examples import examples
from tests.usage.parsers.reading import jobs_of

GOOD: dict[str, Any] = {
    "job": "1",
    "user": "alice",
    "start": "2026-11-01T01:00:00Z",
    "end": "2026-11-01T02:00:00Z",
    "cpus": 8,
}


def parse(records: list[Any], kind: str = "application/x-ndjson") -> Records:
    body = "\n".join(map(json.dumps, records)) if kind != "application/json" else json.dumps(records)
    return parse_records(body.encode(), content_type=kind, zone=None)


def contents(found: Records) -> tuple[Any, ...]:
    return jobs_of(found.batch), found.rejections, found.batch.is_charge.tolist()


def one_by_one(records: list[Any], kind: str = "application/x-ndjson") -> Records:
    with patch.object(records_json, "plain_records", return_value=None):
        return parse(records, kind)


texts = st.sampled_from(["", "a", "physics", "a b", "é", "\u0301", "tab\t", "\u202e", "x" * 200, "0", "None"])
times = st.sampled_from(
    [
        *("2026-11-01T01:30:00Z", "2026-11-01T01:30:00z", "2026-11-01T02:30:00+01:00", "2026-11-01T02:30:00-23:59"),
        *("2026-11-01T02:30:00+24:00", "2026-11-01 02:30:00Z", "2026-11-01t02:30:00Z", "2026-11-01T02:30:00.25Z"),
        *("2026-02-30T02:30:00Z", "2026-11-01T24:00:00Z", "2026-11-01T02:30:60Z", "1969-12-31T23:59:59Z"),
        *("2026-11-01T02:30:00", "2027-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "٢٠٢٦-11-01T02:30:00Z", "", 7),
        *("2026-11-01T01:30:00Z\0", "2026-11-01T01:30:00+01:0\0", "2026-11-01T01:30:00Zé"),
        *("2026-11-20T12:00:00+00:00", "0000-01-01T00:00:00Z", "2026-11-01T02:30:00+0100", "2000-01-01T00:00:00Z"),
    ]
)
numbers = st.sampled_from([0, 1, 0.5, 8.0, 1e7, 1.1e7, -1, -0.0, 10**30, "8", True, 1e308])
integers = st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**62, 2**62 + 1, 10**30, -1, 1.0, False, "1"])
usual = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.none() | texts for name in ("job", "user", "group", "dn", "queue", "qos", "site", "array_task")},
        **{name: st.none() | times for name in ("submit", "start", "end")},
        **{name: st.none() | numbers for name in ("cpus", "gpus", "mem_mb", "requested_s", "billing")},
        **{name: st.none() | integers for name in ("restart", "revision", "job")},
        "state": st.sampled_from([None, "finished", "running", "withdrawn", "odd", []]),
        "other": st.just(1),
    },
)
odd_or_usual: st.SearchStrategy[dict[str, Any]] = st.one_of(st.just({}), usual)
records = st.lists(odd_or_usual.map(lambda issues: {**GOOD, **issues}), max_size=4)


@examples(400)
@given(records, st.sampled_from(["application/x-ndjson", "application/json"]))
def test_batch_and_single_parsing_agree(given_records: list[dict[str, Any]], kind: str) -> None:
    with patch.object(records_json, "_FEW", 0):
        assert contents(parse(given_records, kind)) == contents(one_by_one(given_records, kind))


@pytest.mark.parametrize(
    "issues",
    [
        {"job": 17, "array_task": 3, "group": None},
        {"start": "2026-11-01T00:30:00+01:00", "submit": "2026-10-31T23:59:59-05:30"},
        {"requested_s": 7200, "mem_mb": 0.1, "restart": 3, "revision": 2**62, "queue": "batch", "fqan": "/vo"},
    ],
)
def test_ordinary_records_are_parsed_in_a_batch(issues: dict[str, Any]) -> None:
    values = [GOOD, {**GOOD, **issues}]
    batch = plain_records(values, [1, 2])
    assert batch is not None
    assert jobs_of(batch) == jobs_of(one_by_one(values).batch)


def test_one_unusual_record_affects_no_neighbour() -> None:
    values = [{**GOOD, "job": str(n)} for n in range(12_000)]
    values[7_000] = {**GOOD, "cpus": -1}
    found = parse(values)
    assert [(one.line, one.code) for one in found.rejections] == [(7_001, "negative_number")]
    assert found.batch.job.tolist() == [str(n).encode() for n in range(12_000) if n != 7_000]
    assert found.batch.line.tolist() == [n + 1 for n in range(12_000) if n != 7_000]
    assert (len(found.batch.people), len(found.batch.job_classes)) == (1, 1)


def test_joined_batches_keep_their_names() -> None:
    values = [{**GOOD, "job": str(n), "user": f"u{n % 7}", "queue": f"q{n // 6_000}"} for n in range(11_000)]
    rows = jobs_of(parse(values).batch)
    assert [(row.user, row.queue) for row in rows] == [(f"u{n % 7}", f"q{n // 6_000}") for n in range(11_000)]
    assert timedelta(hours=1) == rows[0].end_at - rows[0].start_at  # type: ignore[operator]


@pytest.mark.parametrize(
    "end", ["2026-11-01T02:00:00Z\0", "2026-11-01T02:00:00Zé", "2026-11-01T02:00:0", "2026-11-01T02:00:00"]
)
def test_a_time_with_more_or_less_than_its_form_is_checked_alone(end: str) -> None:
    """Also beside times of other lengths; a column of bytes would drop the zero at its end."""
    records = [{**GOOD, "job": str(number)} for number in range(20)]
    records[7]["end"] = end
    records[8]["end"] = "2026-11-01T03:00:00+01:00"
    assert plain_records(records, range(20)) is None
    assert contents(parse(records)) == contents(one_by_one(records))


def test_a_whole_number_out_of_its_bounds_is_refused_alone() -> None:
    for name, last in (("restart", 2**31 - 1), ("revision", 2**62)):
        for wrong in (-1, last + 1):
            assert plain_records([{**GOOD, name: wrong}, GOOD], [1, 2]) is None
            parsed = parse([{**GOOD, name: wrong}, {**GOOD, "job": "2", name: last}])
            assert [(one.line, one.code) for one in parsed.rejections] == [(1, "absurd_number")]
            assert parsed.batch.job.tolist() == [b"2"]


_LINE = json.dumps(GOOD)
_PIECES = st.sampled_from(
    [
        *(_LINE, f" {_LINE}\r", f"{_LINE},{_LINE}", f"{_LINE},", "{}", "{},{}", "{}]}", "[1", "2]", "{", ""),
        *(f'{_LINE[:-1]}, "other": [{{}}', f'{_LINE[:-1]}, "job": "2"}}', f'{_LINE[:-1]}, "queue": "a}}'),
        *('{"', '{", "site": "b"}', '"'),
    ]
)


@examples(400)
@given(st.lists(_PIECES, max_size=4))
def test_lines_that_only_together_are_json_are_read_alone(pieces: list[str]) -> None:
    body = "\n".join([*[_LINE] * 5, *pieces]).encode()
    kind = "application/x-ndjson"
    with patch.object(records_json, "_values_of_lines", return_value=None):
        alone = parse_records(body, content_type=kind, zone=None)
    assert contents(parse_records(body, content_type=kind, zone=None)) == contents(alone)
    assert alone.batch.line.tolist()[:5] == [1, 2, 3, 4, 5]


def test_lines_that_make_up_for_each_other_are_read_alone() -> None:
    """Three lines, and three objects in all, if they were read as one list."""
    ends = {
        f'{_LINE[:-1]}, "other": [{{}}': "{}]}",
        f'{_LINE[:-1]}, "queue": "a}}': '{", "site": "b"}',
        _LINE[:-1]: '"site": "b"}',
    }
    for first, second in ends.items():
        body = "\n".join([*[_LINE] * 5, first, second, f"{_LINE},{_LINE}"]).encode()
        read = parse_records(body, content_type="application/x-ndjson", zone=None)
        assert read.batch.line.tolist() == [1, 2, 3, 4, 5]
        assert [(each.line, each.code) for each in read.rejections] == [(line, "bad_json") for line in (6, 7, 8)]
