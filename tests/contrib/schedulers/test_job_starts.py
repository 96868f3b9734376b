"""When a job starts is the same on pages, in REST, in the terminal and in a command; answers come through the slot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.forecast.after_job import DEFAULT_CORE_H
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.my_jobs import list_new_jobs
from apps.contrib.schedulers.passes import record_pass
from apps.contrib.schedulers.services import connect_scheduler
from apps.explain.job_starts import FirstStart, HeldStarts, JobStart, NewJobShape, NewJobStart
from apps.explain.my_priority import MyPriority
from tests.contrib.schedulers.conftest import agent, connected, site  # noqa: F401 - fixtures
from tests.contrib.schedulers.reports import instant, job, report
from tests.instants import AT
from tests.pages.page import read, with_cards
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site
from tests.terminal.conftest import Terminal, alice, terminal  # noqa: F401 - fixtures
from tests.worlds import fresh_process  # noqa: F401 - fixture

TEXTS = ("text", "first_text", "record_text")
PROMISED = JobStart(
    within_5_min=None,
    before_50=AT + timedelta(hours=1),
    before_80=AT + timedelta(hours=26),
    before_95=None,
    is_promised=True,
    said_at=AT,
    first=FirstStart(AT - timedelta(hours=1), AT - timedelta(hours=5), "broken", AT - timedelta(hours=1)),
    basis="recent waits",
    held=HeldStarts(0.8056, 1_204, 90, is_low=False),
    note="",
    short="Sat 14:00",
    text="Before 13:00 UTC: 50 %. Before Sat 14:00 UTC: 80 %. For 95 %: more than a week.",
    first_text="The first promise was before 11:00 UTC, and broken; now before Sat 14:00 UTC.",
    note_text="",
    record_text="Of 1,204 such promises in 90 days 80.6 % held.",
)
HELD = replace(
    PROMISED,
    before_50=None,
    before_80=None,
    before_95=None,
    first=None,
    text="",
    first_text="",
    record_text="",
    is_promised=False,
    note="held",
    note_text="No start is promised while it is held.",
    short="not while held",
)

NEW = NewJobStart(
    NewJobShape("c1", "batch", 8.0, 3_600.0, "A new job of 8 cores for 1 h in batch of c1:"),
    replace(PROMISED, first=None, first_text=""),
)


@pytest.fixture
def promises(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Jobs 101 and 108_3, a task, have a promise, and 107 is held. Returns the jobs of each request."""
    asked: list[Sequence[str]] = []
    answers = {"101": PROMISED, "107": HELD, "108_3": replace(PROMISED, first=None, first_text="")}

    def start_answers(scheduler: Scheduler, jobs: Sequence[str], *, at: datetime) -> Mapping[str, JobStart]:
        assert scheduler.name == "c1"
        asked.append(jobs)
        return {number: answers[number] for number in jobs if number in answers}

    monkeypatch.setattr(apps.get_app_config("starts"), "start_answers", start_answers)
    return asked


QUEUE = [
    job("101", site=20_000),
    job("102", "bob", site=90_000),
    job("107", state="held", reason="JobHeldUser"),
    job("108", array_task="3", site=10_000),
    job("109", site=9_000),
]


@pytest.fixture
def listed(agent: Caller, promises: list[Sequence[str]]) -> list[Sequence[str]]:  # noqa: F811
    assert agent.post("schedulers/c1/passes", report(queue=QUEUE)).status_code == 200
    return promises


@pytest.fixture
def own(connected: Site) -> Caller:  # noqa: F811
    return Caller(token=connected.token("self:read", user=connected.alice))


def test_own_jobs_have_their_starts_in_one_request(listed: list[Sequence[str]], own: Caller) -> None:
    answer = own.get("me/waiting-jobs?policy=grid").json()
    starts = {(row["job"], row["array_task"]): row["start"] for row in answer["jobs"]}
    assert len(listed) == 1
    assert sorted(listed[0]) == ["101", "107", "108_3", "109"], "and no job of others"
    assert starts["109", ""] is None
    start = starts["101", ""]
    assert {name: start[name] for name in ("within_5_min", "before_80", "is_promised", "said_at", "basis", "note")} == {
        "within_5_min": None,
        "before_80": "2026-11-21T14:00:00Z",
        "is_promised": True,
        "said_at": "2026-11-20T12:00:00Z",
        "basis": "recent waits",
        "note": "",
    }
    assert start["held"] == {"share": 0.8056, "n": 1_204, "days": 90, "is_low": False}
    assert (start["first"]["outcome"], start["first"]["before_80"]) == ("broken", "2026-11-20T11:00:00Z")
    assert starts["107", ""]["is_promised"] is False
    assert starts["107", ""]["before_80"] is None
    assert starts["108", "3"]["first"] is None


