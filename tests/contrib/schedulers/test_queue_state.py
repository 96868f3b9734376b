"""The last listing of a queue as others read it, and the slot that gets each new one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.apps import apps

from apps.contrib.schedulers.models import QueueListing, RunningListing, Scheduler
from apps.contrib.schedulers.queue_state import PartitionState, QueueJob, QueueState, load_queue_state, n_tasks
from tests.contrib.schedulers.reports import instant, job, report
from tests.instants import AT
from tests.rest_site import Caller

pytestmark = pytest.mark.django_db
Announced = list[tuple[Scheduler, QueueState | None, QueueState]]


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> Announced:
    """Calls of the slot."""
    calls: Announced = []
    config = type(apps.get_app_config("schedulers"))
    monkeypatch.setattr(config, "queue_changed", lambda self, *call: calls.append(call))
    return calls


@pytest.fixture
def send(agent: Caller) -> Callable[..., None]:
    def _send(**more: Any) -> None:
        answer = agent.post("schedulers/c1/passes", report(**more))
        assert answer.status_code == 200, answer.content

    return _send


def _state() -> QueueState:
    state = load_queue_state(Scheduler.objects.get(name="c1"))
    assert state is not None
    return state


def test_a_queue_without_the_rest_says_what_waits(agent: Caller, send: Callable[..., None]) -> None:
    assert load_queue_state(Scheduler.objects.get(name="c1")) is None
    rows = [job("101"), job("102", "bob", state="held", reason="JobHeldUser", priority=None, cpus=None)]
    send(queue=rows)
    state = _state()
    assert state.taken_at == AT - timedelta(seconds=12)
    assert not state.has_running
    first, second = state.jobs
    assert first == QueueJob(
        "101", "alice", "physics", "batch", "normal", "waiting", 8.0, {}, None, None, AT - timedelta(hours=1),
        None, None, None, False, "Priority", 50_587.0,
    )  # fmt: skip
    assert (second.is_held, second.priority, second.cpus == second.cpus) == (True, None, False)


RUNNING: dict[str, Any] = {
    "running": [
        {
            **{"user": "alice", "group": "physics", "partition": "batch", "qos": "normal", "cpus": 4, "nodes": 1},
            **{"gpus": {"a100": 2}, "limit_s": 3600, "array": "77", "jobs": ["77", "80"]},
            **{"submitted": [1_795_000_000, 1_795_000_000], "started": [1_795_000_100, None]},
        },
        {"user": "bob", "jobs": ["90"], "submitted": [None], "started": [1_795_000_300], "limit_s": None},
    ],
    "ended": [
        {"job": "60", "array": "", "cancelled": True, "started_at": None, "ended_at": "2026-11-20T06:00:00Z"},
        {"job": "61", "cancelled": False, "started_at": "2026-11-20T05:00:00Z", "ended_at": "2026-11-20T06:00:00Z"},
    ],
    "partitions": [
        {
            **{"name": "batch", "up": True, "limit_s": 86_400, "cpus": 128, "cpus_free": 24, "nodes": 2},
            **{"nodes_down": 1, "nodes_drained": 0, "gpus": {"a100": 8}, "gpus_free": {"a100": 3}},
        }
    ],
    "reservations": [
        {
            **{"name": "maint", "partition": "", "nodes": 1, "cpus": 64, "maintenance": True},
            **{"begin_at": "2026-12-01T00:00:00Z", "end_at": "2026-12-01T08:00:00Z"},
        }
    ],
    "omitted": 3,
}
SIZES: dict[str, Any] = {
    **{"nodes": 2, "gpus": {"a100": 4}, "limit_s": 7200, "dependency": True},
    "planned_at": instant(AT + timedelta(hours=2)),
}


def test_a_queue_with_the_rest_says_what_runs_and_what_is_free(send: Callable[..., None]) -> None:
    begins = instant(AT + timedelta(hours=1))
    rows = [job("101", **SIZES), job("102", array_task="0-9%2", eligible_at=begins), job("103")]
    send(queue=rows, queue_state=RUNNING)
    state = _state()
    assert (state.has_running, state.n_omitted) == (True, 3)
    first, second, third, *running = state.jobs
    assert (first.nodes, first.gpus, first.limit_s, first.dependency) == (2, {"a100": 4}, 7200.0, True)
    assert first.planned_at == AT + timedelta(hours=2)
    assert (second.begin_at, second.array, second.n_tasks) == (AT + timedelta(hours=1), "102", 10)
    assert (third.nodes, third.gpus, third.limit_s, third.planned_at, third.begin_at) == (None, {}, None, None, None)
    assert [(each.job, each.array, each.state) for each in running] == [
        ("77", "77", "running"),
        ("80", "77", "running"),
        ("90", "", "running"),
    ]
    assert [each.start_at and each.start_at.timestamp() for each in running] == [1_795_000_100, None, 1_795_000_300]
    assert (running[0].gpus, running[0].limit_s, running[2].cpus == running[2].cpus) == ({"a100": 2}, 3600.0, False)
    assert state.partitions == (
        PartitionState("batch", 128, 24, {"a100": 8}, {"a100": 3}, 2, 1, 0, 86_400.0, is_up=True),
    )
    (maintenance,) = state.reservations
    assert (maintenance.name, maintenance.cpus, maintenance.is_maintenance) == ("maint", 64, True)
    assert maintenance.end_at - maintenance.begin_at == timedelta(hours=8)
    assert [(each.job, each.is_cancelled, each.start_at is None) for each in state.ended] == [
        ("60", True, True),
        ("61", False, False),
    ]


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999998Z", "0001-01-01T00:00:00Z"])
def test_times_at_both_ends_of_the_calendar_are_those_that_were_sent(send: Callable[..., None], text: str) -> None:
    times = {"begin_at": text, "end_at": text}
    ended = [{"job": "60", "cancelled": False, "started_at": text, "ended_at": text}]
    reserved = [{**RUNNING["reservations"][0], **times}]
    waiting = job("101", submit_at=text, eligible_at=text, planned_at=text)
    send(queue=[waiting], queue_state={"ended": ended, "reservations": reserved})
    state, at = _state(), datetime.fromisoformat(text)
    assert (state.jobs[0].submit_at, state.jobs[0].planned_at) == (at, at)
    assert (state.ended[0].start_at, state.ended[0].end_at) == (at, at)
    assert (state.reservations[0].begin_at, state.reservations[0].end_at) == (at, at)


def test_a_job_without_a_limit_has_that_of_its_partition(send: Callable[..., None]) -> None:
    partitions = [{**RUNNING["partitions"][0], "name": name, "limit_s": s} for name, s in [("a", 60), ("b", None)]]
    rows = [job(str(n), partition=partition) for n, partition in enumerate(["a", "b", "a,b", "c"], 1)]
    send(queue=[*rows, job("9", partition="a", limit_s=30)], queue_state={**RUNNING, "partitions": partitions})
    state = _state()
    assert [state.longest_s(each) for each in state.jobs[:5]] == [60.0, None, None, None, 30.0]


def test_an_agent_that_lists_no_running_jobs_any_more_leaves_none_behind(send: Callable[..., None]) -> None:
    send(queue_state=RUNNING)
    send(queue=None, started_at=instant(AT - timedelta(seconds=11)))
    assert _state().has_running, "a pass without a listing"
    send(started_at=instant(AT - timedelta(seconds=10)))
    assert not _state().has_running
    assert RunningListing.objects.count() == 0


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ({"running": {}}, "queue_state.running"),
        ({"running": [{"user": "a", "jobs": ["1"], "submitted": [], "started": [1]}]}, "running[0].submitted"),
        ({"running": [{"user": "a", "jobs": ["1"], "submitted": [1], "started": [-1]}]}, "running[0].started"),
        ({"running": [{"user": "a", "jobs": ["1"], "submitted": [1], "started": [1.5]}]}, "running[0].started"),
        ({"running": [{"user": "a", "jobs": [1], "submitted": [1], "started": [1]}]}, "running[0].jobs"),
        ({"running": [{"user": "", "jobs": [], "submitted": [], "started": []}]}, "running[0].user"),
        ({"running": [{"user": "a", "jobs": [], "submitted": [], "started": [], "x": 1}]}, "running[0]"),
        ({"running": [{"user": "a", "jobs": [], "submitted": [], "started": [], "limit_s": -1}]}, "limit_s"),
        ({"running": [{"user": "a", "jobs": [], "submitted": [], "started": [], "gpus": {"a": None}}]}, "gpus"),
        ({"running": [{"user": "a", "jobs": [], "submitted": [], "started": [], "gpus": {"": 1}}]}, "gpus"),
        ({"ended": [{"job": "1", "cancelled": True, "ended_at": None}]}, "ended[0].ended_at"),
        ({"ended": [{"job": "1", "cancelled": 1, "ended_at": "2026-11-20T06:00:00Z"}]}, "ended[0].cancelled"),
        ({"partitions": [{"name": "a", "up": True}]}, "partitions[0].cpus"),
        ({"reservations": [{**RUNNING["reservations"][0], "begin_at": "tomorrow"}]}, "reservations[0].begin_at"),
        ({"omitted": -1}, "queue_state.omitted"),
        ({"other": 1}, "queue_state"),
    ],
)
def test_a_wrong_field_is_named(agent: Caller, part: dict[str, Any], place: str) -> None:
    answer = agent.post("schedulers/c1/passes", report(queue_state={**RUNNING, **part}))
    assert answer.status_code in (400, 422), answer.content
    assert place in answer.content.decode()
    assert RunningListing.objects.count() == QueueListing.objects.count() == 0


@pytest.mark.parametrize(
    "size", [{"limit_s": -1}, {"nodes": "2"}, {"gpus": []}, {"planned_at": "soon"}, {"dependency": "yes"}], ids=str
)
def test_a_wrong_size_is_named(agent: Caller, size: dict[str, Any]) -> None:
    answer = agent.post("schedulers/c1/passes", report(queue=[job("1"), job("2", **size)]))
    assert answer.status_code in (400, 422), answer.content
    assert f"queue[1].{next(iter(size))}" in answer.content.decode()


@pytest.mark.parametrize(
    ("tasks", "number"),
    [
        *(("", 1), ("3", 1), ("0-9", 10), ("1-9:2,12%4", 6), ("0-99999%5", 100_000), ("1,3,5,...", 3)),
        ("1-99999999999999999999", 10_000_000),  # more than a sum of jobs could hold
    ],
)
def test_tasks_that_wait_together_are_counted(tasks: str, number: int) -> None:
    assert n_tasks(tasks) == number


@pytest.mark.deep
def test_a_hundred_thousand_tasks_take_little_room(send: Callable[..., None]) -> None:
    numbers = range(1_000_000, 1_100_000)
    tasks = {**RUNNING["running"][0], "jobs": list(map(str, numbers)), "submitted": [1_795_000_000] * 100_000}
    send(queue_state={**RUNNING, "running": [{**tasks, "started": [1_795_000_000 + n % 3600 for n in numbers]}]})
    listing = RunningListing.objects.get()
    assert listing.n_jobs == 100_000
    assert len(listing.data) < 1_000_000
    assert len(_state().jobs) == 100_006


def test_the_slot_gets_each_listing_with_the_one_before(announced: Announced, send: Callable[..., None]) -> None:
    send(queue=[job("1"), job("2")])
    send(queue=[job("2")], started_at=instant(AT - timedelta(seconds=11)))
    send(queue=None)  # a pass without a listing
    send(queue=[job("3")], started_at=instant(AT - timedelta(seconds=40)))  # a late report
    assert [(call[0].name, call[1] and [each.job for each in call[1].jobs]) for call in announced] == [
        ("c1", None),
        ("c1", ["1", "2"]),
    ]
    assert [[each.job for each in call[2].jobs] for call in announced] == [["1", "2"], ["2"]]


def test_a_listing_is_stored_with_what_the_slot_writes_or_not_at_all(
    agent: Caller, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no room")

    send(queue=[job("1")])
    monkeypatch.setattr(type(apps.get_app_config("schedulers")), "queue_changed", fail)
    with pytest.raises(RuntimeError):
        agent.post("schedulers/c1/passes", report(queue=[job("2")]))
    assert QueueListing.objects.get().n_jobs == 1
    assert [each.job for each in _state().jobs] == ["1"]


def test_nothing_is_unpacked_where_nobody_follows(send: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.contrib.schedulers import passes

    monkeypatch.setattr(passes, "is_followed", lambda: False)
    monkeypatch.setattr(passes, "load_queue_state", None)
    send(queue=[job("1")])
    assert QueueListing.objects.get().n_jobs == 1
