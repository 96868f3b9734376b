"""APEL messages made field by field: no real file of them is at hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.core.errors import Invalid
from apps.usage.parsers.apel import Apel
from apps.usage.parsers.lines import MOST_LINE_BYTES
from apps.usage.parsers.registry import format_of
from tests.usage.parsers.reading import only, read

APEL = Apel()
HEADER = "APEL-individual-job-message: v0.3\n"
START = 1_790_000_000
_FIELDS: dict[str, Any] = {
    **{"Site": "SITE-A", "SubmitHost": "ce1.example.org:8443/batch", "MachineName": "batch.example.org"},
    **{"Queue": "long", "LocalJobId": "17", "LocalUserId": "cms001", "GlobalUserName": "/DC=org/CN=Ada: Lovelace"},
    **{"FQAN": "/cms/Role=production/Capability=NULL", "VO": "cms", "VOGroup": "/cms", "VORole": "Role=production"},
    **{"WallDuration": 3600, "CpuDuration": 14000, "Processors": 4, "NodeCount": 1, "StartTime": START},
    **{"EndTime": START + 3600, "InfrastructureDescription": "APEL-CREAM-PBS", "InfrastructureType": "grid"},
    **{"MemoryReal": 2_097_152, "MemoryVirtual": 4_000_000, "ServiceLevelType": "hepscore23", "ServiceLevel": 12.5},
}


def record(**given: Any) -> str:
    values = {name: value for name, value in (_FIELDS | given).items() if value is not None}
    return "".join(f"{name}: {value}\n" for name, value in values.items()) + "%%\n"


def test_every_field_is_read() -> None:
    assert format_of("auto", (HEADER + record()).encode()).name == "apel"
    job = only(APEL, HEADER + record())
    start_at = datetime.fromtimestamp(START, UTC)
    assert (job.job, job.user, job.group, job.dn) == ("17", "cms001", "cms", "/DC=org/CN=Ada: Lovelace")
    assert job.fqan == "/cms/Role=production/Capability=NULL"
    assert (job.start_at, job.end_at, job.submit_at) == (start_at, start_at + timedelta(hours=1), start_at)
    assert (job.cpus, job.nodes, job.mem_mb, job.queue) == (4, 1, 2048, "long")
    assert (job.site, job.cluster) == ("SITE-A", "batch.example.org")


def test_a_thousand_records_are_imported_with_their_totals() -> None:
    made = "".join(record(LocalJobId=n, Processors=1 + n % 8) for n in range(1000))
    found = read(APEL, HEADER + made)
    assert (len(found.jobs), found.rejections) == (1000, [])
    assert found.cpu_h == pytest.approx(sum(1 + n % 8 for n in range(1000)))
    assert sum(piece.n_lines for piece in found.pieces) == 1 + 1000 * len(record().splitlines())


def test_the_speed_of_a_site_is_noted_and_changes_no_amount() -> None:
    found = read(APEL, HEADER + record() + record(LocalJobId=18) + record(LocalJobId=19, ServiceLevel=25))
    assert found.notes == {"service_level SITE-A hepscore23 12.5": 2, "service_level SITE-A hepscore23 25": 1}
    assert {job.cpus for job in found.jobs} == {4}


def test_the_last_record_needs_no_separator_and_messages_can_be_joined() -> None:
    text = HEADER + record().removesuffix("%%\n") + HEADER + record(LocalJobId=18).removesuffix("%%\n")
    assert [job.job for job in read(APEL, text).jobs] == ["17", "18"]
    assert [job.job for job in read(APEL, text.replace("\n", "\r\n")).jobs] == ["17", "18"]


def test_missing_names_are_empty() -> None:
    job = only(APEL, HEADER + record(GlobalUserName="None", FQAN="NULL", VO=None, MachineName=None))
    assert (job.dn, job.fqan, job.group, job.cluster) == ("", "", "", "ce1.example.org:8443/batch")
    assert only(APEL, HEADER + record(VO=None, FQAN="/atlas/de/Role=NULL")).group == "atlas"


@pytest.mark.parametrize("missing", ["StartTime", "EndTime", "WallDuration"])
def test_one_of_start_end_and_duration_can_be_missing(missing: str) -> None:
    assert only(APEL, HEADER + record(**{missing: None})).hours == 1


def test_processors_default_to_one() -> None:
    found = read(APEL, HEADER + record(Processors=0) + record(Processors=None))
    assert [job.cpus for job in found.jobs] == [1, 1]
    assert found.notes["processors_unknown"] == 2


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (record(LocalJobId=None), "missing_field"),
        (record(StartTime=None, EndTime=None), "missing_field"),
        (record(EndTime=START - 1), "end_before_start"),
        (record(EndTime=253402300799), "absurd_time"),
        (record(WallDuration=-5, EndTime=None), "negative_number"),
        (record(WallDuration="1e300", EndTime=None), "absurd_run_time"),
        (record(WallDuration="NaN", EndTime=None), "not_a_number"),
        (record(Processors="1e999"), "absurd_number"),
        (record(Processors="four"), "not_a_number"),
        (record(LocalUserId="x" * 300), "too_long"),
        (record(LocalUserId="x" * 3000), "too_long"),
        (record()[:-3] + "no pair\n%%\n", "bad_fields"),
        (record()[:-3] + "Site: twice\n%%\n", "duplicate_key"),
        ("".join(f"Key{n}: 1\n" for n in range(100)) + "%%\n", "too_large"),
        ("Site: " + "x" * (MOST_LINE_BYTES + 1) + "\n%%\n", "line_too_long"),
    ],
)
def test_an_invalid_record_is_reported_and_its_neighbours_are_accepted(bad: str, code: str) -> None:
    found = read(APEL, HEADER + record(LocalJobId=1) + bad + record(LocalJobId=2))
    assert [each for _, each in found.codes] == [code]
    assert {line for line, _ in found.codes} == {2 + len(record().splitlines())}
    assert [job.job for job in found.jobs] == ["1", "2"]


@pytest.mark.parametrize("kind", ["summary-job", "cloud", "sync", "normalised-summary"])
def test_messages_without_jobs_are_rejected_by_type(kind: str) -> None:
    text = f"APEL-{kind}-message: v0.4\nSite: A\n%%\n"
    assert format_of("auto", text.encode()).name == "apel"
    with pytest.raises(Invalid, match=kind) as caught:
        read(APEL, text)
    assert caught.value.code == "not_jobs"


def test_a_file_without_header_is_rejected_with_the_remedy() -> None:
    with pytest.raises(Invalid, match="the first line must be") as caught:
        read(APEL, record())
    assert caught.value.code == "no_header"


@pytest.mark.usefixtures("small_pieces")
def test_a_record_can_span_two_chunks() -> None:
    text = HEADER + "".join(record(LocalJobId=n) for n in range(400))
    whole = read(APEL, text)
    assert len(whole.pieces) > 1
    assert len(whole.jobs) == 400
    assert whole.pieces[0].resume["reader"]["fields"]
    rest = read(APEL, text, resume=whole.pieces[0].resume)
    assert [(job.job, job.line) for job in rest.jobs] == [
        (job.job, job.line) for job in whole.jobs[len(whole.pieces[0].batch) :]
    ]
