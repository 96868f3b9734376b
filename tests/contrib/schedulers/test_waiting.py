"""Why a job waits: reason, terms, where fair share decides, who is ahead; each reader sees their own."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client, override_settings

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.schedulers.pages.waiting_rows import verdict
from apps.contrib.schedulers.services import connect_scheduler
from apps.contrib.schedulers.waiting import find_waiting, list_waiting
from apps.core.errors import Conflict
from tests.contrib.schedulers.reports import instant, job, report
from tests.grants import make_grant
from tests.instants import AT
from tests.pages.page import read
from tests.rest_site import Caller, refused
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db


def why(caller: Caller, number: str = "101") -> dict[str, Any]:
    answer = caller.get("schedulers/c1/why", {"job": number})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def send(agent: Caller, *jobs: dict[str, Any]) -> None:
    answer = agent.post("schedulers/c1/passes", report(queue=list(jobs)))
    assert answer.status_code == 200, answer.content


def test_terms_are_fractions_of_the_positive_priority(agent: Caller, manager: Caller) -> None:
    terms = {"age": 300, "assoc": 0, "fairshare": 0, "jobsize": 100, "partition": 0, "qos": 0, "site": 600, "nice": 50}
    send(agent, job("101", terms=terms, priority=950))
    found = why(manager)
    assert {one["name"]: one["share"] for one in found["terms"] if one["value"]} == {
        "site": 0.6, "age": 0.3, "jobsize": 0.1, "nice": None,
    }  # fmt: skip
    assert [one["name"] for one in found["terms"]][:3] == ["site", "age", "jobsize"]
    assert found["terms"][-1] == {"name": "nice", "value": -50.0, "share": None, "is_fairshare": False}


def test_jobs_ahead_are_unheld_jobs_of_the_partition_with_higher_priority(agent: Caller, manager: Caller) -> None:
    early = instant(AT - timedelta(hours=2))
    send(
        agent,
        job("101", site=50_000),
        job("301", "bob", site=60_000),
        job("2", "bob", site=40_000),
        job("3", "carol", "biology", site=60_000, partition="gpu"),
        job("304", "carol", "biology", site=60_000, partition="gpu,batch"),
        job("5", "bob", site=60_000, state="held"),
        job("60", "bob", site=50_000),
        job("600", "bob", site=50_000, submit_at=early),
    )
    found = why(manager)
    assert (found["ahead"], found["by_fairshare"], found["kept_behind"]) == (3, 2, 1)
    assert {one["path"]: one["jobs"] for one in found["groups"]} == {"/physics": 2, "/biology": 1}


def listed(*rows: tuple[str, str, float]) -> list[dict[str, Any]]:
    return [{"partition": partition, "qos": qos, "priority": priority} for partition, qos, priority in rows]


def test_jobs_ahead_are_counted_in_the_partition_of_the_best_of_several_priorities(
    connected: Site, agent: Caller, manager: Caller, client: Client
) -> None:
    """Each partition has a queue of its own: others count in it by their own priority there, not by their best."""
    send(
        agent,
        job("101", partition="batch,gpu", qos="normal,half", priority=700, site=0, priorities=listed(
            ("batch", "normal", 700), ("batch", "half", 900), ("gpu", "normal", 300), ("gpu", "half", 500)
        )),
        job("102", "bob", partition="batch", priority=950, site=0),
        job("103", "bob", partition="batch", priority=800, site=0),
        job("104", "bob", partition="gpu", priority=999, site=0),
        job("105", "carol", "biology", partition="gpu,batch", priority=990, site=0, priorities=listed(
            ("gpu", "normal", 990), ("batch", "normal", 100)
        )),
        job("106", "bob", partition="gpu", priority=400, site=0),
    )  # fmt: skip
    found = why(manager)
    assert (found["job"]["priority"], found["ahead"], found["competing"], found["counted_in"]) == (900, 1, 4, "batch")
    assert [tuple(each.values()) for each in found["priorities"]] == [
        ("batch", "half", 900.0, 1, True),
        ("batch", "normal", 700.0, 2, False),
        ("gpu", "half", 500.0, 2, False),
        ("gpu", "normal", 300.0, 3, False),
    ]
    best = "The best of its 4 priorities counts here: batch with QOS half."
    assert (found["priorities_text"], found["ahead_text"]) == (best, "1 job ahead in batch (0 because of fair share).")
    assert [each["ahead"] for each in why(manager, "105")["priorities"]] == [1, 3], "in gpu, and in batch"
    assert [why(manager, number)["ahead"] for number in ("103", "104", "106")] == [2, 0, 3]
    out = StringIO()
    call_command("why", "101", stdout=out)
    assert best in out.getvalue()
    assert ["batch", "half", "900", "1", "ahead"] in [line.split() for line in out.getvalue().splitlines()]
    sign_in(client, connected.admin)
    page = read(client.get("/policy/grid/jobs/why/101/"))
    assert best in page.one("[data-testid=priorities]").text()
    assert len(page.texts("[data-testid=priority]")) == 4
    assert "in batch, by priority" in page.text("main")


def test_equal_priorities_count_in_all_partitions(agent: Caller, manager: Caller) -> None:
    both = listed(("batch", "", 500), ("gpu", "", 500))
    send(
        agent,
        job("101", partition="batch,gpu", priority=500, site=0, priorities=both),
        job("102", "bob", partition="batch", priority=600, site=0),
        job("103", "bob", partition="gpu", priority=600, site=0),
    )
    found = why(manager)
    assert (found["ahead"], found["counted_in"]) == (2, "batch,gpu")
    assert [each["ahead"] for each in found["priorities"]] == [1, 1]
    assert found["priorities_text"] == "It has 2 priorities, all equal."


ONE_FOR_ALL = "It asks for several partitions or QOS, and the scheduler lists one priority for all."


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, ""),
        (
            {"partition": "batch,gpu"},
            ONE_FOR_ALL,
        ),
        ({"qos": "a,b"}, ONE_FOR_ALL),
        ({"qos": "a,b", "state": "held"}, ""),
    ],
)
def test_the_page_names_that_one_priority_stands_for_several_partitions(
    agent: Caller, manager: Caller, change: dict[str, Any], text: str
) -> None:
    """Of an agent or a release of Slurm that names no others."""
    send(agent, job("101") | change)
    found = why(manager)
    assert (found["priorities"], found["priorities_text"]) == ([], text)


def test_a_held_job_has_no_place_by_any_of_its_priorities(agent: Caller, manager: Caller) -> None:
    several = listed(("batch", "a", 900), ("batch", "b", 800))
    send(agent, job("101", priority=0, priorities=several), job("102", "bob", priority=850, site=0))
    found = why(manager)
    assert (found["ahead"], [each["ahead"] for each in found["priorities"]]) == (None, [None, None])
    assert found["job"]["priority"] == 0


@pytest.mark.parametrize(
    ("several", "where"),
    [
        ([], None),
        ({}, "queue[0].priorities"),
        (None, None),
        ("batch", "queue[0].priorities"),
        ([["batch", "normal", 5]], "queue[0].priorities[0]"),
        ([{"partition": "batch", "priority": 5}], "queue[0].priorities[0]"),
        (listed(("batch", "", 5), ("", "", None)), "queue[0].priorities[1].priority"),  # type: ignore[arg-type]
        (listed(("batch", "", 2**53 + 2)), "queue[0].priorities[0].priority"),
        (listed(("b" * 129, "", 5)), "queue[0].priorities[0].partition"),
        (listed(*[("batch", "", 5.0)] * 101), "queue[0].priorities"),
    ],
)
def test_invalid_priorities_are_refused_with_their_place(agent: Caller, several: Any, where: str | None) -> None:
    answer = agent.post("schedulers/c1/passes", report(queue=[job("101", priorities=several)]))
    if where is None:
        assert answer.status_code == 200, answer.content
    else:
        assert refused(answer) == (400, "invalid", [where])


def test_jobs_of_equal_priority_go_by_their_number_in_slurm_wherever_they_are_listed(
    agent: Caller, manager: Caller
) -> None:
    """The review's case: nine jobs of one second, whose listing is sorted by priority."""
    ties = [job(str(number), "bob", site=9) for number in (108, 104, 99, 101, 102)]
    send(agent, *ties, job("100", site=9), job("103", "carol", "biology", site=20, submit_at=instant(AT)))
    found = why(manager, "103")
    assert (found["ahead"], found["by_fairshare"], found["kept_behind"]) == (0, 0, 4)
    found = why(manager, "102")
    assert (found["ahead"], found["by_fairshare"], found["kept_behind"]) == (4, 1, 0)


