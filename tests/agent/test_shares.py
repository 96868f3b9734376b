"""Shares that the agent lists and sets: only what an order names, only where it is still what its author saw."""

from __future__ import annotations

import os
from typing import Any

import pytest

from agent.command_line import main
from agent.records import Problem, ServerFailure, Unreadable
from agent.shares import (
    Outcome,
    SetsShares,
    Share,
    ShareLine,
    ShareOrder,
    Shares,
    apply_order,
    gridengine_argv,
    parse_associations,
    parse_share_tree,
    read_order,
    slurm_argv,
)
from tests.agent.fakes import Place

LISTING = """\
demo|root||||1
demo|root|root|||1
demo|physics|||root|60
demo|physics|ann|gpu||9
demo|physics|ann|||5
demo|lab|bob|||parent
other|physics|||root|3
"""


class Scheduler(SetsShares):
    """Answers by (group, user): a Problem, or "silent" for a command that succeeds and changes nothing."""

    def __init__(self, **answers: Any) -> None:
        self.shares = {("physics", ""): "60", ("physics", "ann"): "5", ("physics", "bob"): "7"}
        self.answers = answers
        self.asked: list[str] = []

    def read_shares(self) -> Shares | None:
        rows = [Share(group, user, "", "root", shares) for (group, user), shares in self.shares.items()]
        return Shares("demo", rows)

    def set_share(self, cluster: str, line: ShareLine, in_partitions: bool) -> Problem | None:
        self.asked.append(line.user or line.group)
        answer = self.answers.get(line.user or line.group)
        if answer is None:
            self.shares[line.key] = line.after
        return answer if isinstance(answer, Problem) else None


def order(*lines: tuple[str, str, str, str]) -> ShareOrder:
    return ShareOrder(5, "demo", tuple(ShareLine(i, *line) for i, line in enumerate(lines)))


def applied(scheduler: Scheduler, wanted: ShareOrder) -> list[Outcome]:
    there = scheduler.read_shares()
    assert there is not None
    return apply_order(scheduler, wanted, there)[0]


def test_a_share_is_set_if_its_old_value_is_unchanged() -> None:
    scheduler = Scheduler()
    lines = [
        ("physics", "", "60", "61"),
        ("physics", "ann", "4", "6"),
        ("physics", "bob", "1", "7"),
        ("physics", "cat", "1", "2"),
        ("physics", "ann", "5", "1;rm -rf"),
    ]
    codes = [each.code for each in applied(scheduler, order(*lines))]
    assert codes == ["done", "changed_meanwhile", "already", "missing", "refused"]
    assert scheduler.asked == ["physics"]
    codes = [each.code for each in applied(scheduler, order(*lines))]
    assert codes == ["already", "changed_meanwhile", "already", "missing", "refused"]
    assert scheduler.asked == ["physics"]


def test_the_outcome_is_read_from_the_scheduler() -> None:
    late = Problem("timeout", "sacctmgr did not answer")
    scheduler = Scheduler(ann="silent")
    scheduler.answers["bob"] = late
    lines = [("physics", "ann", "5", "6"), ("physics", "bob", "7", "8"), ("physics", "", "60", "61")]
    found = applied(scheduler, order(*lines))
    assert [each.code for each in found] == ["refused", "timeout", "timeout"]
    assert found[0].detail == "The scheduler still has 5."
    assert scheduler.asked == ["ann", "bob"], "after a timeout nothing more is sent"


def test_an_order_for_another_cluster_is_ignored() -> None:
    scheduler = Scheduler()
    other = order(("physics", "", "60", "61"))._replace(cluster="east")
    assert [each.code for each in applied(scheduler, other)] == ["refused"]
    assert scheduler.asked == []


def test_associations_are_listed_without_built_in_ones() -> None:
    found = parse_associations(LISTING, "demo")
    users = {("physics", "ann"): "5", ("physics", "ann:gpu"): "9", ("lab", "bob"): "parent"}
    assert found.by_key() == {("physics", ""): "60"} | users
    assert found.in_partitions() == {("physics", "ann")}


@pytest.mark.parametrize("text", ["demo|physics|||root\n", "demo|physics|||root|-1\n", "demo|physics|||root|many\n"])
def test_an_invalid_listing_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_associations(text, "demo")


@pytest.mark.parametrize(
    "line",
    [
        ShareLine(0, "physics", "root;rm -rf", "1", "2"),
        ShareLine(0, "a,b", "", "1", "2"),
        ShareLine(0, "physics set adminlevel=Administrator", "", "1", "2"),
        ShareLine(0, "physics", "ann", "1", "2 adminlevel=Administrator"),
        ShareLine(0, "-x", "", "1", "2"),
    ],
)
def test_unsafe_names_reach_no_command(line: ShareLine) -> None:
    with pytest.raises(ValueError, match=r"can.t go into a command"):
        slurm_argv("demo", line, False)
    with pytest.raises(ValueError, match=r"can.t go into a command"):
        gridengine_argv(line)


