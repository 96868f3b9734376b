"""Planned waits under a draft: a queue whose answer is known, who may see it, and each state in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.models import AgentPass, Scheduler
from apps.contrib.schedulers.services import connect_scheduler
from apps.contrib.starts.models import StartPromise
from apps.policies.models import ChangeSet
from tests.contrib.starts.draft_waits.conftest import BATCH, MACHINE, QUEUE, Listed, draft_of, hour_job
from tests.instants import AT
from tests.pages.page import Page, read, text_of
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
HOUR_S = 3_600.0
EARLY = {"median_s": 2 * HOUR_S, "p90_s": 3.6 * HOUR_S}
LATE = {"median_s": 7 * HOUR_S, "p90_s": 8.6 * HOUR_S}


def answer_of(site: Site, draft: ChangeSet, **filters: str) -> Any:
    caller = Caller(token=site.token("policies:read"))
    answer = caller.get(f"policies/grid/changesets/{draft.pk}/planned-waits", filters)
    assert answer.status_code == 200, answer.content
    return answer.json()


def page_of(site: Site, draft: ChangeSet, query: str = "") -> Page:
    client = Client()
    sign_in(client, site.admin)
    return read(client.get(f"/changes/{draft.pk}/planned-waits/{query}"))


def group(path: str, published: dict[str, float], draft: dict[str, float], site: Site) -> dict[str, Any]:
    under = {f"draft_{name}": value for name, value in draft.items()}
    change_s = draft["median_s"] - published["median_s"]
    row = {"kind": "group", "uid": str(site.uid(path)), "path": path, "jobs": 5, "change_s": change_s}
    return {**row, **published, **under}


def test_a_draft_that_swaps_two_groups_swaps_their_waits(listed: Listed, more_physics: ChangeSet) -> None:
    site = listed()
    waits = answer_of(site, more_physics)
    (queue,) = waits["schedulers"]
    assert (waits["state"], waits["path"], queue["state"], queue["rank_use"]) == ("ready", "/", "ready", "used")
    assert queue["groups"] == [group("/biology", EARLY, LATE, site), group("/physics", LATE, EARLY, site)]
    assert queue["error"] == {"starts": 0, "days": 90, "median_s": None, "held": None}
    assert (queue["rank_use_text"], queue["adds_up"], queue["jobs_left_out"]) == ("", True, 0)


def test_a_draft_that_changes_no_order_changes_no_wait(listed: Listed, site: Site) -> None:
    listed()
    draft = draft_of({"op": "set_shares", "entry": str(site.uid("/physics")), "shares": 61})
    (queue,) = answer_of(site, draft)["schedulers"]
    assert [(each["path"], each["change_s"]) for each in queue["groups"]] == [("/biology", 0.0), ("/physics", 0.0)]
    page = page_of(site, draft)
    assert page.text('[data-testid="answer"]') == "No group would wait longer or shorter by a minute or more."
    assert page.each('[data-testid="planned-wait"]', "data-change") == ["same", "same"]


def test_other_terms_of_a_priority_stay_in_both_orders(listed: Listed, more_physics: ChangeSet) -> None:
    """physics has a partition's points that outweigh every factor: no draft moves it behind."""
    ahead = {"age": 0, "assoc": 0, "fairshare": 0, "jobsize": 87, "partition": 500_000, "qos": 0, "site": 40_000,
             "nice": 0}  # fmt: skip
    queue = [{**each, "terms": ahead, "priority": 540_087} if each["user"] == "alice" else each for each in QUEUE]
    (scheduler,) = answer_of(listed(queue), more_physics)["schedulers"]
    assert {each["path"]: each["change_s"] for each in scheduler["groups"]} == {"/biology": 0.0, "/physics": 0.0}


def test_the_page_begins_with_who_would_wait_longer(listed: Listed, more_physics: ChangeSet) -> None:
    page = page_of(listed(), more_physics)
    assert page.text('[data-testid="answer"]') == (
        "1 group would wait longer and 1 shorter; the largest change is that of biology: 7 h in the median instead of"
        " 2 h."
    )
    assert page.text('[data-testid="plan-error"]') == (
        "How far plans of this queue are off is not known yet: of 30 starts, 0 are recorded."
    )
    rows = [[text_of(cell) for cell in row.css("th, td")] for row in page.items("planned-wait")]
    assert rows == [
        ["biology", "5", "+5 h", "2 h", "7 h", "3 h 36 min", "8 h 36 min"],
        ["physics", "5", "−5 h", "7 h", "2 h", "8 h 36 min", "3 h 36 min"],
    ]
    assert "An estimate with its record, not a reservation" in page.text('[data-testid="plan-notes"]')


