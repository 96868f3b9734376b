"""The adapter of HTCondor: its listings, and passes on a pool of fake commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.adapters import htcondor
from agent.adapters.htcondor import default_factor, factor_text, parse_queue, parse_userprio, value_of_factor
from agent.records import Unreadable
from tests.agent.fakes import Place

ANN, BOB, CAT = "physics.ann@example.org", "physics.bob@example.org", "bio.cat@example.org"
DUMP = "PRIORITY_HALFLIFE = 1000000000000\nDEFAULT_PRIO_FACTOR = 1000\nGROUP_NAMES = physics, bio\n"


@pytest.fixture
def place(place: Place) -> Place:
    place.scheduler.answer("condor_config_val", out=DUMP)
    place.scheduler.answer("condor_version", out="$CondorVersion: 23.9.6 2026-07-12 $\n$CondorPlatform: x $\n")
    place.scheduler.answer("condor_ping")
    place.scheduler.factors = {ANN: "1000.0", BOB: "12.5"}
    place.site.order(kind="htcondor", knob="priority_factor", weight=1000, step=1, limits={"unmapped_percent": 60})
    return place


def set_factors(place: Place) -> list[list[str]]:
    return [call[2:] for call in place.scheduler.calls("condor_userprio", "-setfactor")]


def test_each_submitter_gets_one_factor_the_better_the_lower_and_nothing_is_sent_again(place: Place) -> None:
    done = place.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert set_factors(place) == [[CAT, "1.000000"], [BOB, "31.622777"], [ANN, "177.827941"]]
    assert place.site.reports[0]["jobs"]["due"] == 3
    place.scheduler.forget_calls()
    place.run()
    assert set_factors(place) == []


def test_accounts_are_looked_up_by_accounting_group_and_user(place: Place) -> None:
    place.run()
    queue = place.site.reports[0]["queue"]
    assert {(row["job"], row["user"], row["group"], row["state"]) for row in queue} == {
        ("11.0", "ann", "physics", "pending"),
        ("12.0", "bob", "physics", "pending"),
        ("13.0", "cat", "bio", "held"),
        ("14.0", "ann", "physics", "pending"),
    }
    assert place.site.reports[0]["jobs"]["mapped"] == 4


def test_shadow_sends_nothing_and_a_canary_one_group(place: Place) -> None:
    place.site.order(mode="shadow")
    place.run()
    assert set_factors(place) == []
    place.site.order(mode="canary", canary_partition="bio")
    place.run()
    assert set_factors(place) == [[CAT, "1.000000"]]


def test_a_canary_group_that_does_not_exist_freezes_the_pass(place: Place) -> None:
    place.site.order(mode="canary", canary_partition="chem")
    place.run()
    assert place.site.reports[0]["frozen"]["code"] == "scheduler_unreadable"
    assert set_factors(place) == []


def test_reset_restores_each_factor_as_it_was_and_leaves_what_others_changed(place: Place) -> None:
    """A submitter without a row before gets what HTCondor would have given it."""
    place.run()
    place.scheduler.factors = {**place.scheduler.factors, CAT: "77.0"}
    place.scheduler.forget_calls()
    done = place.run("reset-values")
    assert done.returncode == 0
    assert "Jobs reset: 2, failed: 0, left in the table: 0." in done.stdout
    assert place.scheduler.factors == {ANN: "1000.0", BOB: "12.5", CAT: "77.0"}
    assert f"{CAT} was set to 77.0 meanwhile." in done.stderr
    assert place.run("reset-values").stdout.startswith("Jobs reset: 0, failed: 0")


def test_the_site_can_order_the_reset(place: Place) -> None:
    place.run()
    place.site.order(reset_values=True)
    place.run()
    assert place.scheduler.factors == {ANN: "1000.0", BOB: "12.5", CAT: "1000.0"}


def test_the_factor_from_before_is_restored_after_any_number_of_changes(place: Place) -> None:
    for factor in (0.2, 0.9, 0.6):
        place.site.factors = {**place.site.factors, ("bob", "physics"): factor}
        place.site.snapshot += 1
        place.run()
    assert place.run("reset-values").returncode == 0
    assert place.scheduler.factors[BOB] == "12.5"


@pytest.mark.deep
def test_an_agent_that_is_killed_at_any_call_restores_all(place: Place) -> None:
    """What a command will replace is on disk before the command runs."""
    place.run("check", "--kind", "htcondor")
    n_before = len(place.scheduler.calls())
    for when in ("before", "after"):
        for at in range(1, 12):
            place.scheduler.forget_calls()
            place.scheduler.kill_caller(at, when)
            place.run()
            place.scheduler.kill_caller(0, when)
            place.run("reset-values", "--kind", "htcondor")
            factors = place.scheduler.factors
            assert (factors[ANN], factors[BOB], factors.get(CAT, "1000.0")) == ("1000.0", "12.5", "1000.0")
    assert n_before > 0


def test_a_change_that_is_denied_without_a_word_is_found_by_the_new_listing(place: Place) -> None:
    place.scheduler.deny(BOB)
    place.run()
    jobs, errors = place.site.reports[0]["jobs"], place.site.reports[0]["errors"]
    assert (jobs["sent"], jobs["failed"]) == (2, 1)
    assert [error["code"] for error in errors] == ["denied"]
    assert f"{BOB} still has 12.5" in errors[0]["detail"]
    place.scheduler.deny()
    place.run()
    assert place.scheduler.factors[BOB] == "31.622777"


def test_a_pass_changes_a_bounded_number(place: Place) -> None:
    place.site.order(limits={"updates_per_min": 2})
    place.run()
    assert len(set_factors(place)) == 2


def test_the_best_submitters_come_first_where_a_bound_cuts(place: Place) -> None:
    """bob was and is before ann; cat's job is held."""
    place.site.order(limits={"updates_per_min": 1})
    place.run()
    assert set_factors(place) == [[BOB, "31.622777"]]