def test_a_command_changes_one_association_of_a_user_only() -> None:
    line = ShareLine(0, "physics", "ann", "1", "2")
    assert "partition=''" in slurm_argv("demo", line, True)
    assert slurm_argv("demo", line, False)[-2:] == ["set", "fairshare=2"]
    of_one = slurm_argv("demo", ShareLine(0, "physics", "ann:gpu", "9", "2"), True)
    assert of_one[4:] == ["where", "name=ann", "account=physics", "cluster=demo", "partition=gpu", "set", "fairshare=2"]
    with pytest.raises(ValueError, match=r"can.t go into a command"):
        slurm_argv("demo", ShareLine(0, "physics", "ann:gpu x", "9", "2"), True)


TREE = """\
id=0
name=Root
type=0
shares=1
childnodes=1,4
id=1
name=px
type=1
shares=300
childnodes=2,3
id=2
name=gea
type=0
shares=10
childnodes=NONE
id=3
name=geb
type=0
shares=20
childnodes=NONE
id=4
name=default
type=0
shares=100
childnodes=NONE
"""


def test_share_tree_nodes_are_identified_by_path() -> None:
    found = parse_share_tree(TREE).by_key()
    assert found == {("/px", ""): "300", ("/px/gea", ""): "10", ("/px/geb", ""): "20", ("/default", ""): "100"}


@pytest.mark.parametrize(
    "text", [TREE.replace("childnodes=2,3", "childnodes=2"), TREE.replace("=2,3", "=2,9"), TREE[:40], "x\n", ""]
)
def test_an_incomplete_tree_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_share_tree(text)


@pytest.mark.parametrize("found", [[], {"id": 1}, {"id": "x", "cluster": "c", "lines": []}, {"id": 1, "lines": [1]}])
def test_an_invalid_order_is_rejected(found: Any) -> None:
    with pytest.raises(ServerFailure):
        read_order(found)


ORDER = {
    "id": 5,
    "cluster": "demo",
    "lines": [
        {"line": 0, "group": "physics", "user": "", "before": "60", "after": "61"},
        {"line": 1, "group": "physics", "user": "ann", "before": "5", "after": "6"},
    ],
}


@pytest.fixture
def carrying(place: Place) -> Place:
    place.site.order(carries="shares", share_order=ORDER)
    place.scheduler.shares = {"physics//": "60", "physics/ann/": "5", "physics/ann/gpu": "9"}
    return place


def test_a_pass_applies_and_reports_share_orders_without_changing_jobs(carrying: Place) -> None:
    assert carrying.run().returncode == 0
    assert carrying.scheduler.shares == {"physics//": "61", "physics/ann/": "6", "physics/ann/gpu": "9"}
    (report,) = carrying.site.reports
    assert [each["code"] for each in report["share_order"]["outcomes"]] == ["done", "done"]
    assert {row["shares"] for row in report["shares"]["rows"]} == {"61", "6", "9"}
    assert carrying.scheduler.calls("scontrol", "update") == []
    carrying.run()
    again = carrying.site.reports[-1]["share_order"]["outcomes"]
    assert [each["code"] for each in again] == ["already", "already"]


@pytest.mark.parametrize(
    "orders", [{"mode": "shadow"}, {"paused": True}, {"reset_values": True}, {"carries": "priorities"}]
)
def test_nothing_is_set_unless_enabled(carrying: Place, orders: dict[str, Any]) -> None:
    carrying.site.order(**orders)
    carrying.run()
    assert carrying.scheduler.calls("sacctmgr", "--immediate") == []


def test_an_agent_of_priorities_lists_accounts_and_users_and_goes_on_without(place: Place) -> None:
    place.scheduler.shares = {"physics//": "60", "physics/ann/": "5", "physics/ann/gpu": "9"}
    place.run()
    (report,) = place.site.reports
    assert [(row["group"], row["user"], row["partition"]) for row in report["shares"]["rows"]] == [
        ("physics", "", ""),
        ("physics", "ann", ""),
        ("physics", "ann", "gpu"),
    ]
    sent = place.scheduler.calls("scontrol", "update")
    place.scheduler.answer("sacctmgr", err="sacctmgr: error: Access/permission denied", status=1)
    again = place.run()
    assert "can't be listed" in again.stderr
    assert (again.returncode, "shares" in place.site.reports[-1]) == (0, False)
    assert place.scheduler.calls("scontrol", "update") == sent


# show config, show assoc, two changes, show assoc, squeue, sprio, sshare
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.deep), "after"])
@pytest.mark.parametrize("at", range(2, 6))
def test_an_order_resumes_after_the_agent_was_killed(carrying: Place, at: int, when: str) -> None:
    carrying.scheduler.kill_caller(at, when)
    assert carrying.run().returncode == -9
    assert carrying.run().returncode == 0
    assert carrying.scheduler.shares == {"physics//": "61", "physics/ann/": "6", "physics/ann/gpu": "9"}
    outcomes = carrying.site.reports[-1]["share_order"]["outcomes"]
    assert {each["code"] for each in outcomes} <= {"done", "already"}