def test_jobs_of_equal_priority_go_by_submission_in_grid_engine(connected: Site, agent: Caller) -> None:
    given = {"mode": "on", "namespace": "a", "kind": "gridengine", "knob": "priority"}
    connect_scheduler(policy_slug="grid", name="c2", settings=given, at=AT, actor=SYSTEM)
    plain: dict[str, Any] = {"terms": None, "priority": 5, "reason": "qw"}
    early = instant(AT - timedelta(hours=2))
    queue = [job("101", **plain), job("200", "bob", submit_at=early, **plain), job("9", "bob", **plain)]
    assert agent.post("schedulers/c2/passes", report(queue=queue)).status_code == 200
    actor = Actor(user=connected.admin, via="page")
    assert find_waiting(job="101", at=AT, actor=actor).ahead == 2
    assert find_waiting(job="9", at=AT, actor=actor).ahead == 1


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "Dependency"},
        {"reason": "DependencyNeverSatisfied"},
        {"reason": "BeginTime"},
        {"reason": "JobArrayTaskLimit", "array_task": "3-99%2"},
        {"reason": "JobHeldUser"},
        {"reason": "launch failed requeued held"},
        {"reason": "job_requeued_in_held_state"},
        {"state": "held"},
        {"priority": 0},
        {"eligible_at": instant(AT + timedelta(hours=1))},
        {"reason": "QOSMaxJobsPerUserLimit"},
        {"reason": "QOSGrpGRES"},
        {"reason": "AssocGrpCpuLimit"},
        {"reason": "AssocMaxJobsLimit"},
        {"reason": "MaxJobsPerAccount"},
        {"reason": "PartitionDown"},
        {"reason": "PartitionTimeLimit"},
        {"reason": "PartitionNodeLimit"},
        {"reason": "QOSNotAllowed"},
        {"reason": "ReqNodeNotAvail, UnavailableNodes:n1"},
        {"reason": "ReqNodeNotAvail, Reserved for maintenance"},
        {"reason": "Licenses"},
        {"reason": "Reservation"},
        {"reason": "BurstBufferStageIn"},
        {"reason": "Cleaning"},
    ],
    ids=str,
)
def test_a_job_that_does_not_wait_for_the_order_is_not_ahead(
    agent: Caller, manager: Caller, change: dict[str, Any]
) -> None:
    send(agent, job("101", site=10), job("1", "bob", site=60) | change, job("2", "bob", site=5) | change)
    found = why(manager)
    assert (found["ahead"], found["by_fairshare"], found["kept_behind"]) == (0, 0, 0)
    assert found["groups"] == []


