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


def test_a_value_is_sent_after_it_changed_by_a_step_and_its_place_changed(place: Place) -> None:
    place.run()
    place.scheduler.forget_calls()
    place.site.factors["bob", "physics"] = 0.6
    place.run()
    assert updates(place) == [], "it swaps no two jobs"
    assert [job["value"] for job in place.site.reports[-1]["queue"] if job["job"] == "12"] == [60000]
    place.site.factors["bob", "physics"] = 0.25099
    place.run()
    assert updates(place) == []
    place.site.factors["bob", "physics"] = 0.249
    place.run()
    assert place.scheduler.values() == {**VALUES, "12": 24900}


def test_a_value_that_stays_is_set_within_the_hour(place: Place) -> None:
    place.run()
    place.scheduler.forget_calls()
    place.site.factors["bob", "physics"] = 0.6
    place.site.factors["cat", "bio"] = 0.9
    place.run()
    assert sorted(place.table()["stays"]) == ["12", "13"]
    age(place, 1200)
    place.run()
    assert updates(place) == []
    age(place, 600)
    place.run()
    assert place.scheduler.values() == {**VALUES, "12": 60000}, "one of two in a pass of 30 seconds"
    place.run()
    assert place.scheduler.values() == {**VALUES, "12": 60000, "13": 90000}
    assert place.table()["stays"] == {}


def age(place: Place, by_s: float) -> None:
    """Let the values that stay be older."""
    table = place.table()
    table["stays"] = {job: since - by_s for job, since in table["stays"].items()}
    (place.state / "table.json").write_text(json.dumps(table))


def test_a_bound_on_updates_sets_the_front_of_the_queue_first_and_goes_on_after_a_minute(place: Place) -> None:
    users = {f"u{n}": n / 50 for n in range(1, 41)}
    place.scheduler.jobs = {str(n): {"user": user, "group": "physics"} for n, user in enumerate(users, 1)}
    place.site.factors = {(user, "physics"): factor for user, factor in users.items()}
    place.site.order(limits={"updates_per_min": 15})
    place.run()
    assert {number for number, value in place.scheduler.values().items() if value} == set(map(str, range(26, 41)))
    report = place.site.reports[-1]
    assert (report["jobs"]["due"], report["jobs"]["sent"]) == (40, 15)
    place.run()
    assert place.site.reports[-1]["jobs"]["sent"] == 0, "of this minute"
    table = place.table()
    table["facts"]["updates"] = [[at - 60, n] for at, n in table["facts"]["updates"]]
    (place.state / "table.json").write_text(json.dumps(table))
    place.run()
    assert {number for number, value in place.scheduler.values().items() if value} == set(map(str, range(11, 41)))


def test_an_older_server_gets_only_fields_that_it_knows(place: Place) -> None:
    """It refuses the whole report otherwise. Its orders have neither of the later fields."""
    place.site.orders = {name: value for name, value in place.site.orders.items() if name != "follows"}
    place.run()
    (report,) = place.site.reports
    assert {*report} & {"shares", "share_order", "restored_shares", "account_limits", "restored_limits"} == set()
    assert all("priorities" not in job for job in report["queue"])
    assert [call for call in place.scheduler.calls("sacctmgr") if "assoc" in call] == []


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
        "jobs": {"pending": 4, "mapped": 4, "unmapped": 0, "due": 4, "sent": 4, "failed": 0, "calls": 9},
        "frozen": None,
        "errors": [],
        "unmapped": [],
        "shares": {"cluster": "demo", "rows": []},  # accounts and users, every five minutes
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
        "priority_tier": "ok",
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
    assert done.stdout == "on: 4 pending, 4 mapped, 0 unmapped, 4 due, 0 sent, 0 failed, 6 calls\n"
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


def test_a_held_job_gets_its_value_again_when_the_controller_has_restarted(place: Place) -> None:
    """It may have lost the last seconds before it was killed, and lists no value of a held job."""
    config = place.scheduler.folder / "config.txt"
    config.write_text(config.read_text() + "BOOT_TIME = 2026-11-20T06:30:00\n")
    place.run()
    lost = place.scheduler.jobs
    lost["13"]["site"] = 0
    place.scheduler.jobs = lost
    place.run()
    assert place.scheduler.values()["13"] == 0, "nothing tells of it"
    config.write_text(config.read_text().replace("06:30:00", "06:31:00"))
    place.run()
    assert place.scheduler.values() == VALUES
    place.scheduler.forget_calls()
    place.run()
    assert updates(place) == []


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
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Jobs reset: 5, failed: 0, left in the table: 0.")
    assert set(place.scheduler.values().values()) == {0}
    place.scheduler.forget_calls()
    assert place.run("reset-values").stdout.startswith("Jobs reset: 0, failed: 0, left in the table: 0.\n")


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
    written_at, until = int(head[2:]), int(lines.pop(0).removeprefix("# until "))
    assert abs(until - written_at - 895) <= 1, "the snapshot is 5 s old, and may be 900 s old"
    assert lines == ["ann|physics|25000", "bob|physics|50000", "cat|bio|100000"]
    assert file.stat().st_mode & 0o777 == 0o644
    place.run("reset-values")
    assert file.read_text() == "# 0\n", "scripts leave a file of that age alone"


def test_accounts_without_a_waiting_job_stay_in_the_file_with_present_values(place: Place) -> None:
    """They submit again. A value isn't kept for longer than the owner allows."""
    file = place.folder / "first-values"
    place.run("run", "--first-values", str(file))
    place.scheduler.jobs = {number: job for number, job in place.scheduler.jobs.items() if job["user"] != "bob"}
    place.site.factors["bob", "physics"] = 0.75
    make_older(place, 200)
    place.run("run", "--first-values", str(file))
    assert "bob|physics|50000" in file.read_text()
    make_older(place, 100)
    place.run("run", "--first-values", str(file))
    assert "bob|physics|75000" in file.read_text()


def make_older(place: Place, by_s: float) -> None:
    """Let what the site last said be older."""
    path = place.state / "last-known.json"
    known = json.loads(path.read_text())
    known["rows"] = [[*row[:6], row[6] - by_s, row[7]] for row in known["rows"]]
    path.write_text(json.dumps(known))


def test_a_submit_script_respects_canary_limits(place: Place) -> None:
    file = place.folder / "first-values"
    place.site.order(mode="canary", canary_partition="long")
    place.run("run", "--first-values", str(file))
    assert [line[:3] for line in file.read_text().splitlines()] == ["# 1"]


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
    assert (done.returncode, "give --kind slurm, gridengine or htcondor" in done.stderr) == (2, True)


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