BEFORE = {"physics//": "60", "physics/ann/": "5", "physics/ann/gpu": "9"}


def reset(place: Place) -> dict[str, tuple[str, str, str]]:
    """What a reset by the site's orders says of each association: before, after, code."""
    place.site.order(reset_values=True)
    done = place.run()
    assert done.returncode == 0, done.stderr
    restored = place.site.reports[-1].get("restored_shares", [])
    return {f"{each['group']}/{each['user']}": (each["before"], each["after"], each["code"]) for each in restored}


def test_a_reset_restores_the_shares_of_before_and_says_so(carrying: Place) -> None:
    carrying.run()
    assert reset(carrying) == {"physics/": ("61", "60", "done"), "physics/ann": ("6", "5", "done")}
    assert carrying.scheduler.shares == BEFORE
    report = carrying.site.reports[-1]
    assert (report["jobs"]["sent"], report["jobs"]["failed"]) == (2, 0)
    assert {row["shares"] for row in report["shares"]["rows"]} == {"60", "5", "9"}, "the listing of afterwards"
    carrying.scheduler.forget_calls()
    carrying.run()
    assert carrying.scheduler.calls("sacctmgr", "--immediate") == []
    assert "restored_shares" not in carrying.site.reports[-1]


def test_the_shares_before_the_first_order_are_restored_after_several(carrying: Place) -> None:
    carrying.run()
    line = {"line": 0, "group": "physics", "user": "", "before": "61", "after": "70"}
    carrying.site.order(share_order={**ORDER, "id": 6, "lines": [line]})
    carrying.run()
    assert carrying.scheduler.shares["physics//"] == "70"
    assert reset(carrying)["physics/"] == ("70", "60", "done")


def test_a_share_that_was_put_back_keeps_what_it_had_before_the_change_by_hand(carrying: Place) -> None:
    carrying.scheduler.shares = {**BEFORE, "physics/ann/": "8"}
    line = {"line": 0, "group": "physics", "user": "ann", "before": "8", "after": "5", "agreed": "5"}
    carrying.site.order(share_order={**ORDER, "lines": [line]})
    carrying.run()
    assert reset(carrying) == {"physics/ann": ("5", "5", "already")}
    assert carrying.scheduler.shares == BEFORE


def test_shares_that_were_changed_by_hand_or_are_gone_are_left_alone(carrying: Place) -> None:
    carrying.run()
    carrying.scheduler.shares = {"physics/ann/": "8"}
    assert reset(carrying) == {"physics/": ("", "60", "missing"), "physics/ann": ("8", "5", "changed_meanwhile")}
    assert carrying.scheduler.shares == {"physics/ann/": "8"}


def test_a_reset_without_the_site_restores_shares_too(carrying: Place) -> None:
    carrying.run()
    done = carrying.run("reset-values")
    assert done.returncode == 0, done.stderr
    assert "Shares of physics ann: done, 6 to 5." in done.stdout
    assert carrying.scheduler.shares == BEFORE
    carrying.run()
    assert len(carrying.site.reports[-1]["restored_shares"]) == 2, "the site hears of it with the next report"


def test_a_restored_share_is_reported_until_the_site_has_it(carrying: Place) -> None:
    carrying.run()
    carrying.site.refuses_reports = True
    carrying.site.order(reset_values=True)
    carrying.run()
    assert carrying.scheduler.shares == BEFORE
    carrying.site.refuses_reports = False
    assert len(reset(carrying)) == 2


# show config and operator, show assoc, two changes, show assoc
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 7))
def test_former_shares_survive_an_agent_that_is_killed_while_it_sets_them(carrying: Place, at: int, when: str) -> None:
    carrying.scheduler.kill_caller(at, when)
    assert carrying.run().returncode == -9
    reset(carrying)
    assert carrying.scheduler.shares == BEFORE


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(3, 8))
def test_an_agent_that_is_killed_while_it_restores_goes_on(carrying: Place, at: int, when: str) -> None:
    carrying.run()
    carrying.site.order(reset_values=True)
    (carrying.scheduler.folder / "kill").unlink(missing_ok=True)
    carrying.scheduler.forget_calls()
    carrying.scheduler.kill_caller(at, when)
    carrying.run()
    (carrying.scheduler.folder / "kill").unlink(missing_ok=True)
    assert carrying.run().returncode == 0
    assert carrying.scheduler.shares == BEFORE


def test_a_share_is_not_set_if_its_former_value_cannot_be_stored(
    carrying: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("PATH", f"{carrying.scheduler.folder}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "fsync", full)
    assert main(carrying.arguments("run", "--once")) == 1
    assert carrying.scheduler.calls("sacctmgr", "--immediate") == []


def test_a_refused_report_fails_the_pass(place: Place) -> None:
    place.site.refuses_reports = True
    found = place.run()
    assert (found.returncode, "The report of this pass is not sent" in found.stderr) == (1, True)
    place.site.refuses_reports = False
    assert place.run().returncode == 0