@pytest.mark.parametrize(
    "reason",
    [
        "Priority",
        "Resources",
        "None",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "MpiPortsBusy",
        "FedJobLock",
        "SomethingNew",
    ],
)
def test_a_job_that_waits_for_its_turn_or_for_what_is_not_known_is_ahead(
    agent: Caller, manager: Caller, reason: str
) -> None:
    send(agent, job("101", site=10), job("1", "bob", site=60, reason=reason))
    assert why(manager)["ahead"] == 1


@pytest.mark.parametrize(("own", "ahead"), [("PartitionDown", 2), ("PartitionInactive", 1), ("Licenses", 1)])
def test_jobs_of_a_closed_partition_go_by_priority_among_themselves(
    agent: Caller, manager: Caller, own: str, ahead: int
) -> None:
    send(
        agent,
        job("101", site=10, reason=own),
        job("1", "bob", site=60, reason="PartitionDown"),
        job("2", "bob", site=60, reason="Licenses"),
        job("3", "bob", site=60, partition="gpu", reason="PartitionDown"),
        job("4", "carol", "biology", site=60, partition="gpu,batch"),
    )
    assert why(manager)["ahead"] == ahead


@pytest.mark.parametrize(
    ("state", "key", "ahead"),
    [
        ("qw", "priority", 1),
        ("Rq", "priority", 1),
        ("Eqw", "error", 0),
        ("Ehqw", "error", 0),
        ("hqw", "held", 0),
        ("hRwq", "held", 0),
    ],
)
def test_states_of_grid_engine_decide_who_is_ahead(
    connected: Site, agent: Caller, state: str, key: str, ahead: int
) -> None:
    given = {"mode": "on", "namespace": "a", "kind": "gridengine", "knob": "priority"}
    connect_scheduler(policy_slug="grid", name="c2", settings=given, at=AT, actor=SYSTEM)
    queue = [
        job("101", terms=None, priority=5, reason="qw"),
        job("1", "bob", terms=None, priority=9, reason=state, state="held" if "h" in state else "pending"),
    ]
    assert agent.post("schedulers/c2/passes", report(queue=queue)).status_code == 200
    actor = Actor(user=connected.admin, via="page")
    waiting = find_waiting(job="101", at=AT, actor=actor)
    assert (waiting.ahead, waiting.reason.key, waiting.reason.is_order) == (ahead, "priority", True)
    assert find_waiting(job="1", at=AT, actor=actor).reason.key == key


