"""23:59:60, which logs hold on the last day of a half-year: it is a time, and no usage is lost by it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.usage.parsers.field_values import BadRecord
from apps.usage.parsers.instants import iso
from apps.usage.parsers.records_json import parse_records
from tests.usage.parsers import test_pbs
from tests.usage.parsers.slurm_files import STOCKHOLM, only, read, sacct

NEW_YEAR = datetime(2017, 1, 1, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Stockholm")


@pytest.mark.parametrize(
    "text",
    ["2016-12-31T23:59:60Z", "2017-01-01T00:59:60+01:00", "2017-01-01T00:59:60", "2016-12-31T20:29:60-03:30"],
)
def test_a_leap_second_is_the_one_after_23_59_59_in_each_format(text: str) -> None:
    assert iso("EndTime", text, ZONE) == NEW_YEAR
    started = "2016-12-31T23:00:00" + ("" if text.endswith(":60") else "+01:00")
    by_sacct = only(sacct({"Submit": started, "Start": started, "End": text, "ElapsedRaw": ""}), STOCKHOLM)
    assert (by_sacct.end_us - by_sacct.start_us).tolist() == [2 * 3600 * 1_000_000]
    record = {"job": "1", "user": "ada", "group": "physics", "cpus": 1, "start": started, "end": text}
    pushed = parse_records(json.dumps([record]).encode(), content_type="application/json", zone=ZONE)
    assert (pushed.rejections, pushed.batch.end_us.tolist()) == ([], [int(NEW_YEAR.timestamp()) * 1_000_000])


def test_a_line_of_pbs_may_begin_with_a_leap_second() -> None:
    start = int(NEW_YEAR.timestamp()) - 3600
    times: dict[str, Any] = {"ctime": start, "qtime": start, "etime": start, "start": start, "end": None}
    job = test_pbs.only(test_pbs.PBS, test_pbs.line("E", head="01/01/2017 00:59:60", **times), zone=ZONE)
    assert (job.end_at, job.hours) == (NEW_YEAR, 1)


@pytest.mark.parametrize("text", ["2016-12-31T22:59:60Z", "2016-12-31T23:58:60Z", "2016-12-31T23:59:61Z"])
def test_second_60_at_another_time_is_none(text: str) -> None:
    with pytest.raises(BadRecord):
        iso("EndTime", text, ZONE)
    by_sacct = read(sacct({"End": text, "ElapsedRaw": ""}), STOCKHOLM)
    assert [each.code for each in by_sacct.rejections] == ["bad_time"]
    record = {"job": "1", "user": "ada", "group": "physics", "cpus": 1, "start": "2016-12-31T20:00:00Z", "end": text}
    pushed = parse_records(json.dumps([record]).encode(), content_type="application/json", zone=ZONE)
    assert [each.code for each in pushed.rejections] == ["bad_time"]
