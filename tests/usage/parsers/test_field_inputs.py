"""Files as sites have them: archives without a header, spreadsheets, records of other versions."""

from __future__ import annotations

import json
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
SHARED5 = SHARED.with_name("field5")
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


GPUS = {"AllocTRES": "billing=8,cpu=8,mem=32G,node=1"}


@pytest.mark.parametrize(
    ("gres", "gpus"), [("gpu:2", 2), ("gpu:h100:4,craynetwork:1", 4), ("gpu:a100:2,gpu:t4:1", 3), ("gpu", 1), ("", 0)]
)
def test_gpus_that_accounting_does_not_track_are_those_of_the_devices(gres: str, gpus: float) -> None:
    found = auto(sacct(GPUS | {"AllocGRES": gres}).encode())
    assert ([job.gpus for job in found.jobs], found.codes) == ([gpus], [])


def test_gpus_that_accounting_tracks_are_not_added_to() -> None:
    found = auto(sacct({"AllocTRES": "cpu=8,gres/gpu=1,gres/gpu:t4=1,node=1", "AllocGRES": "gpu:t4:4"}).encode())
    assert [job.gpus for job in found.jobs] == [1]


def test_gpus_of_running_jobs_are_those_that_the_controller_lists_by_host() -> None:
    job = {
        **{"job_id": 7, "user_name": "ada", "account": "phys", "job_state": ["RUNNING"], "submit_time": 1_767_225_600},
        **{"start_time": 1_767_225_660, "tres_alloc_str": "cpu=8,mem=16G,node=2,billing=8"},
        "gres_detail": ["gpu:h100:4(IDX:0-3)", "gpu:h100:2(IDX:0,2)"],
    }
    piece = auto(json.dumps({"jobs": [job], "errors": []}).encode()).pieces[0]
    assert (piece.batch.gpus.tolist(), dict(piece.batch.kinds[piece.batch.kind[0]])) == ([6], {"gpu:h100": 6})


CRAY = (
    "11/20/2026 09:00:00;E;{job}.sdb;user=ada group=phys queue=par ctime=1795161540 start=1795161600 end=1795165200 "
    "exec_host=login1/17 {more} Resource_List.walltime=02:00:00 resources_used.walltime=01:00:00\n"
)


@pytest.mark.parametrize(
    ("more", "cpus"),
    [
        ("exec_vnode=(login1:ncpus=1) Resource_List.mppwidth=64 Resource_List.ncpus=1", 64),
        ("exec_vnode=(login1:ncpus=1) Resource_List.mppwidth=512 Resource_List.mppdepth=2", 1024),
        ("Resource_List.size=1024 Resource_List.nodes=1", 1024),
        ("exec_vnode=(n1:ncpus=16) Resource_List.size=1024", 16),
        ("exec_vnode=(n1:ncpus=1) Resource_List.size=10gb", 1),
    ],
)
def test_processors_of_a_cray_are_those_of_its_request(more: str, cpus: float) -> None:
    found = auto(CRAY.format(job=1, more=more).encode())
    assert [job.cpus for job in found.jobs] == [cpus]


def test_a_byte_order_mark_hides_no_log() -> None:
    assert cpu_s(auto(b"\xef\xbb\xbf" + CRAY.format(job=1, more="").encode())) == {"1.sdb": 3600}


OLD_XDMOD = (
    "601|601|c1|main|phys|grp|1000|ada|1001|2026-11-20T07:59:00|2026-11-20T07:59:00|2026-11-20T08:00:00|"
    "2026-11-20T09:00:00|01:00:00|0:0|COMPLETED|1|8|8|4000Mc|gpu:2|cpu=8,mem=32G,node=1|{more}1-00:00:00|n1|run\n"
)
APEL = "17|job|ada|phys|2026-11-20T08:00:00|2026-11-20T09:00:00|01:00:00|28800|main|8|1|n1|||COMPLETED\n"


@pytest.mark.parametrize(
    "text", [OLD_XDMOD.format(more=""), OLD_XDMOD.format(more="billing=8,cpu=8,mem=32G,node=1|"), APEL]
)
def test_orders_of_columns_that_sites_send_without_a_header_are_known(text: str) -> None:
    found = auto(text.encode())
    assert (list(cpu_s(found).values()), found.codes) == ([28_800], [])