def test_the_page_shows_what_rest_says(listed: list[Sequence[str]], own: Caller, connected: Site) -> None:  # noqa: F811
    start = own.get("schedulers/c1/why", {"job": "101"}).json()["start"]
    sentences = [start[name] for name in TEXTS]
    assert all(sentences)
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    shown = page.text("#waiting-jobs .starts")
    assert all(sentence.replace("\u00a0", " ") in shown for sentence in sentences)
    assert page.texts('#waiting-jobs tbody td[data-label^="Starts before"]') == [
        f"{start['short']} first broken".replace("\u00a0", " "),
        start["short"].replace("\u00a0", " "),
        "–",
        "not while held",
    ]
    why = read(client.get("/policy/grid/jobs/why/101/")).text(".starts")
    assert all(sentence.replace("\u00a0", " ") in why for sentence in sentences)


def test_my_jobs_lists_waiting_jobs_and_their_starts(listed: list[Sequence[str]], connected: Site) -> None:  # noqa: F811
    client = sign_in(Client(), connected.alice)
    page = read(client.get("/policy/grid/charges/"))
    address = page.one('[data-testid="job-card"]').attributes["hx-get"] or ""
    card = read(client.get(address, headers={"HX-Request": "true"}))
    assert PROMISED.text in card.text("#waiting-jobs .starts")
    assert not read(client.get("/policy/grid/charges/?job=101")).has('[data-testid="job-card"]')


def test_only_those_who_see_a_job_see_its_promise(listed: list[Sequence[str]], connected: Site) -> None:  # noqa: F811
    """Ben manages a part that has no such job: its promise isn't even asked for."""
    ben = Caller(token=connected.token("priorities:read", "self:read", user=connected.ben))
    mine = ben.get("me/waiting-jobs?policy=grid").json()
    assert [row["job"] for row in mine["jobs"] if row["job"] in ("101", "107", "108")] == []
    assert ben.get("policies/grid/why?job=101").status_code == 404
    assert listed == []


def test_the_queue_has_the_start_of_each_job_that_its_reader_sees(
    listed: list[Sequence[str]],
    own: Caller,
    connected: Site,  # noqa: F811
) -> None:
    """The same object as elsewhere, in one request. A manager reads those of all jobs, as on the page of each."""
    rows = own.get("schedulers/c1/queue").json()["results"]
    assert {row["user"] for row in rows} == {"alice"}
    assert [sorted(jobs) for jobs in listed] == [["101", "107", "108_3", "109"]]
    starts = {row["job"]: row["start"] for row in rows}
    assert starts["101"] == own.get("schedulers/c1/why", {"job": "101"}).json()["start"]
    assert starts["108"] == own.get("schedulers/c1/why", {"job": "108_3"}).json()["start"]
    assert (starts["107"]["note"], starts["109"]) == ("held", None)
    manager = Caller(token=connected.token("policies:read", user=connected.admin))
    every = {row["job"]: row["start"] for row in manager.get("schedulers/c1/queue").json()["results"]}
    assert every == {**starts, "102": None}
    page = own.get("schedulers/c1/queue", {"limit": 1}).json()["results"]
    assert [row["job"] for row in page] == list(listed[-1]) == ["101"]


def test_rest_has_the_start_of_a_job_to_submit(
    listed: list[Sequence[str]],
    own: Caller,
    connected: Site,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apps.get_app_config("starts"), "new_job_start", lambda _account, **_more: NEW)
    (row,) = own.get("me/submit?policy=grid").json()["results"]
    assert row["start"] == {
        **own.get("schedulers/c1/why", {"job": "101"}).json()["start"],
        "first": None,
        "first_text": "",
    }
    assert row["job"] == {
        "scheduler": "c1",
        "partition": "batch",
        "cpus": 8.0,
        "limit_s": 3_600.0,
        "text": NEW.job.text,
        "source": "",
    }


def test_starts_take_no_query_for_each_job(
    listed: list[Sequence[str]],
    own: Caller,
    agent: Caller,  # noqa: F811
) -> None:
    own.get("me/waiting-jobs?policy=grid")
    with CaptureQueriesContext(connection) as few:
        own.get("me/waiting-jobs?policy=grid")
    more = [*QUEUE, *(job(str(200 + n), site=8_000 - n) for n in range(40))]
    assert agent.post("schedulers/c1/passes", report(queue=more)).status_code == 200
    own.get("me/waiting-jobs?policy=grid")
    with CaptureQueriesContext(connection) as many:
        assert len(own.get("me/waiting-jobs?policy=grid").json()["jobs"]) == 44
    assert len(many) == len(few)
    assert len(listed[-1]) == 44