def test_the_review_has_the_card_for_those_who_see_all_numbers(listed: Listed, more_physics: ChangeSet) -> None:
    site = listed()
    client = Client()
    sign_in(client, site.admin)
    address = f"/changes/{more_physics.pk}/planned-waits/"
    assert read(client.get(f"/changes/{more_physics.pk}/")).has(f'#planned-waits[hx-get="{address}"]')
    card = read(client.get(address, headers={"HX-Request": "true"}))
    assert card.has("#planned-waits")
    assert not card.has("main")
    Scheduler.objects.update(carries="limits")  # which orders no job
    assert not read(client.get(f"/changes/{more_physics.pk}/")).has("#planned-waits")


def test_the_error_is_that_of_past_plans_of_the_scheduler(listed: Listed, more_physics: ChangeSet) -> None:
    site = listed()
    row = StartPromise.objects.filter(job="100").get()
    assert row.plan_s == 0.0
    values = {f.attname: getattr(row, f.attname) for f in StartPromise._meta.concrete_fields if f.name != "id"}
    for n in range(39):
        ended = {"left_at": row.made_at + timedelta(minutes=10 * n), "left_in": 2, "has_started": True}
        StartPromise.objects.create(**{**values, "job": f"past{n}", "plan_s": 9_000.0, **ended})
    (queue,) = answer_of(site, more_physics)["schedulers"]
    assert queue["error"]["starts"] == 39
    assert queue["error"]["median_s"] == pytest.approx(6_000.0)  # |10 n − 150| minutes, n = 0 … 38
    assert queue["error"]["held"] == pytest.approx(16 / 39)
    assert page_of(site, more_physics).text('[data-testid="plan-error"]') == (
        "Of 39 planned starts in 90 days, half were off by 1 h 40 min or less, and 41 % held: the job started by then,"
        " or within 5 minutes."
    )


def test_fewer_than_five_jobs_of_a_group_show_nothing(listed: Listed, more_physics: ChangeSet) -> None:
    site = listed(QUEUE[:9])
    rows = answer_of(site, more_physics)["schedulers"][0]["groups"]
    assert [each["path"] for each in rows] == ["/biology", "/physics"]
    hidden = {name: rows[1][name] for name in ("jobs", "median_s", "draft_median_s", "p90_s", "draft_p90_s")}
    assert set(hidden.values()) == {None}
    page = page_of(site, more_physics)
    assert "fewer than 5" in page.text('[data-testid="planned-wait"][data-change="unknown"]')


def test_jobs_without_a_planned_start_are_counted_apart(listed: Listed, more_physics: ChangeSet) -> None:
    more = [hour_job(300, "carol", "biology", state="held", reason="JobHeldUser"),
            hour_job(301, "carol", "biology", dependency=True), job_too_large()]  # fmt: skip
    site = listed([*QUEUE, *more])
    (queue,) = answer_of(site, more_physics)["schedulers"]
    assert (queue["jobs_left_out"], [each["jobs"] for each in queue["groups"]]) == (3, [5, 5])
    assert "3 waiting jobs have no planned start" in page_of(site, more_physics).text('[data-testid="plan-notes"]')


def test_tasks_of_an_array_that_are_listed_apart_count_once(listed: Listed, more_physics: ChangeSet) -> None:
    tasks = [hour_job(103, "carol", "biology", array_task=str(task), site=90_000) for task in range(3)]
    (queue,) = answer_of(listed([*QUEUE[:3], *tasks, *QUEUE[4:]]), more_physics)["schedulers"]
    assert (queue["jobs_left_out"], [each["jobs"] for each in queue["groups"]]) == (0, [5, 5])


def job_too_large() -> dict[str, Any]:
    return {**hour_job(302, "carol", "biology"), "cpus": 9}


def test_unmapped_jobs_keep_their_place_and_have_a_row(listed: Listed, more_physics: ChangeSet) -> None:
    ghosts = [hour_job(50 + n, "ghost", "nowhere", site=10**6) for n in range(5)]
    (queue,) = answer_of(listed([*QUEUE, *ghosts]), more_physics)["schedulers"]
    rows = {each["path"] or each["kind"]: each for each in queue["groups"]}
    assert (rows["unmapped"]["median_s"], rows["unmapped"]["change_s"]) == (2 * HOUR_S, 0.0)
    assert rows["/biology"]["median_s"] == 7 * HOUR_S


