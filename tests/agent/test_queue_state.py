"""Running and ended jobs, capacity and reservations, as three releases of Slurm print them, and what a report has of
them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent import queue_state
from agent.adapters import gridengine, htcondor, slurm, slurm_state
from agent.queue_state import EndedJob, Partition, QueueState, RunningJob, parse_duration, parse_gpus
from agent.records import Queue, Unreadable
from agent.report import instant, queue_rows
from tests.agent.fakes import CONFIG, Place

RELEASES = ("22.05.8", "24.11.5", "26.05.5")
NOW = 1_795_991_700.0
ROW = "38|38|N/A|alice|hep|debug|normal|6|1795156623|PENDING|64908|0|1:00:00|N/A|N/A|1|cpu=6|N/A|(null)|Resources\n"
NODE = "n1|batch|up|1-00:00:00|mixed|40/24/0/64|gpu:a100:4(S:0-1)|gpu:a100:1(IDX:2)\n"


@pytest.fixture(params=RELEASES)
def printed(request: pytest.FixtureRequest, golden_dir: Path) -> Path:
    folder: Path = golden_dir / "slurm/queue-state" / request.param
    return folder


def _read(text: str, priorities: str = "") -> Queue:
    return slurm.parse_queue_state(text, slurm.parse_priorities(priorities), "sitefactor", NOW)


def _state(text: str) -> QueueState:
    state = _read(text).state
    assert state is not None
    return state


def test_waiting_jobs_of_each_release_have_sizes_limits_and_plans(printed: Path) -> None:
    queue = _read((printed / "squeue.txt").read_text(), (printed / "sprio.txt").read_text())
    assert (queue.skipped, queue.n_damaged) == ([], 0)
    jobs = {job.id: job for job in queue.jobs}
    sizes = {number: job.size for number, job in jobs.items() if job.size}
    assert sizes.keys() == jobs.keys()
    assert (sizes["10"].nodes, sizes["10"].limit_s, sizes["10"].has_dependency) == (2, 3600.0, False)
    assert sizes["16"].gpus == (("gpu", 2),), "no type was asked for"
    assert sizes["17"].gpus == (("gpu", 4),)
    assert jobs["17"].partitions == ("gpu", "cpu")
    assert sizes["12"].limit_s is None, "unlimited"
    assert (sizes["14"].has_dependency, sizes["14"].eligible_at, sizes["14"].planned_at) == (True, None, None)
    submitted = jobs["13"].submit_at
    assert submitted is not None
    assert (sizes["13"].eligible_at, sizes["13"].planned_at) == (submitted + 7200, None), "its user asked for it"
    assert sizes["10"].planned_at is not None
    assert jobs["5"].array_task == "4-58:2%2"
    assert queue.known.isdisjoint({"1", "15"}), "they ended"


def test_running_jobs_of_each_release_have_starts_and_gpus_by_type(printed: Path) -> None:
    state = _state((printed / "squeue.txt").read_text())
    running = {job.id: job for job in state.running}
    assert set(running) == {"2", "3", "4", "7", "8", "9"}
    assert (running["2"].gpus, running["2"].limit_s, running["2"].nodes) == ((("a100", 2),), 600.0, 1)
    assert (running["3"].gpus, running["4"].limit_s) == ((("a100", 3),), None)
    assert (running["9"].cpus, running["9"].nodes, running["9"].user, running["9"].group) == (120, 2, "dan", "bio")
    assert [running[number].array for number in ("7", "8", "9")] == ["5", "5", ""]
    assert all(job.started_at and job.submit_at and job.started_at >= job.submit_at for job in state.running)
    ended = {job.id: job for job in state.ended}
    assert (ended["15"].is_cancelled, ended["15"].started_at) == (True, None)
    assert (ended["1"].is_cancelled, ended["1"].started_at) == (False, ended["1"].ended_at - 1)
    if "11" in ended:  # 24.11 ends a job that its partition can never start
        assert (ended["11"].is_cancelled, ended["11"].started_at) == (False, None)


def test_capacity_of_each_release_says_what_is_free_and_what_is_drained(printed: Path) -> None:
    full = slurm_state.parse_partitions((printed / "sinfo.txt").read_text())
    assert full == [
        Partition("cpu", True, None, 128, 0, 2, 0, 0, (("a100", 8),), (("a100", 2),)),
        Partition("gpu", True, 172_800.0, 64, 0, 1, 0, 0, (("a100", 4),), (("a100", 1),)),
    ]
    drained = {each.name: each for each in slurm_state.parse_partitions((printed / "sinfo-drained.txt").read_text())}
    assert [(each.nodes, each.nodes_drained, each.nodes_down) for each in drained.values()] == [(2, 1, 0), (1, 1, 0)]
    assert (drained["gpu"].cpus_free, drained["gpu"].gpus_free) == (0, ())


def test_reservations_of_each_release_have_times_and_partitions(printed: Path) -> None:
    both = slurm_state.parse_reservations((printed / "reservations.txt").read_text())
    assert [(each.name, each.partition, each.nodes, each.is_maintenance) for each in both] == [
        ("maint", "", 1, True),
        ("course", "gpu", 1, False),
    ]
    assert [each.end_at - each.begin_at for each in both] == [7200, 3600]
    assert slurm_state.parse_reservations((printed / "reservations-none.txt").read_text()) == []


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=4,mem=125G,node=2,billing=35,gres/gpu=3", {"gpu": 3}),
        ("cpu=1,gres/gpu=5,gres/gpu:a100=1,gres/gpu:h100=2", {"a100": 1, "gpu": 2, "h100": 2}),
        ("gpu:a100:4(S:0-1),gpu:2", {"a100": 4, "gpu": 2}),
        ("gpu:1g.5gb:7(IDX:0,2-3)", {"1g.5gb": 7}),
        ("gpu:a100:0(IDX:N/A)", {}),
        ("gpu:(null):3(IDX:0-2)", {"gpu": 3}),
        ("gpu:(null):0(IDX:N/A),gpu:a100:1(IDX:4)", {"a100": 1}),
        ("gres/gpumem=80,gres/shard=4,license/gpu=2", {}),
        ("(null)", {}),
    ],
)
def test_gpus_by_type(text: str, gpus: dict[str, int]) -> None:
    assert dict(parse_gpus(text)) == gpus


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("1-02:03:04", 93_784), ("02:03:04", 7_384), ("10:00", 600), ("0:30", 30), ("365-00:00:00", 31_536_000)),
        *((word, None) for word in ("UNLIMITED", "infinite", "NOT_SET", "INVALID", "Partition_Limit", "n/a", "")),
    ],
)
def test_a_limit_in_seconds_or_none(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("state", "is_down", "is_drained"),
    [
        *((state, False, False) for state in ("idle", "mixed", "allocated", "idle~", "mixed-", "idle@", "planned")),
        *((state, True, False) for state in ("down", "down*", "idle*", "draining*", "fail", "unknown", "inval")),
        *((state, False, True) for state in ("drained", "draining", "maint", "idle$", "idle%", "reboot^", "blocked")),
    ],
)
def test_a_node_that_takes_no_jobs_has_nothing_free(state: str, is_down: bool, is_drained: bool) -> None:
    (one,) = slurm_state.parse_partitions(NODE.replace("mixed", state))
    assert (one.nodes_down, one.nodes_drained) == (int(is_down), int(is_drained))
    free = (0, ()) if is_down or is_drained else (24, (("a100", 3),))
    assert (one.cpus_free, one.gpus_free) == free
    assert (one.cpus, one.gpus, one.limit_s) == (64, (("a100", 4),), 86_400.0)


def test_idle_processors_of_a_reserved_node_are_not_free() -> None:
    (one,) = slurm_state.parse_partitions(NODE.replace("mixed", "reserved"))
    assert (one.cpus_free, one.nodes_drained, one.nodes_down) == (0, 0, 0)


@pytest.mark.parametrize("row", ["n1|batch|up\n", NODE.replace("40/24/0/64", "x/y/z/n"), NODE.replace("/64", "")])
def test_another_shape_of_sinfo_is_refused(row: str) -> None:
    with pytest.raises(Unreadable):
        slurm_state.parse_partitions(NODE + row)


@pytest.mark.parametrize(
    ("state", "end", "is_waiting"),
    [
        ("COMPLETING", NOW - 3, False),
        ("COMPLETING", NOW + 30, False),  # clocks differ by less than a minute
        ("COMPLETING", NOW + 3600, True),  # requeued: its earlier run still ends
        ("COMPLETING", None, True),
        *((state, NOW - 3, False) for state in ("COMPLETED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")),
        ("REQUEUED", None, True),
    ],
)
def test_an_ended_job_waits_no_longer(state: str, end: float | None, is_waiting: bool) -> None:
    times = f"{NOW - 60:.0f}|{'N/A' if end is None else format(end, '.0f')}"
    queue = _read(ROW.replace("PENDING", state).replace("N/A|N/A|1|", f"{times}|1|"))
    assert (len(queue.jobs), "38" in queue.known) == (is_waiting, is_waiting)
    assert [job.id for job in queue.state.ended if queue.state] == ([] if is_waiting else ["38"])  # type: ignore[union-attr]


def test_a_damaged_row_is_counted_and_the_others_stay() -> None:
    narrow = "41" + ROW[2:].replace("|1:00:00|N/A|N/A|1|cpu=6|N/A|(null)", "")  # as without the columns of sizes
    queue = _read(ROW + "39|39\n" + narrow + ROW.replace("38", "40"))
    assert ([job.id for job in queue.jobs], queue.n_damaged) == (["38", "40"], 2)
    assert [why.split(":")[0] for why in queue.skipped] == [f"A row of squeue has {n} columns" for n in (2, 13)]


def test_a_hundred_thousand_running_tasks_are_one_row() -> None:
    running = [
        RunningJob(str(n), "7", "ann", "hep", "batch", "normal", 4, 1, (), 3600.0, NOW, NOW + n) for n in range(100_000)
    ]
    other = RunningJob("9", "", "bob", "hep", "batch", "normal", 4, 1, (("a100", 1),), None, NOW, None)
    sent = queue_state.document(QueueState([*running, other], []), None, instant)
    (tasks,) = sent["running"]
    assert (len(tasks["jobs"]), sent["omitted"]) == (100_000, 1)
    assert (tasks["array"], tasks["started"][0]) == ("7", int(NOW) + 99_999), "the newest stay"
    assert len(json.dumps(sent, separators=(",", ":"))) < 4_000_000
    assert sent["partitions"] is None


def test_jobs_of_too_many_shapes_leave_room_for_waiting_ones() -> None:
    running = [
        RunningJob(str(n), "", f"u{n % 30_000}", "hep", "batch", "normal", 4, 1, (), 3600.0, NOW, NOW - n)
        for n in range(60_000)
    ]
    sent = queue_state.document(QueueState(running, []), None, instant)
    assert (len(sent["running"]), sent["omitted"]) == (20_000, 20_000), "of 10,000 users with two jobs each"
    assert sum(len(row["jobs"]) for row in sent["running"]) == 40_000
    assert len(json.dumps(sent, separators=(",", ":"))) < 8_000_000


def test_a_report_has_the_partitions_of_the_orders_alone() -> None:
    partitions = [Partition(name, True, None, 4, 0, 1, 0, 0, (), ()) for name in ("batch", "long")]
    running = [RunningJob(name, "", "a", "g", name, "", 1, 1, (), None, None, None) for name in ("batch,x", "long")]
    ended = [EndedJob("4", "", True, None, NOW)]
    sent = queue_state.document(QueueState(running, ended, partitions, []), ("batch",), instant)
    assert [row["partition"] for row in sent["running"]] == ["batch,x"]
    assert [row["name"] for row in sent["partitions"]] == ["batch"]
    assert sent["ended"] == [{"job": "4", "array": "", "cancelled": True, "started_at": None, "ended_at": instant(NOW)}]


# --- Grid Engine and HTCondor
def test_grid_engine_lists_limits_dependencies_and_running_tasks(golden_dir: Path) -> None:
    folder = golden_dir / "gridengine/queue-state"
    queue = gridengine.parse_queue((folder / "qstat.xml").read_text(), "override_tickets", 1)
    sizes = {job.id: job.size for job in queue.jobs if job.size}
    assert {number: size.limit_s for number, size in sizes.items()} == {
        **{"3": None, "4": 600.0, "5": 60.0, "6": None, "7": None, "8": None},
    }
    assert [number for number, size in sizes.items() if size.has_dependency] == ["6"]
    assert queue.state is not None
    assert [(job.id, job.array, job.partition, job.cpus, job.limit_s) for job in queue.state.running] == [
        ("1", "", "all.q", 1, 3600.0),
        ("2", "", "all.q", 3, 7200.0),
        ("3.1", "3", "all.q", 1, None),
        ("3.2", "3", "all.q", 1, None),
    ]
    assert all(job.started_at for job in queue.state.running)
    assert gridengine.parse_queues((folder / "qstat-queues.xml").read_text()) == [
        Partition("all.q", True, None, 8, 2, 0, 0, 0, (), ())
    ]
    (disabled,) = gridengine.parse_queues((folder / "qstat-queues-disabled.xml").read_text())
    assert (disabled.is_up, disabled.cpus, disabled.cpus_free) == (False, 8, 0)


def test_grid_engine_sends_what_it_lists_to_servers_that_take_it(place: Place) -> None:
    place.scheduler.jobs = {**place.scheduler.jobs, "15": {"user": "bob", "group": "bio", "state": "r"}}
    place.scheduler.answer("qconf", out="weight_ticket 0.5\nweight_urgency 0\nweight_priority 0\n")
    place.site.order(kind="gridengine", knob="override_tickets")
    place.run()
    assert len(place.site.reports[-1]["queue"]) == 4
    assert "queue_state" not in place.site.reports[-1]
    sent = _pass(place)["queue_state"]
    assert [row["jobs"] for row in sent["running"]] == [["15"]]
    assert (sent["partitions"], sent["reservations"]) == ([], None)
    assert [len(place.scheduler.calls("qstat", option)) for option in ("-xml", "-g")] == [1, 1]


@pytest.mark.parametrize("status", [2, 6, 7])  # running, transferring its output, suspended
def test_htcondor_lists_jobs_on_slots_with_starts_and_gpus(status: int) -> None:
    ad = {
        **{"ClusterId": 7, "ProcId": 0, "Owner": "ann", "User": "ann@x.org", "JobStatus": status},
        "QDate": 1_795_000_000,
        **{"RequestCpus": 4, "RequestGPUs": 2, "JobCurrentStartDate": 1_795_000_100, "AllowedJobDuration": 3600},
    }
    waiting = {**ad, "ClusterId": 8, "JobStatus": 1, "RequestGPUs": "ifthenelse(true, 1, 2)"}
    queue = htcondor.parse_queue(json.dumps([ad, waiting, {**ad, "ClusterId": 9, "JobStatus": 4}]), {}, {})
    assert queue.state is not None
    assert queue.state.running == [
        RunningJob("7.0", "", "ann", "", "none", "", 4, None, (("gpu", 2),), 3600.0, 1_795_000_000, 1_795_000_100)
    ]
    assert (queue.state.partitions, queue.state.reservations) == (None, None)
    assert [(job.id, job.size and (job.size.gpus, job.size.limit_s)) for job in queue.jobs] == [("8.0", ((), 3600.0))]


# --- Passes
def _pass(place: Place, **orders: Any) -> dict[str, Any]:
    place.scheduler.forget_calls()
    place.site.order(takes_queue_state=True, **orders)
    place.run()
    report: dict[str, Any] = place.site.reports[-1]
    return report


def test_one_squeue_lists_it_all_and_two_more_calls_the_nodes(place: Place) -> None:
    running = {"user": "bob", "group": "bio", "state": "RUNNING", "tres": "cpu=4,gres/gpu:a100=1,gres/gpu=1"}
    jobs = {**place.scheduler.jobs, "15": running, "16": {"user": "bob", "group": "bio", "state": "CANCELLED"}}
    place.scheduler.jobs = {**jobs, "16": {**jobs["16"], "start": "1795156300", "end": "1795156300"}}
    report = _pass(place)
    sent = report["queue_state"]
    assert [(row["user"], row["jobs"], row["gpus"]) for row in sent["running"]] == [("bob", ["15"], {"a100": 1})]
    assert [(row["job"], row["cancelled"], row["started_at"]) for row in sent["ended"]] == [("16", True, None)]
    assert [(row["name"], row["cpus_free"], row["gpus_free"]) for row in sent["partitions"]] == [
        ("batch", 24, {"a100": 3}),
        ("long", 24, {"a100": 3}),
    ]
    assert (sent["reservations"], sent["omitted"]) == ([], 0)
    assert [row["limit_s"] for row in report["queue"]] == [3600.0] * 4
    names = [call[0] for call in place.scheduler.calls() if call[:2] != ["scontrol", "update"]]
    assert [names.count(name) for name in ("squeue", "sinfo", "sprio")] == [1, 1, 1]
    assert len(place.scheduler.calls("scontrol", "--oneliner", "show", "reservation")) == 1


def test_an_older_server_or_an_older_slurm_gets_none_of_it(place: Place) -> None:
    place.run()
    assert place.scheduler.calls("sinfo") == []
    assert "queue_state" not in place.site.reports[-1]
    assert {"limit_s", "nodes", "planned_at"}.isdisjoint(place.site.reports[-1]["queue"][0])
    (place.scheduler.folder / "config.txt").write_text(CONFIG.replace("22.05.8", "20.11.9"))
    report = _pass(place)
    assert "queue_state" not in report
    assert len(report["queue"]) == 4
    assert place.scheduler.calls("sinfo") == []


def test_without_sinfo_priorities_are_sent_all_the_same(place: Place) -> None:
    place.scheduler.answer("sinfo", err="slurm_load_node: Unable to contact", status=1)
    report = _pass(place)
    assert report["queue_state"]["partitions"] is None
    assert (report["frozen"], report["jobs"]["sent"]) == (None, 4)
    assert any("sinfo" in error["detail"] for error in report["errors"])


def test_rows_without_sizes_are_as_before() -> None:
    job = _read(ROW).jobs[0]
    assert queue_rows([job._replace(size=None)], {}, takes_queue_state=True) == queue_rows(
        [job._replace(size=None)], {}
    )
