"""The record of promises as a page, in REST, in metrics and as a notice: for all of the policy, without names."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Notice
from apps.contrib.notices.pages.presenters import url_of
from apps.contrib.notices.selectors import list_notices
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.services import connect_scheduler
from apps.contrib.starts.gauges import start_families
from apps.contrib.starts.models import StartDay, StartState, StartTrees
from apps.priorities.serving import store
from tests.contrib.starts.queues import Reports, waiting
from tests.instants import AT
from tests.pages.page import read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
ADDRESS = "/schedulers/c1/starts/"
SUMS = {
    "unknown": 2, "apart_kept": 3, "apart_broken": 1, "above": 0, "above_kept": 0, "above_bursts": 0.0,
    "above_bursts_kept": 0.0, "planned": 10, "planned_kept": 4, "ours_beside_kept": 8,
}  # fmt: skip


@pytest.fixture
def c1(computed_site: Site) -> Scheduler:
    store.poll()
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on", "namespace": "a"}, at=AT, actor=SYSTEM)
    return Scheduler.objects.get(name="c1")


@pytest.fixture
def record(c1: Scheduler) -> Scheduler:
    """Two weeks of promises in two partitions, of which one has a single burst."""
    Reports(c1).at(0, waiting("77777", user="hidden-person"))
    for days, partition, kept, broken, bursts in (
        (0, "batch", 80, 20, 40),
        (7, "batch", 8, 2, 10),
        (7, "few", 1, 0, 1),
    ):
        StartDay.objects.create(
            scheduler=c1, day=AT.date() - timedelta(days=days), kind="submit", level=80, size=1, length=2,
            partition=partition, kept=kept, broken=broken, bursts=bursts, bursts_kept=bursts * 0.75, **SUMS,
        )  # fmt: skip
    return c1


def test_page_and_rest_have_the_same_record_and_leave_out_what_tells_of_single_users(
    record: Scheduler, computed_site: Site, client: Client
) -> None:
    sign_in(client, computed_site.alice)
    rest = Caller(user=computed_site.alice)
    whole = rest.get("schedulers/c1/starts").json()
    (of_80,) = whole["groups"]
    assert (of_80["promises"], of_80["held"], of_80["held_by_burst"]) == (111, 89 / 111, 0.75)
    assert (of_80["withdrawn"], of_80["withdrawn_held"], of_80["unknown"]) == (12, 9, 6)
    assert (of_80["planned"], of_80["planned_held"], of_80["beside_held"]) == (30, 0.4, 0.8)
    page = read(client.get(ADDRESS))
    assert page.text("h1") == "80.2 % of 111 promises of 80 % held"
    for by, groups in (("partition", ["batch"]), ("size", ["1"]), ("length", ["2"])):
        answer = rest.get(f"schedulers/c1/starts?by={by}").json()
        assert [group["group"] for group in answer["groups"]] == groups
        assert answer["omitted"] == (1 if by == "partition" else 0)
        shown = read(client.get(f"{ADDRESS}?by={by}"))
        assert [each.attributes["data-key"] for each in shown.items("group")] == [f"{groups[0]} submit 80"]
    weeks = rest.get("schedulers/c1/starts?by=week").json()["groups"]
    assert [(group["promises"], group["bursts"]) for group in weeks] == [(11, 11), (100, 40)]
    for address in (ADDRESS, f"{ADDRESS}?by=partition", "/api/v1/schedulers/c1/starts?by=partition"):
        text = client.get(address).content.decode()
        assert "hidden-person" not in text
        assert "77777" not in text


def test_a_scheduler_without_promises_says_so_and_an_old_listing_too(
    c1: Scheduler, computed_site: Site, client: Client
) -> None:
    sign_in(client, computed_site.alice)
    page = read(client.get(ADDRESS))
    assert page.text("h1") == "No promise was settled yet"
    assert len(page.items("no-promises")) == 1
    assert page.items("stale") == []
    assert Caller(user=computed_site.alice).get("schedulers/c1/starts").json()["taken_at"] is None
    Reports(c1).at(-2, waiting())
    assert len(read(client.get(ADDRESS)).items("stale")) == 1


def test_only_who_may_see_the_policy_reads_the_record(record: Scheduler, computed_site: Site, client: Client) -> None:
    sign_in(client, computed_site.nobody)
    assert client.get(ADDRESS).status_code == 404
    assert Caller(user=computed_site.nobody).get("schedulers/c1/starts").status_code == 404


def test_a_low_record_is_on_the_page_in_metrics_and_a_notice_for_managers(
    record: Scheduler, computed_site: Site, client: Client
) -> None:
    def samples() -> dict[str, float]:
        return {
            f"{sample.name} {sample.labels.get('kind', '')}".strip(): sample.value
            for family in start_families()
            for sample in family.samples
        }

    state = StartState.objects.filter(scheduler=record)
    state.update(held={"submit": [89, 111]}, recent={"submit": [130, 200], "waiting": [50, 99]})
    evaluate(at=AT)
    assert not Notice.objects.filter(kind="starts_rarely_held").exists()
    assert samples() == {
        "fairshare_start_promises_held_ratio submit": 89 / 111,
        "fairshare_start_promises_recent_held_ratio submit": 0.65,
        "fairshare_start_promises_recent_held_ratio waiting": 50 / 99, "fairshare_start_promises_settled submit": 111,
        "fairshare_start_promises_settled waiting": 0, "fairshare_start_jobs_promised": 1,
    }  # fmt: skip
    state.update(recent={"submit": [129, 200]})
    evaluate(at=AT)
    for user, n in ((computed_site.admin, 1), (computed_site.pia, 0), (computed_site.alice, 0)):
        lines = [line for line in list_notices(at=AT, actor=Actor(user=user, via="page"))]
        low = [line for line in lines if line.notice.kind == "starts_rarely_held"]
        assert [url_of(line) for line in low] == [ADDRESS] * n
    sign_in(client, computed_site.alice)
    assert len(read(client.get(ADDRESS)).items("low")) == 1
    answer = Caller(user=computed_site.alice).get("schedulers/c1/starts").json()
    assert (answer["recent_share"], answer["is_low"]) == (0.645, True)
    state.update(recent={"submit": [131, 200]})
    evaluate(at=AT)
    assert not Notice.objects.filter(kind="starts_rarely_held", closed_at=None).exists()


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        (120, "Past queues are no base yet: of 300 started jobs to learn from, 120 are known."),
        (4_120, "Past queues of 4,120 started jobs are one base of the promises."),
    ],
)
def test_page_and_rest_say_of_how_many_jobs_past_queues_are_known(
    record: Scheduler, computed_site: Site, client: Client, jobs: int, sentence: str
) -> None:
    caller = Caller(user=computed_site.alice)
    assert caller.get("schedulers/c1/starts").json()["past_queues"] is None
    StartTrees.objects.create(scheduler=record, seq=1, at=AT, n_rows=2 * jobs, n_jobs=jobs, data=b"", digest="")
    answer = caller.get("schedulers/c1/starts").json()["past_queues"]
    assert answer == {"learned_at": AT.isoformat().replace("+00:00", "Z"), "jobs": jobs, "least_jobs": 300}
    sign_in(client, computed_site.alice)
    page = read(client.get(ADDRESS))
    assert page.item("past-queues").text() == sentence
