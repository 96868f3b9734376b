"""One pass of the built program between a scheduler of fake commands and a site on this machine."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from agent.commands import Commands
from agent.loop import Agent
from agent.rest import Rest
from agent.state import open_table
from tests.agent.fakes import TOKEN, Place

VALUES = {"11": 25000, "12": 50000, "13": 100000, "14": 25000}


def updates(place: Place) -> list[list[str]]:
    return place.scheduler.calls("scontrol", "update")


def test_a_pass_sets_the_value_of_every_job_with_one_call_per_value(place: Place) -> None:
    done = place.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert place.scheduler.values() == VALUES
    assert updates(place) == [
        ["scontrol", "update", "jobid=11,14", "sitefactor=25000"],
        ["scontrol", "update", "jobid=12", "sitefactor=50000"],
        ["scontrol", "update", "jobid=13", "sitefactor=100000"],
    ]


def test_nothing_is_sent_when_nothing_changed(place: Place) -> None:
    place.run()
    place.scheduler.forget_calls()
    assert place.run().returncode == 0
    assert updates(place) == []
    assert place.site.reports[-1]["jobs"]["due"] == 0


def test_a_value_is_sent_after_it_changed_by_a_step(place: Place) -> None:
    place.run()
    place.site.factors["bob", "physics"] = 0.50099
    place.run()
    assert place.scheduler.values()["12"] == 50000
    place.site.factors["bob", "physics"] = 0.501
    place.run()
    assert place.scheduler.values()["12"] == 50100


def test_the_report_follows_the_contract(place: Place) -> None:
    place.run()
    (report,) = place.site.reports
    queue, values, checks = report.pop("queue"), report.pop("values"), report.pop("checks")
    assert report.pop("pass")
    assert report.pop("host")
    assert report.pop("started_at") <= report.pop("ended_at")
    assert report == {
        "agent": "1.0",
        "orders_revision": 7,
        "mode": "on",
        "snapshot": 812,
        "snapshot_age_s": 5.0,
        "scheduler_version": "22.05.8",
        "jobs": {"pending": 4, "mapped": 4, "unmapped": 0, "due": 4, "sent": 4, "failed": 0, "calls": 7},
        "frozen": None,
        "errors": [],
        "unmapped": [],
    }
    assert [job for job in queue if job["job"] == "14"] == [
        {
            "job": "14",
            "array_task": "0-3%2",
            "user": "ann",
            "group": "physics",
            "partition": "long",
            "qos": "normal",
            "cpus": 4,
            "submit_at": "2026-11-20T06:30:54Z",
            "eligible_at": None,
            "state": "pending",
            "reason": "Priority",
            "priority": 1000,
            "terms": {
                "age": 500,
                "assoc": 0,
                "fairshare": 0,
                "jobsize": 500,
                "partition": 0,
                "qos": 0,
                "nice": 0,
                "site": 0,
            },
            "value": 25000,
        }
    ]
    assert [(job["state"], job["terms"]) for job in queue if job["job"] == "13"] == [("held", None)]
    assert values[0]["cluster"] == "demo"
    assert values[0]["raw_usage"] == 7
    assert {check["code"]: check["severity"] for check in checks} == {
        "priority_type": "ok",
        "double_counting": "ok",
        "site_factor_plugin": "ok",
        "version": "ok",
        "usage_lost": "ok",
        "operator_right": "ok",
        "names_unmapped": "ok",
        "clock": "ok",
    }
    method, path, headers = place.site.requests[-1]
    assert (method, path, headers["content-encoding"]) == ("POST", "/api/v1/schedulers/head/passes", "gzip")
    assert len(headers["idempotency-key"]) == 36


def test_each_account_is_looked_up_once_in_each_of_its_partitions(place: Place) -> None:
    """A request names a user once, so that a user with jobs in two partitions takes a second one."""
    place.run()
    asked = [path for _, path, _ in place.site.requests]
    assert asked.count("/api/v1/policies/demo/priorities/lookup") == 2


@pytest.mark.parametrize("change", [{"mode": "shadow"}, {"paused": True}])
def test_shadow_mode_and_pause_report_without_sending(place: Place, change: dict[str, Any]) -> None:
    place.site.order(**change)
    assert place.run().returncode == 0
    assert updates(place) == []
    assert place.site.reports[0]["jobs"]["due"] == 4
    assert {job["job"]: job["value"] for job in place.site.reports[0]["queue"]} == VALUES


def test_off_reads_nothing(place: Place) -> None:
    place.site.order(mode="off")
    assert place.run().returncode == 0
    assert place.scheduler.calls() == []
    assert place.site.reports[0]["mode"] == "off"


def test_a_dry_run_sends_nothing_to_scheduler_or_site_and_keeps_no_table(place: Place) -> None:
    done = place.run("run", "--dry-run")
    assert done.stdout == "on: 4 pending, 4 mapped, 0 unmapped, 4 due, 0 sent, 0 failed, 4 calls\n"
    assert (updates(place), place.site.reports) == ([], [])
    assert not (place.state / "table.json").exists()


def test_only_the_canary_partition_gets_values(place: Place) -> None:
    place.site.order(mode="canary", canary_partition="long")
    place.run()
    assert place.scheduler.values() == {"11": None, "12": None, "13": None, "14": 25000}


def test_other_partitions_are_unchanged(place: Place) -> None:
    place.site.order(partitions=["batch"])
    place.run()
    assert place.scheduler.values() == {**VALUES, "14": None}
    assert place.site.reports[0]["jobs"]["pending"] == 3


def test_other_subtrees_are_unchanged(place: Place) -> None:
    place.site.order(subtree="/physics")
    place.run()
    assert place.scheduler.values() == {**VALUES, "13": None}


def test_an_unmapped_account_gets_the_fallback_factor_and_is_reported(place: Place) -> None:
    del place.site.factors["cat", "bio"]
    place.site.order(limits={"unmapped_percent": 25})
    place.run()
    assert place.scheduler.values()["13"] == 50000
    assert place.site.reports[0]["unmapped"] == [{"user": "cat", "group": "bio", "jobs": 1}]


def test_users_with_several_entries_and_several_groups_keep_their_own_factors(place: Place) -> None:
    place.scheduler.jobs |= {"15": {"user": "ann", "group": "bio"}, "16": {"user": "bob", "group": "(null)"}}
    place.site.factors |= {("ann", "bio"): 0.75, ("bob", ""): 0.125}
    place.site.in_two_places = {"ann", "cat"}
    place.run()
    assert place.scheduler.values() == {**VALUES, "15": 75000, "16": 12500}


def test_a_job_that_ended_meanwhile_is_not_a_failure(place: Place) -> None:
    place.scheduler.jobs = {str(n): {"user": "ann", "group": "physics"} for n in range(1, 41)}
    jobs = place.scheduler.jobs
    jobs["17"]["refuses"] = "Job has already finished for job 17"
    place.scheduler.jobs = jobs
    assert place.run().returncode == 0
    assert place.scheduler.values() == {str(n): None if n == 17 else 25000 for n in range(1, 41)}
    report = place.site.reports[0]
    assert (report["jobs"]["sent"], report["jobs"]["failed"]) == (39, 0)
    assert report["errors"] == [{"code": "job_gone", "count": 1, "detail": "Job has already finished for job 17"}]
    assert "17" not in place.table()["rows"]


def test_a_missing_operator_right_is_reported_once(place: Place) -> None:
    denied = {"user": "ann", "group": "physics", "refuses": "Access/permission denied for job 5"}
    place.scheduler.jobs = {str(n): denied for n in range(1, 101)}
    assert place.run().returncode == 1
    report = place.site.reports[0]
    assert (report["jobs"]["sent"], report["jobs"]["failed"]) == (0, 100)
    assert report["errors"] == [{"code": "denied", "count": 100, "detail": "Access/permission denied for job 5"}]
    assert len(updates(place)) < 10


def test_a_value_changed_in_the_scheduler_is_set_again(place: Place) -> None:
    place.run()
    jobs = place.scheduler.jobs
    jobs["11"]["site"] = 7
    place.scheduler.jobs = jobs
    assert "1 values were changed in the scheduler" in place.run().stderr
    assert place.scheduler.values() == VALUES


def test_a_job_with_its_own_priority_is_not_sent_repeatedly(place: Place) -> None:
    place.run()
    jobs = place.scheduler.jobs
    jobs["11"]["fixed"] = 909090
    place.scheduler.jobs = jobs
    place.scheduler.forget_calls()
    place.run()
    assert updates(place) == []


def test_a_held_job_is_not_sent_repeatedly(place: Place) -> None:
    place.run()
    place.scheduler.forget_calls()
    place.lose_table()
    place.run()
    assert updates(place) == [["scontrol", "update", "jobid=13", "sitefactor=100000"]], "sprio lists no held job"


def test_nice_is_lower_for_higher_factors_and_never_negative(place: Place) -> None:
    place.site.order(knob="nice")
    place.run()
    assert place.scheduler.values("nice") == {"11": 75000, "12": 50000, "13": None, "14": 75000}, "0 is set already"


def test_a_priority_releases_no_held_job(place: Place) -> None:
    place.site.order(knob="priority")
    place.run()
    assert place.scheduler.values("fixed") == {"11": 25001, "12": 50001, "13": None, "14": 25001}
    assert place.run("reset-values").returncode == 0
    assert place.scheduler.values("fixed") == dict.fromkeys(VALUES)
    assert place.scheduler.jobs["13"]["held"], "nobody asked for its release"


def test_changing_the_setting_resets_the_first_one(place: Place) -> None:
    place.run()
    place.site.order(knob="nice")
    place.run()
    assert set(place.scheduler.values().values()) == {0}
    assert place.scheduler.values("nice")["11"] == 75000


def test_reset_needs_no_site_and_covers_set_and_listed_values(place: Place) -> None:
    place.run()
    place.site.close()
    jobs = place.scheduler.jobs
    jobs["15"] = {"user": "dan", "group": "bio", "site": 4321}  # by job_submit.lua
    jobs["12"]["state"] = "RUNNING"  # it may be requeued
    place.scheduler.jobs = jobs
    done = place.run("reset-values")
    assert (done.returncode, done.stdout) == (0, "Jobs reset: 5, failed: 0, left in the table: 0.\n")
    assert set(place.scheduler.values().values()) == {0}
    place.scheduler.forget_calls()
    assert place.run("reset-values").stdout == "Jobs reset: 0, failed: 0, left in the table: 0.\n"


def test_a_reset_order_runs_once(place: Place) -> None:
    place.run()
    place.site.order(reset_values=True)
    place.run()
    assert set(place.scheduler.values().values()) == {0}
    assert place.site.reports[-1]["jobs"]["sent"] == 4
    place.scheduler.forget_calls()
    place.run()
    assert updates(place) == []


def test_a_submit_script_gets_the_value_of_an_account(place: Place) -> None:
    file = place.folder / "first-values"
    place.run("run", "--first-values", str(file))
    head, *lines = file.read_text().splitlines()
    assert head.startswith("# 1")
    assert lines == ["ann|physics|25000", "bob|physics|50000", "cat|bio|100000"]
    assert file.stat().st_mode & 0o777 == 0o644
    place.run("reset-values")
    assert file.read_text() == "# 0\n", "scripts leave a file of that age alone"


def test_a_submit_script_respects_canary_limits(place: Place) -> None:
    file = place.folder / "first-values"
    place.site.order(mode="canary", canary_partition="long")
    place.run("run", "--first-values", str(file))
    assert len(file.read_text().splitlines()) == 1


def test_status_reports_the_last_pass(place: Place) -> None:
    assert place.run("status").returncode == 1
    place.run()
    assert "4 sent" in place.run("status").stdout
    place.site.age_s = 1000
    place.run()
    done = place.run("status")
    assert (done.returncode, "snapshot_too_old" in done.stdout) == (1, True)
    assert "jobs with a value by sitefactor: 4" in done.stdout


def test_check_prints_the_line_to_change(place: Place) -> None:
    config = (place.scheduler.folder / "config.txt").read_text()
    config = config.replace("FairShare = 0", "FairShare = 100000").replace("associations,limits", "associations")
    (place.scheduler.folder / "config.txt").write_text(config)
    done = place.run("check", "--kind", "slurm")
    assert done.returncode == 1
    assert "error    double_counting: PriorityWeightFairshare=100000" in done.stdout
    assert "→ PriorityWeightFairshare=0" in done.stdout
    assert "→ AccountingStorageEnforce=associations,limits" in done.stdout


def test_two_agents_never_share_a_table(place: Place) -> None:
    from agent.state import lock

    handle = lock(str(place.state))
    try:
        done = place.run()
    finally:
        os.close(handle)
    assert (done.returncode, "Another agent works" in done.stderr) == (2, True)
    assert place.scheduler.calls() == []


@pytest.mark.fault("F21")
def test_a_full_disk_stops_the_agent_before_sending(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from agent.command_line import main

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("PATH", f"{place.scheduler.folder}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "fsync", full)
    assert main(place.arguments("run", "--once")) == 1
    assert updates(place) == []
    assert "No space left on device" in place.site.reports[0]["frozen"]["detail"]


def test_the_service_runs_until_terminated(place: Place) -> None:
    import subprocess
    import sys

    place.site.order(every_s=1)
    process = subprocess.Popen(
        [sys.executable, str(place.program), *place.arguments("run")],
        env={"PATH": f"{place.scheduler.folder}:{os.environ['PATH']}"},
    )
    ends = time.monotonic() + 30
    while len(place.site.reports) < 2 and time.monotonic() < ends:
        time.sleep(0.05)
    process.terminate()
    assert process.wait(30) == 0
    first, second = place.site.reports[:2]
    assert (first["jobs"]["sent"], second["jobs"]["sent"]) == (4, 0)
    assert (first["queue"] is None, second["queue"], second["values"], second["checks"]) == (False, None, None, None)
    assert json.loads((place.state / "table.json").read_text())["facts"]["knob"] == "sitefactor"


def test_a_check_needs_and_makes_no_folder(place: Place) -> None:
    """Another user than the agent's may check before it is installed."""
    done = place.run("check", "--kind", "slurm")
    assert (done.returncode, "double_counting" in done.stdout) == (0, True)
    assert place.run("status").returncode == 1
    assert not place.state.exists()
    done = place.run("check")
    assert (done.returncode, "give --kind slurm or --kind gridengine" in done.stderr) == (2, True)


