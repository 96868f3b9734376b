"""Files as sites have them: archives without a header, spreadsheets, records of other versions."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from apps.core.errors import Invalid
from apps.usage.parsers.base import RecordRow
from apps.usage.parsers.field_values import BadRecord, checked
from apps.usage.parsers.registry import AUTO, FORMATS, format_of
from tests.instants import AT
from tests.usage.parsers.reading import STOCKHOLM, Read, read
from tests.usage.parsers.slurm_files import sacct

SHARED = Path(__file__).resolve().parents[4] / "shared/vectors/field4"
UTC = ZoneInfo("UTC")


def auto(data: bytes, zone: ZoneInfo | None = UTC) -> Read:
    return read(format_of(AUTO, data), data, zone=zone)


def cpu_s(found: Read) -> dict[str, float]:
    return {job.job: job.cpus * job.hours * 3600 for job in found.jobs if job.state == "finished"}


@pytest.mark.parametrize("zone", [None, STOCKHOLM, UTC])
def test_an_archive_of_xdmod_is_known_by_its_columns_and_is_in_utc(golden_dir: Path, zone: ZoneInfo | None) -> None:
    """Its times are of the night in which clocks in Stockholm are put forward."""
    found = auto((golden_dir / "field/r1_xdmod_archive.sacct").read_bytes(), zone)
    assert found.codes == []
    assert cpu_s(found) == {"9001": 96 * 7200, "9014": 16 * 1800}
    assert [(job.user, job.group, job.gpus, job.nodes, job.state) for job in found.jobs] == [
        ("ada", "physics", 0, 2, "finished"),
        ("CORP\\ben", "biology", 2, 1, "finished"),
        ("cyd", "physics", 0, 4, "withdrawn"),
    ]
    assert [job.requested_s for job in found.jobs] == [86400, None, 7200]
    assert {job.start_at.isoformat() for job in found.jobs[:1] if job.start_at} == {"2026-03-29T00:30:00+00:00"}


def test_an_archive_of_xdmod_goes_on_where_an_import_stopped(golden_dir: Path) -> None:
    data = (golden_dir / "field/r1_xdmod_archive.sacct").read_bytes()
    first = data.partition(b"\n")[0]
    pieces = read(FORMATS["sacct"], first + b"\n", zone=STOCKHOLM).pieces
    resumed = read(FORMATS["sacct"], data, zone=STOCKHOLM, resume=pieces[-1].resume)
    assert [job.start_at for job in resumed.jobs] == [job.start_at for job in auto(data).jobs[1:]]


def test_columns_of_sacct_from_a_spreadsheet_are_read(golden_dir: Path) -> None:
    data = (golden_dir / "field/b40_quoted.csv").read_bytes()
    comma = b"JobID,User,State,Submit,Start,End,AllocCPUS,JobName,AllocTRES\n" + (
        b'5,ada,COMPLETED,1767225600,1767225660,1767229260,4,"a ""b"", c","cpu=4,mem=4G,node=1"\n'
        b"6,ben,COMPLETED,1767225600,1767225660,1767229260,2,,\n"
    )
    for file in (data, b"sep=;\r\n" + data):
        found = auto(file)
        assert (found.codes, cpu_s(found)) == ([], {"31": 6 * 7200, "32": 2 * 1800})
        assert [(job.group, job.mem_mb, job.billing) for job in found.jobs] == [
            ("phys; and more", 12_288, 0),
            ("bio", 0, 5),
        ]
    found = auto(comma)
    assert (found.codes, cpu_s(found)) == ([], {"5": 14_400, "6": 7200})


def test_a_quote_in_a_value_of_sacct_is_no_quote_of_a_spreadsheet() -> None:
    text = sacct({"JobName": '"x'}, {"JobIDRaw": "2", "JobName": 'a "b" c'}).replace("|", ";")
    assert [job.job for job in auto(text.encode()).jobs] == ["4711", "2"]


def test_what_is_noted_leaves_out_rejected_rows() -> None:
    soon = {"Start": "Ystday 08:00", "End": "Ystday 09:00"}
    found = read(FORMATS["sacct"], sacct(soon, soon | {"JobIDRaw": "2"}, {"JobIDRaw": "3", "Start": "None"}))
    assert [code for _, code in found.codes] == ["bad_time", "bad_time"]
    assert found.notes == {"never_started": 1}


def test_newer_usage_records_are_refused_by_their_name() -> None:
    text = (
        '<UsageRecords xmlns="http://schemas.ogf.org/urf/2013/04/urf"><UsageRecord><RecordIdentityBlock>'
        "<RecordId>r1</RecordId></RecordIdentityBlock></UsageRecord></UsageRecords>"
    )
    with pytest.raises(Invalid, match=r"Usage Record 2\.0") as caught:
        auto(text.encode())
    assert caught.value.code == "newer_version"


@pytest.mark.parametrize(
    ("names", "group"),
    [
        ("<VOName>/ligo/Role=prod</VOName>", "ligo"),
        ("<VOName>/ligo/Role=prod</VOName><ReportableVOName>igwn</ReportableVOName>", "igwn"),
        ("<VOName>icecube</VOName>", "icecube"),
        ("<Group>dune</Group><ReportableVOName>igwn</ReportableVOName>", "dune"),
    ],
)
def test_the_organisation_of_a_gratia_record_is_its_group(names: str, group: str) -> None:
    text = (
        '<JobUsageRecord><RecordIdentity recordId="g1"/>'
        f"<UserIdentity><LocalUserId>osg</LocalUserId>{names}</UserIdentity><WallDuration>PT1H</WallDuration>"
        "<StartTime>2026-11-20T08:00:00Z</StartTime><Processors>2</Processors></JobUsageRecord>"
    )
    assert [job.group for job in auto(text.encode()).jobs] == [group]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared field inputs are not beside the repository")
def test_the_shared_field_inputs_are_read_as_their_table_says() -> None:
    def shared(file: str) -> Read:
        return auto((SHARED / file).read_bytes())

    billed = shared("b07_billing.sacct")
    assert (cpu_s(billed)["1"], billed.jobs[0].billing, billed.codes) == (235_929_600, 65_536_000, [])
    assert shared("b07_queue.json").codes == []
    assert "never_started" not in shared("b39_timefmt.sacct").notes
    assert [cpu_s(shared(file)) for file in ("b40_semicolon.csv", "b41_comma.csv")] == [{"11": 14_400}, {"12": 14_400}]
    assert shared("b23_gratia.xml").jobs[0].group == "osg"
    for file in ("b24_ur2.xml", "b42_pandas.sacct", "b22.gwf"):
        with pytest.raises(Invalid):
            shared(file)


def test_a_row_is_refused_for_its_first_number_out_of_bounds() -> None:
    """Rows of REST are checked without notes: there nothing is ignored."""
    row = RecordRow("1", "ada", start_at=AT - timedelta(hours=1), end_at=AT, cpus=1.0, requested_s=3600.0)
    assert checked(row) == row
    for name in ("cpus", "gpus", "nodes", "mem_mb", "billing", "requested_s"):
        for value, code in ((-1.0, "negative_number"), (1e30, "absurd_number"), (float("nan"), "absurd_number")):
            with pytest.raises(BadRecord) as refused:
                checked(row._replace(**{name: value}))  # type: ignore[arg-type]
            assert (name, refused.value.code) == (name, code)
