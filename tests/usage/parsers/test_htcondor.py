"""HTCondor's job ads: times, resources, kinds, and what is refused; and that every form means the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.usage.parsers.htcondor import EARLIER_RUNS, NO_EARLIER_RUNS, NO_SLOT, SUSPENDED, HTCondor
from apps.usage.parsers.htcondor_ads import LONGEST_AD_VALUE, MOST_OWN_RESOURCES
from apps.usage.parsers.registry import format_of
from tests.examples import first
from tests.usage.parsers.condor_forms import FORMS, Expr, written
from tests.usage.parsers.reading import Job, Read, read

CONDOR = HTCondor()
QDATE = 1_767_225_600
AD: dict[str, Any] = {
    **{"ClusterId": 4711, "ProcId": 3, "GlobalJobId": f"submit1.example.org#4711.3#{QDATE}"},
    **{"Owner": "ada", "User": "ada@example.org", "AcctGroup": "physics", "JobStatus": 4, "QDate": QDATE},
    **{"JobStartDate": QDATE + 60, "JobCurrentStartDate": QDATE + 60, "CompletionDate": QDATE + 3660},
    **{"EnteredCurrentStatus": QDATE + 3660, "RemoteWallClockTime": 3600.0, "RequestCpus": 4, "CpusProvisioned": 8},
    **{"RequestMemory": Expr("ifthenelse(MemoryUsage =!= undefined,MemoryUsage,1)"), "MemoryProvisioned": 2048},
    **{"DiskProvisioned": 1_048_576, "RequestGPUs": 2, "GPUsProvisioned": 2, "WantRemoteIO": True},
}
NOT_STARTED = {"JobStartDate": None, "JobCurrentStartDate": None, "CompletionDate": None, "RemoteWallClockTime": 0.0}
NO_END = {"CompletionDate": None, "RemoteWallClockTime": 0.0}
# The second run began at 10,000 s and took 500 of 3,500 s; now it is over, held, or removed while held.
TWICE = {
    **{"JobCurrentStartDate": QDATE + 10_000, "JobLastStartDate": QDATE + 60, "CompletionDate": QDATE + 10_500},
    **{"EnteredCurrentStatus": QDATE + 10_500, "NumShadowStarts": 2, "NumJobStarts": 2},
    **{"RemoteWallClockTime": 3_500.0, "LastRemoteWallClockTime": 500.0, "CommittedTime": 500},
}


def changed(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in {**AD, **change}.items() if value is not None} for change in changes or ({},)
    ]


def ads(*changes: dict[str, Any], form: str = "jsonl") -> bytes:
    return written(form, changed(*changes))


def kinds_of(found: Read) -> list[dict[str, float]]:
    batch = found.pieces[0].batch
    return [dict(batch.kinds[code]) for code in batch.kind.tolist()]


def comparable(found: Read) -> tuple[list[Job], list[dict[str, float]], dict[str, int]]:
    return [replace(job, line=0) for job in found.jobs], kinds_of(found), dict(found.notes)


def test_a_job_has_the_times_and_resources_of_its_last_run() -> None:
    (job,) = read(CONDOR, ads()).jobs
    assert (job.job, job.cluster, job.user, job.group) == ("4711.3", "submit1.example.org", "ada", "physics")
    assert (job.state, job.hours, job.cpus, job.gpus, job.mem_mb) == ("finished", 1.0, 8.0, 2.0, 2048.0)
    assert job.submit_at is not None
    assert job.submit_at.timestamp() == QDATE
    (sample,) = read(CONDOR, CONDOR.sample).jobs
    assert (sample.cpus, sample.gpus) == (8.0, 2.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "change",
    [
        {},
        TWICE,
        {"RequireGPUs": Expr('(DeviceName == "Tesla T4") && Capability >= 7'), "ConcurrencyLimits": "matlab:2"},
        {"AcctGroup": "physique-é", "x509userproxysubject": '/CN=a\\b"c<&>', "FPGAsProvisioned": 1},
        {"JobStatus": 2, **NO_END, "AllowedJobDuration": 7200},
        {"CumulativeSuspensionTime": 60, "JobStatus": 3, "LastJobStatus": 2, "CompletionDate": -1},
        {"JobStatus": 5, **NOT_STARTED, "CpusProvisioned": None},
    ],
)
def test_a_job_is_the_same_record_in_every_form(form: str, change: dict[str, Any]) -> None:
    data = ads(change, {"ClusterId": 5}, form=form)
    assert format_of("auto", data).name == "htcondor"
    found = read(CONDOR, data)
    assert found.rejections == []
    assert comparable(found) == comparable(read(CONDOR, ads(change, {"ClusterId": 5})))


@pytest.mark.parametrize("name", ["history.long", "history.json", "history.jsonl", "history.xml", "history"])
def test_what_a_real_pool_printed_is_the_same_in_every_form(golden_dir: Path, name: str) -> None:
    """Usage is what condor_userprio has accumulated, up to the seconds between two of its cycles."""
    samples = golden_dir / "htcondor" / "samples"
    found = read(CONDOR, (samples / name).read_bytes())
    assert found.rejections == []
    assert sorted(map(repr, comparable(found)[0])) == sorted(
        map(repr, comparable(read(CONDOR, (samples / "history.jsonl").read_bytes()))[0])
    )
    used: dict[str, float] = {}
    for job in found.jobs:
        if job.state == "finished":
            used[job.user] = used.get(job.user, 0.0) + job.hours * 3600
    assert {user: round(seconds) for user, seconds in used.items()} == {"u1": 5, "u2": 30, "u3": 8, "u4": 41, "u5": 42}
    charged = _accumulated((samples / "userprio-l.txt").read_text())
    n_runs = {"u1": 1, "u2": 1, "u3": 1, "u4": 1, "u5": 3}
    assert all(abs(charged[user] - used[user]) <= 2 * n_runs[user] for user in used)


def _accumulated(listing: str) -> dict[str, float]:
    """AccumulatedUsage, in slot seconds, of each submitter in `condor_userprio -allusers -l`."""
    values = dict(line.split(" = ", 1) for line in listing.splitlines() if " = " in line)
    return {
        name.strip('"').partition("@")[0].rpartition(".")[2]: float(values["AccumulatedUsage" + key[4:]])
        for key, name in values.items()
        if key.startswith("Name") and "@" in name
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"JobStatus": 3, "CompletionDate": 0}, ("finished", 8.0)),  # removed while it ran
        ({"JobStatus": 3, **NOT_STARTED}, ("withdrawn", 8.0)),
        ({"JobStatus": 2, **NO_END}, ("running", 8.0)),
        ({"JobStatus": 6, **NO_END}, ("running", 8.0)),
        ({"JobStatus": 7, **NO_END}, ("running", 8.0)),
        ({"JobStatus": 1, **NOT_STARTED, "CpusProvisioned": None}, ("pending", 4.0)),
        ({"JobStatus": 5, **NOT_STARTED, "CpusProvisioned": None}, ("pending", 4.0)),  # held
    ],
)
def test_a_status_is_a_state(change: dict[str, Any], expected: tuple[str, float]) -> None:
    (job,) = read(CONDOR, ads(change)).jobs
    assert (job.state, job.cpus) == expected


@pytest.mark.parametrize(
    ("change", "seconds", "revisions"),
    [
        ({}, {0: 500, 1: 3_000}, [1, 1]),  # completed in its second run
        ({"JobStatus": 2, "RemoteWallClockTime": 3_000.0, "LastRemoteWallClockTime": 3_000.0}, {1: 3_000}, [1, 1]),
        ({"JobStatus": 5}, {1: 3_500}, [2, 2]),  # held after two runs
        ({"JobStatus": 3, "LastJobStatus": 5}, {1: 3_500}, [2, 2]),  # removed while it was held
        ({"JobStatus": 3, "LastJobStatus": 2}, {0: 500, 1: 3_000}, [1, 1]),  # removed while it ran
        ({"LastRemoteWallClockTime": None}, {0: 500, 1: 3_000}, [1, 1]),  # releases that lack it
    ],
)
def test_runs_before_the_last_are_one_record_and_count_once(
    change: dict[str, Any], seconds: dict[int, float], revisions: list[int]
) -> None:
    found = read(CONDOR, ads({**TWICE, **change}))
    by_restart = {job.restart: job.hours * 3600 for job in found.jobs if job.state == "finished"}
    assert by_restart == seconds
    assert [job.revision for job in found.jobs] == revisions
    assert found.notes == {EARLIER_RUNS: 1}
    earlier = next(job for job in found.jobs if job.restart == 1)
    last = next(job for job in found.jobs if job.restart == 0)
    assert earlier.end_at is not None
    assert last.start_at is None or earlier.end_at <= last.start_at


def test_each_ad_of_a_job_replaces_the_records_of_its_earlier_ads() -> None:
    """Revisions rise from run to run, so that the records of every listing on the way count once."""
    life: list[dict[str, Any]] = [
        {"JobStatus": 2, "NumShadowStarts": 1, **NO_END},
        {"JobStatus": 1, "NumShadowStarts": 1, "RemoteWallClockTime": 3_000.0},
        {**TWICE, "JobStatus": 2, "RemoteWallClockTime": 3_000.0},
        {**TWICE, "JobStatus": 1},
        {**TWICE, "JobStatus": 2, "NumShadowStarts": 3, "JobCurrentStartDate": QDATE + 20_000},
        {**TWICE, "NumShadowStarts": 3, "JobCurrentStartDate": QDATE + 20_000, "RemoteWallClockTime": 4_000.0},
    ]
    jobs = read(CONDOR, ads(*life)).jobs
    states = [(job.revision, job.state) for job in jobs if job.restart == 0]
    assert states == [(0, "running"), (1, "pending"), (1, "running"), (2, "pending"), (2, "running"), (2, "finished")]
    past = [(job.revision, job.hours * 3600) for job in jobs if job.restart == 1]
    assert past == [(1, 3_000), (1, 3_000), (2, 3_500), (2, 3_500), (2, 3_500)]


def test_suspended_time_counts_and_is_noted() -> None:
    found = read(CONDOR, ads({"CumulativeSuspensionTime": 900}))
    assert found.jobs[0].hours == 1.0
    assert found.notes == {SUSPENDED: 1}


def test_without_the_time_of_all_runs_the_last_one_counts_and_the_others_are_noted() -> None:
    found = read(CONDOR, ads({"RemoteWallClockTime": None, "NumShadowStarts": 2}))
    assert [job.hours for job in found.jobs] == [1.0]
    assert found.notes == {NO_EARLIER_RUNS: 1}


@pytest.mark.parametrize("universe", [7, 9, 12])
def test_jobs_that_hold_no_slot_are_noted_and_not_counted(universe: int) -> None:
    found = read(CONDOR, ads({"JobUniverse": universe}))
    assert (found.jobs, found.notes) == ([], {NO_SLOT: 1})


def test_a_parallel_job_holds_the_resources_of_all_its_slots() -> None:
    (job,) = read(CONDOR, ads({"JobUniverse": 11, "MaxHosts": 3})).jobs
    assert (job.cpus, job.gpus, job.nodes, job.mem_mb) == (24.0, 6.0, 3.0, 6144.0)


@pytest.mark.parametrize(
    ("change", "who"),
    [
        ({"AcctGroupUser": "bob"}, ("physics", "bob")),
        ({"AcctGroup": None, "AccountingGroup": "group_a.b.bob"}, ("group_a.b", "bob")),
        ({"AcctGroup": None, "AccountingGroup": "bob"}, ("", "bob")),
        ({"AcctGroup": None, "Owner": None}, ("", "ada")),
    ],
)
def test_an_account_is_the_one_that_htcondor_charges(change: dict[str, Any], who: tuple[str, str]) -> None:
    (job,) = read(CONDOR, ads(change)).jobs
    assert (job.group, job.user) == who


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({"MachineAttrGPUs_DeviceName0": "NVIDIA H100 PCIe"}, {"gpu:nvidia_h100_pcie": 2}),
        ({"RequireGPUs": '(DeviceName == "Tesla T4") && Capability >= 7'}, {"gpu:tesla_t4": 2}),
        ({"MachineAttrGPUs_DeviceName0": "x" * 80}, {}),
        ({"MachineAttrGPUs_DeviceName0": "Tesla T4", "GPUsProvisioned": 0}, {}),
        ({"FPGAsProvisioned": 1, "RequestFPGAs": 1}, {"gres/fpgas": 1}),
        ({"GPUsProvisioned": None, "GpusProvisioned": 1, "CUDADeviceName": "Tesla T4"}, {"gpu:tesla_t4": 1}),
        ({"ConcurrencyLimits": "matlab:2,fluent"}, {"license/matlab": 2, "license/fluent": 1}),
        ({}, {}),
    ],
)
def test_devices_other_resources_and_limits_are_kinds(change: dict[str, Any], kinds: dict[str, float]) -> None:
    assert kinds_of(read(CONDOR, ads(change))) == [kinds]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"QDate": None}, "missing_field"),
        ({"ProcId": None}, "missing_field"),
        ({"JobStatus": 9}, "bad_state"),
        ({"JobStatus": 2.5}, "bad_state"),
        ({"CpusProvisioned": None, "RequestCpus": Expr("TotalCpus")}, "no_processors"),
        ({"QDate": 10**15}, "absurd_time"),
        ({"QDate": 10**15, "JobStatus": 1}, "absurd_time"),
        ({"RemoteWallClockTime": None, "CompletionDate": QDATE - 100}, "end_before_start"),
        ({"RemoteWallClockTime": -5.0}, "negative_number"),
        ({"RemoteWallClockTime": 1e15}, "absurd_time"),
        ({"GPUsProvisioned": 1e30}, None),
        ({"CpusProvisioned": -1}, "negative_number"),
        ({"EpochWriteDate": QDATE}, "epoch_ad"),
    ],
)
def test_what_usage_needs_is_refused_where_it_cannot_be_read(
    form: str, change: dict[str, Any], code: str | None
) -> None:
    found = read(CONDOR, ads(change, {"ClusterId": 1}, form=form))
    assert [bad for _line, bad in found.codes] == ([code] if code else [])
    assert len(found.jobs) == (1 if code else 2)


def test_lines_that_are_no_ads_are_refused_alone() -> None:
    found = read(CONDOR, b"{\n[1]\n" + ads())
    assert found.codes == [(1, "bad_json"), (2, "not_an_object")]
    assert len(found.jobs) == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_last_ad_that_breaks_off_is_refused_and_the_others_count(form: str) -> None:
    whole = ads({"ClusterId": 1}, {"ClusterId": 2}, form=form)
    ends = whole.rindex(b"WantRemoteIO")
    found = read(CONDOR, whole[:ends])
    assert [job.job for job in found.jobs] == ["1.3"]
    assert len(found.rejections) == 1
    assert found.codes[0][1] in ("cut_off", "broken_xml", "bad_json")


@pytest.mark.parametrize("form", FORMS)
def test_of_ten_thousand_attributes_only_those_that_usage_needs_are_stored(form: str) -> None:
    many = {f"Site_Attribute_{i}": f"value {i}" for i in range(10_000)}
    own = {f"R{i:04d}Provisioned": 0 for i in range(1_000)}
    long = {"Environment": "x" * 200_000, "x509userproxysubject": "y" * (LONGEST_AD_VALUE + 1)}
    found = read(CONDOR, ads({**many, **own, **long}, {"ClusterId": 1}, form=form))
    assert found.rejections == []
    assert [(job.cpus, job.dn) for job in found.jobs] == [(8.0, ""), (8.0, "")]


def test_an_ad_that_a_growing_file_goes_on_with_counts_once() -> None:
    """The history file grows; what was read of an ad is in the cursor, which is small for an ad of any size."""
    own = {f"R{i:04d}Provisioned": 1 for i in range(1_000)}
    data = ads({"ClusterId": 1}, {"ClusterId": 2, **own}, form="history file")
    cut = data.index(b"\n", data.rindex(b"WantRemoteIO") - 2_000) + 1
    first = read(CONDOR, data[:cut])
    assert [job.job for job in first.jobs] == ["1.3"]
    resume = first.pieces[-1].resume
    assert len(resume["reader"]["ad"]) <= MOST_OWN_RESOURCES + 30
    second = read(CONDOR, data, resume=resume)
    assert second.rejections == []
    assert [job.job for job in first.jobs + second.jobs] == ["1.3", "2.3"]


@pytest.mark.parametrize("form", first(1, FORMS))
def test_a_file_read_in_pieces_gives_the_jobs_of_the_whole(form: str) -> None:
    data = ads(*({"ClusterId": i} for i in range(1, 6_001)), form=form)
    whole = read(CONDOR, data)
    assert len(whole.jobs) == 6_000
    resume = whole.pieces[0].resume
    rest = read(CONDOR, data, resume=resume)
    n_first = len(whole.pieces[0].batch)
    assert [job.job for job in rest.jobs] == [job.job for job in whole.jobs[n_first:]]


def test_a_document_type_of_its_own_is_refused() -> None:
    for declared in (b'<!DOCTYPE classads [<!ENTITY a "b">]>', b'<!DOCTYPE other SYSTEM "x">'):
        data = ads(form="xml").replace(b'<!DOCTYPE classads SYSTEM "classads.dtd">', declared)
        with pytest.raises(Exception, match="document type or an entity"):
            read(CONDOR, data)


@pytest.mark.parametrize("form", FORMS)
def test_a_job_of_the_parallel_universe_has_as_many_slots_as_its_hosts(form: str) -> None:
    """Each with the processors of the ad; a number that HTCondor's 32-bit attribute can't have counts as 1."""

    def cpus(**change: Any) -> list[float]:
        return [job.cpus for job in read(CONDOR, ads(change, form=form)).jobs]

    assert cpus(JobUniverse=11, MaxHosts=3) == [24.0]
    assert cpus(JobUniverse=11) == [8.0]
    assert cpus(JobUniverse=5, MaxHosts=3) == [8.0]
    for absurd in (0, -2, 2**31, Expr("TotalHosts")):
        assert cpus(JobUniverse=11, MaxHosts=absurd) == [8.0]


def test_a_damaged_ad_is_refused_by_its_line_and_its_neighbours_are_read() -> None:
    good = ads(form="long")
    damaged = b"ClusterId = 12\nno attribute\n= 3\n\n"
    parsed = read(CONDOR, good + damaged + good)
    first = good.count(b"\n") + 1
    assert parsed.codes == [(first, "bad_line")]
    assert parsed.rejections[0].message == f"Line {first + 1} isn't one of name = value."
    assert [job.job for job in parsed.jobs] == ["4711.3", "4711.3"]


def test_an_attribute_of_xml_without_a_value_is_absent() -> None:
    ad = (
        ads(form="xml")
        .replace(b"<c>", b'<c><a n="CpusProvisioned"/>')
        .replace(b'<a n="CpusProvisioned"><i>8', b'<a n="Other"><i>8')
    )
    parsed = read(CONDOR, ad)
    assert (parsed.codes, [job.cpus for job in parsed.jobs]) == ([], [4.0])
