"""From an agent's reports to the sentences that a user reads: promises as the product makes, stores and shows them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts import new_jobs
from apps.contrib.starts.new_jobs import LONGEST_NEW_JOB_S, USUAL_NEW_JOB_S, shape_of
from apps.contrib.starts.source_waits import learn_source_waits
from apps.core import clock
from apps.usage.models import Source
from tests.contrib.schedulers.conftest import agent, connected, site  # noqa: F401 - fixtures
from tests.contrib.schedulers.reports import instant, job, report
from tests.contrib.starts.logs import import_log, swf_log
from tests.contrib.starts.queues import know_waits
from tests.instants import AT
from tests.pages.page import read, with_cards
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture
def own(connected: Site) -> Caller:  # noqa: F811
    return Caller(token=connected.token("self:read", user=connected.alice))


@pytest.fixture
def send(agent: Caller, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    """Reports a queue some minutes after AT, which is then the time of the site; enough waits of an hour are known."""
    know_waits(Scheduler.objects.get(name="c1"))

    def _send(minutes: float, *queue: dict[str, Any]) -> None:
        at = AT + minutes * MINUTE
        monkeypatch.setenv(clock.VARIABLE, at.isoformat())
        times = {"started_at": instant(at - timedelta(seconds=2)), "ended_at": instant(at - timedelta(seconds=1))}
        answer = agent.post("schedulers/c1/passes", report(queue=list(queue), **times))
        assert answer.status_code == 200, answer.content

    return _send


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_a_promise_is_read_as_it_was_made_and_the_first_one_stays_when_it_is_broken(
    send: Any,
    own: Caller,
    connected: Site,  # noqa: F811
) -> None:
    mine = job("101", submit_at=instant(AT))
    send(0, mine, job("102", "bob"))
    start = own.get("me/waiting-jobs?policy=grid").json()["jobs"][0]["start"]
    assert start["is_promised"] is True
    assert start["first"]["outcome"] == "open"
    assert "Said at submission." in start["text"]
    assert start["record_text"] == "Estimated from recent waits of jobs like it. No such promise is settled yet."
    send(2, mine)
    assert own.get("schedulers/c1/why", {"job": "101"}).json()["start"]["before_80"] == start["before_80"]
    for minutes in (60, 130, 250, 490, 1_000, 2_000):
        send(minutes, mine)
    now = own.get("me/waiting-jobs?policy=grid").json()["jobs"][0]["start"]
    assert now["first"] == {**start["first"], "outcome": "broken", "settled_at": start["before_80"]}
    assert now["said_at"] > start["said_at"]
    assert "The first promise was before" in now["first_text"]
    assert "and broken" in now["first_text"]
    client = sign_in(Client(), connected.alice)
    card = with_cards(client, read(client.get("/me/priority/"))).text("#waiting-jobs")
    assert plain(now["text"]) in card
    assert plain(now["first_text"]) in card


def test_a_held_job_says_so_in_place_of_a_promise(send: Any, own: Caller) -> None:
    send(0, job("101", state="held", reason="JobHeldUser"))
    (row,) = own.get("me/waiting-jobs?policy=grid").json()["jobs"]
    assert (row["start"]["is_promised"], row["start"]["note"], row["start"]["before_80"]) == (False, "held", None)
    assert row["start"]["note_text"] == "No start is promised while it is held."


def test_an_agent_that_is_silent_is_named(send: Any, own: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    send(0, job("101"))
    monkeypatch.setenv(clock.VARIABLE, (AT + 30 * MINUTE).isoformat())
    start = own.get("schedulers/c1/why", {"job": "101"}).json()["start"]
    assert (start["note"], start["is_promised"]) == ("stale", True)


def test_others_never_read_the_promise_of_a_job_that_they_may_not_see(send: Any, connected: Site) -> None:  # noqa: F811
    send(0, job("101"), job("102", "bob"))
    bob = Caller(token=connected.token("self:read", user=connected.ben))
    assert bob.get("policies/grid/why?job=101").status_code == 404
    assert [row["job"] for row in bob.get("me/waiting-jobs?policy=grid").json()["jobs"]] != ["101"]


def test_submit_under_shows_the_start_of_a_job_of_the_typed_size(send: Any, connected: Site) -> None:  # noqa: F811
    client = sign_in(Client(), connected.alice)
    place = '#submit [data-testid="new-job-start"]'
    before = with_cards(client, read(client.get("/me/priority/"))).text(place)
    unknown = "It isn’t known when it would start: no agent lists a queue here, and no source reports waits."
    assert plain(before).endswith(unknown)
    send(0, job("101", cpus=16))
    page = with_cards(client, read(client.get("/me/priority/")))
    assert plain(page.text(place)).startswith("A new job of 16 cores for 2 d in batch of c1: Within 5 minutes: ")
    card = read(client.get("/me/priority/_submit?policy=grid&account=alice&namespace=a&job_core_h=64"))
    assert plain(card.text(place)).startswith("A new job of 16 cores for 4 h in batch of c1: ")
    Scheduler.objects.update(namespace="elsewhere")
    assert plain(with_cards(client, read(client.get("/me/priority/"))).text(place)).endswith(unknown)


def test_records_say_when_a_job_would_start_where_no_queue_is_listed(
    connected: Site,  # noqa: F811
    own: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(clock.VARIABLE, AT.isoformat())
    text, _jobs = swf_log(int((AT - 20 * DAY).timestamp()), waits=True)
    import_log(text, AT)
    Source.objects.filter(slug="log").update(namespace="a")
    assert learn_source_waits(at=AT) == 1
    (row,) = own.get("me/submit?policy=grid&core_h=64").json()["results"]
    start, name = row["start"], Source.objects.get(slug="log").name
    assert (row["job"]["scheduler"], row["job"]["source"], start["basis"]) == ("", name, "records")
    assert (start["within_5_min"], start["is_promised"], start["note"]) == (None, True, "")
    assert AT.isoformat() < start["before_50"] < start["before_80"] <= start["before_95"]
    client = sign_in(Client(), connected.alice)
    card = read(client.get("/me/priority/_submit?policy=grid&account=alice&namespace=a&job_core_h=64"))
    shown = plain(card.text('#submit [data-testid="new-job-start"]'))
    assert shown == plain(f"{row['job']['text']} {start['text']} {start['record_text']}")
    assert f"in the records of {name}, without its queue." in shown


def test_ranks_are_shown_when_a_start_cannot_be_estimated(
    send: Any,
    connected: Site,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send(0, job("101", cpus=16))
    monkeypatch.setattr(new_jobs, "start_answer_for_new", None)
    card = read(sign_in(Client(), connected.alice).get("/me/priority/_submit?policy=grid&account=alice&namespace=a"))
    assert card.has("#submit tbody td")
    assert not card.has('[data-testid="new-job-start"]')
    assert "could not be estimated" in caplog.text


@pytest.mark.parametrize(
    ("cpus", "core_h", "shape"),
    [
        (16.0, 64.0, (16.0, 4 * 3_600.0)),
        (1.0, LONGEST_NEW_JOB_S / 3_600, (1.0, LONGEST_NEW_JOB_S)),
        (1.0, LONGEST_NEW_JOB_S / 3_600 + 24, (8.0, USUAL_NEW_JOB_S)),
        (None, 1_200.0, (50.0, USUAL_NEW_JOB_S)),
        (None, 0.5, (1.0, 1_800.0)),
        (None, 0.0, (1.0, None)),
        (16.0, 0.0, (16.0, None)),
    ],
)
def test_a_size_has_the_cores_of_the_newest_own_job_or_takes_a_day(
    cpus: float | None, core_h: float, shape: tuple[float, float | None]
) -> None:
    assert shape_of(cpus, core_h) == shape