def test_a_group_needs_no_quota_to_be_a_canary(place: Place) -> None:
    place.scheduler.answer("condor_config_val", out="PRIORITY_HALFLIFE = 1e12\nGROUP_NAMES = \n")
    place.site.order(mode="canary", canary_partition="physics")
    place.run()
    assert {name for name, _factor in set_factors(place)} == {ANN, BOB}


def test_checks_name_usage_that_would_count_twice(place: Place) -> None:
    place.scheduler.answer("condor_config_val", out=DUMP.replace("1000000000000", "86400"))
    place.scheduler.answer("condor_ping", status=1)
    place.run()
    checks = {check["code"]: (check["severity"], check["remedy"]) for check in place.site.reports[0]["checks"]}
    assert checks["double_counting"] == ("error", "PRIORITY_HALFLIFE=1000000000000")
    assert checks["operator_right"][0] == "error"
    assert checks["group_quotas"][0] == "warning"
    assert (checks["version"][0], checks["real_priority"][0]) == ("ok", "ok")


def test_a_real_priority_above_its_floor_is_an_error_with_its_remedy() -> None:
    rows = parse_userprio("ann@x.org\t1000.0\t500.0\tfalse\t0.0\nbob@x.org\t10.0\t80.0\tfalse\t9.0\n")
    finding = htcondor.check_real(rows)
    assert (finding.severity, finding.remedy) == ("error", "condor_userprio -setprio bob@x.org 0.5")


def test_a_real_listing_is_read(golden_dir: Path) -> None:
    queue = parse_queue((golden_dir / "htcondor" / "samples" / "queue.json").read_text(), {}, {})
    assert {(job.id, job.submitter, job.is_held) for job in queue.jobs} == {("4.0", "u3@example.org", True)}
    assert queue.known >= {"5.0", "7.0", "u4@example.org", "u5@example.org"}
    assert (queue.skipped, queue.n_damaged, queue.listed) == ([], 0, {"u3@example.org": "1000"})


@pytest.mark.parametrize("text", ["[", "{}", "nothing", '[{"ClusterId": 1}', "[" * 100_000])
def test_what_is_no_listing_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_queue(text, {}, {})


@pytest.mark.parametrize(
    ("change", "n_damaged"),
    [
        ({"ClusterId": "x"}, 1),
        ({"User": "ann@-o x"}, 0),
        ({"AccountingGroup": "-pool.x"}, 0),
        ({"AcctGroup": "a b"}, 0),
    ],
)
def test_names_that_are_no_arguments_are_skipped(change: dict[str, object], n_damaged: int) -> None:
    ad = {"ClusterId": 1, "ProcId": 0, "JobStatus": 1, "Owner": "ann", "User": "ann@x.org", **change}
    queue = parse_queue(json.dumps([ad]), {}, {})
    assert (len(queue.jobs), len(queue.skipped), queue.n_damaged) == (0, 1, n_damaged)


@pytest.mark.parametrize("row", ["a\tb", "ann@x.org\tx\t1\tfalse\t1", "ann@x.org\tnan\t1\tfalse\t1"])
def test_a_priority_that_is_no_number_is_unreadable(row: str) -> None:
    with pytest.raises(Unreadable):
        parse_userprio(row + "\n")


@pytest.mark.parametrize(
    ("submitter", "factor"),
    [
        ("ann@x.org", "1000"),
        ("group_a.ann@x.org", "5"),
        ("group_a.b.ann@x.org", "5"),
        ("Group_A.sub.ann@x.org", "1000"),  # a group of its own, without a factor
        ("group_a.sub.deep.ann@x.org", "1000"),
        ("group_b.ann@x.org", "1000"),  # not in GROUP_NAMES
        ("group_c.x.ann@x.org", "1000"),  # a group without the one above it
        ("group_a.ann@y.org", "5"),
        ("group_b.ann@y.org", "1e7"),
        ("nice-user.ann@x.org", "1e10"),
        ("nice-user.ann@y.org", "1e10"),
        ("ann@y.org", "1e7"),
    ],
)
def test_a_new_submitter_has_the_factor_that_htcondor_will_give_it(submitter: str, factor: str) -> None:
    config = {"DEFAULT_PRIO_FACTOR": "1000", "NICE_USER_PRIO_FACTOR": "1e10", "REMOTE_PRIO_FACTOR": "1e7"}
    config.update(ACCOUNTANT_LOCAL_DOMAIN="x.org", GROUP_NAMES="group_a, group_a.SUB group_c.x")
    config.update({f"GROUP_PRIO_FACTOR_{group}": "5" for group in ("Group_A", "group_b", "group_c.x")})
    assert default_factor(submitter, config) == factor


def test_a_new_submitter_of_another_domain_is_listed_with_the_factor_of_remote_ones(place: Place) -> None:
    """So that a reset gives it that one. The command prints the settings that it is asked for."""
    place.scheduler.answer(
        "condor_config_val", out=f"{DUMP}ACCOUNTANT_LOCAL_DOMAIN = y.org\nREMOTE_PRIO_FACTOR = 1e7\n"
    )
    place.run()
    assert place.scheduler.calls("condor_config_val") == [["condor_config_val", "-dump"]] * 2, "whole"
    assert place.run("reset-values").returncode == 0
    assert place.scheduler.factors[CAT] == "10000000.0"


@pytest.mark.parametrize("text", ["1.000000", "12.500000", "31.622777", "2147483645.000000"])
def test_a_value_is_a_factor_in_millionths(text: str) -> None:
    assert factor_text(value_of_factor(text)) == text