def checked(place: Place, agent: Agent) -> str | None:
    """The severity of double counting in the report of one pass; None if it wasn't checked."""
    agent.run_pass()
    checks = place.site.reports[-1]["checks"] or []
    return next((check["severity"] for check in checks if check["code"] == "double_counting"), None)


def test_a_corrected_configuration_is_found_at_the_next_pass(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{place.scheduler.folder}:{os.environ['PATH']}")
    config = place.scheduler.folder / "config.txt"
    right = config.read_text()
    source = Rest(place.site.url, "head", TOKEN)
    agent = Agent(source, Commands(), open_table(str(place.state)), "head1", print)
    place.site.order(mode="shadow")
    config.write_text(right.replace("PriorityWeightFairShare = 0", "PriorityWeightFairShare = 100000"))
    assert [checked(place, agent) for _ in range(2)] == ["error", "error"], "at each pass while it is an error"
    config.write_text(right)
    assert [checked(place, agent) for _ in range(2)] == ["ok", None], "then only hourly"
    place.site.order(mode="on")
    assert [checked(place, agent) for _ in range(2)] == ["ok", None], "and with new orders"
    place.site.order(step=101)
    place.site.refuses_reports = True
    agent.run_pass()
    place.site.refuses_reports = False
    assert checked(place, agent) == "ok", "checks that weren't received are sent again"
