"""The site is away: new jobs get first values from what it last said, for as long as its owner allows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.commands import Commands
from agent.last_known import LastKnown
from agent.loop import Agent
from agent.rest import Rest
from agent.state import open_table
from tests.agent.fakes import CONFIG, TOKEN, Place

BEGAN = 1_800_000_000.0
VALUES = {"11": 25000, "12": 50000, "13": 100000, "14": 25000}


class Host:
    """An agent in this process, with a clock of the test."""

    def __init__(self, place: Place) -> None:
        self.place, self.now = place, BEGAN
        self.agent = self.start()

    def start(self) -> Agent:
        """A new agent with the same folder."""
        source = Rest(self.place.site.url, "head", TOKEN, timeout_s=2.0, patience_s=0.0)
        table = open_table(str(self.place.state))
        self.agent = Agent(source, Commands(), table, "head1", lambda text: None, clock=lambda: self.now)
        return self.agent

    def run_pass(self) -> dict[str, Any]:
        return self.agent.run_pass()

    def submit(self, **jobs: str) -> None:
        new = {name.removeprefix("job"): {"user": user, "group": "physics"} for name, user in jobs.items()}
        self.place.scheduler.jobs = {**self.place.scheduler.jobs, **new}

    def value(self, job: str) -> int:
        return self.place.scheduler.values()[job] or 0

    def status(self) -> str:
        return self.place.run("status").stdout


@pytest.fixture
def host(place: Place, monkeypatch: pytest.MonkeyPatch) -> Host:
    import os

    monkeypatch.setenv("PATH", f"{place.scheduler.folder}:{os.environ['PATH']}")
    found = Host(place)
    assert found.run_pass()["frozen"] is None
    return found


def test_a_new_job_gets_the_last_value_of_its_account(host: Host) -> None:
    host.place.site.close()
    host.submit(job21="bob", job22="eve")
    report = host.run_pass()
    assert host.place.scheduler.values() == {**VALUES, "21": 50000, "22": None}
    assert report["frozen"]["code"] == "server_unreachable"
    assert (report["jobs"]["sent"], report["jobs"]["due"]) == (1, 1)
    assert "first values of new jobs: 1 set from snapshot 812, 1 jobs of unknown accounts" in host.status()
    assert "may be used until 2027-01-15T08:14:55Z" in host.status(), "895 s later"


def test_a_restarted_agent_goes_on_without_the_site(host: Host) -> None:
    host.place.site.close()
    host.start()
    host.submit(job21="bob")
    host.run_pass()
    assert host.place.scheduler.values()["21"] == 50000


@pytest.mark.parametrize(("age_s", "is_set"), [(895, True), (896, False), (-60, True), (-70, False)])
def test_nothing_is_set_from_numbers_older_than_the_owner_allows(host: Host, age_s: float, is_set: bool) -> None:
    """Nor from those of the future, where the clock went back."""
    host.place.site.close()
    host.now += age_s
    host.submit(job21="bob")
    host.run_pass()
    assert host.place.scheduler.values()["21"] == (50000 if is_set else None)
    assert ("None is set any more" in host.status()) is not is_set


def test_jobs_that_have_values_keep_them(host: Host) -> None:
    host.place.site.close()
    jobs = host.place.scheduler.jobs
    jobs["11"]["site"] = 7
    host.place.scheduler.jobs = jobs
    host.run_pass()
    assert host.place.scheduler.values() == {**VALUES, "11": 7}


def test_a_new_job_whose_command_failed_gets_its_value_in_the_next_pass(host: Host) -> None:
    host.place.site.close()
    host.submit(job21="bob")
    host.place.scheduler.answer("scontrol", err="Socket timed out", status=1)
    assert host.run_pass()["jobs"]["failed"] == 1
    del host.place.scheduler.replies["scontrol"]
    host.place.scheduler.answer("sshare", **host.place.scheduler.replies["sshare"])
    host.run_pass()
    assert host.place.scheduler.values() == {**VALUES, "21": 50000}


def test_nothing_is_set_by_another_knob_before_the_one_of_before_is_reset(host: Host) -> None:
    """The agent is told of another knob, and the site goes before it could reset anything."""
    host.place.site.order(knob="nice")
    squeue = host.place.scheduler.folder / "squeue"
    squeue.rename(squeue.with_suffix(".away"))
    assert host.run_pass()["frozen"]["code"] == "scheduler_unreadable"
    squeue.with_suffix(".away").rename(squeue)
    host.place.site.close()
    host.submit(job21="bob")
    host.run_pass()
    assert host.place.scheduler.values() == {**VALUES, "21": None}
    assert host.place.table()["facts"]["knob"] == "sitefactor"


def test_nothing_is_set_from_a_damaged_listing(host: Host) -> None:
    host.place.site.close()
    listed = "21|21|N/A|bob|physics|batch|normal|4|1795156254|PENDING|1000|0|Priority\n"
    host.submit(job21="bob")
    host.place.scheduler.answer("squeue", out=listed + "half a row\n" * 6)
    report = host.run_pass()
    assert host.place.scheduler.values() == {**VALUES, "21": None}
    assert report["frozen"]["code"] == "server_unreachable"
    assert [(each["code"], each["count"]) for each in report["errors"]] == [("unreadable", 7)], (
        "6 rows, and the listing"
    )


def test_nothing_is_set_where_a_named_partition_is_gone(host: Host) -> None:
    host.place.site.order(partitions=["batch"])
    host.place.scheduler.answer("scontrol", out=f"{CONFIG}PartitionName=batch State=UP\n")
    assert host.run_pass()["frozen"] is None
    host.place.site.close()
    host.submit(job21="bob")
    host.place.scheduler.answer("scontrol", out=f"{CONFIG}PartitionName=renamed State=UP\n")
    host.run_pass()
    assert [call for call in host.place.scheduler.calls("scontrol", "update") if "jobid=21" in call] == []


def test_a_new_job_gets_its_place_among_values_that_stayed(host: Host) -> None:
    """bob's value rose without a swap and isn't sent. dan is between bob and cat."""
    host.place.site.factors |= {("bob", "physics"): 0.9, ("dan", "physics"): 0.8}
    host.submit(job20="dan")
    host.run_pass()
    assert host.value("12") > host.value("20") > 25000
    host.place.site.close()
    host.submit(job21="dan", job22="bob")
    host.run_pass()
    assert host.value("12") >= host.value("22") > host.value("20") >= host.value("21") > 25000


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusal_is_not_away(host: Host, status: int) -> None:
    host.place.site.statuses = [status] * 9
    host.submit(job21="bob")
    host.run_pass()
    assert host.place.scheduler.values()["21"] is None


def test_an_overloaded_site_is_away(host: Host) -> None:
    host.place.site.statuses = [503] * 9
    host.submit(job21="bob")
    host.run_pass()
    assert host.place.scheduler.values()["21"] == 50000


@pytest.mark.parametrize("change", [{"paused": True}, {"mode": "shadow"}, {"reset_values": True}], ids=str)
def test_nothing_is_set_where_the_last_orders_were_not_to_send(host: Host, change: dict[str, Any]) -> None:
    host.place.site.order(**change)
    host.run_pass()
    host.place.site.close()
    host.submit(job21="bob")
    host.run_pass()
    assert not host.place.scheduler.values()["21"]


def test_a_site_that_is_back_sets_all_and_the_status_forgets_that_it_was_away(host: Host) -> None:
    host.place.site.statuses = [503]
    host.submit(job21="bob", job22="eve")
    host.run_pass()
    assert "is away" in host.status()
    host.place.site.factors["eve", "physics"] = 0.125
    host.run_pass()
    assert host.place.scheduler.values() == {**VALUES, "21": 50000, "22": 12500}
    assert "is away" not in host.status()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"orders": {}, "rows": 1}', "\x00", "[" * 100_000])
def test_a_damaged_file_is_nothing_known(host: Host, text: str) -> None:
    (host.place.state / "last-known.json").write_text(text)
    known = LastKnown(str(host.place.state))
    assert (known.orders, known.usable(900, BEGAN)) == (None, {})


@pytest.mark.parametrize(
    "damage", [{"rows": [["bob", "physics", "", "/bob", 0.5]]}, {"rows": [[]]}, {"rows": {}, "snapshot": ...}], ids=str
)
def test_a_file_with_a_part_missing_is_nothing_known(host: Host, damage: dict[str, Any]) -> None:
    path = host.place.state / "last-known.json"
    document = {**json.loads(path.read_text()), **damage}
    path.write_text(json.dumps({name: value for name, value in document.items() if value is not ...}))
    known = LastKnown(str(host.place.state))
    assert (known.orders, known.usable(900, BEGAN)) == (None, {})


def test_unknown_fields_of_a_newer_agent_are_nothing_known(host: Host) -> None:
    path = host.place.state / "last-known.json"
    document = json.loads(path.read_text())
    assert LastKnown(str(host.place.state)).orders is not None
    document["orders"]["colour"] = "red"
    path.write_text(json.dumps(document))
    assert LastKnown(str(host.place.state)).orders is None