def test_without_promises_nothing_is_shown(
    agent: Caller,  # noqa: F811
    own: Caller,
    connected: Site,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where the plug-in that makes them is left out: the slot of plug-ins is empty."""
    for slot in ("start_answers", "new_job_start"):
        monkeypatch.delattr(type(apps.get_app_config("starts")), slot)
    assert agent.post("schedulers/c1/passes", report(queue=QUEUE)).status_code == 200
    assert {row["start"] for row in own.get("me/waiting-jobs?policy=grid").json()["jobs"]} == {None}
    assert own.get("schedulers/c1/why", {"job": "101"}).json()["start"] is None
    assert {row["start"] for row in own.get("schedulers/c1/queue").json()["results"]} == {None}
    assert {row["start"] for row in own.get("me/submit?policy=grid").json()["results"]} == {None}
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert "80 % before" not in page.text("#waiting-jobs")
    assert not page.has("#waiting-jobs .starts")


def test_the_command_says_it(listed: list[Sequence[str]], own: Caller) -> None:
    start = own.get("schedulers/c1/why", {"job": "101"}).json()["start"]
    out = StringIO()
    call_command("why", "101", stdout=out)
    assert [start[name] for name in TEXTS] == out.getvalue().splitlines()[2:5]
    out = StringIO()
    call_command("why", "101", "--json", stdout=out)
    assert json.loads(out.getvalue())["start"]["text"] == start["text"]


def _words(text: str) -> str:
    return " ".join(text.split())


def test_the_terminal_lists_waiting_jobs_and_their_starts(
    terminal: Terminal,  # noqa: F811
    alice: str,  # noqa: F811
    promises: list[Sequence[str]],
) -> None:
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on", "namespace": "a"}, at=AT, actor=SYSTEM)
    came: dict[str, Any] = {"started_at": AT, "ended_at": AT, "pass": uuid4()}
    record_pass(name="c1", report=report(**came, queue=QUEUE), body_sha256="", at=AT, actor=SYSTEM)
    shown = terminal.run("jobs", token=alice)
    assert shown.status == 0, shown.err
    answer = json.loads(terminal.run("jobs", "--json", token=alice).out)
    (start,) = (row["start"] for row in answer["jobs"] if row["job"] == "101")
    for name in TEXTS:
        assert _words(start[name]) in _words(shown.out)
    assert "Job 108_3" in shown.out
    assert "No start is promised while it is held." in shown.out
    assert "Job 102" not in shown.out
    why = terminal.run("why", "101", token=alice)
    assert _words(start["text"]) in _words(why.out)
    assert terminal.run("jobs", "--at", "2026-11-17", token=alice).status == 2


def test_a_job_to_submit_is_like_the_newest_own_one(
    agent: Caller,  # noqa: F811
    connected: Site,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without one it is where most jobs wait."""
    asked: list[tuple[str, float | None, str, float]] = []

    def new_job_start(account: MyPriority, *, core_h: float, actor: Actor, at: datetime) -> NewJobStart:
        asked.extend((new.user, new.cpus, new.partition, core_h) for new in list_new_jobs(account, actor=actor, at=at))
        return NEW

    monkeypatch.setattr(apps.get_app_config("starts"), "new_job_start", new_job_start)
    client = sign_in(Client(), connected.alice)
    others = [job(str(n), "bob", partition="long") for n in (1, 2)]
    newest = job("3", submit_at=instant(AT), cpus=16, partition="batch")
    for queue in ([*others, job("4", cpus=2), newest], [*others, job("5", "carol", "biology")], []):
        assert agent.post("schedulers/c1/passes", report(queue=queue)).status_code == 200
        card = with_cards(client, read(client.get("/me/priority/"))).text('#submit [data-testid="new-job-start"]')
        assert card == " ".join(NEW.sentences)
    shapes = [(16.0, "batch"), (None, "long"), (None, "")]
    assert asked == [("alice", cpus, partition, DEFAULT_CORE_H) for cpus, partition in shapes]


def test_a_size_that_is_no_number_has_no_start(connected: Site, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(apps.get_app_config("starts"), "new_job_start", lambda _account, **_more: NEW)
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert page.has('#submit [data-testid="new-job-start"]')
    answer = client.get("/me/priority/_submit?policy=grid&account=alice&namespace=a&job_core_h=many")
    assert answer.status_code == 422
    assert NEW.job.text not in answer.content.decode()
