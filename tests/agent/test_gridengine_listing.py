"""What Grid Engine 8.1.9 prints, and what a hostile one might."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.adapters import gridengine
from agent.commands import Commands, Output
from agent.records import Unreadable


def listing(fields: str, state: str = "pending") -> str:
    return (
        f"<?xml version='1.0'?><job_info><job_info><job_list state='{state}'>{fields}</job_list></job_info></job_info>"
    )


PENDING = (
    "<JB_job_number>5</JB_job_number><JAT_prio>0.5</JAT_prio><JB_owner>gea</JB_owner><JB_project></JB_project>"
    "<state>qw</state><slots>4</slots><JB_override_tickets>7</JB_override_tickets><JB_priority>-3</JB_priority>"
)


def test_a_real_listing_has_pending_jobs_arrays_and_running_jobs(golden_dir: Path) -> None:
    text = (golden_dir / "gridengine" / "samples" / "qstat-ext-urg-pri.xml").read_text()
    queue = gridengine.parse_queue(text, "override_tickets", 100_000)
    assert (queue.skipped, queue.running) == ([], {})
    jobs = {job.id: job for job in queue.jobs}
    assert {"587", "588"} <= queue.known - set(jobs)
    assert (jobs["590"].user, jobs["590"].cpus, jobs["590"].current) == ("geb", 4, 0)
    assert [job.array_task for job in queue.jobs if job.array_task] == ["1-4:1"]


@pytest.mark.parametrize(("knob", "value"), [("override_tickets", 7), ("priority", -3)])
def test_the_current_value_is_that_of_the_setting(knob: str, value: int) -> None:
    (job,) = gridengine.parse_queue(listing(PENDING), knob, 100).jobs
    assert job.current == value


def test_requested_queues_are_the_partitions_of_a_job() -> None:
    asked = "<hard_req_queue>fast.q@node1</hard_req_queue><hard_req_queue>big.q</hard_req_queue>"
    (job,) = gridengine.parse_queue(listing(PENDING + asked), "priority", 100).jobs
    assert job.partitions == ("fast.q", "big.q")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (">gea<", ">root;rm -rf<", "user 'root;rm -rf'"),
        ("<JB_project></JB_project>", "<JB_project>a b</JB_project>", "project 'a b'"),
        (">4<", ">four<", "no numbers"),
        (">0.5<", ">nan<", "no numbers"),
        (">7<", ">99999999999999<", "no numbers"),
        (">5<", ">5 -u x<", "No job number"),
        (">5<", "><", "No job number"),
    ],
)
def test_a_job_with_an_invalid_field_is_skipped_and_reported(old: str, new: str, words: str) -> None:
    queue = gridengine.parse_queue(listing(PENDING.replace(old, new)), "override_tickets", 100)
    assert queue.jobs == []
    assert words in queue.skipped[0]


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><job_info>&a;</job_info>',
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><job_info>&b;</job_info>',
        '<?xml-stylesheet href="x"?><job_info></job_info>',
        "<job_info>",
        "<jobs/>",
        "error: commlib error",
        "",
    ],
)
def test_xml_with_declarations_or_truncated_is_rejected(text: str) -> None:
    with pytest.raises(Unreadable):
        gridengine.parse_queue(text, "priority", 100)


def test_a_running_job_above_the_weight_is_cleared_unless_tasks_are_pending() -> None:
    running = listing(PENDING, "running")
    assert gridengine.parse_queue(running, "override_tickets", 6).running == {"5": 7}
    assert gridengine.parse_queue(running, "override_tickets", 7).running == {}
    both = running.replace(
        "</job_info></job_info>", f"<job_list state='pending'>{PENDING}</job_list></job_info></job_info>"
    )
    assert gridengine.parse_queue(both, "override_tickets", 6).running == {}


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ('denied: job "999" does not exist', "job_gone"),
        ('denied: "gea" must be operator to change amount of override tickets', "denied"),
        ('root@h sets override tickets of job 2 to 7\ndenied: job "9" does not exist', "job_gone"),
        ('qalter: invalid priority "2000".  Must be an integer from -1023 to 1024', "refused"),
    ],
)
def test_qalter_messages_are_classified(found: str, code: str) -> None:
    problem = gridengine.problem_of(Output(1, found + "\n", ""))
    assert problem is not None
    assert problem.code == code


def test_a_look_up_uses_the_group_known_to_this_host() -> None:
    gridengine.primary_group.cache_clear()
    names_of = gridengine.GridEngine(Commands()).names_of
    assert names_of(("root", "px", "all.q")) == {"user": "root", "group": "root", "project": "px"}
    assert names_of(("nobody-here", "", "")) == {"user": "nobody-here"}
