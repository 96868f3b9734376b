"""What makes a pass send nothing: the reason is reported, and the scheduler keeps its values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.fakes import Place


def assert_frozen(place: Place, code: str, words: str) -> dict[str, Any]:
    done = place.run()
    assert done.returncode == 1
    assert place.scheduler.calls("scontrol", "update") == []
    report = place.site.reports[-1]
    assert report["frozen"]["code"] == code
    assert words in report["frozen"]["detail"]
    assert words in done.stderr
    return report


def test_a_snapshot_older_than_the_limit(place: Place) -> None:
    place.site.age_s = 901
    assert_frozen(place, "snapshot_too_old", "15 min old; limit 15 min")
    place.site.age_s = 3 * 86_400
    assert_frozen(place, "snapshot_too_old", "The snapshot is 4320 min old; limit 15 min.")
    place.site.age_s = 900
    assert place.run().returncode == 0


def test_more_unmapped_jobs_than_the_limit(place: Place) -> None:
    del place.site.factors["cat", "bio"]
    report = assert_frozen(place, "too_many_unmapped", "1 of 4 pending jobs")
    assert report["unmapped"] == [{"user": "cat", "group": "bio", "jobs": 1}]


def many_jobs(place: Place, n_accounts: int = 40) -> None:
    """40 jobs of several accounts, each with a factor of its own, that have been set."""
    users = [f"u{n % n_accounts}" for n in range(40)]
    place.scheduler.jobs = {str(n): {"user": user, "group": "physics"} for n, user in enumerate(users, 1)}
    place.site.factors = {(user, "physics"): (n % n_accounts + 1) / 50 for n, user in enumerate(users)}
    assert place.run().returncode == 0, "nothing had a value before"
    place.scheduler.forget_calls()


def change_all(place: Place) -> None:
    """Turn the order round."""
    place.site.factors = {account: 1 - factor for account, factor in place.site.factors.items()}


def assert_in_order(place: Place) -> None:
    jobs = place.scheduler.jobs
    factors = {number: place.site.factors[job["user"], job["group"]] for number, job in jobs.items()}
    assert sorted(jobs, key=lambda number: -jobs[number]["site"]) == sorted(jobs, key=lambda number: -factors[number])


def test_changes_that_no_newer_snapshot_explains_freeze_unless_accepted(place: Place) -> None:
    many_jobs(place, 2)
    place.site.factors["u0", "physics"] += 0.1
    assert place.run().returncode == 0, "half of them, the limit"
    place.scheduler.forget_calls()
    change_all(place)
    report = assert_frozen(place, "too_many_changes", "40 of 40 values that were set would change")
    assert "snapshot 812, these values are from 812" in report["frozen"]["detail"]
    assert place.run("run", "--accept-changes").returncode == 0
    assert place.scheduler.values()["2"] == 96000
    place.scheduler.forget_calls()
    place.site.snapshot = 811
    change_all(place)
    assert_frozen(place, "too_many_changes", "snapshot 811, these values are from 812")
    place.site.snapshot = 813
    assert place.run().returncode == 0
    assert_in_order(place)


def test_a_newer_snapshot_explains_any_change(place: Place) -> None:
    """A published change moves each rank in Fair Tree; so may new usage, rules, and time."""
    many_jobs(place)
    change_all(place)
    place.site.snapshot += 1
    assert place.run().returncode == 0
    assert_in_order(place)


@pytest.mark.parametrize("change", [{"weight": 200_000}, {"knob": "nice"}], ids=str)
def test_changed_orders_explain_any_change(place: Place, change: dict[str, Any]) -> None:
    many_jobs(place)
    place.site.order(**change)
    assert place.run().returncode == 0


@pytest.mark.deep
def test_pausing_and_resuming_between_two_passes_accepts_the_changes(place: Place) -> None:
    many_jobs(place)
    change_all(place)
    assert_frozen(place, "too_many_changes", "pause and resume")
    place.site.order(paused=True)
    place.site.order(paused=False, resumes=1)
    assert place.run().returncode == 0, "the agent never saw the pause"
    assert_in_order(place)
    place.scheduler.forget_calls()
    change_all(place)
    assert_frozen(place, "too_many_changes", "pause and resume")  # a resume accepts the changes once
    place.site.order(paused=True)
    place.run()
    place.site.order(paused=False)
    assert place.run().returncode == 0, "the agent saw the pause"


def test_a_lost_order_freezes_whatever_explains_it(place: Place) -> None:
    many_jobs(place, 20)
    before = dict(place.site.factors)
    place.site.snapshot += 1
    place.site.factors = dict.fromkeys(before, 0.5)
    report = assert_frozen(place, "order_lost", "20 accounts have 20 different values, and would have 1")
    assert len(report["frozen"]["detail"]) < 300, "nothing is cut off"
    place.site.snapshot += 1
    assert_frozen(place, "order_lost", "pause and resume")  # also in the next one
    place.site.factors = {account: factor / 2 for account, factor in before.items()}
    assert place.run().returncode == 0, "the order is back"
    place.site.factors = dict.fromkeys(before, 0.5)
    place.site.order(resumes=1)
    assert place.run().returncode == 0
    assert set(place.scheduler.values().values()) == {50_000}


def test_a_lowered_weight_that_leaves_few_values_freezes(place: Place) -> None:
    many_jobs(place, 20)
    place.site.order(weight=1, step=1)
    assert_frozen(place, "order_lost", "20 accounts have 20 different values, and would have 1")


def test_ties_of_a_few_accounts_are_no_lost_order(place: Place) -> None:
    many_jobs(place, 20)
    for n in range(10):
        place.site.factors[f"u{n}", "physics"] = 0.9
    place.site.snapshot += 1
    assert place.run().returncode == 0


def test_values_that_the_scheduler_lost_are_no_changes(place: Place) -> None:
    many_jobs(place)
    place.scheduler.jobs = {number: {**job, "site": 0} for number, job in place.scheduler.jobs.items()}
    done = place.run()
    assert (done.returncode, "40 values were changed in the scheduler" in done.stderr) == (0, True)
    assert place.scheduler.values()["1"] == 2000


def test_a_renamed_partition_is_reported(place: Place) -> None:
    place.site.order(partitions=["batch", "gpu"])
    assert_frozen(place, "scheduler_unreadable", "no partition gpu: it has batch, long")


def test_an_unreachable_server(place: Place) -> None:
    place.site.statuses = [403]
    done = place.run()
    assert (done.returncode, "refuses the token (403)" in done.stderr) == (1, True)
    assert place.scheduler.calls() == []
    assert "server_unreachable" in place.run("status").stdout


@pytest.mark.parametrize(
    ("command", "reply", "words"),
    [
        ("squeue", {"out": "11|11|N/A|ann|phys"}, "squeue breaks off"),
        ("squeue", {"status": 1, "err": "Unable to contact slurm controller"}, "Unable to contact"),
        ("squeue", {"out": "{}\n" * 40}, "40 of 40 rows can't be read"),
        pytest.param("squeue", {"out": "\x00\x1b[2J\n" * 40}, "rows can't be read", marks=pytest.mark.deep),
        pytest.param("sprio", {"out": "11|1000|0|500|0|0|500|0|0|0"}, "sprio breaks off", marks=pytest.mark.deep),
        ("sprio", {"status": 1, "err": "Invalid user id"}, "sprio ended with status 1: Invalid user id"),
        ("scontrol", {"out": "garbage\n"}, "no SLURM_VERSION"),
    ],
    ids=["half a row", "no controller", "other format", "no text", "half of sprio", "sprio fails", "no configuration"],
)  # fmt: skip
def test_a_silent_scheduler(place: Place, command: str, reply: dict[str, Any], words: str) -> None:
    place.scheduler.answer(command, **reply)
    assert_frozen(place, "scheduler_unreadable", words)


def test_a_hanging_command_is_killed(place: Place) -> None:
    place.scheduler.answer("squeue", hang=True)
    done = place.run("run", "--timeout-s", "1")
    assert done.returncode == 1
    assert place.site.reports[-1]["frozen"]["detail"] == "squeue did not answer within 1 s."


def test_a_truncated_listing_loses_no_held_job(place: Place) -> None:
    place.run()
    rows = set(place.table()["rows"])
    place.scheduler.answer("squeue", out="")
    place.run()
    place.run()
    assert set(place.table()["rows"]) == rows
    place.run()
    assert place.table()["rows"] == {}, "three complete listings in a row had none of them"


NAMES = ["root;rm -rf /", "$(touch /tmp/x)", "-u", "", "a b", "../x", "x" * 500, "ann,bob", "ann=1"]


def test_impossible_names_are_skipped_and_reported(place: Place) -> None:
    place.scheduler.jobs |= {str(2000 + n): {"user": name, "group": "bio"} for n, name in enumerate(NAMES)}
    assert place.run().returncode == 0
    report = place.site.reports[0]
    assert report["jobs"]["sent"] == 4
    (error,) = report["errors"]
    assert (error["code"], error["count"]) == ("unreadable", len(NAMES))
    assert "root;rm -rf" in error["detail"]
    sent = json.dumps(place.scheduler.calls("scontrol", "update"))
    assert not any(name in sent for name in NAMES if name)


def test_invalid_job_numbers_reach_no_command(place: Place) -> None:
    numbers = ["8+0", "40_[0-3%2]", "11;reboot", "-1", "0"]
    place.scheduler.jobs |= {number: {"user": "ann", "group": "physics"} for number in numbers}
    assert place.run().returncode == 0
    assert place.scheduler.calls("scontrol", "update")[0][2] == "jobid=11,14"
    assert place.site.reports[0]["errors"][0]["count"] == 5


def test_jobs_submitted_in_the_future_are_a_finding(place: Place) -> None:
    row = "11|11|N/A|ann|physics|batch|normal|4|{}|PENDING|1000|0|Priority\n"
    place.scheduler.answer("squeue", out=row.format(99999999999))
    assert place.run().returncode == 0
    (clock,) = [check for check in place.site.reports[0]["checks"] if check["code"] == "clock"]
    assert (clock["severity"], clock["found"]) == ("warning", "Jobs submitted in the future: 1, the first is 11.")


def test_invalid_orders_and_factors(place: Place) -> None:
    place.site.order(kind="pbs")
    done = place.run()
    assert (done.returncode, "The orders can't be read: kind is missing or wrong" in done.stderr) == (1, True)
    assert place.scheduler.calls() == []
    place.site.order(kind="slurm")
    place.site.factors["ann", "physics"] = float("nan")
    assert_frozen(place, "server_unreachable", "a factor isn't between 0 and 1")