def test_a_pending_array_is_one_job_ahead(agent: Caller, manager: Caller) -> None:
    send(agent, job("101", site=10), job("1", "bob", site=60, array_task="0-99"))
    assert why(manager)["ahead"] == 1


@pytest.mark.parametrize("change", [{"state": "held"}, {"priority": 0, "reason": "JobHeldAdmin"}], ids=str)
def test_no_job_is_ahead_of_a_held_one(agent: Caller, manager: Caller, change: dict[str, Any]) -> None:
    send(agent, job("101", site=10) | change, job("1", "bob", site=60))
    found = why(manager)
    assert (found["ahead"], found["ahead_text"]) == (None, "")


@pytest.mark.parametrize(
    ("ahead", "change", "text"),
    [
        (0, {}, "No job is ahead of it."),
        (1, {}, "1 job ahead in batch (1 because of fair share)."),
        (2, {}, "2 jobs ahead in batch (2 because of fair share)."),
        (2, {"reason": "Dependency"}, "2 jobs ahead in batch."),
        (2, {"terms": None}, "2 jobs ahead in batch."),
    ],
)
def test_every_face_says_one_sentence_on_the_jobs_ahead(
    connected: Site, agent: Caller, manager: Caller, client: Client, ahead: int, change: dict[str, Any], text: str
) -> None:
    others = [job(str(n), "bob", site=60) for n in range(201, 201 + ahead)]
    send(agent, job("101", site=10) | change, *others)
    assert why(manager)["ahead_text"] == text
    out = StringIO()
    call_command("why", "101", stdout=out)
    assert (text in out.getvalue()) is bool(text)
    sign_in(client, connected.admin)
    page = read(client.get("/policy/grid/jobs/why/101/"))
    assert page.texts("#ahead") == [f"Jobs ahead: {ahead}"] * (ahead > 0)
    assert page.one("[data-testid=verdict]").text().startswith(text)


