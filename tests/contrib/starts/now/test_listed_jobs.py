"""Running and waiting jobs by row: equal to a count over the listing, on the page as in the answer."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers import queue_state
from apps.contrib.schedulers.models import AgentPass, Scheduler
from apps.contrib.schedulers.queue_state import QueueJob, QueueState
from apps.contrib.schedulers.services import connect_scheduler
from apps.contrib.starts.now import listed_jobs
from apps.contrib.starts.now.listed_jobs import add_jobs, could_start, no_jobs
from tests.contrib.schedulers.reports import report
from tests.contrib.starts.now.test_waits_now import level_now
from tests.instants import AT
from tests.pages.page import read, text_of
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

SLURM = Scheduler.Kind.SLURM.value


def queue_job(job: str, state: Any, user: str = "alice", account: str = "physics", **more: Any) -> QueueJob:
    values: dict[str, Any] = {
        "partition": "batch", "qos": "", "cpus": 1.0, "gpus": {}, "nodes": 1, "limit_s": 3_600.0,
        "submit_at": AT - timedelta(hours=3), "start_at": None, "begin_at": None, "planned_at": None,
        "dependency": False, "reason": "Priority", "priority": 1.0, **more,
    }  # fmt: skip
    return QueueJob(job=job, user=user, account=account, state=state, **values)


@pytest.mark.parametrize("seed", range(30))
def test_sums_of_rows_equal_a_count_over_the_jobs(seed: int) -> None:
    rng = Random(seed)
    jobs, rows = [], []
    for n in range(rng.randrange(40)):
        state = rng.choice(("waiting", "running"))
        gpus = rng.choice(({}, {"a100": 2.0}, {"a100": 1.0, "h100": 3.0}))
        more: dict[str, Any] = {
            "cpus": rng.choice((1.0, 64.0, float("nan"))),
            "gpus": gpus,
            "is_held": rng.random() < 0.2,
        }
        jobs.append(queue_job(str(n), state, n_tasks=rng.choice((1, 1, 30)), **more))
        rows.append(rng.randrange(-1, 3))
    total = add_jobs(no_jobs(3), QueueState(AT, jobs, has_running=True), np.array(rows, np.int64), SLURM)
    for row in range(3):
        here = [job for job, at in zip(jobs, rows, strict=True) if at == row]
        running = [job for job in here if job.state == "running"]
        ready = [job for job in here if job.state == "waiting" and not job.is_held]
        assert total.jobs[row] == sum(job.n_tasks for job in here if job.state == "waiting")
        for name, chosen in (("running", running), ("waiting", ready)):
            sized = [job for job in chosen if job.cpus == job.cpus]
            assert getattr(total, f"cores_{name}")[row] == sum(job.cpus * job.n_tasks for job in sized)
            assert getattr(total, f"gpus_{name}")[row] == sum(sum(j.gpus.values()) * j.n_tasks for j in chosen)
    placed = [job for job, at in zip(jobs, rows, strict=True) if at >= 0]
    counted = [job for job in placed if job.state == "running" or not job.is_held]
    assert total.unsized == sum(job.cpus != job.cpus for job in counted)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"reason": "Resources"}, True),
        ({"is_held": True}, False),
        ({"dependency": True}, False),
        ({"begin_at": AT + timedelta(seconds=1)}, False),
        ({"begin_at": AT}, True),
        ({"reason": "QOSMaxJobsPerUserLimit"}, False),
    ],
)
def test_only_a_job_that_room_would_start_claims_an_unused_part(change: dict[str, Any], expected: bool) -> None:
    assert could_start(queue_job("1", "waiting", **change), AT, SLURM) is expected


JOBS = [
    queue_job("1", "running", "alice", "physics", cpus=60.0, gpus={"a100": 4.0}),
    queue_job("2", "running", "bob", "physics", cpus=30.0),
    queue_job("3", "running", "ghost", "nowhere", cpus=10.0),
    queue_job("4", "waiting", "carol", "biology", cpus=2.0, n_tasks=10),
    queue_job("5", "waiting", "carol", "biology", cpus=512.0, is_held=True),
    queue_job("6", "waiting", "alice", "physics", cpus=8.0),
]


@pytest.fixture
def listed(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """c1 lists JOBS: its agent has reported just now."""
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on", "namespace": "a"}, at=AT, actor=SYSTEM)
    agent = Caller(token=site.token("schedulers", "priorities:read", policy_slug="grid"))
    assert agent.post("schedulers/c1/passes", report()).status_code == 200
    monkeypatch.setattr(listed_jobs, "load_queue_state", lambda scheduler: QueueState(AT, JOBS, has_running=True))
    return site


def _cores(level: Any) -> dict[str, Any]:
    return {row["path"] or row["kind"]: row["cores"] for row in level["rows"]}


@pytest.mark.django_db
def test_rows_show_what_runs_beside_what_each_is_entitled_to(listed: Site) -> None:
    """100 cores run: 60 % of them are for physics, 40 % for biology, of which nothing runs."""
    level = level_now(listed)
    cores = _cores(level)
    assert [row["path"] or row["kind"] for row in level["rows"]] == ["/biology", "/physics", "direct", "unmapped"]
    assert cores["/physics"] == {
        "running": 90.0, "entitled": 60.0, "above": 30.0, "unused": 0.0, "waiting": 8.0, "reclaimed": 15.0,
        "runs_on": [{"row": 0, "amount": 30.0}],
    }  # fmt: skip
    assert cores["/biology"] == {
        "running": 0.0, "entitled": 40.0, "above": 0.0, "unused": 40.0, "waiting": 20.0, "reclaimed": 0.0,
        "runs_on": [],
    }  # fmt: skip
    assert cores["unmapped"]["above"] == 10.0
    assert cores["unmapped"]["reclaimed"] == 5.0
    assert {row["path"]: row["jobs_waiting"] for row in level["rows"] if row["path"]} == {"/biology": 11, "/physics": 1}
    assert [row["gpus"]["running"] for row in level["rows"]] == [0.0, 4.0, 0.0, 0.0]
    assert level["schedulers"] == [{"name": "c1", "taken_at": "2026-11-20T12:00:00Z", "is_counted": True}]


@pytest.mark.django_db
def test_a_lead_learns_nothing_of_others_from_the_own_level(listed: Site) -> None:
    """Shares in the own group: 90 cores run in it, so nothing here depends on what others run."""
    level = level_now(listed, listed.pia)
    cores = _cores(level)
    assert cores["members"] == {
        "running": 90.0, "entitled": 90.0, "above": 0.0, "unused": 0.0, "waiting": 8.0, "reclaimed": 0.0,
        "runs_on": [],
    }  # fmt: skip
    assert "unmapped" not in cores


@pytest.mark.django_db
def test_the_page_says_on_whose_unused_part_and_who_would_be_hurt(listed: Site, client: Client) -> None:
    sign_in(client, listed.admin)
    page = read(client.get("/policy/grid/now/"))
    assert page.text('[data-testid="hurt-cores"]') == (
        "40 cores in use on unused shares of others; jobs that wait now would reclaim 20 cores."
    )
    assert page.texts('[data-testid="lending-cores"] li') == [
        "physics: 30 cores on unused shares: 30 of biology.",
        "Unmapped accounts: 10 cores on unused shares: 10 of biology.",
    ]
    rows = [[text_of(cell) for cell in row.css("th, td")] for row in page.all('[data-testid="share-cores"]')]
    assert rows == [
        ["physics", "60.0 %", "", "90", "60", "30 above", "8", "15"],
        ["Unmapped accounts", "–", "", "10", "0", "10 above", "–", "5"],
        ["biology", "40.0 %", "", "0", "40", "40 unused", "20", "–"],
    ]
    assert [row.attributes["data-state"] for row in page.all('[data-testid="share-gpus"]')] == ["above", "unused"]
    assert not page.has('[data-testid="unread"]')


@pytest.mark.django_db
def test_of_many_groups_the_furthest_on_both_sides_are_shown_and_all_are_one_click_away(
    listed: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.contrib.starts.pages.now_rows.MOST_FIRST_ROWS", 1)
    sign_in(client, listed.admin)
    page = read(client.get("/policy/grid/now/"))
    assert page.texts('[data-testid="share-cores"] th') == ["physics", "biology"]
    link = page.one("a[href$='#cores']")
    assert text_of(link) == "1 more group"
    whole = read(client.get(f"/policy/grid/now/{str(link.attributes['href']).partition('#')[0]}"))
    assert whole.texts('[data-testid="share-cores"] th') == ["physics", "Unmapped accounts", "biology"]
    assert not whole.has("a[href$='#cores']")


@pytest.mark.django_db
def test_a_listing_without_running_jobs_is_named_and_not_counted(
    listed: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_jobs, "load_queue_state", queue_state.load_queue_state)
    level = level_now(listed)
    assert [each["is_counted"] for each in level["schedulers"]] == [False]
    assert all(row["cores"] is None and row["gpus"] is None and row["jobs_waiting"] is None for row in level["rows"])
    sign_in(client, listed.admin)
    page = read(client.get("/policy/grid/now/"))
    assert "The agent of c1 lists no running jobs now" in page.text('[data-testid="unread"]')
    assert not page.has('[data-testid="share-cores"]')


@pytest.mark.django_db
def test_a_job_that_two_schedulers_list_counts_once(listed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """c2 gets limits of the same cluster, and lists another job. Its job 1 was submitted later: of another cluster."""
    connect_scheduler(policy_slug="grid", name="c2", settings={"mode": "shadow"}, at=AT, actor=SYSTEM)
    Scheduler.objects.filter(name="c2").update(carries="limits")
    agent = Caller(token=listed.token("schedulers", "priorities:read", policy_slug="grid"))
    assert agent.post("schedulers/c2/passes", report()).status_code == 200
    before = _cores(level_now(listed))
    others = [
        queue_job("1", "running", "alice", "physics", cpus=5.0, submit_at=AT - timedelta(hours=2)),
        queue_job("7", "running", "bob", "physics", cpus=2.0, submit_at=None),
    ]
    jobs = {"c1": JOBS, "c2": [*JOBS[:2], JOBS[3]._replace(state="running"), *others]}
    monkeypatch.setattr(
        listed_jobs, "load_queue_state", lambda scheduler: QueueState(AT, jobs[scheduler.name], has_running=True)
    )
    after = level_now(listed)
    assert before["/physics"]["running"] == 90.0
    assert [row["cores"]["running"] for row in after["rows"]] == [0.0, 97.0, 0.0, 10.0]
    assert [row["jobs_waiting"] for row in after["rows"]] == [11, 1, 0, 0]
    assert [each["is_counted"] for each in after["schedulers"]] == [True, True]


@pytest.mark.django_db
@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_listing_of_an_agent_that_was_stopped_is_not_counted(listed: Site, mode: str) -> None:
    """Also of a scheduler that is off, which is never overdue."""
    Scheduler.objects.update(mode=mode)
    assert [each["is_counted"] for each in level_now(listed)["schedulers"]] == [True]
    AgentPass.objects.update(received_at=AT - timedelta(days=9))
    level = level_now(listed)
    assert [each["is_counted"] for each in level["schedulers"]] == [False]
    assert all(row["cores"] is None for row in level["rows"])
