"""Passes on a Grid Engine of fake commands."""

from __future__ import annotations

import pytest

from tests.agent.fakes import Place

SCHEDD = "weight_ticket 0.5\nweight_urgency 0\nweight_priority 0\nweight_tickets_functional 0\nweight_tickets_share 0\n"


@pytest.fixture
def place(place: Place) -> Place:
    place.scheduler.answer("qconf", out=SCHEDD)
    place.site.order(kind="gridengine", knob="override_tickets")
    return place


def test_every_pending_job_gets_override_tickets_and_nothing_is_sent_again(place: Place) -> None:
    done = place.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert place.scheduler.values() == {"11": 25000, "12": 50000, "13": 100000, "14": 25000}
    assert place.scheduler.calls("qalter")[0] == ["qalter", "-ot", "25000", "11,14"]
    place.scheduler.forget_calls()
    place.run()
    assert place.scheduler.calls("qalter") == []


def test_accounts_are_looked_up_by_project(place: Place) -> None:
    place.run()
    assert {row["group"] for row in place.site.reports[0]["queue"]} == {"physics", "bio"}
    assert place.site.reports[0]["jobs"]["mapped"] == 4


def test_a_running_job_with_more_tickets_than_the_weight_is_cleared(place: Place) -> None:
    jobs = place.scheduler.jobs
    jobs["20"] = {"user": "ann", "group": "physics", "state": "r", "site": 1000000}
    jobs["21"] = {"user": "ann", "group": "physics", "state": "r", "site": 100000}
    place.scheduler.jobs = jobs
    place.run()
    assert (place.scheduler.values()["20"], place.scheduler.values()["21"]) == (0, 100000)


@pytest.mark.fault("F13")
def test_priorities_use_the_whole_range_of_an_operator(place: Place) -> None:
    place.site.order(knob="priority")
    place.site.factors = {("ann", "physics"): 0.0, ("bob", "physics"): 0.5, ("cat", "bio"): 1.0}
    place.site.order(step=1)
    place.run()
    assert place.scheduler.values("nice") == {"11": -1023, "12": 0, "13": 1024, "14": -1023} | {"12": None}


def test_reset_includes_tickets_of_running_jobs(place: Place) -> None:
    place.run()
    jobs = place.scheduler.jobs
    jobs["12"]["state"] = "r"
    jobs["30"] = {"user": "ann", "group": "physics", "site": 5}
    place.scheduler.jobs = jobs
    assert place.run("reset-values").returncode == 0
    assert set(place.scheduler.values().values()) == {0}


def test_checks_report_settings_without_effect(place: Place) -> None:
    place.site.order(knob="priority")
    place.run()
    checks = {check["code"]: (check["severity"], check["remedy"]) for check in place.site.reports[0]["checks"]}
    assert checks["weight_priority_inert"] == ("error", "weight_priority 1.000000 (qconf -msconf)")
    assert checks["weight_ticket"] == ("warning", "weight_ticket 0.000000 (qconf -msconf)")
    assert checks["weight_urgency"][0] == "ok"


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        ("<?xml version='1.0'?><job_info><queue_info>", "can't be read"),
        ('<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><job_info>&b;</job_info>', "declarations of its own"),
        ("<html></html>", "no list of jobs"),
        ("", "can't be read"),
    ],
)
def test_an_invalid_listing(place: Place, xml: str, words: str) -> None:
    place.scheduler.answer("qstat", out=xml + "\n" * bool(xml))
    assert place.run().returncode == 1
    assert words in place.site.reports[0]["frozen"]["detail"]
    assert place.scheduler.calls("qalter") == []