@pytest.mark.paper("4.69")
def test_fair_share_decides_if_the_order_would_differ_without_it(agent: Caller, manager: Caller) -> None:
    def aged(number: str, user: str, age: int, site: int) -> dict[str, Any]:
        terms = {
            "age": age,
            "assoc": 0,
            "fairshare": 0,
            "jobsize": 0,
            "partition": 0,
            "qos": 0,
            "site": site,
            "nice": 0,
        }
        return job(number, user, terms=terms, priority=age + site)

    send(agent, aged("101", "alice", 500, 500), aged("1", "bob", 400, 700), aged("2", "bob", 900, 50))
    found = why(manager)
    assert (found["ahead"], found["by_fairshare"], found["kept_behind"]) == (1, 1, 1)
    assert found["fairshare_decides"]
    send(agent, aged("101", "alice", 500, 500) | {"reason": "Dependency"}, aged("1", "bob", 400, 700))
    assert not why(manager)["fairshare_decides"]


@pytest.mark.parametrize(
    ("reason", "key", "is_order"),
    [
        ("Priority", "priority", True),
        ("Resources", "resources", True),
        ("Dependency", "dependency", False),
        ("QOSMaxJobsPerUserLimit", "limit", False),
        ("AssocGrpCPUMinutesLimit", "limit", False),
        ("BeginTime", "time", False),
        ("JobHeldUser", "held", False),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "nodes", False),
        ("PartitionDown", "partition", False),
        ("QOSNotAllowed", "partition", False),
        ("MaxPoweredUpNodes", "nodes", False),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority parti", "resources", True),
        ("Cleaning", "cleaning", False),
        ("BurstBufferResources", "burst_buffer", False),
        ("<script>", "other", False),
    ],
)
def test_the_reason_of_the_scheduler_decides_whether_order_matters(
    agent: Caller, manager: Caller, reason: str, key: str, is_order: bool
) -> None:
    send(agent, job("101", reason=reason))
    found = why(manager)["reason"]
    assert (found["code"], found["key"], found["is_order"]) == (reason, key, is_order)


@pytest.mark.parametrize(("others", "is_next"), [((), True), ((60,), False), ((5,), True)])
def test_only_a_job_with_none_ahead_is_next_in_its_partition(
    agent: Caller, manager: Caller, others: tuple[int, ...], is_next: bool
) -> None:
    """Slurm says Resources of a job that was first when it looked; in the listing others may be ahead."""
    ahead = [job(str(n + 1), "bob", site=site) for n, site in enumerate(others)]
    send(agent, job("101", site=10, reason="Resources"), *ahead)
    found = why(manager)
    assert (found["ahead"] == 0) == is_next
    assert ("next in its partition" in found["reason"]["text"]) == is_next


@pytest.mark.parametrize("asked", ["149+1", "149 1", "150"])
def test_a_component_of_a_heterogeneous_job_is_found_as_squeue_prints_it(
    agent: Caller, manager: Caller, asked: str
) -> None:
    send(agent, job("149"), job("150", partition="gpu"), job("151", "bob"))
    found = manager.get("policies/grid/why", {"job": asked})
    assert (found.status_code, found.json()["job"]["job"]) == (200, "150")


@pytest.mark.parametrize("asked", ["149+2", "149+9", "148+2", "149+", "+1", "149+1+1"])
def test_another_users_job_is_no_component(agent: Caller, manager: Caller, asked: str) -> None:
    send(agent, job("149"), job("150", partition="gpu"), job("151", "bob"))
    assert manager.get("policies/grid/why", {"job": asked}).status_code == 404


def test_a_job_that_was_submitted_later_is_no_component(agent: Caller, manager: Caller) -> None:
    send(agent, job("149"), job("150", submit_at="2026-11-20T11:30:00Z"))
    assert manager.get("policies/grid/why", {"job": "149+1"}).status_code == 404


def test_a_hidden_job_is_answered_like_an_unknown_one(connected: Site, agent: Caller) -> None:
    send(agent, job("101"), job("102", "bob"))
    alice = Caller(token=connected.token("self:read", user=connected.alice))
    assert why(alice)["job"]["job"] == "101"
    hidden, missing = (alice.get("policies/grid/why", {"job": number}) for number in ("102", "999"))
    assert refused(hidden)[:2] == refused(missing)[:2] == (404, "not_found")
    assert hidden.json()["detail"].replace("102", "999") == missing.json()["detail"]