@pytest.mark.parametrize(
    ("settings", "use", "words"),
    [
        ({"mode": "shadow"}, "unused", "So both plans show what it would do if it did."),
        ({"carries": "shares"}, "shares", "So both plans show what it would do if it did."),
    ],
)
def test_a_scheduler_that_does_not_use_the_ranks_is_planned_as_if_it_did_and_named(
    listed: Listed, more_physics: ChangeSet, settings: dict[str, Any], use: str, words: str
) -> None:
    site = listed(**settings)
    (queue,) = answer_of(site, more_physics)["schedulers"]
    assert queue["rank_use"] == use
    assert [each["change_s"] for each in queue["groups"]] == [5 * HOUR_S, -5 * HOUR_S]
    notes = page_of(site, more_physics).text('[data-testid="plan-notes"]')
    assert queue["rank_use_text"] in notes
    assert words in notes


def test_jobs_of_a_partition_without_ranks_keep_their_order(listed: Listed, more_physics: ChangeSet) -> None:
    gpu = {**BATCH, "name": "gpu", "cpus_free": 4}
    queue = [*QUEUE, *({**each, "job": f"9{each['job']}", "partition": "gpu"} for each in QUEUE)]
    site = listed(queue, {**MACHINE, "partitions": [BATCH, gpu]}, partitions=["batch"])
    (scheduler,) = answer_of(site, more_physics)["schedulers"]
    assert [(each["path"], each["jobs"]) for each in scheduler["groups"]] == [("/biology", 10), ("/physics", 10)]
    assert [each["change_s"] for each in scheduler["groups"]] == [2.5 * HOUR_S, -2.5 * HOUR_S]
    assert scheduler["rank_use_text"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("no_scheduler", "No scheduler of this policy gets its ranks, so that no queue is known."),
        ("no_report", "The agent of c1 has listed no queue yet."),
        ("stale", "The agent of c1 is silent: its queue was last listed"),
        ("no_plan", "The agent of c1 lists no running jobs or no capacity, so that nothing can be planned: update it."),
        ("no_jobs", "No job that could start waits in c1."),
        ("few", "No group has 5 waiting jobs or more that a plan can place."),
        ("decided", "It is published or withdrawn, so that there is no draft to compare."),
    ],
)
def test_the_answer_names_what_is_missing(
    listed: Listed, site: Site, more_physics: ChangeSet, state: str, words: str
) -> None:
    if state == "no_report":
        connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on"}, at=AT, actor=SYSTEM)
    elif state != "no_scheduler":
        queue = {"no_jobs": [], "few": QUEUE[:4]}.get(state, QUEUE)
        listed(queue, None if state == "no_plan" else MACHINE)
    if state == "stale":
        AgentPass.objects.update(received_at=AT - timedelta(minutes=2))
    if state == "decided":
        ChangeSet.objects.filter(pk=more_physics.pk).update(state="withdrawn")
    waits = answer_of(site, more_physics)
    if state in ("no_scheduler", "decided"):
        assert (waits["state"], waits["schedulers"]) == (state, [])
        assert words in page_of(site, more_physics).text('[data-testid="why-none"]')
        return
    (scheduler,) = waits["schedulers"]
    assert scheduler["state"] == ("ready" if state == "few" else state)
    assert all(each["median_s"] is None for each in scheduler["groups"])
    assert words in page_of(site, more_physics).text('[data-testid="answer"]')


def test_a_group_can_be_named_and_is_by_default_the_one_that_is_edited(listed: Listed, site: Site) -> None:
    listed()
    draft = draft_of({"op": "set_shares", "entry": str(site.uid("/physics/alice")), "shares": 9})
    assert answer_of(site, draft)["path"] == "/"  # physics has no groups to compare
    waits = answer_of(site, draft, entry="/physics")
    assert [(each["kind"], each["jobs"]) for each in waits["schedulers"][0]["groups"]] == [("members", 5)]
    page = page_of(site, draft, f"?entry={site.uid('/physics')}")
    assert [text_of(row.css_first("th")) for row in page.items("planned-wait")] == ["Users"]
    caller = Caller(token=site.token("policies:read"))
    for entry in ("/physics/alice", "/nowhere"):
        path = f"policies/grid/changesets/{draft.pk}/planned-waits"
        assert caller.get(path, {"entry": entry}).status_code in (400, 404), entry


def test_those_who_see_a_part_see_no_plan(listed: Listed, site: Site) -> None:
    """pia divides physics: what she tries there would tell her of the usage and queue of all."""
    listed()
    caller = Caller(token=site.token("policies:read", "policies:write", user=site.pia))
    operation = {"op": "set_shares", "entry": str(site.uid("/physics/bob")), "shares": 9}
    made = caller.post(
        "policies/grid/changesets", {"base_revision": site.policy.head_number, "operations": [operation]}
    )
    assert made.status_code == 201, made.content
    path = f"policies/grid/changesets/{made.json()['id']}/planned-waits"
    assert caller.get(path).status_code == 403
    assert Caller(token=site.token("policies:read", user=site.ben)).get(path).status_code == 404
