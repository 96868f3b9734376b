"""Usage records made field by field: no real file of them is at hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.core.errors import Invalid
from apps.usage.import_notes import note_lines
from apps.usage.parsers.ogf_ur import OgfUsageRecord
from apps.usage.parsers.registry import format_of
from tests.usage.parsers.reading import STOCKHOLM, only, read

UR = OgfUsageRecord()
START = datetime(2026, 10, 1, 8, tzinfo=UTC)
_FIELDS = {
    "Status": "<Status>completed</Status>",
    "WallDuration": "<WallDuration>PT2H</WallDuration>",
    "CpuDuration": "<CpuDuration>PT7H30M</CpuDuration>",
    "StartTime": "<StartTime>2026-10-01T08:00:00Z</StartTime>",
    "EndTime": "<EndTime>2026-10-01T10:00:00Z</EndTime>",
    "MachineName": "<MachineName>cluster1.example.org</MachineName>",
    "Queue": "<Queue>grid</Queue>",
    "ProjectName": "<ProjectName>cms</ProjectName>",
    "Processors": "<Processors>4</Processors>",
    "NodeCount": "<NodeCount>2</NodeCount>",
}


def record(record_id: str = "r1", created: str = "2026-10-01T10:05:00Z", **given: Any) -> str:
    identity = f'<RecordIdentity urf:recordId="{record_id}" urf:createTime="{created}"/>' if record_id else ""
    fields = {name: text for name, text in (_FIELDS | given).items() if text is not None}
    return (
        f"<JobUsageRecord>{identity}<JobIdentity><GlobalJobId>grid/17</GlobalJobId><LocalJobId>17</LocalJobId>"
        "</JobIdentity><UserIdentity><LocalUserId>ada</LocalUserId>"
        f"<GlobalUserName>/DC=org/CN=Ada</GlobalUserName></UserIdentity>{''.join(fields.values())}</JobUsageRecord>"
    )


def records(*each: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<UsageRecords xmlns="http://schema.ogf.org/urf/2003/09/urf" '
        f'xmlns:urf="http://schema.ogf.org/urf/2003/09/urf">\n{chr(10).join(each)}\n</UsageRecords>\n'
    )


def test_every_field_is_read() -> None:
    text = records(record(Memory='<Memory urf:storageUnit="GB">3</Memory>', Charge="<Charge>7200</Charge>"))
    assert format_of("auto", text.encode()).name == "ogf-ur"
    job = only(UR, text)
    assert (job.job, job.user, job.dn, job.project) == ("r1", "ada", "/DC=org/CN=Ada", "cms")
    assert (job.start_at, job.end_at, job.submit_at) == (START, START + timedelta(hours=2), START)
    assert (job.cpus, job.nodes, job.mem_mb, job.queue, job.cluster) == (4, 2, 3072, "grid", "cluster1.example.org")
    assert (job.billing, job.state) == (1.0, "finished")


def test_a_thousand_records_are_imported_with_their_totals() -> None:
    made = [record(f"r{n}", Processors=f"<Processors>{1 + n % 8}</Processors>") for n in range(1000)]
    found = read(UR, records(*made))
    assert (len(found.jobs), found.rejections) == (1000, [])
    assert found.cpu_h == pytest.approx(2 * sum(1 + n % 8 for n in range(1000)))
    assert [job.line for job in found.jobs] == list(range(1, 1001))


def test_a_single_record_and_any_namespace_prefix_are_read() -> None:
    alone = record().replace("<JobUsageRecord>", '<JobUsageRecord xmlns:urf="http://schema.ogf.org/urf/2003/09/urf">')
    assert only(UR, alone) == only(UR, records(record()))
    prefixed = records(record()).replace("</", "</u:").replace("<", "<u:").replace("<u:/u:", "</u:")
    assert only(UR, prefixed.replace("<u:?xml", "<?xml").replace("xmlns=", "xmlns:u=")) == only(UR, alone)


def test_the_identity_is_the_key_and_its_creation_the_revision() -> None:
    first, later = (only(UR, records(record(created=f"2026-10-01T1{n}:00:00Z"))) for n in (1, 2))
    assert (first.job, first.submit_at) == (later.job, later.submit_at)
    assert later.revision - first.revision == 3600 * 10**6


def test_without_an_identity_the_local_job_is_the_key() -> None:
    job = only(UR, records(record("")))
    assert (job.job, job.revision) == ("17", 0)


def test_an_overlong_identity_is_replaced_by_its_digest() -> None:
    found = read(UR, records(record("x" * 300 + "1"), record("x" * 300 + "2")))
    assert [len(job.job) for job in found.jobs] == [128, 128]
    assert found.jobs[0].job != found.jobs[1].job


@pytest.mark.parametrize("missing", ["StartTime", "EndTime", "WallDuration"])
def test_one_of_start_end_and_duration_can_be_missing(missing: str) -> None:
    given: dict[str, Any] = {missing: None}
    job = only(UR, records(record(**given)))
    assert (job.start_at, job.end_at) == (START, START + timedelta(hours=2))


def test_two_missing_times_are_rejected() -> None:
    assert read(UR, records(record(StartTime=None, EndTime=None))).codes == [(1, "missing_field")]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT7200S", 7200), ("P1DT1H", 90_000), ("PT1H30M15.5S", 5415.5), ("P1W", 604_800), ("P0Y0M0DT2H", 7200)],
)
def test_durations_are_iso_8601(text: str, seconds: float) -> None:
    job = only(UR, records(record(WallDuration=f"<WallDuration>{text}</WallDuration>", EndTime=None)))
    assert job.hours * 3600 == pytest.approx(seconds)


@pytest.mark.parametrize(("duration", "hours", "note"), [("PT1H", 1, "less"), ("PT5H", 5, "more"), ("PT0S", 0, "less")])
def test_a_duration_that_differs_from_end_minus_start_counts_up_to_the_end(
    duration: str, hours: float, note: str
) -> None:
    """ARC writes the submission as the start, HTCondor the last of several starts: both charge the duration."""
    found = read(UR, records(record(WallDuration=f"<WallDuration>{duration}</WallDuration>")))
    job = found.jobs[0]
    assert (job.submit_at, job.start_at, job.end_at) == (
        START,
        START + timedelta(hours=2 - hours),
        START + timedelta(hours=2),
    )
    assert found.notes == {"wall_duration_differs": 1, f"wall_duration_{note}_cpu_s": abs(2 - hours) * 3600 * job.cpus}
    assert any("CPU-hours" in each.words and each.n == abs(2 - hours) * job.cpus for each in note_lines(found.notes))


@pytest.mark.parametrize("duration", ["PT1H59M59S", "PT2H1S"])
def test_a_rounded_duration_is_none_that_differs(duration: str) -> None:
    found = read(UR, records(record(WallDuration=f"<WallDuration>{duration}</WallDuration>")))
    assert (found.jobs[0].hours, found.notes) == (2, {})


def test_processors_default_to_nodes_or_one() -> None:
    found = read(UR, records(record(Processors=None), record("r2", Processors=None, NodeCount=None)))
    assert [job.cpus for job in found.jobs] == [2, 1]
    assert found.notes == {"processors_unknown": 2}


def test_a_charge_without_duration_is_noted_and_not_counted() -> None:
    same: dict[str, Any] = {"EndTime": "<EndTime>2026-10-01T08:00:00Z</EndTime>", "WallDuration": None}
    found = read(UR, records(record(Charge="<Charge>5</Charge>", **same)))
    assert (found.jobs[0].billing, found.notes) == (0, {"charge_without_duration": 1})


@pytest.mark.parametrize(
    ("status", "state"),
    [("queued", "pending"), ("started", "running"), ("Suspended", "running"), ("failed", "finished")],
)
def test_the_status_decides_whether_the_job_has_ended(status: str, state: str) -> None:
    job = only(UR, records(record(Status=f"<Status>{status}</Status>")))
    assert job.state == state
    assert (job.end_at is None) == (state != "finished")


def test_the_submit_time_is_read_where_present() -> None:
    job = only(UR, records(record(Time='<TimeInstant urf:type="submit">2026-10-01T07:00:00Z</TimeInstant>')))
    assert job.submit_at == START - timedelta(hours=1)


def test_the_organisation_and_the_site_of_later_drafts_are_read() -> None:
    text = records(record(Site="<Site>SITE-A</Site>")).replace("</UserIdentity>", "<Group>atlas</Group></UserIdentity>")
    job = only(UR, text.replace("JobUsageRecord", "UsageRecord"))
    assert (job.group, job.site) == ("atlas", "SITE-A")


@pytest.mark.fault("F11")
def test_local_times_need_a_zone_and_an_autumn_night_is_three_hours_long() -> None:
    night: dict[str, Any] = {
        "StartTime": "<StartTime>2026-10-25T01:30:00</StartTime>",
        "EndTime": "<EndTime>2026-10-25T03:30:00</EndTime>",
        "WallDuration": None,
    }
    assert only(UR, records(record(**night)), zone=STOCKHOLM).hours == 3
    assert read(UR, records(record(**night))).codes == [(1, "naive_time")]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"StartTime": "<StartTime>soon</StartTime>"}, "bad_time"),
        ({"StartTime": "<StartTime>2026-02-30T00:00:00Z</StartTime>"}, "bad_time"),
        ({"EndTime": "<EndTime>9999-12-31T23:59:59Z</EndTime>"}, "absurd_time"),
        ({"StartTime": "<StartTime>0001-01-01T00:00:00+14:00</StartTime>"}, "bad_time"),
        ({"EndTime": "<EndTime>2026-10-01T07:59:59Z</EndTime>"}, "end_before_start"),
        ({"WallDuration": "<WallDuration>-PT1H</WallDuration>", "EndTime": ""}, "negative_number"),
        ({"WallDuration": "<WallDuration>P1Y</WallDuration>", "EndTime": ""}, "bad_duration"),
        ({"WallDuration": "<WallDuration>PT</WallDuration>", "EndTime": ""}, "bad_duration"),
        ({"WallDuration": "<WallDuration>PT1e9S</WallDuration>", "EndTime": ""}, "bad_duration"),
        ({"WallDuration": "<WallDuration>PT999999999999S</WallDuration>", "EndTime": ""}, "absurd_run_time"),
        ({"Processors": "<Processors>NaN</Processors>"}, "not_a_number"),
        ({"Processors": "<Processors>1e999</Processors>"}, "absurd_number"),
        ({"Processors": "<Processors>-4</Processors>"}, "negative_number"),
    ],
)
def test_an_invalid_record_is_reported_and_its_neighbours_are_accepted(given: dict[str, str], code: str) -> None:
    found = read(UR, records(record("a"), record("b", **given), record("c")))
    assert found.codes == [(2, code)]
    assert found.rejections[0].message.startswith("Line 4: ")
    assert [job.job for job in found.jobs] == ["a", "c"]


def test_a_broken_file_keeps_earlier_records_and_reports_the_location() -> None:
    text = records(record("a"), record("b"))
    found = read(UR, text[: text.rindex("<EndTime>")])
    assert found.codes == [(2, "broken_xml")]
    assert found.rejections[0].message.startswith("Line 4: ")
    assert [job.job for job in found.jobs] == ["a"]


def test_an_entity_bomb_is_rejected_unread() -> None:
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    text = f'<?xml version="1.0"?><!DOCTYPE UsageRecords [<!ENTITY l0 "ha">{laughs}]><UsageRecords>&l9;</UsageRecords>'
    assert format_of("auto", text.encode()).name == "ogf-ur"
    with pytest.raises(Invalid) as caught:
        read(UR, text)
    assert caught.value.code == "xml_doctype"


def test_an_undeclared_entity_is_rejected() -> None:
    assert read(UR, records(record(Queue="<Queue>&x;</Queue>"))).codes == [(1, "broken_xml")]


@pytest.mark.usefixtures("small_pieces")
def test_reading_resumes_after_any_chunk() -> None:
    text = records(*(record(f"r{n}") for n in range(60)), record("bad", Processors="<Processors>x</Processors>"))
    whole = read(UR, text)
    assert len(whole.pieces) == 2
    rest = read(UR, text, resume=whole.pieces[0].resume)
    assert [job.job for job in rest.jobs] == [job.job for job in whole.jobs[50:]]
    assert rest.codes == whole.codes == [(61, "not_a_number")]
    assert whole.pieces[-1].offset == len(text)


def test_an_instant_of_another_type_is_no_submission() -> None:
    other = '<TimeInstant urf:type="eligible">2026-10-01T06:00:00Z</TimeInstant>'
    submit = '<TimeInstant urf:type="Submit">2026-10-01T07:00:00Z</TimeInstant>'
    assert only(UR, records(record(Time=other + submit))).submit_at == START - timedelta(hours=1)
    assert only(UR, records(record(Time=other))).submit_at == START


def test_a_job_is_named_by_its_record_else_by_its_local_else_by_its_global_id() -> None:
    named = record(record_id="")
    assert only(UR, records(record())).job == "r1"
    assert only(UR, records(named)).job == "17"
    assert only(UR, records(named.replace("<LocalJobId>17</LocalJobId>", ""))).job == "grid/17"


def test_the_group_and_project_of_car_are_read() -> None:
    names = "<LocalUserId>ada</LocalUserId><LocalGroup>chem</LocalGroup>"
    attributes = (
        '<GroupAttribute type="FQAN">/x</GroupAttribute><GroupAttribute type="ProjectName">grant4</GroupAttribute>'
    )
    text = records(record(ProjectName=None)).replace("<LocalUserId>ada</LocalUserId>", names + attributes)
    job = only(UR, text)
    assert (job.user, job.group, job.project) == ("ada", "chem", "grant4")


def test_what_ran_in_a_pilot_counts_by_the_pilot_alone() -> None:
    kinds = ("Batch", "Payload", "Payload")
    of_kind = (f'<Resource urf:description="ResourceType">{kind}</Resource>' for kind in kinds)
    found = read(UR, records(*(record(f"r{n}", Resource=text) for n, text in enumerate(of_kind))))
    assert (len(found.jobs), found.notes, found.codes) == (1, {"payloads_skipped": 2}, [])


def test_what_usage_does_not_need_has_no_bound() -> None:
    transfers = "".join(
        f"<FileTransfer><URL>gsiftp://se/{n}</URL><Size>{n}</Size></FileTransfer>" for n in range(5_000)
    )
    found = read(UR, records(record(Extra=transfers + f"<Host>{'n' * 100_000}</Host>"), record("r2")))
    assert (len(found.jobs), found.codes, found.cpu_h) == (2, [], 16)