def test_groups_of_few_users_are_hidden_without_the_right_to_their_numbers(connected: Site, agent: Caller) -> None:
    send(agent, job("101", site=10), job("1", "bob", site=60), job("2", "carol", "biology", site=60))
    alice = Caller(token=connected.token("self:read", "policies:read", user=connected.alice))
    found = why(alice)
    assert found["ahead"] == 2
    assert {one["path"]: one["jobs"] for one in found["groups"]} == {"/physics": 1, "": 1}, "physics is on her path"
    assert "biology" not in str(found)
    assert "bob" not in str(found)


def test_small_groups_are_combined(connected: Site, agent: Caller) -> None:
    """A viewer of sums sees that there is biology, and not what one person does there."""
    make_grant(connected.alice, connected.uid("/"), "viewer", policy=connected.policy, reason="test")  # fmt: skip
    send(agent, job("101", site=10), job("1", "bob", site=60), job("2", "carol", "biology", site=60))
    alice = Caller(token=connected.token("self:read", "policies:read", user=connected.alice))
    for smallest, paths in ((2, {"/physics", ""}), (1, {"/physics", "/biology"})):
        with override_settings(FAIRSHARE_SMALLEST_GROUP=smallest):
            assert {one["path"] for one in why(alice)["groups"]} == paths


def test_groups_are_merged_until_no_difference_of_counts_is_one_person(connected: Site, agent: Caller) -> None:
    """One unmapped user alone would follow from the sum; so biology is merged with them, though it is large enough."""
    make_grant(connected.alice, connected.uid("/"), "viewer", policy=connected.policy, reason="test")
    alice = Caller(token=connected.token("self:read", "policies:read", user=connected.alice))
    ahead = [
        job("1", "carol", "biology", site=60),
        job("2", "cora", "biology", site=60),
        job("3", "ghost", "x", site=60),
    ]
    with override_settings(FAIRSHARE_SMALLEST_GROUP=2):
        for more, groups in (([], {"": 3}), ([job("4", "ghost2", "x", site=60)], {"/biology": 2, "": 2})):
            send(agent, job("101", site=10), *ahead, *more)
            assert {one["path"]: one["jobs"] for one in why(alice)["groups"]} == groups


def test_an_unmapped_job_is_explained_without_a_rank(agent: Caller, manager: Caller) -> None:
    send(agent, job("101", site=10), job("104", "ghost", "nowhere", site=60))
    assert why(manager)["groups"] == [{"path": "", "jobs": 1, "cpus": 8}]
    found = why(manager, "104")
    assert (found["job"]["entry"], found["factor"], found["rank"], found["snapshot"]) == ("", None, None, None)


@pytest.mark.parametrize(
    ("change", "counts"),
    [({"priority": None}, (None, None, None)), ({"terms": None}, (1, None, None)), ({}, (1, 1, 0))],
    ids=["no priority", "no terms", "both"],
)
def test_what_the_scheduler_does_not_report_is_not_counted(
    agent: Caller, manager: Caller, change: dict[str, Any], counts: tuple[int | None, ...]
) -> None:
    send(agent, job("101", site=10) | change, job("201", "bob", site=60) | change)
    found = why(manager)
    assert (found["ahead"], found["by_fairshare"], found["kept_behind"]) == counts
    assert len(found["terms"]) == (0 if "terms" in change else 8)


def test_where_the_priority_is_ours_alone_fair_share_decides_every_order(connected: Site, agent: Caller) -> None:
    connect_scheduler(
        policy_slug="grid",
        name="c2",
        settings={"mode": "on", "namespace": "a", "kind": "gridengine", "knob": "priority"},
        at=AT,
        actor=SYSTEM,
    )
    queue = [job("101", "alice", terms=None, priority=-100), job("201", "bob", terms=None, priority=5)]
    assert agent.post("schedulers/c2/passes", report(queue=queue)).status_code == 200
    actor = Actor(user=connected.admin, via="page")
    found = find_waiting(job="101", at=AT, actor=actor)
    assert (found.scheduler, found.ahead, found.by_fairshare, found.kept_behind) == ("c2", 1, 1, 0)
    ahead, both, behind, many = (
        verdict(replace(found, by_fairshare=n_ahead, kept_behind=n_behind))
        for n_ahead, n_behind in ((1, 0), (2, 1), (0, 1), (0, 3))
    )
    numbers = [re.findall(r"\d+", text) for text in (ahead, both, behind, many)]
    assert numbers == [["1", "1"], ["1", "1", "1"], ["1", "1", "1"], ["1", "1", "3"]]
    assert behind.replace("1 job behind", "3 jobs behind") == many