@pytest.mark.parametrize("mark", [";|;", "^", "~", "@", "||", "::", "#"])
def test_columns_may_be_separated_by_any_text(mark: str) -> None:
    found = auto(sacct({}, {"JobIDRaw": "2"}).replace("|", mark).encode())
    assert (cpu_s(found), found.codes) == ({"4711": 28_800, "2": 28_800}, [])


def test_columns_aligned_by_blanks_are_refused() -> None:
    with pytest.raises(Invalid, match="isn't recognised"):
        auto(sacct({}).replace("|", "   ").encode())


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_sacct_reports_of_itself_is_named_and_hides_no_row(place: int) -> None:
    lines = sacct({}, {"JobIDRaw": "2"}).splitlines(keepends=True)
    lines.insert(place, "sacct: error: slurmdbd: Too wide of a date range in query\n")
    found = auto("".join(lines).encode())
    assert (found.codes, len(cpu_s(found))) == ([(place + 1, "source_error")], 2)
    assert "Too wide of a date range" in found.rejections[0].message


def test_text_behind_a_document_is_shown() -> None:
    text = json.dumps({"jobs": [], "errors": [], "meta": {"plugin": {"data_parser": "data_parser/v0.0.40"}}})
    found = read(FORMATS["sacct-json"], text + "\nsacct: error: lost the database\n")
    assert "sacct: error: lost the database" in found.rejections[0].message


HOSTS = """<job_info><queue_info>
<Queue-List><name>all.q@n1</name><resource name="load">0.1</resource>{one}</Queue-List>
<Queue-List><name>all.q@n2</name>{two}{other}</Queue-List></queue_info>
<job_info><job_list state="pending"><JB_job_number>9</JB_job_number><JB_owner>ada</JB_owner><state>qw</state>
<JB_submission_time>2026-11-20T08:00:00</JB_submission_time><slots>2</slots></job_list>
<job_list state="finished"><JB_job_number>8</JB_job_number><JB_owner>ada</JB_owner><slots>1</slots></job_list>
</job_info></job_info>"""


def test_a_job_on_several_hosts_of_grid_engine_holds_their_sum() -> None:
    def on_host(job: int, slots: int, task: str = "") -> str:
        return (
            f'<job_list state="running"><JB_job_number>{job}</JB_job_number><JB_owner>ada</JB_owner><state>r</state>'
            f"<JAT_start_time>2026-11-20T08:00:00</JAT_start_time><slots>{slots}</slots>{task}</job_list>"
        )

    text = HOSTS.format(one=on_host(1, 2), two=on_host(1, 3), other=on_host(2, 4, "<tasks>5</tasks>"))
    found = auto(text.encode())
    assert [(job.job, job.array_task, job.cpus, job.queue) for job in found.jobs] == [
        ("1", "", 5, "all.q"),
        ("2", "5", 4, "all.q"),
        ("9", "", 2, ""),
    ]
    assert (found.codes, found.notes) == ([], {"ended_skipped": 1})


def test_a_line_that_names_ten_thousand_hosts_is_read() -> None:
    hosts = "+".join(f"nid{n:06}/0*8" for n in range(10_000))
    assert cpu_s(auto(CRAY.replace("login1/17", hosts).format(job=1, more="").encode())) == {"1.sdb": 80_000 * 3600}


@pytest.mark.skipif(not SHARED5.is_dir(), reason="the shared field inputs are not beside the repository")
@pytest.mark.parametrize(
    ("file", "total_s"),
    [
        *(("f01_arc_ur.xml", 72_000), ("f05_semibar.sacct", 72_000), ("f05_caret.sacct", 72_000)),
        *(("f06_xdmod_25.log", 144_000), ("f06_xdmod_26gres.log", 144_000), ("f08_cray.acct", 2_144 * 3600)),
        *(("f15_gratia.xml", 115_200), ("f27_error_between.sacct", 14_400)),
    ],
)
def test_the_shared_inputs_of_november_are_read_as_their_table_says(file: str, total_s: float) -> None:
    assert sum(cpu_s(auto((SHARED5 / file).read_bytes())).values()) == total_s


@pytest.mark.skipif(not SHARED5.is_dir(), reason="the shared field inputs are not beside the repository")
@pytest.mark.parametrize("file", sorted(path.name for path in SHARED5.glob("f17*")))
def test_the_shared_largest_jobs_are_counted(file: str) -> None:
    found = auto((SHARED5 / file).read_bytes())
    assert (found.codes, len(found.jobs) > 0) == ([], True)


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