def test_a_number_of_several_schedulers_is_a_question_back(connected: Site, agent: Caller) -> None:
    given = {"mode": "on", "namespace": "a"}
    connect_scheduler(policy_slug="grid", name="c2", settings=given, at=AT, actor=SYSTEM)
    connect_scheduler(policy_slug="grid", name="unlisted", settings=given, at=AT, actor=SYSTEM)
    for name, queue in (("c1", [job("101")]), ("c2", [job("101", site=7), job("7", "bob")])):
        assert agent.post(f"schedulers/{name}/passes", report(queue=queue)).status_code == 200
    actor = Actor(user=connected.admin, via="page")
    with pytest.raises(Conflict) as refusal:
        find_waiting(job="101", at=AT, actor=actor)
    assert refusal.value.code == "several_schedulers"
    assert {(one.where, one.message) for one in refusal.value.fields} == {("scheduler", "c1"), ("scheduler", "c2")}
    assert find_waiting(job="101", at=AT, actor=actor, scheduler="c2").job.value == 7
    assert find_waiting(job="7", at=AT, actor=actor).scheduler == "c2"
    listed = list_waiting(policy_slug="grid", at=AT, actor=actor, limit=2)
    assert [(one.scheduler, one.job.job) for one in listed.jobs] == [("c1", "101"), ("c2", "7")], "as they start"
    assert (listed.n_jobs, [name for name, _at in listed.listed], listed.unread) == (3, ["c1", "c2"], [])


@pytest.mark.parametrize(("reason", "key"), [("Priority", "held"), ("Odd", "held"), ("Dependency", "dependency")])
def test_a_held_job_waits_for_its_release_unless_the_scheduler_says_why(
    agent: Caller, manager: Caller, reason: str, key: str
) -> None:
    send(agent, job("101", state="held", reason=reason))
    assert why(manager)["reason"]["key"] == key


def test_a_value_not_yet_in_the_scheduler_is_reported(agent: Caller, manager: Caller) -> None:
    send(agent, job("101", site=50_000, value=90_000), job("102", "bob", site=50_000, value=50_050))
    assert (why(manager, "101")["is_carried"], why(manager, "102")["is_carried"]) == (False, True)


def test_the_page_shows_the_parts_and_the_verdict(connected: Site, agent: Caller, client: Client) -> None:
    send(agent, job("101", site=10, reason="<b>"), job("1", "bob", site=60))
    sign_in(client, connected.alice)
    card = read(client.get("/me/priority/_waiting?policy=grid", headers={"HX-Request": "true"}))
    why = "/policy/grid/jobs/why/101/?scheduler=c1"
    assert card.each("#waiting-jobs tbody a", "href") == [why, why]
    listed = read(client.get("/policy/grid/jobs/why/"))
    assert listed.texts("[data-testid=job] a") == ["101"]
    page = read(client.get("/policy/grid/jobs/why/101/"))
    assert page.each("[data-testid=reason]", "data-key") == ["other"]
    assert page.each("[data-testid=verdict]", "data-decides") == ["no"]
    assert page.each("[data-testid=term]", "data-key") == ["partition", "jobsize", "site"]
    zero = page.text("[data-testid=zero-terms]")
    assert zero == "Terms of 0: Age, Association, The scheduler’s own fair share, QOS, Nice value."
    assert client.get("/policy/grid/jobs/why/1/").status_code == 404
